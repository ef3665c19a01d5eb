//! The messages of a byte stream (RFC 3261 §18.3): each ends where its Content-Length says.
//!
//! Bodies are counted and not kept: pairing needs the header alone.

use wire::is_header;

/// The longest header that is waited for. SIP's are a few kilobytes; whoever sends more without an end sends no SIP.
const HEADER_MAX: usize = 32 << 10;

/// What a stream holds that is not a whole message so far.
#[derive(Clone, Debug, Default)]
pub(super) struct Framing {
    header: Vec<u8>,
    /// How far the end of the header has been searched for.
    searched: usize,
    /// Bytes of the body that are still to come, once the header is there.
    body: Option<u64>,
    /// The stream is no SIP, or was joined in the middle: only a piece that begins like a message is looked at.
    lost: bool,
}

impl Framing {
    /// Bytes that are kept.
    pub(super) fn held(&self) -> usize {
        self.header.capacity()
    }

    /// A part of the stream is missing: what follows is searched for the next message.
    pub(super) fn lose(&mut self) {
        *self = Self { lost: true, ..Self::default() };
    }

    /// Takes the next bytes of the stream; passes on the header of each message that they complete.
    pub(super) fn take(&mut self, mut bytes: &[u8], mut message: impl FnMut(&[u8])) {
        if self.lost {
            if !begins_message(bytes) {
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

    /// Takes bytes up to the end of the header, and gives the rest.
    fn take_header<'a>(&mut self, mut bytes: &'a [u8]) -> &'a [u8] {
        if self.header.is_empty() {
            // RFC 3261 §7.5, RFC 5626 §3.5.1: empty lines between messages.
            let start = bytes.iter().position(|b| !matches!(b, b'\r' | b'\n')).unwrap_or(bytes.len());
            bytes = &bytes[start..];
        }
        let before = self.header.len();
        let room = (HEADER_MAX - before).min(bytes.len());
        self.header.extend_from_slice(&bytes[..room]);
        let from = self.searched.saturating_sub(3);
        let end = self.header[from..].windows(4).position(|four| four == b"\r\n\r\n");
        let Some(end) = end.map(|at| from + at + 4) else {
            self.searched = self.header.len();
            if self.header.len() == HEADER_MAX {
                self.lose();
            }
            return &[];
        };
        let rest = &bytes[end - before..];
        self.header.truncate(end);
        match take_content_length(&mut self.header) {
            Some(length) if begins_message(&self.header) => self.body = Some(length),
            _ => self.lose(),
        }
        rest
    }
}

/// Octets of the body behind this header; 0 if it does not say. `None` where nobody can say where the message ends.
/// In the header that number becomes 0, as it is handed on without its body: one that lacks its body is no message to
/// the scan.
fn take_content_length(header: &mut [u8]) -> Option<u64> {
    let mut length = None;
    for line in header.split_mut(|&b| b == b'\n') {
        let Some(colon) = line.iter().position(|&b| b == b':') else { continue };
        let (name, value) = line.split_at_mut(colon);
        if !is_header(name.trim_ascii_end(), "Content-Length") {
            continue;
        }
        let text = str::from_utf8(&value[1..]).ok()?;
        let said = text.trim_ascii().parse::<u32>().ok()?;
        length.get_or_insert(u64::from(said));
        let digits = value.iter_mut().filter(|byte| byte.is_ascii_digit());
        digits.for_each(|digit| *digit = b'0');
    }
    Some(length.unwrap_or(0))
}

/// Whether these bytes can be the beginning of a message, by its first line.
pub(crate) fn begins_message(bytes: &[u8]) -> bool {
    let bytes = &bytes[..bytes.len().min(HEADER_MAX)];
    if bytes.starts_with(b"SIP/2.0 ") {
        return true;
    }
    let line = bytes.split(|&b| b == b'\r').next().unwrap_or_default();
    // A method is a token; those of SIP are letters.
    let method = line.iter().position(|b| !b.is_ascii_uppercase()).unwrap_or(line.len());
    (2..=16).contains(&method) && line.get(method) == Some(&b' ') && line.ends_with(b" SIP/2.0")
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

    /// A response that lacks its body would be dropped.
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
    fn what_is_no_sip_is_passed_until_a_message_begins() {
        let mut framing = Framing::default();
        assert!(frame(&mut framing, b"\x16\x03\x01\x02\r\n\r\nhello").is_empty());
        assert!(frame(&mut framing, b"GET / HTTP/1.1\r\n\r\n").is_empty());
        assert!(framing.lost);
        assert_eq!(frame(&mut framing, message(1, "body").as_bytes()).len(), 1);
        assert_eq!(frame(&mut framing, b"SIP/2.0 200 OK\r\nl: 0\r\n\r\n").len(), 1, "compact form");
    }

    #[test]
    fn a_message_whose_end_nobody_knows_loses_the_stream() {
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
