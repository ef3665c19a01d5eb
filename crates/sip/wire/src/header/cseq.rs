//! CSeq (RFC 3261 §20.16).

use crate::chars::{self, LWS};
use crate::cursor::{Cursor, Malformed};
use crate::{Method, Span};

/// Sequence number and method of a transaction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CSeq {
    /// Less than 2^31 (RFC 3261 §8.1.1.5).
    pub number: u32,
    /// The method; in a response, the method of its request.
    pub method: Method,
    /// Text of the method.
    pub method_name: Span,
}

impl CSeq {
    pub(crate) fn parse(bytes: &[u8], value: Span) -> Result<Self, Malformed> {
        let mut cursor = Cursor::new(bytes, value);
        let start = cursor.pos;
        while cursor.peek().is_some_and(|b| b.is_ascii_digit()) {
            cursor.pos += 1;
        }
        let number = chars::number(&bytes[start..cursor.pos], i32::MAX as u32).ok_or(Malformed)?;
        if cursor.run(LWS).is_empty() {
            return Err(Malformed);
        }
        let method_name = cursor.token()?;
        if !cursor.is_at_end() {
            return Err(Malformed);
        }
        Ok(Self { number, method: Method::parse(method_name.of(bytes)), method_name })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<CSeq, Malformed> {
        CSeq::parse(text.as_bytes(), Span::new(0, text.len()))
    }

    #[test]
    fn values() {
        let folded = parse("0009\r\n  INVITE").unwrap();
        assert_eq!((folded.number, folded.method, folded.method_name.len()), (9, Method::Invite, 6));
        assert_eq!(parse("2147483647 NEW").unwrap().method, Method::Other);
        for bad in ["", "1", "1 ", "INVITE", "1INVITE", "2147483648 INVITE", "-1 INVITE", "1 INVITE x", "1 <"]
        {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }
}
