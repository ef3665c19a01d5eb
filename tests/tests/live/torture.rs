//! The torture messages of RFC 4475 and RFC 5118, sent to the running proxy beside calls.

use std::net::SocketAddr;
use std::time::Duration;

use sarabande_tests::{
    Agent, AgentRequest, AnsweringAgent, CallLoad, Case, RunningProxy, SippCaller, StreamClient, TestSite,
    TortureVerdict, cases, quoted, show, status, until, value,
};

/// Ports where responses may arrive. A response goes to the source address of the request, at the port of its Via (RFC
/// 3261 §18.2.2): by default 5060, or 5061 if the Via says TLS. The first one sends.
const PORTS: [u16; 6] = [5060, 5061, 5050, 5070, 6050, 19823];

/// Longest wait for an effect of a case over TCP, in steps of 20 ms.
const PATIENCE: usize = 40;

/// Sender, server and proxy of a case.
struct Bench {
    /// The sender, at each of [`PORTS`].
    sender: Vec<Agent>,
    server: AnsweringAgent,
    proxy: SocketAddr,
}

/// A name of the proxy, to which one message has a Route.
const NAMES: &str = "names = [\"services.example.com\"]";

/// Returns the messages. One has a Route to a foreign element, where nothing of a stranger is sent: it leads here
/// instead.
fn cases_here() -> Vec<Case> {
    let mut cases = cases();
    let [foreign, own]: [&[u8]; 2] = [b"Route: <sip:127.0.0.1:5080>", b"Route: <sip:services.example.com>"];
    let case = cases.iter_mut().find(|case| case.name == "mpart01").expect("it is there");
    let at = case.bytes.windows(foreign.len()).position(|part| part == foreign).expect("its Route");
    case.bytes.splice(at..at + foreign.len(), own.iter().copied());
    cases
}

/// Starts a proxy in front of host 11. It is stateless, so requests leave unchanged and it sends no responses of its
/// own. A single thread handles a sender's messages in order, as the marker requires.
fn start(field: &TestSite, listen: &str, tables: &str) -> RunningProxy {
    let next = quoted(&field.sip(11));
    let tables = format!("[proxy]\nnext = [{next}]\nforward = \"stateless\"\n{tables}");
    RunningProxy::listening(field, 1, 1, listen, &tables)
}

impl Bench {
    /// Sends the case and returns its verdict.
    fn run(&self, number: usize, case: &Case) -> Result<TortureVerdict, String> {
        self.sender[0].send(self.proxy, &case.bytes);
        let copies = self.copies_until(&format!("marker-{number}"));
        // A response was sent before the marker was forwarded, and loopback delivers at once.
        let wait = Duration::from_millis(20);
        let answers: Vec<Vec<u8>> = self
            .sender
            .iter()
            .filter_map(|agent| agent.receive_within(wait))
            .map(|(bytes, _)| bytes)
            .collect();
        match (&copies[..], &answers[..]) {
            ([], []) => Ok(TortureVerdict::Dropped),
            ([copy], []) => case.judge(copy, &self.proxy.to_string()),
            ([], [answer]) => status(answer)
                .map(TortureVerdict::Answered)
                .ok_or_else(|| format!("answered with {}", show(answer))),
            _ => Err(format!("{} copies and {} answers", copies.len(), answers.len())),
        }
    }

    /// Sends a request, and waits until it is at the server. Returns the messages that arrived there before.
    fn copies_until(&self, marker: &str) -> Vec<Vec<u8>> {
        let request = AgentRequest::new("MESSAGE", marker);
        self.sender[0].send(self.proxy, &request.bytes(self.sender[0].address()));
        let mut copies = Vec::new();
        loop {
            let message = self.server.next();
            if value(&message, "Call-ID").as_deref() == Some(marker) {
                return copies;
            }
            copies.push(message);
        }
    }
}

/// Messages whose ends are determined differently on a connection than in datagrams (RFC 3261 §18.3): name, number of
/// forwarded messages, whether the connection is closed, and why.
const OVER_TCP: [(&str, usize, bool, &str); 6] = [
    (
        "dblreq",
        2,
        true,
        "the second request is the next message; the bytes after its Content-Length are not a message",
    ),
    ("clerr", 0, false, "the server waits for the rest of a body of 9,999 bytes"),
    ("ncl", 0, true, "a negative Content-Length gives no end"),
    ("mcl01", 0, true, "two Content-Lengths give two ends"),
    ("inv2543", 0, true, "there is no Content-Length, as RFC 2543 allowed for datagrams"),
    ("test", 0, true, "it does not start like a message"),
];

/// Reaction to a message on a connection of its own.
#[derive(Debug, PartialEq)]
struct OnStream {
    /// Verdicts on the first forwarded message, and on responses.
    verdicts: Vec<TortureVerdict>,
    copies: usize,
    is_closed: bool,
}

impl Bench {
    /// Sends the case on a connection of its own, and returns the reaction.
    fn run_over_tcp(&self, number: usize, case: &Case) -> Result<OnStream, String> {
        let mut client = StreamClient::connect(self.sender[0].address().ip(), self.proxy);
        // It may close the connection before the end.
        let _ = client.send(&case.bytes);
        // A marker may overtake messages of a connection, so the test waits for an effect first, even if there is none.
        let (mut copies, mut answers, mut is_closed) = (Vec::new(), Vec::new(), false);
        for _ in 0..PATIENCE {
            let (more, ended) = client.take(Duration::from_millis(20));
            answers.extend(more);
            is_closed |= ended;
            copies.extend(self.server.try_next());
            if is_closed || !copies.is_empty() || !answers.is_empty() {
                break;
            }
        }
        copies.extend(self.copies_until(&format!("marker-{number}")));
        let (more, ended) = client.take(Duration::from_millis(20));
        answers.extend(more);
        is_closed |= ended;
        let forwarded = copies.first().map(|copy| case.judge(copy, &self.proxy.to_string()));
        let mut verdicts: Vec<_> = forwarded.transpose()?.into_iter().collect();
        for answer in &answers {
            let status = status(answer).ok_or_else(|| format!("answered with {}", show(answer)))?;
            verdicts.push(TortureVerdict::Answered(status));
        }
        Ok(OnStream { verdicts, copies: copies.len(), is_closed })
    }
}

/// The same messages, each on a TCP connection of its own.
#[test]
fn each_torture_message_gets_the_same_reaction_over_tcp() {
    let field = TestSite::new("torture-tcp");
    let server = AnsweringAgent::start(field.sip(11), |message| message.starts_with(b"OPTIONS sip:127."));
    let listen = format!("{NAMES}\ntcp = [\"{}\"]", field.sip(1));
    let proxy = start(&field, &listen, "[connections]\nlarge_requests = \"udp\"\n");
    let sender = vec![Agent::bind(field.sip(3))];
    let bench = Bench { sender, server, proxy: proxy.address() };
    let mut wrong = Vec::new();
    for (number, case) in cases_here().iter().enumerate() {
        let outcome = bench.run_over_tcp(number, case);
        let other = OVER_TCP.iter().find(|(name, ..)| *name == case.name);
        let is_right = |seen: &OnStream| {
            if let Some((_, copies, is_closed, _)) = other {
                let is_answered = seen.verdicts.len() > usize::from(*copies > 0);
                return (seen.copies, seen.is_closed) == (*copies, *is_closed) && !is_answered;
            }
            let verdict = seen.verdicts.first().copied().unwrap_or(TortureVerdict::Dropped);
            let is_one = seen.verdicts.len() <= 1 && seen.copies <= 1;
            is_one && !seen.is_closed && case.expected.contains(&verdict)
        };
        if !outcome.as_ref().is_ok_and(is_right) {
            let expected: Vec<String> = case.expected.iter().map(ToString::to_string).collect();
            wrong.push(format!("{}: {outcome:?}; over UDP {}", case.name, expected.join(" or ")));
        }
    }
    assert!(wrong.is_empty(), "{} messages:\n{}", wrong.len(), wrong.join("\n"));
}

/// Each message is forwarded unharmed, answered or dropped, as the index of the torture tests says. Calls beside them
/// are not affected.
#[test]
fn each_torture_message_gets_an_allowed_reaction() {
    let field = TestSite::new("torture");
    let caller_host = field.ip(2).to_string();
    // SIPp's Call-IDs end with its address: these are the calls beside.
    let beside = move |message: &[u8]| {
        message.starts_with(b"OPTIONS sip:127.")
            || value(message, "Call-ID").is_some_and(|id| id.ends_with(&format!("@{caller_host}")))
    };
    let server = AnsweringAgent::start(field.sip(11), beside);
    let proxy = start(&field, NAMES, "");
    let load = CallLoad { calls: 300, rate: 30, hold_ms: 500 };
    let mut caller = SippCaller::plain(&field, (field.sip(2), proxy.address()), load);
    until("calls run beside", || (caller.stats().current > 0).then_some(()));

    let sender = PORTS.map(|port| Agent::bind(SocketAddr::new(field.ip(3), port)));
    let bench = Bench { sender: sender.into(), server, proxy: proxy.address() };
    let cases = cases_here();
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
