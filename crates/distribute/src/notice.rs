//! What a node tells an upstream neighbour: how much room there is on the way behind, and whether to hold back.
//!
//! The value of a Via parameter of responses, in the Via of the neighbour that gets it
//! ([`Function::notice_parameter`](crate::Function::notice_parameter)):
//!
//! ```text
//! room  = "room" EQUAL ( "throttle" / "unthrottle" ) "." level "." hops "." sequence
//! level = 1*4DIGIT    ; thousandths, 0 to 1000
//! hops  = 1*2DIGIT    ; 0 to 8
//! sequence = 1*20DIGIT
//! ```

use core::fmt;

/// A level that was measured further away is not believed. Longer paths of proxies within one network are not known, and
/// a level that only goes round among nodes dies out after as many periods.
pub const HOPS_MAX: u8 = 8;

/// Thousandths in a whole.
const WHOLE: u16 = 1000;

/// What a node tells an upstream neighbour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Notice {
    /// Whether the neighbour should send no more calls without state than it does (paper, section 3).
    pub throttled: bool,
    /// The least utilisation on the way, in thousandths, at most 1000.
    level: u16,
    /// How many hops behind the teller it was measured, at most [`HOPS_MAX`].
    hops: u8,
    /// Grows with time; one that is smaller than another is older.
    pub sequence: u64,
}

impl Notice {
    /// Out of range is cut.
    pub fn new(throttled: bool, level: f64, hops: u8, sequence: u64) -> Self {
        // A cast of NaN is 0, and one of what is out of range the nearest there is.
        let level = (level * f64::from(WHOLE)).round() as u16;
        Self { throttled, level: level.min(WHOLE), hops: hops.min(HOPS_MAX), sequence }
    }

    /// From 0 to 1.
    pub fn level(&self) -> f64 {
        f64::from(self.level) / f64::from(WHOLE)
    }

    /// Hops from the teller to where it was measured.
    pub fn hops(&self) -> u8 {
        self.hops
    }

    /// Reads the value of the parameter; `None` for what is no such value.
    pub fn parse(value: &[u8]) -> Option<Self> {
        let mut parts = value.split(|byte| *byte == b'.');
        let throttled = match parts.next()? {
            word if word.eq_ignore_ascii_case(b"throttle") => true,
            word if word.eq_ignore_ascii_case(b"unthrottle") => false,
            _ => return None,
        };
        let level = u16::try_from(number(parts.next()?, 4)?).ok().filter(|level| *level <= WHOLE)?;
        let hops = u8::try_from(number(parts.next()?, 2)?).ok().filter(|hops| *hops <= HOPS_MAX)?;
        let sequence = number(parts.next()?, 20)?;
        parts.next().is_none().then_some(Self { throttled, level, hops, sequence })
    }
}

/// A decimal number of at most so many digits.
fn number(digits: &[u8], digits_max: usize) -> Option<u64> {
    if digits.is_empty() || digits.len() > digits_max || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    core::str::from_utf8(digits).ok()?.parse().ok()
}

impl fmt::Display for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = if self.throttled { "throttle" } else { "unthrottle" };
        write!(f, "{word}.{}.{}.{}", self.level, self.hops, self.sequence)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        for (notice, text) in [
            (Notice::new(true, 0.95, 2, 17), "throttle.950.2.17"),
            (Notice::new(false, 0.0, 0, u64::MAX), "unthrottle.0.0.18446744073709551615"),
            (Notice::new(false, 7.0, 99, 0), "unthrottle.1000.8.0"),
            (Notice::new(false, f64::NAN, 0, 0), "unthrottle.0.0.0"),
            (Notice::new(false, -1.0, 0, 0), "unthrottle.0.0.0"),
        ] {
            assert_eq!(notice.to_string(), text);
            assert_eq!(Notice::parse(text.as_bytes()), Some(notice));
        }
    }

    #[test]
    fn what_is_no_notice_is_none() {
        for wrong in [
            "",
            "throttle",
            "throttle.950.2",
            "throttle.950.2.17.",
            "throttle.1001.2.17",
            "throttle.950.9.17",
            "throttle.00950.2.17",
            "throttle.950.2.18446744073709551616",
            "throttle.950.2.000000000000000000017",
            "throttle.+95.2.17",
            "throttle.9 5.2.17",
            "hold.950.2.17",
            "\u{ff}.1.1.1",
        ] {
            assert_eq!(Notice::parse(wrong.as_bytes()), None, "{wrong:?}");
        }
    }
}
