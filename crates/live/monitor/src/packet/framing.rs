//! Finds the messages in a byte stream (RFC 3261 §18.3): each ends by its Content-Length.
//!
//! Bodies are counted and not kept, because pairing needs the header only.

use wire::{HEADER_MAX, HeaderSearch, begins_message, content_lengths};

/// The incomplete message of a stream.
#[derive(Clone, Debug, Default)]
pub(super) struct Framing {
    header: Vec<u8>,
    /// Search for the end of `header`.
    search: HeaderSearch,
    /// Missing bytes of the body, once the header is complete.
    body: Option<u64>,
    /// The stream is not SIP, or its start was not captured: bytes are skipped until a piece starts with a message.
    lost: bool,
}

impl Framing {
    /// Number of bytes that are kept.
    pub(super) fn held(&self) -> usize {
        self.header.capacity()
    }

    /// A part of the stream is missing: skips bytes until the next message.
    pub(super) fn lose(&mut self) {
        *self = Self { lost: true, ..Self::default() };
    }

    /// Takes the next bytes of the stream, and calls `message` with the header of each message that they complete.
    pub(super) fn take(&mut self, mut bytes: &[u8], mut message: impl FnMut(&[u8])) {
        if self.lost {
            if !joins_at_message(bytes) {
                return;
            }
            self.lost = false;
        }
        while !bytes.is_empty() {
            if let Some(left) = self.body {
                let part = bytes.len().min(usize::try_from(left).unwrap_or(usize::MAX));
                bytes = &bytes[part..];
                self.body = Some(left - part as u64);
            } else {
                bytes = self.take_header(bytes);
            }
            if self.body == Some(0) {
                message(&self.header);
                *self = Self::default();
            }
            if self.lost {
                return;
            }
        }
    }

    /// Takes bytes up to the end of the header, and returns the rest.
    fn take_header<'a>(&mut self, mut bytes: &'a [u8]) -> &'a [u8] {
        if self.header.is_empty() {
            // RFC 3261 §7.5, RFC 5626 §3.5.1: empty lines between messages.
            let start = bytes.iter().position(|b| !matches!(b, b'\r' | b'\n')).unwrap_or(bytes.len());
            bytes = &bytes[start..];
        }
        let before = self.header.len();
        let room = (HEADER_MAX - before).min(bytes.len());
        self.header.extend_from_slice(&bytes[..room]);
        match self.search.find(&self.header) {
            Ok(None) => &[],
            Ok(Some(found)) => {
                self.header.truncate(found.end);
                set_content_length_to_zero(&mut self.header);
                // Without a Content-Length there is most likely no body.
                self.body = Some(found.content_length.unwrap_or(0).into());
                &bytes[found.end - before..]
            }
            Err(_) => {
                self.lose();
                &[]
            }
        }
    }
}

/// Whether a message certainly starts here. By the grammar the end of a start line, `x SIP/2.0`, is a start line too.
/// But methods in use have at least two capital letters, and so has the version of a response.
fn joins_at_message(bytes: &[u8]) -> bool {
    begins_message(bytes) && bytes.iter().take(2).all(u8::is_ascii_uppercase)
}

/// Sets each Content-Length to 0, because the header is passed on without its body, and the scan would reject it.
fn set_content_length_to_zero(header: &mut [u8]) {
    let values: Vec<_> = content_lengths(header).collect();
    for value in values {
        header[value.start as usize..value.end as usize].fill(b'0');
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use testkit::{TestRequest, TestResponse};

    fn message(number: usize, body: &str) -> String {
        format!(
            "INVITE sip:b{number}@x SIP/2.0\r\nCall-ID: {number}\r\ncontent-length : {}\r\n\r\n{body}",
            body.len()
        )
    }

    fn frame(framing: &mut Framing, bytes: &[u8]) -> Vec<String> {
        let mut found = Vec::new();
        framing.take(bytes, |header| found.push(String::from_utf8_lossy(header).into_owned()));
        found
    }

    fn number(header: &str) -> usize {
        let (_, rest) = header.split_once("Call-ID: ").expect("a Call-ID");
        rest.split("\r\n").next().and_then(|text| text.parse().ok()).expect("a number")
    }

    proptest! {
        #[test]
        fn messages_are_found_wherever_the_stream_is_cut(
            bodies in prop::collection::vec(("[a-z\r\n ]{0,40}", 0..3_usize), 1..8),
            cuts in prop::collection::vec(1..50_usize, 1..60),
        ) {
            let mut stream = String::new();
            for (at, (body, empty)) in bodies.iter().enumerate() {
                stream += &"\r\n".repeat(*empty);
                stream += &message(at, body);
            }
            let (mut framing, mut found, mut rest) = (Framing::default(), Vec::new(), stream.as_bytes());
            for cut in cuts.iter().cycle() {
                if rest.is_empty() {
                    break;
                }
                let (part, after) = rest.split_at(rest.len().min(*cut));
                found.extend(frame(&mut framing, part));
                rest = after;
            }
            let numbers: Vec<_> = found.iter().map(|header| number(header)).collect();
            prop_assert_eq!(numbers, (0..bodies.len()).collect::<Vec<_>>());
            prop_assert_eq!(framing.held(), 0);
        }

        #[test]
        fn any_bytes_are_taken_in_bounded_memory(parts in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..200), 0..20)) {
            let mut framing = Framing::default();
            for part in parts {
                frame(&mut framing, &part);
                prop_assert!(framing.held() <= 2 * HEADER_MAX);
            }
        }
    }

    /// A response without its body would be dropped.
    #[test]
    fn a_header_without_its_body_is_a_message() {
        let at = "127.0.0.1:5060".parse().expect("an address");
        let request = TestRequest::new("INVITE", "c", at).text();
        let response = TestResponse::new(200, at).bytes(request.as_bytes());
        let response = String::from_utf8(response).expect("UTF-8");
        let response =
            response.replace("Content-Length: 0\r\n\r\n", "l: 0012\r\nl:12\r\n\r\nv=0\r\no=0\r\nab");
        let found = frame(&mut Framing::default(), (request + &response).as_bytes());
        let faults: Vec<_> =
            found.iter().map(|header| wire::scan(header.as_bytes()).map(|message| message.fault())).collect();
        assert_eq!(faults, [Ok(None), Ok(None)], "{found:?}");
    }

    #[test]
    fn other_bytes_are_skipped_until_a_message_starts() {
        let mut framing = Framing::default();
        assert!(frame(&mut framing, b"\x16\x03\x01\x02\r\n\r\nhello").is_empty());
        assert!(frame(&mut framing, b"GET / HTTP/1.1\r\n\r\n").is_empty());
        assert!(framing.lost);
        assert_eq!(frame(&mut framing, message(1, "body").as_bytes()).len(), 1);
        assert_eq!(frame(&mut framing, b"SIP/2.0 200 OK\r\nl: 0\r\n\r\n").len(), 1, "compact form");
    }

    #[test]
    fn a_message_of_unknown_length_loses_the_stream() {
        let mut framing = Framing::default();
        assert!(frame(&mut framing, b"BYE sip:b@x SIP/2.0\r\nContent-Length: many\r\n\r\n").is_empty());
        assert!(framing.lost);
        let mut framing = Framing::default();
        for _ in 0..=HEADER_MAX / 64 {
            frame(&mut framing, &[b'A'; 64]);
        }
        assert!(framing.lost && framing.held() == 0);
    }
}
