//! Max-Forwards (RFC 3261 §20.22).

use crate::chars;
use crate::cursor::Malformed;

/// The number, from 0 to 255. A larger number is an error, and is not treated as absent: if each hop replaced it by 70,
/// a loop would never end.
pub(crate) fn parse(value: &[u8]) -> Result<u32, Malformed> {
    chars::number(value, 255).ok_or(Malformed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn range() {
        assert_eq!(parse(b"0068"), Ok(68));
        assert_eq!(parse(b"255"), Ok(255));
        assert!([&b"256"[..], b"-1", b"", b"7 0"].iter().all(|bad| parse(bad).is_err()));
    }
}
