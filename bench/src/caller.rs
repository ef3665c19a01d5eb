//! The callers' end: one INVITE, ACK and BYE a call, route set honoured, nothing sent twice.

use std::collections::VecDeque;
use std::io::Write;
use std::net::SocketAddr;

use hdrhistogram::Histogram;

use crate::answerer;
use crate::credentials::BenchUser;
use crate::endpoint::Endpoint;
use crate::text::{self, SDP, StartLine};

/// Whom all calls are for.
pub const CALLED: &str = "service";

/// What became of the calls of a run.
#[derive(Clone, Debug)]
pub struct RunOutcome {
    /// Calls started.
    pub started: u64,
    /// Calls that had a 200 to the INVITE and a 200 to the BYE.
    pub completed: u64,
    /// Of these, calls whose 180 did not come before the 200: lost, or overtaken.
    pub unrung: u64,
    /// Calls that a final response of 300 and above ended.
    pub refused: u64,
    /// In-dialog requests that reached another server than the call's own.
    pub misrouted: u64,
    /// INVITEs that reached each server.
    pub invites: Vec<u64>,
    /// Nanoseconds from when a request was due to its first response: 180 for INVITE, where it came, 200 for BYE.
    pub round_trips: Histogram<u64>,
    /// Longest that a burst left after it was due, in nanoseconds: the driver's own lateness.
    pub late_ns_max: u64,
    /// When each call was due, in nanoseconds since the start of the run, where they are kept one by one.
    pub due_ns: Vec<u64>,
    /// Likewise, the calls that were answered.
    pub setups: Vec<CallSetup>,
    /// Likewise, when each call that completed had its last answer, in the order of these instants.
    pub completed_ns: Vec<u64>,
}

/// How a call was set up.
#[derive(Clone, Copy, Debug)]
pub struct CallSetup {
    /// Which call of the run it is.
    pub call: usize,
    /// From when it was due to its 180, or to its 200 where the 180 did not come before.
    pub took_ns: u64,
    /// The server that answered.
    pub server: usize,
}

impl Default for RunOutcome {
    fn default() -> Self {
        // A minute at most: no run waits longer for an answer.
        let round_trips = Histogram::new_with_bounds(1, 60_000_000_000, 3).expect("the bounds are in order");
        Self {
            started: 0,
            completed: 0,
            unrung: 0,
            refused: 0,
            misrouted: 0,
            invites: Vec::new(),
            round_trips,
            late_ns_max: 0,
            due_ns: Vec::new(),
            setups: Vec::new(),
            completed_ns: Vec::new(),
        }
    }
}

impl RunOutcome {
    /// Calls that did not complete.
    pub fn failed(&self) -> u64 {
        self.started - self.completed
    }
}

/// How far a call has come.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    Invited,
    /// Invited once more, with the password that was asked for.
    Identified,
    Ringing,
    Established,
    Refused,
    Completed,
}

impl Stage {
    fn is_over(self) -> bool {
        matches!(self, Self::Refused | Self::Completed)
    }
}

struct Call {
    stage: Stage,
    /// When the last request was due.
    due_ns: u64,
    /// From then to its first answer.
    took_ns: u64,
}

/// An established call that waits for its end.
struct Hold {
    end_ns: u64,
    call: usize,
    bye: Vec<u8>,
}

/// What all the calls of one run share.
#[derive(Clone, Copy, Debug)]
pub struct Habit {
    /// Distinguishes the runs of a process: a late datagram of an earlier one is ignored.
    pub run: u32,
    /// Time between the answer and the end of a call, in nanoseconds.
    pub hold_ns: u64,
    /// Who calls, if anybody asks.
    pub user: Option<BenchUser>,
    /// Whether calls are kept one by one.
    pub keeps_setups: bool,
}

/// All calls of one run. Time is in nanoseconds since any start.
pub struct BenchCaller {
    start_ns: u64,
    habit: Habit,
    calls: Vec<Call>,
    holding: VecDeque<Hold>,
    /// The run so far.
    pub outcome: RunOutcome,
}

impl BenchCaller {
    /// No calls yet, in a run that begins now.
    pub fn new(start_ns: u64, habit: Habit) -> Self {
        Self { start_ns, habit, calls: Vec::new(), holding: VecDeque::new(), outcome: RunOutcome::default() }
    }

    /// When the next call is to be ended.
    pub fn next_end(&self) -> Option<u64> {
        self.holding.front().map(|hold| hold.end_ns)
    }

    /// Every call has either come to its end or has been refused.
    pub fn settled(&self) -> bool {
        self.outcome.completed + self.outcome.refused == self.outcome.started
    }

    /// Starts a call that was due at `due_ns`, over one of `endpoints` (they take turns), to its entry of `targets`.
    pub fn start(&mut self, due_ns: u64, endpoints: &mut [Endpoint], targets: &[SocketAddr]) {
        let call = self.calls.len();
        self.calls.push(Call { stage: Stage::Invited, due_ns, took_ns: 0 });
        self.outcome.started += 1;
        if self.habit.keeps_setups {
            self.outcome.due_ns.push(due_ns.saturating_sub(self.start_ns));
        }
        self.invite(call, None, endpoints, targets);
    }

    /// Sends the INVITE of a call, or the next one with what `challenge` asks for.
    fn invite(
        &self,
        call: usize,
        challenge: Option<&[u8]>,
        endpoints: &mut [Endpoint],
        targets: &[SocketAddr],
    ) {
        let id = self.id(call, if challenge.is_some() { 2 } else { 1 }, endpoints, targets);
        // Who has a password is a user of the target's.
        let home = if self.habit.user.is_some() { id.target } else { id.local };
        let line = call % endpoints.len();
        endpoints[line].send(id.target, |out| {
            id.write_invite(home, out);
            if let (Some(user), Some(challenge)) = (self.habit.user, challenge) {
                let uri = format!("sip:{CALLED}@{}", id.target);
                user.answer("Proxy-Authorization", challenge, ("INVITE", &uri), out);
            }
            write_offer(out);
        });
    }

    /// The INVITE of a call with this CSeq number.
    fn id(&self, call: usize, number: u32, endpoints: &[Endpoint], targets: &[SocketAddr]) -> InviteId {
        let line = call % endpoints.len();
        let (local, target) = (endpoints[line].address, targets[line]);
        InviteId { run: self.habit.run, call, number, local, target }
    }

    /// Acknowledges the challenge in `datagram` (RFC 3261 §17.1.1.3), and calls again with what it asks for.
    fn identify(&mut self, call: usize, datagram: &[u8], endpoints: &mut [Endpoint], targets: &[SocketAddr]) {
        self.calls[call].stage = Stage::Identified;
        let id = self.id(call, 1, endpoints, targets);
        let line = call % endpoints.len();
        endpoints[line].send(id.target, |out| id.acknowledge_failure(datagram, out));
        let challenge = text::header(datagram, "Proxy-Authenticate").unwrap_or_default();
        self.invite(call, Some(challenge), endpoints, targets);
    }

    /// Sends the BYE of each call whose time is over at `now_ns`.
    pub fn end_due(&mut self, now_ns: u64, endpoints: &mut [Endpoint], targets: &[SocketAddr]) {
        while self.next_end().is_some_and(|end_ns| end_ns <= now_ns) {
            let Some(hold) = self.holding.pop_front() else { break };
            let line = hold.call % endpoints.len();
            self.calls[hold.call].due_ns = hold.end_ns;
            endpoints[line].send(targets[line], |out| out.extend_from_slice(&hold.bye));
        }
    }

    /// Takes a datagram that reached a caller's socket.
    pub fn handle(
        &mut self,
        now_ns: u64,
        datagram: &[u8],
        endpoints: &mut [Endpoint],
        targets: &[SocketAddr],
    ) {
        let Some(StartLine::Response(status)) = text::start(datagram) else { return };
        let Some(call) = text::header(datagram, "Call-ID").and_then(|id| self.number_of(id)) else { return };
        let of_invite = text::header(datagram, "CSeq").is_some_and(|cseq| cseq.ends_with(b"INVITE"));
        match (self.calls[call].stage, status, of_invite) {
            (Stage::Invited, 407, true) if self.habit.user.is_some() => {
                self.identify(call, datagram, endpoints, targets);
            }
            (Stage::Invited | Stage::Identified, 101..=199, true) => {
                self.calls[call].stage = Stage::Ringing;
                self.time(call, now_ns);
            }
            (stage @ (Stage::Invited | Stage::Identified | Stage::Ringing), 200..=299, true) => {
                if stage != Stage::Ringing {
                    self.outcome.unrung += 1;
                    self.time(call, now_ns);
                }
                self.calls[call].stage = Stage::Established;
                self.keep_setup(call, datagram);
                self.establish(call, now_ns, datagram, endpoints, targets);
            }
            (Stage::Established, 200..=299, false) => {
                self.calls[call].stage = Stage::Completed;
                self.outcome.completed += 1;
                if self.habit.keeps_setups {
                    self.outcome.completed_ns.push(now_ns.saturating_sub(self.start_ns));
                }
                self.time(call, now_ns);
            }
            // A challenge that comes twice ends nothing.
            (stage, 300.., _) if !stage.is_over() && (stage, status) != (Stage::Identified, 407) => {
                self.calls[call].stage = Stage::Refused;
                self.outcome.refused += 1;
            }
            // A 100 from next door, a response that came twice, a 180 that the 200 overtook.
            _ => {}
        }
    }

    /// Acknowledges the 200 in `datagram` and plans the end of the call.
    fn establish(
        &mut self,
        call: usize,
        now_ns: u64,
        datagram: &[u8],
        endpoints: &mut [Endpoint],
        targets: &[SocketAddr],
    ) {
        let line = call % endpoints.len();
        let local = endpoints[line].address;
        let run = self.habit.run;
        let mut bye = Vec::new();
        let cseq = text::header(datagram, "CSeq").and_then(text::cseq_number).unwrap_or_default();
        in_dialog(("BYE", cseq + 1), run, call, local, datagram, &mut bye);
        endpoints[line].send(targets[line], |out| in_dialog(("ACK", cseq), run, call, local, datagram, out));
        self.holding.push_back(Hold { end_ns: now_ns + self.habit.hold_ns, call, bye });
    }

    fn time(&mut self, call: usize, now_ns: u64) {
        let elapsed = now_ns.saturating_sub(self.calls[call].due_ns);
        self.outcome.round_trips.saturating_record(elapsed.max(1));
        self.calls[call].took_ns = elapsed;
    }

    fn keep_setup(&mut self, call: usize, response: &[u8]) {
        let contact = text::header(response, "Contact").map_or(&b""[..], text::uri);
        if let Some(server) = answerer::number_of(contact).filter(|_| self.habit.keeps_setups) {
            let took_ns = self.calls[call].took_ns;
            self.outcome.setups.push(CallSetup { call, took_ns, server });
        }
    }

    /// Which call of this run a Call-ID names.
    fn number_of(&self, call_id: &[u8]) -> Option<usize> {
        call_of(self.habit.run, call_id).filter(|call| *call < self.calls.len())
    }
}

/// Which call of `run` a Call-ID names.
pub(crate) fn call_of(run: u32, call_id: &[u8]) -> Option<usize> {
    let (of_run, rest) = std::str::from_utf8(call_id).ok()?.split_once('-')?;
    let (call, _) = rest.split_once('@')?;
    let call = usize::from_str_radix(call, 16).ok()?;
    (u32::from_str_radix(of_run, 16) == Ok(run)).then_some(call)
}

/// What names an INVITE of a caller.
#[derive(Clone, Copy)]
pub(crate) struct InviteId {
    pub(crate) run: u32,
    pub(crate) call: usize,
    /// The CSeq number.
    pub(crate) number: u32,
    pub(crate) local: SocketAddr,
    pub(crate) target: SocketAddr,
}

impl InviteId {
    /// The Request-URI.
    pub(crate) fn uri(&self) -> String {
        format!("sip:{CALLED}@{}", self.target)
    }

    /// Writes the INVITE of a user of `home`, up to its Contact.
    pub(crate) fn write_invite(&self, home: SocketAddr, out: &mut Vec<u8>) {
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
        .expect("memory takes all");
    }

    /// Writes the ACK to the failure in `response` (RFC 3261 §17.1.1.3).
    pub(crate) fn acknowledge_failure(&self, response: &[u8], out: &mut Vec<u8>) {
        let Self { run, call, number, local, target } = self;
        write!(
            out,
            "ACK sip:{CALLED}@{target} SIP/2.0\r\n\
             Via: SIP/2.0/UDP {local};rport;branch=z9hG4bK-{run:x}-{call:x}-{number}\r\nMax-Forwards: 70\r\n"
        )
        .expect("memory takes all");
        copy_dialog(response, out);
        write!(out, "CSeq: {number} ACK\r\nContent-Length: 0\r\n\r\n").expect("memory takes all");
    }
}

/// Ends an INVITE with the offer of a session.
pub(crate) fn write_offer(out: &mut Vec<u8>) {
    write!(out, "Content-Type: application/sdp\r\nContent-Length: {}\r\n\r\n{SDP}", SDP.len())
        .expect("memory takes all");
}

/// Writes a request within the dialog that the 2xx in `response` established (RFC 3261 §12.2.1.1): to the remote
/// target, along the recorded routes in reverse.
pub(crate) fn in_dialog(
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
        .expect("memory takes all");
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
    write!(out, "CSeq: {cseq} {method}\r\nContent-Length: 0\r\n\r\n").expect("memory takes all");
}

/// Copies what names the dialog, or the transaction that a failure has ended.
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
}
