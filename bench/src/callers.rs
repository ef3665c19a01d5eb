//! Callers and telephones. Callers retransmit unanswered requests (RFC 3261 §17.1) unless configured otherwise, and
//! hang up after a time. Telephones try to register until they succeed.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io::Write as _;
use std::net::SocketAddr;

use base::Rng;
use rand::Rng as _;
use rand_distr::{Distribution as _, StandardNormal};

use crate::answerer::number_of;
use crate::credentials::BenchUser;
use crate::endpoint::Endpoint;
use crate::log::{CallLog, CallRecord};
use crate::text::{self, SDP, StartLine};

/// User part of all called addresses.
pub(crate) const CALLED: &str = "service";

/// Timers of RFC 3261 §17.1.1.1, in nanoseconds.
const T1_NS: u64 = 500_000_000;
const T2_NS: u64 = 4_000_000_000;
/// Time between the first two attempts of a telephone that is refused or gets no answer: a random part of it, at least half. It doubles with each
/// attempt (RFC 5626 §4.5, with 4 s instead of 30 s).
const TRIES_AGAIN_NS: u64 = 4_000_000_000;
/// Timers B and F.
const GIVES_UP_NS: u64 = 64 * T1_NS;

/// Domain of the registrations.
pub(crate) const DOMAIN: &str = "example.com";

/// State of a call or telephone.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Stage {
    /// Waits for any response to its INVITE.
    Calling,
    /// Waits for the final response, without retransmission.
    Proceeding,
    /// Answered, until its holding time ends.
    Talking,
    /// Waits for the response to its BYE.
    Ending,
    /// Waits for the response to its REGISTER.
    Registering,
    /// Waits to register again.
    Refused,
    Over,
}

struct Call {
    stage: Stage,
    /// When the request of this stage was first sent.
    since_ns: u64,
    /// After the answer its BYE; before, the challenge that its INVITE answers, if any.
    text: Vec<u8>,
    /// CSeq number of the INVITE or REGISTER.
    number: u32,
}

/// Seconds from the answer of a call to its BYE. Normally distributed, as in the balancing papers, and never below
/// zero.
#[derive(Clone, Copy, PartialEq, Default, Debug)]
pub(crate) struct HoldingTime {
    pub(crate) mean: f64,
    pub(crate) deviation: f64,
}

impl HoldingTime {
    fn draw_ns(self, rng: &mut Rng) -> u64 {
        let normal: f64 = StandardNormal.sample(rng);
        ((self.mean + self.deviation * normal).max(0.0) * 1e9) as u64
    }

    /// Returns a time that almost no call exceeds.
    pub(crate) fn most_ns(self) -> u64 {
        ((self.mean + 4.0 * self.deviation) * 1e9) as u64
    }
}

/// The callers' sockets, which calls use in turn, and the target of each.
pub(crate) struct Lines<'a> {
    pub(crate) endpoints: &'a mut [Endpoint],
    pub(crate) targets: &'a [SocketAddr],
}

impl Lines<'_> {
    /// Returns the address and target of a call's socket.
    fn ends(&self, call: usize) -> [SocketAddr; 2] {
        let line = call % self.endpoints.len();
        [self.endpoints[line].address, self.targets[line]]
    }

    fn send(&mut self, call: usize, write: impl FnOnce(&mut Vec<u8>)) {
        let line = call % self.endpoints.len();
        self.endpoints[line].send(self.targets[line], write);
    }
}

/// Next retransmission of a call's request at this stage, and the number of those before.
type Repetition = Reverse<(u64, usize, Stage, u32)>;

/// The callers of one run. Each call uses one endpoint and the target with the same index. Times are in nanoseconds
/// since the start.
pub(crate) struct Callers {
    run: u32,
    calls: Vec<Call>,
    repetitions: BinaryHeap<Repetition>,
    over: usize,
    rng: Rng,
    /// Caller's user, for proxies that challenge.
    pub(crate) user: Option<BenchUser>,
    pub(crate) holding: HoldingTime,
    /// Whether unanswered requests are retransmitted.
    pub(crate) repeats: bool,
    pub(crate) log: CallLog,
}

impl Callers {
    /// Creates callers without calls. `run` distinguishes late datagrams of an earlier run.
    pub(crate) fn new(run: u32) -> Self {
        let rng = Rng::from_seed(u64::from(run));
        let (calls, repetitions, log) = (Vec::new(), BinaryHeap::new(), CallLog::default());
        let holding = HoldingTime::default();
        Self { run, calls, repetitions, over: 0, rng, user: None, holding, repeats: true, log }
    }

    /// Returns the number of calls that are not over.
    pub(crate) fn in_progress(&self) -> usize {
        self.calls.len() - self.over
    }

    /// Starts a call, or with [`Stage::Registering`] a telephone's registration. The first time is when it was due, the
    /// second is now.
    pub(crate) fn start(&mut self, stage: Stage, [due_ns, now_ns]: [u64; 2], lines: &mut Lines<'_>) {
        let call = self.calls.len();
        self.repetitions.push(Reverse((now_ns + T1_NS, call, stage, 0)));
        self.calls.push(Call { stage, since_ns: now_ns, text: Vec::new(), number: 1 });
        let is_registration = stage == Stage::Registering;
        self.log.calls.push(CallRecord::new(is_registration, due_ns));
        self.log.late_ns_max = self.log.late_ns_max.max(now_ns.saturating_sub(due_ns));
        self.send(call, stage, lines);
    }

    fn send_register(&self, call: usize, lines: &mut Lines<'_>) {
        let ([local, _], run, number) = (lines.ends(call), self.run, self.calls[call].number);
        lines.send(call, |out| {
            write!(
                out,
                "REGISTER sip:{DOMAIN} SIP/2.0\r\n\
                 Via: SIP/2.0/UDP {local};rport;branch=z9hG4bK-{run:x}-{call:x}-{number}\r\n\
                 Max-Forwards: 70\r\nFrom: <sip:p{call}@{DOMAIN}>;tag=c{call:x}\r\nTo: <sip:p{call}@{DOMAIN}>\r\n\
                 Call-ID: {run:08x}-{call:08x}@127.0.0.1\r\nCSeq: {number} REGISTER\r\n\
                 Contact: <sip:p{call}@{local}>\r\nExpires: 3600\r\nContent-Length: 0\r\n\r\n"
            )
            .expect("writing to memory cannot fail");
        });
    }

    fn id(&self, call: usize, lines: &Lines<'_>) -> InviteId {
        let [local, target] = lines.ends(call);
        InviteId { run: self.run, call, number: self.calls[call].number, local, target }
    }

    fn invite(&self, call: usize, lines: &mut Lines<'_>) {
        let id = self.id(call, lines);
        let challenge = &self.calls[call].text;
        // A caller with a password is a user of the target.
        let home = if self.user.is_some() { id.target } else { id.local };
        lines.send(call, |out| {
            id.write_invite(home, out);
            if let Some(user) = self.user.filter(|_| !challenge.is_empty()) {
                user.answer("Proxy-Authorization", challenge, ("INVITE", &id.uri()), out);
            }
            write_offer(out);
        });
    }

    /// Repeats the INVITE with credentials for the challenge in `challenge`.
    fn identify(&mut self, now_ns: u64, call: usize, challenge: &[u8], lines: &mut Lines<'_>) {
        let text = text::header(challenge, "Proxy-Authenticate").unwrap_or_default().to_vec();
        self.calls[call] = Call { stage: Stage::Calling, since_ns: now_ns, text, number: 2 };
        self.repetitions.push(Reverse((now_ns + T1_NS, call, Stage::Calling, 0)));
        self.invite(call, lines);
    }

    /// Returns when a timer may be due next.
    pub(crate) fn next_ns(&self) -> Option<u64> {
        self.repetitions.peek().map(|Reverse((at_ns, ..))| *at_ns)
    }

    /// Retransmits due requests, or gives them up.
    pub(crate) fn repeat_due(&mut self, now_ns: u64, lines: &mut Lines<'_>) {
        while self.next_ns().is_some_and(|at_ns| at_ns <= now_ns) {
            let Some(Reverse((due_ns, call, stage, sent))) = self.repetitions.pop() else { break };
            let Call { stage: is_now, since_ns, .. } = self.calls[call];
            let waits = matches!(stage, Stage::Talking | Stage::Refused);
            if is_now != stage || !self.repeats && !waits {
                continue;
            }
            let end_ns = since_ns + GIVES_UP_NS;
            if stage == Stage::Refused {
                self.register_again(now_ns, call, lines);
            } else if stage == Stage::Talking {
                self.hang_up([due_ns, now_ns], call, lines);
            } else if now_ns >= end_ns && stage == Stage::Registering {
                self.register_later(now_ns, call);
            } else if now_ns >= end_ns {
                self.end(call);
            } else {
                self.log.repetitions_ns.push(now_ns);
                self.log.calls[call].repeated += u32::from(stage != Stage::Ending);
                self.send(call, stage, lines);
                let next_ns = (now_ns + interval_ns(stage, sent + 1)).min(end_ns);
                self.repetitions.push(Reverse((next_ns, call, stage, sent + 1)));
            }
        }
    }

    fn send(&self, call: usize, stage: Stage, lines: &mut Lines<'_>) {
        match stage {
            Stage::Ending => lines.send(call, |out| out.extend_from_slice(&self.calls[call].text)),
            Stage::Registering => self.send_register(call, lines),
            _ => self.invite(call, lines),
        }
    }

    fn register_again(&mut self, now_ns: u64, call: usize, lines: &mut Lines<'_>) {
        let number = self.calls[call].number + 1;
        self.calls[call] = Call { stage: Stage::Registering, since_ns: now_ns, text: Vec::new(), number };
        self.repetitions.push(Reverse((now_ns + T1_NS, call, Stage::Registering, 0)));
        self.send_register(call, lines);
    }

    /// Handles a datagram to a caller's socket.
    pub(crate) fn handle(&mut self, now_ns: u64, datagram: &[u8], lines: &mut Lines<'_>) {
        let Some(StartLine::Response(status)) = text::start(datagram) else { return };
        let call = text::header(datagram, "Call-ID").and_then(|id| call_of(self.run, id));
        let Some(call) = call.filter(|call| *call < self.calls.len()) else { return };
        let cseq = text::header(datagram, "CSeq").unwrap_or_default();
        let of_invite = cseq.ends_with(b"INVITE");
        let stage = self.calls[call].stage;
        match (status, of_invite) {
            (100..=199, true) if stage < Stage::Talking => {
                self.calls[call].stage = Stage::Proceeding;
                let record = &mut self.log.calls[call];
                if status > 100 {
                    record.rang_ns.get_or_insert(now_ns.saturating_sub(record.due_ns));
                }
            }
            (200..=299, true) => self.answered(now_ns, call, datagram, lines),
            (300.., true) => {
                let id = self.id(call, lines);
                let number = text::cseq_number(cseq).unwrap_or_default();
                let is_late = number != id.number;
                let id = InviteId { number, ..id };
                lines.send(call, |out| id.acknowledge_failure(datagram, out));
                if is_late {
                    return;
                }
                if status == 407 && number == 1 && self.user.is_some() && stage < Stage::Talking {
                    self.identify(now_ns, call, datagram, lines);
                } else if stage < Stage::Talking {
                    let record = &mut self.log.calls[call];
                    record.refused_ns = Some(now_ns.saturating_sub(record.due_ns));
                    self.end(call);
                }
            }
            (200.., false) if stage == Stage::Ending => {
                self.log.calls[call].ended_ns = Some(now_ns.saturating_sub(self.calls[call].since_ns));
                self.end(call);
            }
            (200.., false) if stage == Stage::Registering => self.registered(now_ns, call, status, cseq),
            _ => {}
        }
    }

    /// Handles the response to a REGISTER: success, or a later retry.
    fn registered(&mut self, now_ns: u64, call: usize, status: u16, cseq: &[u8]) {
        if text::cseq_number(cseq) != Some(self.calls[call].number) {
            return;
        }
        let record = &mut self.log.calls[call];
        let took_ns = now_ns.saturating_sub(record.due_ns);
        if status < 300 {
            record.set_up_ns = Some(took_ns);
            return self.end(call);
        }
        record.refused_ns.get_or_insert(took_ns);
        self.register_later(now_ns, call);
    }

    fn register_later(&mut self, now_ns: u64, call: usize) {
        self.calls[call].stage = Stage::Refused;
        let most_ns = TRIES_AGAIN_NS << (self.calls[call].number - 1).min(8);
        let wait_ns = self.rng.random_range(most_ns / 2..most_ns);
        self.repetitions.push(Reverse((now_ns + wait_ns, call, Stage::Refused, 0)));
    }

    /// Acknowledges each copy of a 2xx (RFC 3261 §13.2.2.4), and hangs up.
    fn answered(&mut self, now_ns: u64, call: usize, response: &[u8], lines: &mut Lines<'_>) {
        let ([local, _], run) = (lines.ends(call), self.run);
        let record = &mut self.log.calls[call];
        let is_first = record.set_up_ns.is_none();
        // A caller that has given up does not know the call any more.
        if is_first && self.calls[call].stage == Stage::Over {
            return;
        }
        let number = text::header(response, "CSeq").and_then(text::cseq_number).unwrap_or_default();
        lines.send(call, |out| in_dialog(("ACK", number), run, call, local, response, out));
        if is_first {
            record.set_up_ns = Some(now_ns.saturating_sub(record.due_ns));
            record.server = text::header(response, "Contact").and_then(|it| number_of(text::uri(it)));
            let mut bye = Vec::new();
            in_dialog(("BYE", number + 1), run, call, local, response, &mut bye);
            self.calls[call] = Call { stage: Stage::Talking, since_ns: now_ns, text: bye, number };
            match self.holding.draw_ns(&mut self.rng) {
                0 => self.hang_up([now_ns; 2], call, lines),
                holds_ns => self.repetitions.push(Reverse((now_ns + holds_ns, call, Stage::Talking, 0))),
            }
        }
    }

    /// Sends the BYE. The first time is when it was due, the second is now.
    fn hang_up(&mut self, [due_ns, now_ns]: [u64; 2], call: usize, lines: &mut Lines<'_>) {
        (self.calls[call].stage, self.calls[call].since_ns) = (Stage::Ending, due_ns);
        self.log.calls[call].hung_up_ns = Some(due_ns);
        self.repetitions.push(Reverse((now_ns + T1_NS, call, Stage::Ending, 0)));
        self.send(call, Stage::Ending, lines);
    }

    fn end(&mut self, call: usize) {
        self.calls[call] = Call { stage: Stage::Over, since_ns: 0, text: Vec::new(), number: 0 };
        self.over += 1;
    }
}

/// Returns the interval after this many retransmissions (timers A and E).
fn interval_ns(stage: Stage, sent: u32) -> u64 {
    let doubled = T1_NS << sent.min(6);
    if stage == Stage::Calling { doubled } else { doubled.min(T2_NS) }
}

/// Returns the call of `run` with this Call-ID.
fn call_of(run: u32, call_id: &[u8]) -> Option<usize> {
    let (of_run, rest) = std::str::from_utf8(call_id).ok()?.split_once('-')?;
    let (call, _) = rest.split_once('@')?;
    let call = usize::from_str_radix(call, 16).ok()?;
    (u32::from_str_radix(of_run, 16) == Ok(run)).then_some(call)
}

/// Identity of an INVITE, which determines its header fields.
#[derive(Clone, Copy)]
struct InviteId {
    run: u32,
    call: usize,
    /// The CSeq number.
    number: u32,
    local: SocketAddr,
    target: SocketAddr,
}

impl InviteId {
    /// Returns the Request-URI.
    fn uri(&self) -> String {
        format!("sip:{CALLED}@{}", self.target)
    }

    /// Writes the INVITE of a user of `home`, up to its Contact.
    fn write_invite(&self, home: SocketAddr, out: &mut Vec<u8>) {
        let Self { run, call, number, local, target } = self;
        write!(
            out,
            "INVITE sip:{CALLED}@{target} SIP/2.0\r\n\
             Via: SIP/2.0/UDP {local};rport;branch=z9hG4bK-{run:x}-{call:x}-{number}\r\n\
             Max-Forwards: 70\r\n\
             From: \"Caller\" <sip:caller@{home}>;tag=c{call:x}\r\n\
             To: <sip:{CALLED}@{target}>\r\n\
             Call-ID: {run:08x}-{call:08x}@127.0.0.1\r\n\
             CSeq: {number} INVITE\r\n\
             Contact: <sip:caller@{local}>\r\n",
        )
        .expect("writing to memory cannot fail");
    }

    /// Writes the ACK to the failure in `response` (RFC 3261 §17.1.1.3).
    fn acknowledge_failure(&self, response: &[u8], out: &mut Vec<u8>) {
        let Self { run, call, number, local, target } = self;
        write!(
            out,
            "ACK sip:{CALLED}@{target} SIP/2.0\r\n\
             Via: SIP/2.0/UDP {local};rport;branch=z9hG4bK-{run:x}-{call:x}-{number}\r\nMax-Forwards: 70\r\n"
        )
        .expect("writing to memory cannot fail");
        copy_dialog(response, out);
        write!(out, "CSeq: {number} ACK\r\nContent-Length: 0\r\n\r\n")
            .expect("writing to memory cannot fail");
    }
}

/// Completes an INVITE with the offer of a session.
fn write_offer(out: &mut Vec<u8>) {
    write!(out, "Content-Type: application/sdp\r\nContent-Length: {}\r\n\r\n{SDP}", SDP.len())
        .expect("writing to memory cannot fail");
}

/// Writes a request within the dialog that the 2xx in `response` established (RFC 3261 §12.2.1.1): to the remote
/// target, along the recorded routes in reverse.
fn in_dialog(
    (method, cseq): (&str, u32),
    run: u32,
    call: usize,
    local: SocketAddr,
    response: &[u8],
    out: &mut Vec<u8>,
) {
    let remote = text::header(response, "Contact").map_or(&b"sip:nowhere.invalid"[..], text::uri);
    out.extend_from_slice(method.as_bytes());
    out.push(b' ');
    out.extend_from_slice(remote);
    write!(out, " SIP/2.0\r\nVia: SIP/2.0/UDP {local};rport;branch=z9hG4bK-{run:x}-{call:x}-{method}\r\n")
        .expect("writing to memory cannot fail");
    let recorded = text::lines(response).filter_map(|line| text::value(line, "Record-Route"));
    let mut routes: Vec<&[u8]> = recorded.flat_map(text::list).collect();
    routes.reverse();
    for route in routes {
        out.extend_from_slice(b"Route: ");
        out.extend_from_slice(route);
        out.extend_from_slice(b"\r\n");
    }
    out.extend_from_slice(b"Max-Forwards: 70\r\n");
    copy_dialog(response, out);
    write!(out, "CSeq: {cseq} {method}\r\nContent-Length: 0\r\n\r\n").expect("writing to memory cannot fail");
}

/// Copies the fields that name the dialog, or the transaction that a failure has ended.
fn copy_dialog(response: &[u8], out: &mut Vec<u8>) {
    for line in text::lines(response) {
        if ["From", "To", "Call-ID"].iter().any(|name| text::value(line, name).is_some()) {
            out.extend_from_slice(line);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sockets::SendBatch;
    use std::net::{Ipv4Addr, UdpSocket};

    const MS: u64 = 1_000_000;

    /// A caller, and a server that records received datagrams.
    struct Line {
        callers: Callers,
        endpoints: Vec<Endpoint>,
        server: UdpSocket,
        target: [SocketAddr; 1],
    }

    impl Line {
        fn new() -> Self {
            let server = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("bind");
            server.set_nonblocking(true).expect("a socket");
            let target = [server.local_addr().expect("bound")];
            let endpoints = vec![Endpoint::bind().expect("bind")];
            let mut line = Self { callers: Callers::new(1), endpoints, server, target };
            line.start(Stage::Calling);
            line
        }

        fn start(&mut self, stage: Stage) {
            let mut lines = Lines { endpoints: &mut self.endpoints, targets: &self.target };
            self.callers.start(stage, [0, 0], &mut lines);
        }

        /// Returns the methods of the requests that reached the server since the last call.
        fn requests(&mut self) -> Vec<String> {
            self.endpoints[0].flush(&mut SendBatch::new());
            let mut bytes = [0; 4_096];
            // Loopback delivers before the sender's system call returns.
            std::iter::from_fn(|| self.server.recv(&mut bytes).ok().map(|length| method(&bytes[..length])))
                .collect()
        }

        fn pass(&mut self, at_ms: u64) -> Vec<String> {
            let mut lines = Lines { endpoints: &mut self.endpoints, targets: &self.target };
            self.callers.repeat_due(at_ms * MS, &mut lines);
            self.requests()
        }

        fn answer(&mut self, at_ms: u64, status: u16, method: &str) -> Vec<String> {
            let response = format!(
                "SIP/2.0 {status} x\r\nTo: <sip:t>;tag=s\r\nCall-ID: 00000001-00000000@127.0.0.1\r\n\
                 CSeq: 1 {method}\r\nContact: <sip:s@127.0.0.1>\r\n\r\n"
            );
            let mut lines = Lines { endpoints: &mut self.endpoints, targets: &self.target };
            self.callers.handle(at_ms * MS, response.as_bytes(), &mut lines);
            self.requests()
        }
    }

    fn method(request: &[u8]) -> String {
        let end = request.iter().position(|octet| *octet == b' ').expect("a request");
        String::from_utf8(request[..end].to_vec()).expect("text")
    }

    #[test]
    fn an_invite_is_repeated_at_doubled_intervals_and_given_up_after_32_seconds() {
        let mut line = Line::new();
        assert_eq!(line.requests(), ["INVITE"]);
        for at_ms in [500, 1_500, 3_500, 7_500, 15_500, 31_500] {
            assert!(line.pass(at_ms - 1).is_empty(), "before {at_ms} ms");
            assert_eq!(line.pass(at_ms), ["INVITE"], "at {at_ms} ms");
        }
        assert!(line.pass(32_000).is_empty());
        assert_eq!((line.callers.in_progress(), line.callers.log.repetitions_ns.len()), (0, 6));
        assert_eq!(line.callers.log.calls[0].repeated, 6);
        assert!(line.answer(33_000, 200, "INVITE").is_empty(), "a caller that gave up has no call");
    }

    #[test]
    fn nothing_is_repeated_after_a_100() {
        let mut line = Line::new();
        line.answer(10, 100, "INVITE");
        line.requests();
        assert!(line.pass(10_000).is_empty());
        assert_eq!(line.callers.in_progress(), 1);
    }

    #[test]
    fn each_copy_of_a_refusal_is_acknowledged_and_the_call_is_refused_once() {
        let mut line = Line::new();
        line.requests();
        assert_eq!(line.answer(20, 503, "INVITE"), ["ACK"]);
        assert_eq!(line.answer(900, 503, "INVITE"), ["ACK"]);
        assert!(line.pass(1_000).is_empty());
        assert_eq!((line.callers.in_progress(), line.callers.log.calls[0].refused_ns), (0, Some(20 * MS)));
    }

    #[test]
    fn a_telephone_that_is_refused_registers_again_later() {
        let mut line = Line::new();
        line.callers = Callers::new(1);
        line.start(Stage::Registering);
        assert_eq!(line.requests(), ["INVITE", "REGISTER"]);
        assert_eq!(line.pass(500), ["REGISTER"]);
        assert!(line.answer(600, 503, "REGISTER").is_empty());
        assert!(line.pass(2_500).is_empty());
        assert_eq!(line.pass(6_600), ["REGISTER"]);
        line.answer(6_650, 200, "REGISTER");
        assert_eq!(line.callers.in_progress(), 1, "a late answer to the first one");
        line.callers.calls[0].number = 1;
        line.answer(6_700, 200, "REGISTER");
        let record = line.callers.log.calls[0];
        assert_eq!((line.callers.in_progress(), record.set_up_ns), (0, Some(6_700 * MS)));
        assert_eq!(record.refused_ns, Some(600 * MS));
    }

    #[test]
    fn a_call_lasts_as_long_as_it_is_to_and_its_bye_is_timed() {
        let mut line = Line::new();
        line.callers.holding = HoldingTime { mean: 2.0, deviation: 0.0 };
        line.requests();
        assert_eq!(line.answer(30, 200, "INVITE"), ["ACK"]);
        assert_eq!(line.answer(700, 200, "INVITE"), ["ACK"], "a copy is acknowledged");
        assert!(line.pass(2_029).is_empty());
        assert_eq!(line.pass(2_030), ["BYE"]);
        line.answer(2_045, 200, "BYE");
        let record = line.callers.log.calls[0];
        assert_eq!((record.set_up_ns, record.ended_ns), (Some(30 * MS), Some(15 * MS)));
        assert_eq!(record.hung_up_ns, Some(2_030 * MS));
        assert_eq!(line.callers.in_progress(), 0);
    }

    #[test]
    fn holding_times_have_mean_and_deviation_and_are_never_negative() {
        let mut rng = Rng::from_seed(1);
        let holding = HoldingTime { mean: 2.0, deviation: 1.0 };
        let drawn: Vec<f64> = (0..2_000).map(|_| holding.draw_ns(&mut rng) as f64 / 1e9).collect();
        // Negative values become zero, so the mean is a little above.
        let mean = drawn.iter().sum::<f64>() / 2_000.0;
        assert!((mean - 2.0).abs() < 0.1, "{mean}");
        assert!(drawn.iter().filter(|drawn| **drawn > 3.0).count().abs_diff(317) < 70);
        assert!(drawn.contains(&0.0) && drawn.iter().all(|drawn| *drawn <= holding.most_ns() as f64 / 1e9));
    }

    #[test]
    fn an_answered_call_is_hung_up_and_the_bye_repeated_up_to_every_four_seconds() {
        let mut line = Line::new();
        line.requests();
        assert_eq!(line.answer(30, 200, "INVITE"), ["ACK", "BYE"]);
        assert_eq!(line.answer(40, 200, "INVITE"), ["ACK"], "a copy is acknowledged");
        for at_ms in [530, 1_530, 3_530, 7_530, 11_530] {
            assert!(line.pass(at_ms - 1).is_empty());
            assert_eq!(line.pass(at_ms), ["BYE"]);
        }
        assert_eq!(line.callers.log.calls[0].repeated, 0, "of the INVITE alone");
        assert!(line.answer(11_600, 200, "BYE").is_empty());
        assert!(line.pass(20_000).is_empty());
        assert_eq!((line.callers.in_progress(), line.callers.log.calls[0].set_up_ns), (0, Some(30 * MS)));
    }

    #[test]
    fn a_request_within_a_dialog_follows_the_recorded_routes_in_reverse() {
        let response = b"SIP/2.0 200 OK\r\nVia: x\r\nRecord-Route: <sip:b;lr>, <sip:a;lr>\r\n\
            Record-Route: <sip:first;lr>\r\nFrom: <sip:f>;tag=c\r\nTo: <sip:t>;tag=s\r\nCall-ID: i\r\n\
            CSeq: 1 INVITE\r\nContact: <sip:s0@127.0.0.1:9>\r\n\r\n";
        let mut out = Vec::new();
        in_dialog(("BYE", 2), 1, 10, "127.0.0.1:5".parse().expect("an address"), response, &mut out);
        assert_eq!(
            String::from_utf8(out).expect("text"),
            "BYE sip:s0@127.0.0.1:9 SIP/2.0\r\nVia: SIP/2.0/UDP 127.0.0.1:5;rport;branch=z9hG4bK-1-a-BYE\r\n\
             Route: <sip:first;lr>\r\nRoute: <sip:a;lr>\r\nRoute: <sip:b;lr>\r\nMax-Forwards: 70\r\n\
             From: <sip:f>;tag=c\r\nTo: <sip:t>;tag=s\r\nCall-ID: i\r\nCSeq: 2 BYE\r\nContent-Length: 0\r\n\r\n"
        );
    }

    #[test]
    fn callers_that_repeat_nothing_still_hang_up() {
        let mut line = Line::new();
        line.callers.repeats = false;
        line.callers.holding = HoldingTime { mean: 2.0, deviation: 0.0 };
        assert_eq!(line.requests(), ["INVITE"]);
        assert!(line.pass(1_900).is_empty());
        line.answer(1_950, 180, "INVITE");
        assert_eq!(line.answer(2_000, 200, "INVITE"), ["ACK"]);
        assert_eq!(line.callers.log.calls[0].rang_ns, Some(1_950 * MS));
        assert_eq!(line.pass(4_010), ["BYE"]);
        assert!(line.pass(9_000).is_empty());
        line.answer(9_010, 200, "BYE");
        // From when it was due, even if the caller was late.
        assert_eq!(line.callers.log.calls[0].ended_ns, Some(5_010 * MS));
    }
}
