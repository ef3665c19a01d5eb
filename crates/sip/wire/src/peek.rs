//! Reads a few fields of a message without a scan: to order messages, and to match a response or an ACK.

use crate::header::cseq::CSeq;
use crate::header::name::Name;
use crate::header::name_addr;
use crate::line::{self, Next};
use crate::{Method, message};

/// Result of the partial reading of a datagram. It is only a hint: [`crate::scan()`] checks the message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Peek<'a> {
    /// The datagram starts like a response.
    Response,
    /// The datagram starts like a request.
    Request {
        /// The method.
        method: Method,
        /// Text at the place of the Request-URI.
        uri: &'a [u8],
        /// Whether the first To has a tag.
        has_to_tag: bool,
    },
    /// The first line is not a SIP start line.
    Other,
}

impl<'a> Peek<'a> {
    /// Reads up to the first To.
    pub fn at(datagram: &'a [u8]) -> Self {
        let bytes = message::without_leading_crlf(datagram);
        if bytes.get(..8).is_some_and(|start| start.eq_ignore_ascii_case(b"SIP/2.0 ")) {
            return Self::Response;
        }
        let end = line::physical_end(bytes, 0);
        let start = end.as_ref().map_or(bytes, |end| &bytes[..end.next]);
        let mut words = start.trim_ascii_end().split(|byte| *byte == b' ');
        let method = Method::parse(words.next().unwrap_or_default());
        let uri = words.next().unwrap_or_default();
        if !words.next_back().is_some_and(|version| version.eq_ignore_ascii_case(b"SIP/2.0")) {
            return Self::Other;
        }
        let has_to_tag = end.is_some_and(|end| has_to_tag(bytes, end.next));
        Self::Request { method, uri, has_to_tag }
    }

    /// Values of Call-ID and CSeq, which a request shares with its responses (RFC 3261 §8.2.6.2).
    pub fn call_id_and_cseq(datagram: &[u8]) -> Option<(&[u8], &[u8])> {
        let bytes = message::without_leading_crlf(datagram);
        let mut pos = line::physical_end(bytes, 0)?.next;
        let (mut call_id, mut cseq) = (None, None);
        while let Next::Field(line) = line::next(bytes, pos) {
            match line.field {
                Name::CallId => call_id = call_id.or(Some(line.trimmed(bytes).of(bytes))),
                Name::CSeq => cseq = cseq.or(Some(line.trimmed(bytes).of(bytes))),
                _ => {}
            }
            if let Some(both) = call_id.zip(cseq) {
                return Some(both);
            }
            pos = line.next as usize;
        }
        None
    }

    /// Value of the first Resource-Priority header field (RFC 4412 §3.1).
    pub fn resource_priority(datagram: &[u8]) -> Option<&[u8]> {
        let bytes = message::without_leading_crlf(datagram);
        let mut pos = line::physical_end(bytes, 0)?.next;
        while let Next::Field(line) = line::next(bytes, pos) {
            if line.name.of(bytes).eq_ignore_ascii_case(b"Resource-Priority") {
                return Some(line.trimmed(bytes).of(bytes));
            }
            pos = line.next as usize;
        }
        None
    }
}

/// Fields of an ACK that identify the response which it acknowledges, read without a scan.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Acknowledgement<'a> {
    /// Tag of the To.
    pub to_tag: &'a [u8],
    /// Call-ID.
    pub call_id: &'a [u8],
    /// Number of the CSeq.
    pub cseq: u32,
}

impl<'a> Acknowledgement<'a> {
    /// Reads up to the last of the fields. `None` if this is no ACK with all of them. For an ACK that
    /// [`crate::scan()`] accepts without fault, the fields equal those of the scan.
    pub fn peek(datagram: &'a [u8]) -> Option<Self> {
        let bytes = message::without_leading_crlf(datagram);
        if !bytes.starts_with(b"ACK ") {
            return None;
        }
        let mut pos = line::physical_end(bytes, 0)?.next;
        let (mut to_tag, mut call_id, mut cseq) = (None, None, None);
        while let Next::Field(line) = line::next(bytes, pos) {
            match line.field {
                Name::To => to_tag = Some(name_addr::tag(bytes, line.trimmed(bytes)).ok()??.of(bytes)),
                Name::CallId => call_id = Some(line.trimmed(bytes).of(bytes)),
                Name::CSeq => cseq = Some(CSeq::parse(bytes, line.trimmed(bytes)).ok()?.number),
                _ => {}
            }
            if let (Some(to_tag), Some(call_id), Some(cseq)) = (to_tag, call_id, cseq) {
                return Some(Self { to_tag, call_id, cseq });
            }
            pos = line.next as usize;
        }
        None
    }
}

fn has_to_tag(bytes: &[u8], mut pos: usize) -> bool {
    while let Next::Field(line) = line::next(bytes, pos) {
        if line.field == Name::To {
            let value = line.trimmed(bytes).of(bytes);
            // Parameters of the header field follow the URI.
            let after = value.iter().rposition(|byte| *byte == b'>').map_or(0, |at| at + 1);
            return value[after..].windows(5).any(|word| word.eq_ignore_ascii_case(b";tag="));
        }
        pos = line.next as usize;
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(text: &str) -> (Method, &[u8], bool) {
        match Peek::at(text.as_bytes()) {
            Peek::Request { method, uri, has_to_tag } => (method, uri, has_to_tag),
            other => panic!("{other:?}: {text}"),
        }
    }

    #[test]
    fn a_request_shows_its_method_and_whether_it_is_within_a_dialog() {
        let (method, uri, has_to_tag) =
            request("\r\nINVITE urn:service:sos SIP/2.0\r\nVia: x\r\nTo: <sip:a;tag=b@c>\r\n\r\n");
        assert_eq!((method, uri, has_to_tag), (Method::Invite, &b"urn:service:sos"[..], false));
        assert!(request("BYE sip:a SIP/2.0\r\nt: \"x\" <sip:a>;x=y;TAG=1\r\n\r\n").2);
        assert!(request("BYE sip:a SIP/2.0\r\nTo: sip:a;tag=1\r\n\r\n").2);
    }

    #[test]
    fn no_datagram_makes_peek_panic() {
        assert_eq!(Peek::at(b"sip/2.0 200 OK\r\n"), Peek::Response);
        for text in ["", "\r\n\r\n", "x", "INVITE", "INVITE \r\nTo", "INVITE a b\r\nTo:\r\n\r\n"] {
            assert_eq!(Peek::at(text.as_bytes()), Peek::Other, "{text:?}");
            assert_eq!(Peek::resource_priority(text.as_bytes()), None);
        }
        assert!(!request("INVITE a SIP/2.0\r\nTo:\r\n\r\n").2);
    }

    #[test]
    fn a_request_and_its_responses_have_the_same_call_id_and_cseq() {
        let of = |text: &'static str| Peek::call_id_and_cseq(text.as_bytes());
        let both = Some((&b"a@b"[..], &b"1 INVITE"[..]));
        assert_eq!(of("INVITE a SIP/2.0\r\nCSeq: 1 INVITE\r\ni : a@b\r\n\r\n"), both);
        assert_eq!(
            of("SIP/2.0 200 OK\r\nCall-ID: a@b\r\nVia: x\r\nCSeq:1 INVITE\r\nCSeq: 2 BYE\r\n\r\n"),
            both
        );
        assert_eq!(
            of("SIP/2.0 200 OK\r\nCall-ID: a@b\r\n\r\nCSeq: 1 INVITE\r\n"),
            None,
            "the body is not read"
        );
    }

    #[test]
    fn an_acknowledgement_shows_its_response() {
        let of = |text: &'static str| Acknowledgement::peek(text.as_bytes());
        let fields = Acknowledgement { to_tag: b"t", call_id: b"c", cseq: 7 };
        assert_eq!(of("ACK a SIP/2.0\r\nCSeq: 7 ACK\r\nt: <sip:a>;tag=t\r\ni: c\r\nbroken"), Some(fields));
        for other in [
            "BYE a SIP/2.0\r\nCSeq: 7 ACK\r\nt: <sip:a>;tag=t\r\ni: c\r\n\r\n",
            "ACK a SIP/2.0\r\nCSeq: 7 ACK\r\nt: <sip:a>\r\ni: c\r\n\r\n",
            "ACK a SIP/2.0\r\nCSeq: 7 ACK\r\nt: <sip:a>;tag=t\r\n\r\ni: c\r\n",
        ] {
            assert_eq!(of(other), None, "{other}");
        }
    }

    #[test]
    fn a_resource_priority_is_found_in_any_header_line() {
        let of = |text: &'static str| Peek::resource_priority(text.as_bytes());
        assert_eq!(
            of("INVITE a SIP/2.0\r\nVia: x\r\nresource-priority : ets.0, q735.1\r\n\r\n"),
            Some(&b"ets.0, q735.1"[..])
        );
        assert_eq!(
            of("INVITE a SIP/2.0\r\nVia: x\r\n\r\nResource-Priority: ets.0\r\n"),
            None,
            "the body is not read"
        );
    }
}
