//! A registrar with its store in memory, and REGISTER requests for it.

use base::{Flow, UnixTime};
use location::{
    Aor, Authorization, Binding, MemoryLimits, MemoryStore, Reach, Register, Registrar, RegistrarResponse,
    Registration, RegistrationSettings, RegistrationStep, Source, targets,
};
use std::net::SocketAddr;

pub(crate) fn at(secs: u64) -> UnixTime {
    UnixTime::from_secs(1_700_000_000 + secs)
}

pub(crate) fn settings() -> RegistrationSettings {
    let reach = Reach::Contact;
    RegistrationSettings {
        reach,
        domains: vec![(*b"example.com").into(), (*b"[2001:db8::1]").into()],
        ..RegistrationSettings::default()
    }
}

pub(crate) fn socket(text: &str) -> SocketAddr {
    text.parse().expect("an address")
}

/// A REGISTER of alice with these header lines.
pub(crate) fn text(call_id: &str, cseq: u32, lines: &[&str]) -> String {
    let mut text = format!(
        "REGISTER sip:example.com SIP/2.0\r\nVia: SIP/2.0/UDP 192.0.2.1;branch=z9hG4bK1\r\n\
         From: <sip:alice@example.com>;tag=1\r\nTo: <sip:alice@example.com>\r\nCall-ID: {call_id}\r\n\
         CSeq: {cseq} REGISTER\r\nMax-Forwards: 70\r\n"
    );
    for line in lines {
        text += line;
        text += "\r\n";
    }
    text + "\r\n"
}

pub(crate) fn read(text: &str) -> Result<Register, RegistrarResponse> {
    let peer = socket("198.51.100.7:40000");
    let source = Source::of(Flow::udp(0, peer), socket("203.0.113.1:5060"));
    let message = wire::scan(text.as_bytes()).expect("a message");
    assert_eq!(message.fault(), None, "{text}");
    Register::read(&message, Some(source), Authorization::Open)
}

pub(crate) struct Bed {
    pub(crate) registrar: Registrar,
    pub(crate) store: MemoryStore,
}

impl Bed {
    pub(crate) fn new(settings: RegistrationSettings) -> Self {
        Self { registrar: Registrar::new(settings), store: MemoryStore::new(MemoryLimits::default()) }
    }

    /// Processes a request with the store.
    pub(crate) fn take(&mut self, secs: u64, register: Register) -> RegistrarResponse {
        let (mut registration, mut next) = Registration::begin(register);
        loop {
            match next {
                RegistrationStep::Done(answer) => return answer,
                RegistrationStep::Request(ask) => {
                    let reply = ask.send_to(&mut self.store, at(secs));
                    next = registration.reply(at(secs), &self.registrar, reply);
                }
            }
        }
    }

    pub(crate) fn receive(&mut self, secs: u64, text: &str) -> RegistrarResponse {
        match read(text) {
            Ok(register) => self.take(secs, register),
            Err(answer) => answer,
        }
    }

    pub(crate) fn register(
        &mut self,
        secs: u64,
        call_id: &str,
        cseq: u32,
        lines: &[&str],
    ) -> RegistrarResponse {
        self.receive(secs, &text(call_id, cseq, lines))
    }

    /// Targets of requests to alice.
    pub(crate) fn targets(&mut self, secs: u64) -> Vec<Binding> {
        let record = self.store.get(&alice()).cloned();
        record.map(|record| targets(&record, at(secs))).unwrap_or_default()
    }

    pub(crate) fn uris(&mut self, secs: u64) -> Vec<String> {
        self.targets(secs).iter().map(|target| string(&target.uri)).collect()
    }
}

pub(crate) fn alice() -> Aor {
    Aor::of(b"sip:alice@example.com").expect("a URI")
}

pub(crate) fn string(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("text")
}

pub(crate) fn values(answer: &RegistrarResponse, name: &str) -> Vec<String> {
    answer.values(name).map(string).collect()
}
