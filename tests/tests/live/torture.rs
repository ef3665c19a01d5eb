//! The torture messages of RFC 4475 and RFC 5118, sent to the running balancer beside calls.

use std::net::SocketAddr;
use std::time::Duration;

use sarabande_tests::{
    Agent, AgentRequest, AnsweringAgent, CallLoad, Case, RunningBalancer, SippCaller, TestSettings, TestSite,
    TortureVerdict, cases, show, status, until, value,
};

/// Ports that answers may come to: an answer goes to the address that a request came from, at the port of its
/// Via (RFC 3261 §18.2.2), by default 5060, or 5061 where the Via speaks of TLS. The first one sends.
const PORTS: [u16; 6] = [5060, 5061, 5050, 5070, 6050, 19823];

/// Everything one case needs.
struct Bench {
    /// The sender, at each of [`PORTS`].
    sender: Vec<Agent>,
    server: AnsweringAgent,
    balancer: SocketAddr,
}

impl Bench {
    /// Sends the case and says what became of it.
    fn run(&self, number: usize, case: &Case) -> Result<TortureVerdict, String> {
        self.sender[0].send(self.balancer, &case.bytes);
        let copies = self.copies_until_marker(number);
        // An answer was sent before the marker was forwarded; loopback delivers at once.
        let wait = Duration::from_millis(20);
        let answers: Vec<Vec<u8>> = self
            .sender
            .iter()
            .filter_map(|agent| agent.receive_within(wait))
            .map(|(bytes, _)| bytes)
            .collect();
        match (&copies[..], &answers[..]) {
            ([], []) => Ok(TortureVerdict::Dropped),
            ([copy], []) => case.judge(copy, &self.balancer.to_string()),
            ([], [answer]) => status(answer)
                .map(TortureVerdict::Answered)
                .ok_or_else(|| format!("answered by {}", show(answer))),
            _ => Err(format!("{} copies and {} answers", copies.len(), answers.len())),
        }
    }

    /// What arrives at the server before a request that was sent after the case.
    fn copies_until_marker(&self, number: usize) -> Vec<Vec<u8>> {
        let marker = format!("marker-{number}");
        let request = AgentRequest::new("MESSAGE", &marker);
        self.sender[0].send(self.balancer, &request.bytes(self.sender[0].address()));
        let mut copies = Vec::new();
        loop {
            let message = self.server.next();
            if value(&message, "Call-ID").as_deref() == Some(&marker) {
                return copies;
            }
            copies.push(message);
        }
    }
}

/// Each message is forwarded unharmed, answered or dropped, as the index of the torture tests says; calls that
/// run beside are untouched.
#[test]
fn each_torture_message_gets_what_it_deserves() {
    let field = TestSite::new("torture");
    let caller_host = field.ip(2).to_string();
    // SIPp's Call-IDs end with its address: these are the calls beside.
    let beside = move |message: &[u8]| {
        message.starts_with(b"OPTIONS sip:127.")
            || value(message, "Call-ID").is_some_and(|id| id.ends_with(&format!("@{caller_host}")))
    };
    let server = AnsweringAgent::start(field.sip(11), beside);
    let mut settings = TestSettings::new(&field, &[11]);
    settings.pool.push("orphans = \"balance\"".to_owned());
    // One thread takes what one sender sends in order, which the marker relies on.
    settings.threads = 1;
    settings.probe = vec!["enabled = false"];
    // One message has a Route that leads here.
    settings.names = vec!["services.example.com".to_owned()];
    let balancer = RunningBalancer::start(&field, settings);
    let load = CallLoad { calls: 300, rate: 30, hold_ms: 500 };
    let mut caller = SippCaller::plain(&field, (field.sip(2), balancer.address()), load);
    until("calls run beside", || (balancer.calls() > 0).then_some(()));

    let sender = PORTS.map(|port| Agent::bind(SocketAddr::new(field.ip(3), port)));
    let bench = Bench { sender: sender.into(), server, balancer: balancer.address() };
    let cases = cases();
    assert_eq!(cases.len(), 62);
    let mut wrong = Vec::new();
    for (number, case) in cases.iter().enumerate() {
        let outcome = bench.run(number, case);
        if !outcome.as_ref().is_ok_and(|verdict| case.expected.contains(verdict)) {
            let outcome = outcome.map_or_else(|fault| fault, |verdict| verdict.to_string());
            let expected: Vec<String> = case.expected.iter().map(ToString::to_string).collect();
            wrong.push(format!("{}: {outcome}; should be {}", case.name, expected.join(" or ")));
        }
    }
    assert!(!caller.ended(), "the calls ended too early to show anything");
    caller.finish_clean();
    assert!(wrong.is_empty(), "{} messages:\n{}", wrong.len(), wrong.join("\n"));
}
