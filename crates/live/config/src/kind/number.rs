//! Counts, ratios, sizes in bytes, and flags.

use serde_json::json;

use super::{Kind, Leaf, Refusal, Schema, Written, quoted};

/// A whole number from `MIN` to `MAX`.
#[derive(Debug, Clone)]
pub(crate) struct Count<const MIN: u32, const MAX: u32>;

impl<const MIN: u32, const MAX: u32> Kind for Count<MIN, MAX> {
    type Value = u32;

    fn read(leaf: &Leaf) -> Result<u32, Refusal> {
        let legal = |number: i64| u32::try_from(number).ok().filter(|n| (MIN..=MAX).contains(n));
        let refusal = Refusal::new(format!("expected a whole number from {MIN} to {MAX}"));
        match leaf {
            Leaf::Integer(number) => legal(*number).ok_or(refusal),
            Leaf::Text(text) => {
                Err(refusal.meant(text.trim().parse().ok().and_then(legal).map(|n| n.to_string())))
            }
            _ => Err(refusal),
        }
    }

    fn schema() -> Schema {
        json!({
            "title": format!("whole number, {MIN} to {MAX}"),
            "type": "integer",
            "minimum": MIN,
            "maximum": MAX,
        })
    }
}

impl<const MIN: u32, const MAX: u32> Written for Count<MIN, MAX> {
    fn written(value: u32) -> Leaf {
        Leaf::Integer(value.into())
    }
}

/// A relative capacity or weight.
#[derive(Debug, Clone)]
pub(crate) struct Ratio;

/// Smallest and largest ratio. A value further from 1 is a mistake, and within six orders of magnitude quotients of
/// doubles are exact enough.
const RATIO_MIN: f64 = 0.001;
const RATIO_MAX: f64 = 1_000_000.0;

impl Kind for Ratio {
    type Value = f64;

    fn read(leaf: &Leaf) -> Result<f64, Refusal> {
        let refusal = Refusal::new(format!("expected a number from {RATIO_MIN} to {RATIO_MAX}"));
        decimal(leaf, RATIO_MIN, RATIO_MAX, refusal)
    }

    fn schema() -> Schema {
        json!({
            "title": format!("number, {RATIO_MIN} to {RATIO_MAX}"),
            "type": "number",
            "minimum": RATIO_MIN,
            "maximum": RATIO_MAX,
        })
    }
}

impl Written for Ratio {
    fn written(value: f64) -> Leaf {
        number(value)
    }
}

/// Without a decimal point if it is whole.
pub(super) fn number(value: f64) -> Leaf {
    if value.fract() == 0.0 { Leaf::Integer(value as i64) } else { Leaf::Float(value) }
}

/// A number from `min` to `max`, whole or not. Text is offered without its quotes.
pub(super) fn decimal(leaf: &Leaf, min: f64, max: f64, refusal: Refusal) -> Result<f64, Refusal> {
    let legal = |number: &f64| (min..=max).contains(number);
    match leaf {
        Leaf::Integer(number) => Some(*number as f64).filter(legal).ok_or(refusal),
        Leaf::Float(number) => Some(*number).filter(legal).ok_or(refusal),
        Leaf::Text(text) => {
            Err(refusal.meant(text.trim().parse().ok().filter(legal).map(|n: f64| n.to_string())))
        }
        _ => Err(refusal),
    }
}

/// A number of bytes from `MIN` to `MAX`.
#[derive(Debug, Clone)]
pub(crate) struct Size<const MIN: u64, const MAX: u64>;

pub(crate) const KIB: u64 = 1 << 10;
pub(crate) const MIB: u64 = 1 << 20;
pub(crate) const GIB: u64 = 1 << 30;

const UNITS: [(&str, u64); 3] = [("GiB", GIB), ("MiB", MIB), ("KiB", KIB)];

impl<const MIN: u64, const MAX: u64> Kind for Size<MIN, MAX> {
    type Value = usize;

    fn read(leaf: &Leaf) -> Result<usize, Refusal> {
        let legal = |bytes: &u64| (MIN..=MAX).contains(bytes);
        let refusal = Refusal::new(format!(
            "expected a size from {} to {}: bytes, or text such as \"256KiB\" or \"4MiB\"",
            in_units(MIN),
            in_units(MAX)
        ));
        let bytes = match leaf {
            Leaf::Integer(bytes) => u64::try_from(*bytes).ok(),
            Leaf::Text(text) => match bytes(text) {
                None => return Err(refusal.meant(repair(text, legal))),
                bytes => bytes,
            },
            _ => None,
        };
        bytes.filter(legal).map(|bytes| bytes as usize).ok_or(refusal)
    }

    fn schema() -> Schema {
        json!({
            "title": format!("size, {} to {}", in_units(MIN), in_units(MAX)),
            "type": ["string", "integer"],
            "pattern": "^[0-9]+(KiB|MiB|GiB)$",
            "minimum": MIN,
            "maximum": MAX,
        })
    }
}

impl<const MIN: u64, const MAX: u64> Written for Size<MIN, MAX> {
    fn written(value: usize) -> Leaf {
        Leaf::Text(in_units(value as u64))
    }
}

fn bytes(text: &str) -> Option<u64> {
    let (number, unit) =
        UNITS.iter().find_map(|(name, unit)| text.strip_suffix(name).map(|number| (number, *unit)))?;
    if !number.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    number.parse::<u64>().ok()?.checked_mul(unit)
}

/// The size in the largest unit that gives a whole number.
fn in_units(bytes: u64) -> String {
    let unit = UNITS.iter().find(|(_, unit)| bytes.is_multiple_of(*unit));
    unit.map_or_else(|| bytes.to_string(), |(name, unit)| format!("{}{name}", bytes / unit))
}

/// "4 MB", "4m", "4mib": all mean "4MiB".
fn repair(text: &str, legal: impl Fn(&u64) -> bool) -> Option<String> {
    let text = text.to_lowercase().replace(' ', "");
    let digits = text.find(|c: char| !c.is_ascii_digit())?;
    let (number, unit) = text.split_at(digits);
    let unit = match unit {
        "k" | "kb" | "kib" => "KiB",
        "m" | "mb" | "mib" => "MiB",
        "g" | "gb" | "gib" => "GiB",
        _ => return None,
    };
    let guess = format!("{number}{unit}");
    bytes(&guess).filter(legal).map(|_| quoted(&guess))
}

/// true or false.
#[derive(Debug, Clone)]
pub(crate) struct Flag;

impl Kind for Flag {
    type Value = bool;

    fn read(leaf: &Leaf) -> Result<bool, Refusal> {
        let meant = match leaf {
            Leaf::Flag(flag) => return Ok(*flag),
            Leaf::Text(text) => match text.to_lowercase().as_str() {
                "true" | "yes" | "on" | "1" => Some(true),
                "false" | "no" | "off" | "0" => Some(false),
                _ => None,
            },
            Leaf::Integer(number @ 0..=1) => Some(*number == 1),
            _ => None,
        };
        Err(Refusal::new("expected true or false").meant(meant.map(|flag| flag.to_string())))
    }

    fn schema() -> Schema {
        json!({ "title": "true or false", "type": "boolean" })
    }
}

impl Written for Flag {
    fn written(value: bool) -> Leaf {
        Leaf::Flag(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Buffer = Size<{ 64 * KIB }, { 1023 * MIB }>;

    #[test]
    fn sizes_have_three_units_and_no_others() {
        assert_eq!(Buffer::read(&"4MiB".into()), Ok(4 << 20));
        assert_eq!(Buffer::read(&"64KiB".into()), Ok(65_536));
        assert_eq!(Buffer::read(&65_536.into()), Ok(65_536));
        assert!(Buffer::read(&65_535.into()).is_err());
        assert!(Buffer::read(&"1024MiB".into()).is_err());
        assert!(Buffer::read(&"+4MiB".into()).is_err());
        assert!(Buffer::read(&"MiB".into()).is_err());
        assert_eq!(Buffer::read(&"4 MB".into()).unwrap_err().meant.as_deref(), Some("\"4MiB\""));
    }

    #[test]
    fn ratios_are_finite_and_positive() {
        assert_eq!(Ratio::read(&2.into()), Ok(2.0));
        assert_eq!(Ratio::read(&0.001.into()), Ok(0.001));
        for wrong in [0.0, -0.0, -1.0, f64::NAN, f64::INFINITY, f64::MIN_POSITIVE] {
            assert!(Ratio::read(&wrong.into()).is_err(), "{wrong}");
        }
    }

    #[test]
    fn counts_keep_their_bounds() {
        type Small = Count<1, 9>;
        assert_eq!(Small::read(&1.into()), Ok(1));
        assert_eq!(Small::read(&9.into()), Ok(9));
        for wrong in [0, 10, -1, i64::MAX] {
            assert!(Small::read(&wrong.into()).is_err(), "{wrong}");
        }
        assert_eq!(Small::read(&"3".into()).unwrap_err().meant.as_deref(), Some("3"));
    }
}
