//! Content-Length (RFC 3261 §20.14).

use crate::chars;
use crate::cursor::Malformed;

/// Length of the body, in octets.
pub(crate) fn parse(value: &[u8]) -> Result<u32, Malformed> {
    chars::number(value, u32::MAX).ok_or(Malformed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_digits() {
        assert_eq!(parse(b"00150"), Ok(150));
        assert!([&b"-999"[..], b"five", b"", b"4294967296", b"1,1"].iter().all(|bad| parse(bad).is_err()));
    }
}
