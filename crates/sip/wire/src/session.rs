//! Session timer fields of session refresh requests and their responses (RFC 4028 §4, §5).

use crate::message::Message;
use crate::{Span, chars};

/// Returns the number of seconds, which comes before the parameters, and its position.
fn seconds(value: &[u8]) -> Option<(u32, Span)> {
    let digits = value.iter().position(|b| !b.is_ascii_digit()).unwrap_or(value.len());
    Some((chars::number(&value[..digits], u32::MAX)?, Span::new(0, digits)))
}

impl<'a> Message<'a> {
    /// Seconds of Session-Expires, and the bytes of this number; `None` if absent, or not a number of 32 bits.
    pub fn session_expires(&self) -> Option<(u32, &'a [u8])> {
        let value = self.header("Session-Expires")?;
        seconds(value).map(|(seconds, digits)| (seconds, digits.of(value)))
    }

    /// Seconds of Min-SE, and the bytes of this number; `None` if absent, or not a number of 32 bits.
    pub fn min_se(&self) -> Option<(u32, &'a [u8])> {
        let value = self.header("Min-SE")?;
        seconds(value).map(|(seconds, digits)| (seconds, digits.of(value)))
    }

    /// Whether Supported names this option tag.
    pub fn supports(&self, tag: &str) -> bool {
        self.option_tags("Supported").any(|named| named.eq_ignore_ascii_case(tag.as_bytes()))
    }
}

#[cfg(test)]
mod tests {
    use crate::scan;

    #[test]
    fn session_timers_are_read_in_both_forms() {
        let text = "INVITE sip:b@x SIP/2.0\r\nVia: SIP/2.0/UDP h;branch=z9hG4bK1\r\nFrom: <sip:a@x>;tag=1\r\n\
            To: <sip:b@x>\r\nCall-ID: c\r\nCSeq: 1 INVITE\r\nMax-Forwards: 70\r\nx: 1800;refresher=uas\r\n\
            Min-SE:  120 ;p=1\r\nk: path, Timer\r\n\r\n";
        let message = scan(text.as_bytes()).expect("a request");
        assert_eq!(message.session_expires(), Some((1800, &b"1800"[..])));
        assert_eq!(message.min_se(), Some((120, &b"120"[..])));
        assert!(message.supports("timer") && message.supports("path") && !message.supports("100rel"));
        let without = text.replace("x: 1800", "x: soon").replace("Min-SE", "X-SE");
        let message = scan(without.as_bytes()).expect("a request");
        assert_eq!((message.session_expires(), message.min_se()), (None, None));
    }
}
