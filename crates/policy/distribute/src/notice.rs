//! Notices to upstream neighbours: the room on the paths behind a node, and whether to send fewer calls without state.
//!
//! Value of a Via parameter of responses, in the Via of the neighbour that receives it
//! ([`Function::notice_parameter`](crate::Function::notice_parameter)):
//!
//! ```text
//! room     = "room" EQUAL ( "t" / "u" ) "." level "." least "." sequence
//! level    = 1*4DIGIT    ; thousandths, 0 to 1000
//! least    = 1*4DIGIT    ; thousandths, 0 to 1000
//! sequence = 1*20DIGIT
//! ```
//!
//! `t` is *throttle*, `u` is *unthrottle*.

use core::fmt;

/// Increase of a reported utilisation with each hop. Small, so that the value of a node three hops away is nearly
/// exact. A value that only circulates exceeds 1 after 50 periods at most, and then has no effect.
pub const AGE: f64 = 0.02;

/// Thousandths in a whole.
const WHOLE: u16 = 1000;

/// Notice of a node to an upstream neighbour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Notice {
    /// Whether the neighbour should not increase its calls without state (paper, section 3).
    pub throttled: bool,
    /// In thousandths, at most 1000.
    level: u16,
    least: u16,
    /// Increases with time: the smaller of two numbers is older.
    pub sequence: u64,
}

impl Notice {
    /// Creates a notice. Values outside 0 to 1 are limited.
    pub fn new(throttled: bool, level: f64, least: f64, sequence: u64) -> Self {
        // A cast turns NaN into 0, and saturates values out of range.
        let whole = |share: f64| ((share * f64::from(WHOLE)).round() as u16).min(WHOLE);
        Self { throttled, level: whole(level), least: whole(least), sequence }
    }

    /// Utilisation of the nodes that would keep the state of one more call, on the worst path, from 0 to 1.
    pub fn level(&self) -> f64 {
        f64::from(self.level) / f64::from(WHOLE)
    }

    /// Utilisation of the least busy node on all paths, from 0 to 1.
    pub fn least(&self) -> f64 {
        f64::from(self.least) / f64::from(WHOLE)
    }

    /// Parses the value of the parameter; `None` if it is invalid.
    pub fn parse(value: &[u8]) -> Option<Self> {
        let mut parts = value.split(|byte| *byte == b'.');
        let throttled = match parts.next()? {
            letter if letter.eq_ignore_ascii_case(b"t") => true,
            letter if letter.eq_ignore_ascii_case(b"u") => false,
            _ => return None,
        };
        let mut share =
            || u16::try_from(number(parts.next()?, 4)?).ok().filter(|thousandths| *thousandths <= WHOLE);
        let (level, least) = (share()?, share()?);
        let sequence = number(parts.next()?, 20)?;
        parts.next().is_none().then_some(Self { throttled, level, least, sequence })
    }
}

/// Parses a decimal number of at most `digits_max` digits.
fn number(digits: &[u8], digits_max: usize) -> Option<u64> {
    if digits.is_empty() || digits.len() > digits_max || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    core::str::from_utf8(digits).ok()?.parse().ok()
}

impl fmt::Display for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let letter = if self.throttled { 't' } else { 'u' };
        write!(f, "{letter}.{}.{}.{}", self.level, self.least, self.sequence)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn written_notices_are_read_back() {
        for (notice, text) in [
            (Notice::new(true, 0.95, 0.9, 17), "t.950.900.17"),
            (Notice::new(false, 0.0, 0.0, u64::MAX), "u.0.0.18446744073709551615"),
            (Notice::new(false, 7.0, 99.0, 0), "u.1000.1000.0"),
            (Notice::new(false, f64::NAN, f64::NAN, 0), "u.0.0.0"),
            (Notice::new(false, -1.0, -0.1, 0), "u.0.0.0"),
        ] {
            assert_eq!(notice.to_string(), text);
            assert_eq!(Notice::parse(text.as_bytes()), Some(notice));
        }
    }

    #[test]
    fn invalid_notices_are_ignored() {
        for wrong in [
            "",
            "t",
            "throttle.950.2.17",
            "t.950.2",
            "t.950.2.17.",
            "t.1001.2.17",
            "t.950.1001.17",
            "t.00950.2.17",
            "t.950.2.18446744073709551616",
            "t.950.2.000000000000000000017",
            "t.+95.2.17",
            "t.9 5.2.17",
            "hold.950.2.17",
            "\u{ff}.1.1.1",
        ] {
            assert_eq!(Notice::parse(wrong.as_bytes()), None, "{wrong:?}");
        }
    }
}
