//! Call-ID (RFC 3261 §20.8).

use crate::header::Name;
use crate::line::{self, Next};
use crate::message;
use crate::vector;

/// Whether `value` can be a Call-ID: not empty and without white space. Its text is only compared.
pub(crate) fn is_valid(value: &[u8]) -> bool {
    !value.is_empty() && vector::is_without_space(value)
}

/// Finds the Call-ID of a datagram without a scan, to steer the datagram to the thread that has the call.
///
/// Stops at the first match; `None` if there is none or it is empty. For any datagram that [`crate::scan()`] accepts,
/// the result equals the scan's [`crate::Message::call_id`].
pub fn peek_call_id(datagram: &[u8]) -> Option<&[u8]> {
    let bytes = message::without_leading_crlf(datagram);
    let mut pos = line::physical_end(bytes, 0)?.next;
    loop {
        let Next::Field(line) = line::next(bytes, pos) else { return None };
        if line.field == Name::CallId {
            let value = line.trimmed(bytes);
            return (!value.is_empty()).then(|| value.of(bytes));
        }
        pos = line.next as usize;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_match_in_either_form() {
        assert_eq!(
            peek_call_id(b"\r\nX sip:a SIP/2.0\r\nv: x\r\nI : a@b \r\nCall-ID: c\r\n\r\n"),
            Some(&b"a@b"[..])
        );
        assert_eq!(peek_call_id(b"X\r\ncall-id:\r\n folded\r\n\r\n"), Some(&b"folded"[..]));
    }

    #[test]
    fn call_id_is_not_found_in_start_line_body_or_value() {
        assert_eq!(peek_call_id(b"i: a\r\ns: i: b\r\n\r\ni: c\r\n"), None);
        assert_eq!(peek_call_id(b""), None);
        assert_eq!(peek_call_id(b"X\r\ni: cut"), None);
        assert_eq!(
            peek_call_id(b"X\r\nCall-ID\xf4: a\r\ni: b\r\n\r\n"),
            Some(&b"b"[..]),
            "the first is no header"
        );
    }
}
