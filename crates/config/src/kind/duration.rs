//! Durations: a whole number and its unit.

use std::time::Duration;

use schemars::{Schema, json_schema};

use super::{Kind, Refusal, quoted};
use crate::setting::Leaf;

/// Milliseconds in a second.
pub(crate) const SECOND: u64 = 1_000;
/// Milliseconds in a minute.
pub(crate) const MINUTE: u64 = 60 * SECOND;
/// Milliseconds in an hour.
pub(crate) const HOUR: u64 = 60 * MINUTE;
/// Milliseconds in a day.
pub(crate) const DAY: u64 = 24 * HOUR;
/// Milliseconds in a year: the longest duration of any key, far below what 64 bits of nanoseconds hold.
pub(crate) const YEAR: u64 = 365 * DAY;

/// Units with their length in milliseconds, the longest first.
const UNITS: [(&str, u64); 5] = [("d", DAY), ("h", HOUR), ("m", MINUTE), ("s", SECOND), ("ms", 1)];

/// A duration from `MIN` to `MAX`, both in milliseconds.
#[derive(Debug, Clone)]
pub(crate) struct Time<const MIN: u64, const MAX: u64>;

impl<const MIN: u64, const MAX: u64> Kind for Time<MIN, MAX> {
    type Value = Duration;

    fn read(leaf: &Leaf) -> Result<Duration, Refusal> {
        let legal = |millis: &u64| (MIN..=MAX).contains(millis);
        let refusal = || {
            Refusal::new(format!(
                "expected a duration from {} to {}: a whole number and a unit (ms, s, m, h, d), such as \"30s\"",
                show_millis(MIN),
                show_millis(MAX)
            ))
        };
        match leaf {
            Leaf::Text(text) => match parse(text) {
                Some(millis) if legal(&millis) => Ok(Duration::from_millis(millis)),
                Some(_) => Err(refusal()),
                None => Err(refusal().meant(repair(text).filter(legal).map(|ms| quoted(&show_millis(ms))))),
            },
            // The unit is the one thing that cannot be guessed, so both likely ones are offered.
            Leaf::Integer(number) => {
                let guesses: Vec<_> = ["s", "ms"]
                    .iter()
                    .map(|unit| format!("{number}{unit}"))
                    .filter(|guess| parse(guess).as_ref().is_some_and(legal))
                    .map(|guess| quoted(&guess))
                    .collect();
                Err(refusal().meant((!guesses.is_empty()).then(|| guesses.join(" or "))))
            }
            _ => Err(refusal()),
        }
    }

    fn schema() -> Schema {
        json_schema!({
            "title": format!("duration, {} to {}", show_millis(MIN), show_millis(MAX)),
            "type": "string",
            "pattern": "^[0-9]+(ms|s|m|h|d)$",
        })
    }
}

/// Milliseconds of a well-formed text.
fn parse(text: &str) -> Option<u64> {
    let digits = text.find(|c: char| !c.is_ascii_digit())?;
    let (number, unit) = text.split_at(digits);
    let (_, length) = UNITS.iter().find(|(name, _)| *name == unit)?;
    number.parse::<u64>().ok()?.checked_mul(*length)
}

/// Milliseconds that a badly formed text most likely means: fractions, spaces, and units written out.
fn repair(text: &str) -> Option<u64> {
    let text = text.to_lowercase().replace([' ', '_'], "");
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.')?;
    let (number, unit) = text.split_at(digits);
    let length = match unit {
        "d" | "day" | "days" => DAY,
        "h" | "hr" | "hrs" | "hour" | "hours" => HOUR,
        "m" | "min" | "mins" | "minute" | "minutes" => MINUTE,
        "s" | "sec" | "secs" | "second" | "seconds" => SECOND,
        "ms" | "msec" | "msecs" | "millis" | "millisecond" | "milliseconds" => 1,
        _ => return None,
    };
    let millis = number.parse::<f64>().ok()? * length as f64;
    (millis.fract() == 0.0).then_some(millis as u64)
}

/// A duration as the file would have it, in the longest unit that is exact.
pub(crate) fn show(duration: Duration) -> String {
    show_millis(duration.as_millis() as u64)
}

fn show_millis(millis: u64) -> String {
    let (unit, length) = match millis {
        0 => ("s", SECOND),
        _ => *UNITS
            .iter()
            .find(|(_, length)| millis.is_multiple_of(*length))
            .expect("every whole number is a multiple of 1"),
    };
    format!("{}{unit}", millis / length)
}

#[cfg(test)]
mod tests {
    use super::*;

    type Any = Time<0, YEAR>;

    #[test]
    fn every_unit_is_read_and_shown_again() {
        for (text, millis) in
            [("500ms", 500), ("30s", 30_000), ("5m", 300_000), ("4h", 4 * HOUR), ("2d", 2 * DAY)]
        {
            assert_eq!(Any::read(&text.into()), Ok(Duration::from_millis(millis)));
            assert_eq!(show(Duration::from_millis(millis)), text);
        }
        assert_eq!(show(Duration::from_millis(1500)), "1500ms");
        assert_eq!(show(Duration::ZERO), "0s");
    }

    #[test]
    fn what_was_meant_is_offered() {
        let meant = |leaf: Leaf| Any::read(&leaf).unwrap_err().meant;
        assert_eq!(meant("1.5s".into()).as_deref(), Some("\"1500ms\""));
        assert_eq!(meant("2 hours".into()).as_deref(), Some("\"2h\""));
        assert_eq!(meant(2.into()).as_deref(), Some("\"2s\" or \"2ms\""));
        assert_eq!(meant((-2).into()), None);
        assert_eq!(meant("soon".into()), None);
        assert_eq!(meant("s".into()), None);
        assert_eq!(meant("".into()), None);
    }

    #[test]
    fn the_bounds_belong_to_the_range_and_overflow_is_outside() {
        type Short = Time<10, SECOND>;
        assert!(Short::read(&"10ms".into()).is_ok());
        assert!(Short::read(&"1s".into()).is_ok());
        assert!(Short::read(&"9ms".into()).is_err());
        assert!(Short::read(&"1001ms".into()).is_err());
        assert!(Any::read(&"18446744073709551615d".into()).is_err());
    }
}
