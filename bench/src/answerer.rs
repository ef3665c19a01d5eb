//! Answering servers. They answer at once and keep no state, except 200s without an ACK if configured.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::io::Write;
use std::net::SocketAddr;

use crate::endpoint::Endpoint;
use crate::text::{self, SDP, StartLine};

/// User whose INVITEs no server answers.
pub const SILENT: &str = "silence";

/// T1 and T2 of RFC 3261 §13.3.1.4, and 64*T1, in nanoseconds.
const T1_NS: u64 = 500_000_000;
const T2_NS: u64 = 4_000_000_000;
const GIVES_UP_NS: u64 = 64 * T1_NS;

/// 200s to INVITE without an ACK.
#[derive(Default)]
struct Unacknowledged {
    /// By Call-ID: the response, its destination, and when it was first sent.
    responses: HashMap<Vec<u8>, (Vec<u8>, SocketAddr, u64)>,
    /// Next retransmissions, each with its interval.
    due: BinaryHeap<Reverse<(u64, u64, Vec<u8>)>>,
}

impl Unacknowledged {
    fn add(&mut self, now_ns: u64, call: &[u8], response: Vec<u8>, to: SocketAddr) {
        if self.responses.insert(call.to_vec(), (response, to, now_ns)).is_none() {
            self.due.push(Reverse((now_ns + T1_NS, T1_NS, call.to_vec())));
        }
    }

    /// Removes and returns the next due response.
    fn take_due(&mut self, now_ns: u64) -> Option<(Vec<u8>, SocketAddr)> {
        while self.due.peek().is_some_and(|Reverse((at_ns, ..))| *at_ns <= now_ns) {
            let Reverse((_, waited_ns, call)) = self.due.pop()?;
            let Some((response, to, since_ns)) = self.responses.get(&call) else { continue };
            if now_ns >= since_ns + GIVES_UP_NS {
                self.responses.remove(&call);
                continue;
            }
            let again = (response.clone(), *to);
            let wait_ns = (2 * waited_ns).min(T2_NS);
            self.due.push(Reverse((now_ns + wait_ns, wait_ns, call)));
            return Some(again);
        }
        None
    }
}

/// An answering server. The To tags of its dialogs contain its number.
pub struct BenchAnswerer {
    /// Its socket.
    pub endpoint: Endpoint,
    tag: Vec<u8>,
    contact: Vec<u8>,
    /// INVITEs answered.
    pub invites: u64,
    /// In-dialog requests that belong to another server, or to none.
    pub misrouted: u64,
    /// 200s retransmitted because no ACK came.
    pub repeated: u64,
    unacknowledged: Option<Unacknowledged>,
}

impl BenchAnswerer {
    /// A server of this `number` behind `endpoint`.
    pub fn new(number: usize, endpoint: Endpoint) -> Self {
        let tag = format!("s{number}").into_bytes();
        let contact = format!("Contact: <sip:s{number}@{}>\r\n", endpoint.address).into_bytes();
        Self { endpoint, tag, contact, invites: 0, misrouted: 0, repeated: 0, unacknowledged: None }
    }

    /// Retransmits a 200 to INVITE until its ACK comes (RFC 3261 §13.3.1.4).
    #[must_use]
    pub fn repeating(self) -> Self {
        Self { unacknowledged: Some(Unacknowledged::default()), ..self }
    }

    /// Handles a datagram like [`handle`](Self::handle), at this time of a monotonic clock.
    pub fn handle_at(&mut self, now_ns: u64, datagram: &[u8], from: SocketAddr) {
        self.handle(datagram, from);
        let Some(unacknowledged) = &mut self.unacknowledged else { return };
        let (Some(StartLine::Request(method)), Some(call)) =
            (text::start(datagram), text::header(datagram, "Call-ID"))
        else {
            return;
        };
        match method {
            b"INVITE" if text::user(datagram) != Some(SILENT.as_bytes()) => {
                let mut response = Vec::new();
                respond(datagram, "200 OK", &self.tag, &self.contact, SDP, &mut response);
                unacknowledged.add(now_ns, call, response, from);
            }
            // A BYE also shows that the 200 has arrived.
            b"ACK" | b"BYE" => drop(unacknowledged.responses.remove(call)),
            _ => {}
        }
    }

    /// Retransmits the responses due at this time.
    pub fn repeat_due(&mut self, now_ns: u64) {
        while let Some((response, to)) = self.unacknowledged.as_mut().and_then(|all| all.take_due(now_ns)) {
            self.repeated += 1;
            self.endpoint.send(to, |out| out.extend_from_slice(&response));
        }
    }

    /// Forgets all 200s without an ACK.
    pub fn forget(&mut self) {
        if let Some(unacknowledged) = &mut self.unacknowledged {
            *unacknowledged = Unacknowledged::default();
        }
    }

    /// Answers one request: INVITE with 180 and 200, or not at all if it is for [`SILENT`], ACK with nothing, all
    /// others with 200. Responses go to the source of the request, as a top Via with `rport` requires (RFC 3581 §4).
    pub fn handle(&mut self, datagram: &[u8], from: SocketAddr) {
        let Some(StartLine::Request(method)) = text::start(datagram) else { return };
        let to_tag = text::header(datagram, "To").and_then(text::tag);
        if to_tag.is_some_and(|tag| tag != self.tag) {
            self.misrouted += 1;
        }
        let Self { endpoint, tag, contact, .. } = self;
        match method {
            b"ACK" => {}
            _ if text::user(datagram) == Some(SILENT.as_bytes()) => {}
            b"INVITE" => {
                self.invites += 1;
                endpoint.send(from, |out| respond(datagram, "180 Ringing", tag, contact, "", out));
                endpoint.send(from, |out| respond(datagram, "200 OK", tag, contact, SDP, out));
            }
            _ => endpoint.send(from, |out| respond(datagram, "200 OK", tag, &[], "", out)),
        }
    }
}

/// Returns the number of the server in a Contact.
pub fn number_of(contact: &[u8]) -> Option<usize> {
    let (user, _) = str::from_utf8(contact).ok()?.strip_prefix("sip:s")?.split_once('@')?;
    user.parse().ok()
}

/// Writes a response to `request` (RFC 3261 §8.2.6.2, and §12.1.1 for the route set).
fn respond(request: &[u8], status: &str, tag: &[u8], contact: &[u8], body: &str, out: &mut Vec<u8>) {
    out.extend_from_slice(b"SIP/2.0 ");
    out.extend_from_slice(status.as_bytes());
    out.extend_from_slice(b"\r\n");
    for line in text::lines(request) {
        if let Some(to) = text::value(line, "To") {
            out.extend_from_slice(b"To: ");
            out.extend_from_slice(to);
            if text::tag(to).is_none() {
                out.extend_from_slice(b";tag=");
                out.extend_from_slice(tag);
            }
            out.extend_from_slice(b"\r\n");
        } else if ["Via", "From", "Call-ID", "CSeq"].iter().any(|name| text::value(line, name).is_some())
            || !contact.is_empty() && text::value(line, "Record-Route").is_some()
        {
            out.extend_from_slice(line);
        }
    }
    out.extend_from_slice(contact);
    if !body.is_empty() {
        out.extend_from_slice(b"Content-Type: application/sdp\r\n");
    }
    write!(out, "Content-Length: {}\r\n\r\n{body}", body.len()).expect("writing to memory cannot fail");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn response_to(request: &str, contact: &[u8], body: &str) -> String {
        let mut out = Vec::new();
        respond(request.as_bytes(), "200 OK", b"s1", contact, body, &mut out);
        String::from_utf8(out).expect("text")
    }

    #[test]
    fn a_response_copies_the_required_fields_and_adds_its_tag() {
        let request = "INVITE sip:a SIP/2.0\r\nVia: one\r\nRecord-Route: <sip:p;lr>\r\nVia: two\r\nMax-Forwards: 9\r\n\
            From: <sip:f>;tag=c\r\nTo: <sip:t>\r\nCall-ID: i\r\nCSeq: 1 INVITE\r\n\r\n";
        assert_eq!(
            response_to(request, b"Contact: <sip:s>\r\n", "body"),
            "SIP/2.0 200 OK\r\nVia: one\r\nRecord-Route: <sip:p;lr>\r\nVia: two\r\nFrom: <sip:f>;tag=c\r\n\
             To: <sip:t>;tag=s1\r\nCall-ID: i\r\nCSeq: 1 INVITE\r\nContact: <sip:s>\r\n\
             Content-Type: application/sdp\r\nContent-Length: 4\r\n\r\nbody"
        );
    }

    #[test]
    fn within_a_dialog_the_tag_is_left_and_no_route_recorded() {
        let request = "BYE sip:a SIP/2.0\r\nRecord-Route: <sip:p;lr>\r\nTo: <sip:t>;tag=s7\r\n\r\n";
        assert_eq!(
            response_to(request, b"", ""),
            "SIP/2.0 200 OK\r\nTo: <sip:t>;tag=s7\r\nContent-Length: 0\r\n\r\n"
        );
    }

    #[test]
    fn silence_is_not_answered() {
        let mut server = BenchAnswerer::new(2, Endpoint::bind().expect("bind"));
        let from = server.endpoint.address;
        server.handle(b"INVITE sip:silence@h SIP/2.0\r\nTo: <sip:t>\r\n\r\n", from);
        assert_eq!(server.invites, 0);
        server.handle(b"INVITE sip:sound@h SIP/2.0\r\nTo: <sip:t>\r\n\r\n", from);
        assert_eq!(server.invites, 1);
    }

    #[test]
    fn a_200_is_repeated_until_its_ack_comes() {
        let mut server = BenchAnswerer::new(2, Endpoint::bind().expect("bind")).repeating();
        let from = server.endpoint.address;
        let request = |method: &str| format!("{method} sip:a SIP/2.0\r\nCall-ID: 1\r\nTo: <sip:t>\r\n\r\n");
        server.handle_at(0, request("INVITE").as_bytes(), from);
        let repeated = |server: &mut BenchAnswerer, at_ms: u64| {
            server.repeat_due(at_ms * 1_000_000);
            server.repeated
        };
        assert_eq!([499, 500, 1_499, 1_500].map(|at_ms| repeated(&mut server, at_ms)), [0, 1, 1, 2]);
        server.handle_at(1_600_000_000, request("ACK").as_bytes(), from);
        assert_eq!(repeated(&mut server, 60_000), 2);
    }

    #[test]
    fn a_request_of_another_servers_dialog_is_noticed() {
        let mut server = BenchAnswerer::new(2, Endpoint::bind().expect("bind"));
        let from = server.endpoint.address;
        server.handle(b"BYE sip:a SIP/2.0\r\nTo: <sip:t>;tag=s2\r\n\r\n", from);
        assert_eq!(server.misrouted, 0);
        server.handle(b"BYE sip:a SIP/2.0\r\nTo: <sip:t>;tag=s1\r\n\r\n", from);
        assert_eq!(server.misrouted, 1);
    }
}
