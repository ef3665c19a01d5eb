//! Max-Breadth (RFC 5393 §5.8).

use crate::chars;
use crate::cursor::Malformed;

/// The number; a number above `u32::MAX` becomes `u32::MAX`.
pub(crate) fn parse(value: &[u8]) -> Result<u32, Malformed> {
    match chars::number(value, u32::MAX) {
        None if !value.is_empty() && value.iter().all(u8::is_ascii_digit) => Ok(u32::MAX),
        number => number.ok_or(Malformed),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_number() {
        assert_eq!(parse(b"0060"), Ok(60));
        assert_eq!(parse(b"4294967296"), Ok(u32::MAX));
        assert!([&b""[..], b"-1", b"6 0", b"60;x", b"9999999999x"].iter().all(|bad| parse(bad).is_err()));
    }
}
