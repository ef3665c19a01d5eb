//! The values of `--vary`: lists and ranges, of numbers with units too.

use config::scenario::Value;
use std::str::FromStr;

/// Largest number of values: a range with more is a mistake.
const VALUES_MAX: usize = 1000;

/// The argument of `--vary`.
#[derive(Clone)]
pub(super) struct Vary {
    pub(super) key: String,
    /// The values as written.
    pub(super) written: String,
    /// The values, at least one.
    pub(super) values: Vec<Value>,
}

impl FromStr for Vary {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (key, written) = text.split_once('=').ok_or("expected KEY=VALUES")?;
        let mut values = Vec::new();
        for item in items(written) {
            match range(item) {
                Some(range) => values.extend(range?),
                None => values.push(Value::read(item)?),
            }
        }
        Ok(Self { key: key.trim().to_owned(), written: written.to_owned(), values })
    }
}

/// Splits a list at its commas, except those within quotes and brackets.
fn items(list: &str) -> Vec<&str> {
    let (mut quote, mut depth) = (None, 0_usize);
    let is_comma = |c: char| {
        match (quote, c) {
            (Some(open), _) if c == open => quote = None,
            (None, '"' | '\'') => quote = Some(c),
            (None, '[' | '{') => depth += 1,
            (None, ']' | '}') => depth = depth.saturating_sub(1),
            (None, ',') => return depth == 0,
            _ => {}
        }
        false
    };
    list.split(is_comma).collect()
}

/// The values of `FROM..TO/STEP`, both ends included; `None` if `item` is no range.
fn range(item: &str) -> Option<Result<Vec<Value>, String>> {
    if item.trim_start().starts_with(['"', '\'', '[', '{']) {
        return None;
    }
    let (from, rest) = item.split_once("..")?;
    let wrong = |problem: &str| Some(Err(format!("{item}: {problem}")));
    let Some((to, step)) = rest.split_once('/') else { return wrong("expected FROM..TO/STEP") };
    let (Some(from), Some(to), Some(step)) = (Amount::read(from), Amount::read(to), Amount::read(step))
    else {
        return wrong("expected numbers, each with the same unit or none: 100..500/50, 10ms..50ms/10ms");
    };
    if from.unit != to.unit || to.unit != step.unit {
        return wrong("expected the same unit three times: 10ms..50ms/10ms");
    }
    let places = from.places.max(to.places).max(step.places);
    let [Some(first), Some(last), Some(step)] = [&from, &to, &step].map(|amount| amount.units(places)) else {
        return wrong("expected shorter numbers");
    };
    if step <= 0 || last < first {
        return wrong("expected a step above zero that leads upwards");
    }
    if (last - first) % step != 0 {
        return wrong("expected a step that leads from one end to the other");
    }
    if (last - first) / step >= VALUES_MAX as i64 {
        return Some(Err(format!("{item}: expected at most {VALUES_MAX} values")));
    }
    let values =
        (0..=(last - first) / step).map(|at| Value::read(&shown(first + at * step, places, from.unit)));
    Some(values.collect())
}

/// A decimal number and its unit, without rounding.
struct Amount<'t> {
    digits: i64,
    /// Digits after the point.
    places: u32,
    unit: &'t str,
}

impl<'t> Amount<'t> {
    fn read(text: &'t str) -> Option<Self> {
        let text = text.trim();
        let is_number = |c: char| c.is_ascii_digit() || c == '.' || c == '-';
        let (number, unit) = text.split_at(text.find(|c| !is_number(c)).unwrap_or(text.len()));
        let (_, fraction) = number.split_once('.').unwrap_or((number, ""));
        let is_unit = unit == "%" || unit.bytes().all(|byte| byte.is_ascii_alphabetic());
        let digits = number.replacen('.', "", 1).parse().ok()?;
        is_unit.then_some(Self { digits, places: fraction.len() as u32, unit })
    }

    /// The number as a whole number of units of 10^-`places`; `None` if it is too long.
    fn units(&self, places: u32) -> Option<i64> {
        // Keeps differences and sums in range.
        const MOST: i64 = i64::MAX / 4;
        let units = self.digits.checked_mul(10_i64.checked_pow(places - self.places)?)?;
        (-MOST..MOST).contains(&units).then_some(units)
    }
}

/// Text of a number that is given in units of 10^-`places`, with its unit.
fn shown(units: i64, places: u32, unit: &str) -> String {
    if places == 0 {
        return format!("{units}{unit}");
    }
    let (sign, one) = (if units < 0 { "-" } else { "" }, 10_u64.pow(places));
    let (whole, part) = (units.unsigned_abs() / one, units.unsigned_abs() % one);
    format!("{sign}{whole}.{part:0width$}{unit}", width = places as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(written: &str) -> Vec<String> {
        let vary: Vary = format!("a.b={written}").parse().unwrap();
        assert_eq!((&*vary.key, &*vary.written), ("a.b", written));
        vary.values.iter().map(Value::toml).collect()
    }

    fn refusal(text: &str) -> String {
        text.parse::<Vary>().err().unwrap_or_else(|| panic!("{text} is accepted"))
    }

    #[test]
    fn a_list_has_values_of_any_kind() {
        assert_eq!(values("100,200, 300"), ["100", "200", "300"]);
        assert_eq!(
            values("none,\"delay\",5%,10ms,true"),
            ["\"none\"", "\"delay\"", "\"5%\"", "\"10ms\"", "true"]
        );
        assert_eq!(values("\"normal:60s,30s\",exp:100s"), ["\"normal:60s,30s\"", "\"exp:100s\""]);
        assert_eq!(values("[160, 80],160"), ["[160, 80]", "160"]);
        assert_eq!(values("{ a = [1, 2], b = '}' },{ a = 'x' }").len(), 2);
        assert_eq!(values("a=b"), ["\"a=b\""]);
    }

    #[test]
    fn a_range_has_both_ends_and_exact_steps() {
        assert_eq!(values("100..250/50"), ["100", "150", "200", "250"]);
        assert_eq!(values("0.1..0.4/0.1"), ["0.1", "0.2", "0.3", "0.4"]);
        assert_eq!(values("0..1/0.25"), ["0.0", "0.25", "0.5", "0.75", "1.0"]);
        assert_eq!(values("-1.5..0.5/1"), ["-1.5", "-0.5", "0.5"]);
        assert_eq!(values("0%..10%/5%"), ["\"0%\"", "\"5%\"", "\"10%\""]);
        assert_eq!(values("10ms .. 30ms / 10ms"), ["\"10ms\"", "\"20ms\"", "\"30ms\""]);
        assert_eq!(values("3..3/1"), ["3"]);
        // Among other values.
        assert_eq!(values("1..2/1,5,10..30/10"), ["1", "2", "5", "10", "20", "30"]);
        assert_eq!(values("1..1000/1").len(), VALUES_MAX);
    }

    #[test]
    fn invalid_lists_and_ranges_are_refused() {
        for text in ["calls.main.rate", "a=", "a=1,,2", "a=1,", "a=[1", "a=\"1,2"] {
            assert!(!refusal(text).is_empty());
        }
        let refused = [
            ("1..5", "FROM..TO/STEP"),
            ("1..x/1", "expected numbers"),
            ("1..5/", "expected numbers"),
            ("1.2.3..5/1", "expected numbers"),
            ("10ms..1s/10ms", "same unit"),
            ("10..50/10ms", "same unit"),
            ("5..1/1", "upwards"),
            ("1..5/0", "upwards"),
            ("1..5/-1", "upwards"),
            ("100..480/50", "from one end to the other"),
            ("0..1000/1", "at most 1000"),
            ("0..9000000000000000000/1", "shorter"),
            ("0..9000000000000000000/0.00001", "shorter"),
            ("0..1/0.0000000000000000000000001", "shorter"),
        ];
        for (text, remedy) in refused {
            let error = refusal(&format!("a={text}"));
            assert!(error.contains(remedy) && error.starts_with(text), "{error}");
        }
    }
}
