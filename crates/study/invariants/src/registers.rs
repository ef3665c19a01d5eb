//! Registrar: properties of any sequence of REGISTER.

use base::{Flow, UnixTime};
use core::time::Duration;
use location::{
    Authorization, Contacts, MemoryLimits, MemoryStore, Reach, Register, Registrar, RegistrarResponse,
    Registration, RegistrationSettings, RegistrationStep, Source, Store, StoreReply, StoreRequest, targets,
};
use std::net::{Ipv4Addr, SocketAddr};
use wire::{Method, scan};

/// Reads `data` as requests to one registrar and its store, separated by an empty line and `--`. Each comes a second
/// after the last. A line of digits before a request is a longer pause.
pub fn registers(data: &[u8]) {
    let settings = RegistrationSettings {
        domains: vec![(*b"example.com").into()],
        contacts_max: 3,
        record_max: 600,
        reach: Reach::Source,
        ..RegistrationSettings::default()
    };
    let registrar = Registrar::new(settings);
    let mut store = MemoryStore::new(MemoryLimits { bindings: 8, bytes: 1500 });
    let mut now = UnixTime::from_secs(1_700_000_000);
    for part in split(data).take(50) {
        let digits = part.iter().position(|b| !b.is_ascii_digit()).unwrap_or(part.len());
        let pause = part[..digits].iter().take(5).fold(0, |n, digit| n * 10 + u64::from(digit - b'0'));
        now = now + Duration::from_secs(pause.max(1));
        let text = part[digits..].trim_ascii_start();
        let Ok(message) = scan(text) else { continue };
        if message.fault().is_some() || message.method() != Some(Method::Register) {
            continue;
        }
        let peer = SocketAddr::new(Ipv4Addr::new(192, 0, 2, 1).into(), 5060);
        let source = Source::of(Flow::udp(0, peer), peer);
        let register = match Register::read(&message, Some(source), Authorization::Open) {
            Ok(register) => register,
            Err(answer) => {
                assert!((400..600).contains(&answer.status), "a refusal");
                is_writable(&answer);
                continue;
            }
        };
        step(&registrar, &mut store, now, register);
    }
}

fn split(data: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = Some(data);
    core::iter::from_fn(move || {
        let text = rest.take()?;
        let Some(at) = text.windows(4).position(|window| window == b"\n--\n") else { return Some(text) };
        rest = Some(&text[at + 4..]);
        Some(&text[..=at])
    })
}

/// Handles one request, and checks the results.
fn step(registrar: &Registrar, store: &mut MemoryStore, now: UnixTime, register: Register) {
    let aor = register.aor.clone();
    let before = store.read(&aor).expect("memory answers");
    let is_question = matches!(&register.contacts, Contacts::List(list) if list.is_empty());
    let request = register.clone();
    let answer = run(registrar, store, now, register);
    is_writable(&answer);
    let after = store.read(&aor).expect("memory answers");
    let live = after.as_ref().map(|record| targets(record, now)).unwrap_or_default();
    assert!(live.is_sorted_by_key(|binding| core::cmp::Reverse(binding.q)));
    assert!(live.iter().all(|binding| binding.remaining_secs(now) <= 7200));
    if answer.status == 200 {
        // §10.3 step 8: all bindings, and no others.
        assert_eq!(answer.values("Contact").count(), live.len());
        assert!(live.len() <= registrar.settings().contacts_max);
        assert!(
            live.iter()
                .all(|one| live.iter().filter(|other| wire::same_uri(&one.uri, &other.uri)).count() == 1)
        );
        assert!(is_question || request.contacts != Contacts::All || live.is_empty());
    } else {
        assert!((400..600).contains(&answer.status));
        // A refused request changes nothing. Expired bindings may be removed at any time.
        assert!(
            after == before || after.is_none() && before.is_some_and(|record| record.expires_at() <= now)
        );
    }
    assert!(store.bindings() <= 8 && store.bytes() <= 1500, "the limits hold");
    let counted: usize = store.iter().map(|(_, record)| record.len()).sum();
    assert_eq!(counted, store.bindings());
    // Without its transaction a copy changes nothing: it is out of order, or has the same effect.
    if answer.status == 200 && !is_question {
        let again = run(registrar, store, now, request);
        assert!(again.status == 500 || again.status == 200);
        let repeated = store.read(&aor).expect("memory answers");
        assert_eq!(repeated.map(|record| targets(&record, now)).unwrap_or_default(), live);
    }
}

fn run(
    registrar: &Registrar,
    store: &mut MemoryStore,
    now: UnixTime,
    register: Register,
) -> RegistrarResponse {
    let (mut registration, mut next) = Registration::begin(register);
    loop {
        match next {
            RegistrationStep::Done(answer) => return answer,
            RegistrationStep::Request(ask) => {
                let reply: StoreReply = StoreRequest::send_to(&ask, store, now);
                next = registration.reply(now, registrar, reply);
            }
        }
    }
}

/// No value contains a line end, whatever the request contained, and contacts can be parsed.
fn is_writable(answer: &RegistrarResponse) {
    for (name, value) in &answer.headers {
        assert!(!value.iter().any(|b| matches!(b, b'\r' | b'\n')), "{name}");
    }
    let values: Vec<_> = answer.values("Contact").collect();
    if values.is_empty() {
        return;
    }
    let mut text = b"REGISTER sip:h SIP/2.0\r\nVia: SIP/2.0/UDP h;branch=z9hG4bKx\r\nFrom: <sip:h>;tag=a\r\nTo: <sip:h>\r\n\
        Call-ID: x\r\nCSeq: 1 REGISTER\r\nMax-Forwards: 70\r\n"
        .to_vec();
    for value in &values {
        text.extend_from_slice(&[b"Contact: ", *value, b"\r\n"].concat());
    }
    text.extend_from_slice(b"\r\n");
    let message = scan(&text).expect("a request");
    assert_eq!(message.contacts().flatten().count(), values.len());
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::fmt::Write;
    use location::Aor;
    use proptest::prelude::*;

    #[test]
    fn seeds() {
        let seed = String::from_utf8(crate::seed("register", "sequence")).expect("text");
        let text = seed.replace('\n', "\r\n").replace("\r\n--\r\n", "\n--\n");
        registers(text.as_bytes());
        // The seed does its job.
        let parts: Vec<_> = split(text.as_bytes()).collect();
        assert!(parts.len() >= 5);
        let message = scan(parts[0]).expect("a request");
        assert_eq!(
            Register::read(&message, None, Authorization::Open).map(|register| register.aor),
            Ok(Aor::of(b"sip:alice@example.com").unwrap())
        );
    }

    fn line() -> impl Strategy<Value = String> {
        let lines = [
            "Contact: <sip:a@192.0.2.1>;expires=100",
            "Contact: <sip:a@192.0.2.1:5060>;q=0.3",
            "Contact: <sip:b@192.0.2.2>, \"x\" <sip:c@h;transport=tcp>;+sip.instance=\"<urn:x>\"",
            "Contact: *",
            "Contact: <sip:a@192.0.2.1>;expires=0",
            "Contact: <sip:d@h;a=1>;q=1.0;expires=30",
            "Expires: 0",
            "Expires: 5000",
            "Path: <sip:p1;lr>, <sip:p2;lr>",
            "Supported: path",
            "Require: path",
            "Require: gruu",
            "m: <sip:e@h>;expires=soon",
            "Path:",
        ];
        prop::sample::select(lines.map(str::to_owned).to_vec())
    }

    proptest! {
        #[test]
        fn any_sequence(
            requests in prop::collection::vec(
                (0..3_u8, 0..3_u8, 1..6_u32, prop::collection::vec(line(), 0..4), 0..5000_u32),
                1..20,
            ),
        ) {
            let mut data = String::new();
            for (user, call, cseq, lines, pause) in requests {
                let user = ["alice", "bob", "%61lice"][usize::from(user)];
                write!(
                    data,
                    "{pause} REGISTER sip:example.com SIP/2.0\r\nVia: SIP/2.0/UDP h;branch=z9hG4bKx\r\n\
                     From: <sip:alice@example.com>;tag=1\r\nTo: <sip:{user}@example.com>\r\nCall-ID: {call}\r\n\
                     CSeq: {cseq} REGISTER\r\nMax-Forwards: 70\r\n"
                )
                .unwrap();
                for line in &lines {
                    write!(data, "{line}\r\n").unwrap();
                }
                data.push_str("\r\n\n--\n");
            }
            registers(data.as_bytes());
        }

        #[test]
        fn any_bytes(data in prop::collection::vec(any::<u8>(), 0..300)) {
            registers(&data);
        }
    }
}
