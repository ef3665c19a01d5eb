//! The servers' end: answers at once, keeps no state.

use std::io::Write;
use std::net::SocketAddr;

use crate::endpoint::Endpoint;
use crate::text::{self, SDP, StartLine};

/// To this user an INVITE is not answered, by any server.
pub const SILENT: &str = "silence";

/// One answering server. Its number is in the To tag of every dialog it takes part in.
pub struct BenchAnswerer {
    /// Where it listens.
    pub endpoint: Endpoint,
    number: usize,
    tag: Vec<u8>,
    contact: Vec<u8>,
    /// INVITEs answered.
    pub invites: u64,
    /// In-dialog requests that belong to another server, or to none.
    pub misrouted: u64,
}

impl BenchAnswerer {
    /// A server of this `number` behind `endpoint`.
    pub fn new(number: usize, endpoint: Endpoint) -> Self {
        let tag = format!("s{number}").into_bytes();
        let contact = format!("Contact: <sip:s{number}@{}>\r\n", endpoint.address).into_bytes();
        Self { endpoint, number, tag, contact, invites: 0, misrouted: 0 }
    }

    /// Which of the servers this is.
    pub fn number(&self) -> usize {
        self.number
    }

    /// Answers one request: INVITE with 180 and 200, or not at all if it is for [`SILENT`], ACK with nothing, all
    /// others with
    /// 200. Responses go to where the
    /// request came from, as a top Via with `rport` asks (RFC 3581 §4).
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

/// Which server a Contact of one names.
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
    write!(out, "Content-Length: {}\r\n\r\n{body}", body.len()).expect("memory takes all");
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
    fn a_response_copies_what_it_must_and_takes_its_tag_along() {
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
    fn a_request_of_another_servers_dialog_is_noticed() {
        let mut server = BenchAnswerer::new(2, Endpoint::bind().expect("bind"));
        let from = server.endpoint.address;
        server.handle(b"BYE sip:a SIP/2.0\r\nTo: <sip:t>;tag=s2\r\n\r\n", from);
        assert_eq!(server.misrouted, 0);
        server.handle(b"BYE sip:a SIP/2.0\r\nTo: <sip:t>;tag=s1\r\n\r\n", from);
        assert_eq!(server.misrouted, 1);
    }
}
