//! Durations: a whole number and its unit.

use std::time::Duration;

use serde_json::json;

use super::{Kind, Leaf, Refusal, Schema, Written, quoted};

/// Milliseconds in a second.
pub(crate) const SECOND: u64 = 1_000;
/// Milliseconds in a minute.
pub(crate) const MINUTE: u64 = 60 * SECOND;
/// Milliseconds in an hour.
pub(crate) const HOUR: u64 = 60 * MINUTE;
/// Milliseconds in a day.
pub(crate) const DAY: u64 = 24 * HOUR;
/// Milliseconds in a year: the longest duration of any key. It fits in 64 bits of nanoseconds.
pub(crate) const YEAR: u64 = 365 * DAY;

/// Units and their lengths in the unit of the count, the longest first.
type Units = [(&'static str, u64)];

/// Units of [`Time`], counted in milliseconds.
const COARSE: &Units = &[("d", DAY), ("h", HOUR), ("m", MINUTE), ("s", SECOND), ("ms", 1)];

/// Units of [`Fine`], counted in nanoseconds.
const FINE: &Units = &[("s", 1_000_000_000), ("ms", 1_000_000), ("us", 1_000), ("ns", 1)];

/// A duration from `MIN` to `MAX`, both in milliseconds.
#[derive(Debug, Clone)]
pub(crate) struct Time<const MIN: u64, const MAX: u64>;

/// A short duration up to `MAX` nanoseconds.
#[derive(Debug, Clone)]
pub(crate) struct Fine<const MAX: u64>;

impl<const MIN: u64, const MAX: u64> Kind for Time<MIN, MAX> {
    type Value = Duration;

    fn read(leaf: &Leaf) -> Result<Duration, Refusal> {
        let expected = format!(
            "expected a duration from {} to {}: a whole number and a unit (ms, s, m, h, d), such as \"30s\"",
            written(MIN, COARSE),
            written(MAX, COARSE)
        );
        read(leaf, COARSE, MIN, MAX, &["s", "ms"])
            .map(Duration::from_millis)
            .map_err(|meant| Refusal::new(expected).meant(meant))
    }

    fn schema() -> Schema {
        json!({
            "title": format!("duration, {} to {}", written(MIN, COARSE), written(MAX, COARSE)),
            "type": "string",
            "pattern": "^[0-9]+(ms|s|m|h|d)$",
        })
    }
}

impl<const MAX: u64> Kind for Fine<MAX> {
    type Value = Duration;

    fn read(leaf: &Leaf) -> Result<Duration, Refusal> {
        let expected = format!(
            "expected a duration from 0s to {}: a whole number and a unit (ns, us, ms, s), such as \"500us\"",
            written(MAX, FINE)
        );
        read(leaf, FINE, 0, MAX, &["ms", "us"])
            .map(Duration::from_nanos)
            .map_err(|meant| Refusal::new(expected).meant(meant))
    }

    fn schema() -> Schema {
        json!({
            "title": format!("short duration, 0s to {}", written(MAX, FINE)),
            "type": "string",
            "pattern": "^[0-9]+(ns|us|ms|s)$",
        })
    }
}

impl<const MIN: u64, const MAX: u64> Written for Time<MIN, MAX> {
    fn written(value: Duration) -> Leaf {
        Leaf::Text(show(value))
    }
}

impl<const MAX: u64> Written for Fine<MAX> {
    fn written(value: Duration) -> Leaf {
        Leaf::Text(written(value.as_nanos() as u64, FINE))
    }
}

/// Returns the count, or the value that was most likely meant.
fn read(leaf: &Leaf, units: &Units, min: u64, max: u64, likely: &[&str]) -> Result<u64, Option<String>> {
    let legal = |count: &u64| (min..=max).contains(count);
    match leaf {
        Leaf::Text(text) => match parse(text, units) {
            Some(count) if legal(&count) => Ok(count),
            Some(_) => Err(None),
            None => Err(repair(text, units).filter(legal).map(|count| quoted(&written(count, units)))),
        },
        // The unit cannot be guessed, so both likely ones are offered.
        Leaf::Integer(number) => {
            let guesses: Vec<_> = likely
                .iter()
                .map(|unit| format!("{number}{unit}"))
                .filter(|guess| parse(guess, units).as_ref().is_some_and(legal))
                .map(|guess| quoted(&guess))
                .collect();
            Err((!guesses.is_empty()).then(|| guesses.join(" or ")))
        }
        _ => Err(None),
    }
}

/// Milliseconds of well-formed text.
pub(super) fn millis(text: &str) -> Option<u64> {
    parse(text, COARSE)
}

/// Milliseconds that malformed text most likely means.
pub(super) fn likely_millis(text: &str) -> Option<u64> {
    repair(text, COARSE)
}

fn parse(text: &str, units: &Units) -> Option<u64> {
    let digits = text.find(|c: char| !c.is_ascii_digit())?;
    let (number, unit) = text.split_at(digits);
    let (_, length) = units.iter().find(|(name, _)| *name == unit)?;
    number.parse::<u64>().ok()?.checked_mul(*length)
}

/// The count that malformed text most likely means: with fractions, spaces, or units written out.
fn repair(text: &str, units: &Units) -> Option<u64> {
    let text = text.to_lowercase().replace([' ', '_'], "");
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.')?;
    let (number, unit) = text.split_at(digits);
    let unit = match unit {
        "d" | "day" | "days" => "d",
        "h" | "hr" | "hrs" | "hour" | "hours" => "h",
        "m" | "min" | "mins" | "minute" | "minutes" => "m",
        "s" | "sec" | "secs" | "second" | "seconds" => "s",
        "ms" | "msec" | "msecs" | "millis" | "millisecond" | "milliseconds" => "ms",
        "us" | "µs" | "usec" | "usecs" | "micros" | "microsecond" | "microseconds" => "us",
        "ns" | "nsec" | "nsecs" | "nanos" | "nanosecond" | "nanoseconds" => "ns",
        _ => return None,
    };
    let (_, length) = units.iter().find(|(name, _)| *name == unit)?;
    let count = number.parse::<f64>().ok()? * *length as f64;
    // A decimal fraction is rarely exact in binary: 0.16666 of a million is not quite 166660.
    let whole = count.round();
    ((count - whole).abs() <= whole * 1e-12).then_some(whole as u64)
}

/// A duration of whole milliseconds in the notation of the file, in the longest exact unit.
pub(crate) fn show(duration: Duration) -> String {
    written(duration.as_millis() as u64, COARSE)
}

fn written(count: u64, units: &Units) -> String {
    if count == 0 {
        return "0s".to_owned();
    }
    let (unit, length) =
        units.iter().find(|(_, length)| count.is_multiple_of(*length)).expect("the last unit has length 1");
    format!("{}{unit}", count / length)
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
    fn the_intended_value_is_suggested() {
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

    #[test]
    fn short_durations_reach_down_to_nanoseconds() {
        type Short = Fine<1_000_000_000>;
        assert_eq!(Short::read(&"166660ns".into()), Ok(Duration::from_nanos(166_660)));
        assert_eq!(Short::read(&"500us".into()), Ok(Duration::from_micros(500)));
        assert!(Short::read(&"1001ms".into()).is_err());
        let meant = |text: &str| Short::read(&text.into()).unwrap_err().meant;
        assert_eq!(meant("0.16666ms").as_deref(), Some("\"166660ns\""));
        assert_eq!(meant("5 µs").as_deref(), Some("\"5us\""));
        assert_eq!(meant("0.1ns"), None);
    }
}
