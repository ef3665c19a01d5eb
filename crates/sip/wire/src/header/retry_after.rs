//! Retry-After (RFC 3261 §20.33).

use crate::chars;

/// Seconds of the value; its comment and parameters are not read. `None` if the value does not start with a number of
/// 32 bits.
pub(crate) fn parse(value: &[u8]) -> Option<u32> {
    let digits = value.iter().position(|b| !b.is_ascii_digit()).unwrap_or(value.len());
    chars::number(&value[..digits], u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_before_comment_and_parameters() {
        assert_eq!(parse(b"18000;duration=3600"), Some(18_000));
        assert_eq!(parse(b"120 (I'm in a meeting)"), Some(120));
        assert_eq!(parse(b"949302838503028349304023988"), None);
        assert_eq!(parse(b"soon"), None);
    }
}
