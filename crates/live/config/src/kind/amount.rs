//! Amounts of scenarios and topologies: call rates, capacities, shares, seeds and names.

use serde_json::json;

use super::number::{decimal, number};
use super::{Kind, Leaf, Refusal, Schema, Written, quoted};
use crate::nearest::nearest;

/// Largest rate and capacity, in calls or messages a second: more than any host carries, so a larger one is a mistake.
const RATE_MAX: f64 = 1_000_000.0;

/// Calls a second, at least `MIN` thousandths.
#[derive(Debug, Clone)]
pub(crate) struct CallRate<const MIN: u32>;

impl<const MIN: u32> CallRate<MIN> {
    fn least() -> f64 {
        f64::from(MIN) / 1000.0
    }
}

impl<const MIN: u32> Kind for CallRate<MIN> {
    type Value = f64;

    fn read(leaf: &Leaf) -> Result<f64, Refusal> {
        read_rate(leaf, "calls", Self::least())
    }

    fn schema() -> Schema {
        rate_schema("calls", Self::least())
    }
}

impl<const MIN: u32> Written for CallRate<MIN> {
    fn written(value: f64) -> Leaf {
        number(value)
    }
}

/// Messages a second.
#[derive(Debug, Clone)]
pub(crate) struct MessageRate;

impl MessageRate {
    const LEAST: f64 = 0.001;
}

impl Kind for MessageRate {
    type Value = f64;

    fn read(leaf: &Leaf) -> Result<f64, Refusal> {
        read_rate(leaf, "messages", Self::LEAST)
    }

    fn schema() -> Schema {
        rate_schema("messages", Self::LEAST)
    }
}

/// A rate a second of the things that `of` names.
fn read_rate(leaf: &Leaf, of: &str, least: f64) -> Result<f64, Refusal> {
    let expected = format!("expected {of} a second, a number from {least} to {RATE_MAX}");
    decimal(leaf, least, RATE_MAX, Refusal::new(expected))
}

fn rate_schema(of: &str, least: f64) -> Schema {
    json!({
        "title": format!("{of}/s, {least} to {RATE_MAX}"),
        "type": "number",
        "minimum": least,
        "maximum": RATE_MAX,
    })
}

/// Calls a second that a host carries; `None` for a host whose work takes no time.
#[derive(Debug, Clone)]
pub(crate) struct Capacity;

const UNLIMITED: &str = "unlimited";

impl Kind for Capacity {
    type Value = Option<f64>;

    fn read(leaf: &Leaf) -> Result<Option<f64>, Refusal> {
        let expected = "expected calls a second, a number from 0.001 to 1000000, or \"unlimited\"";
        match leaf {
            Leaf::Text(text) if text == UNLIMITED => Ok(None),
            Leaf::Text(text) if nearest(text, [UNLIMITED]).is_some() => {
                Err(Refusal::new(expected).meant(quoted(UNLIMITED)))
            }
            _ => decimal(leaf, CallRate::<1>::least(), RATE_MAX, Refusal::new(expected)).map(Some),
        }
    }

    fn schema() -> Schema {
        json!({
            "title": "calls/s, 0.001 to 1000000, or \"unlimited\"",
            "anyOf": [CallRate::<1>::schema(), { "const": UNLIMITED }],
        })
    }
}

/// A share from `MIN` to `MAX` thousandths, as a number or in percent.
#[derive(Debug, Clone)]
pub(crate) struct Share<const MIN: u32, const MAX: u32>;

impl<const MIN: u32, const MAX: u32> Kind for Share<MIN, MAX> {
    type Value = f64;

    fn read(leaf: &Leaf) -> Result<f64, Refusal> {
        let (min, max) = (f64::from(MIN) / 1000.0, f64::from(MAX) / 1000.0);
        let refusal =
            Refusal::new(format!("expected a share from {min} to {max}: a number such as 0.05, or \"5%\""));
        let legal = |share: &f64| (min..=max).contains(share);
        let percent = |text: &str| text.trim().parse().ok().map(|percent: f64| percent / 100.0).filter(legal);
        match leaf {
            Leaf::Text(text) => match text.strip_suffix('%') {
                Some(number) => percent(number).ok_or(refusal),
                None => decimal(leaf, min, max, refusal),
            },
            // A whole number such as 5 probably means 5 %.
            Leaf::Integer(number @ 2..) => {
                Err(refusal.meant(percent(&number.to_string()).map(|_| quoted(&format!("{number}%")))))
            }
            _ => decimal(leaf, min, max, refusal),
        }
    }

    fn schema() -> Schema {
        let (min, max) = (f64::from(MIN) / 1000.0, f64::from(MAX) / 1000.0);
        json!({
            "title": format!("share, {min} to {max}, or in percent such as \"5%\""),
            "type": ["number", "string"],
            "minimum": min,
            "maximum": max,
            "pattern": "^[0-9]+([.][0-9]+)?%$",
        })
    }
}

impl<const MIN: u32, const MAX: u32> Written for Share<MIN, MAX> {
    fn written(value: f64) -> Leaf {
        number(value)
    }
}

/// Seed of random numbers.
#[derive(Debug, Clone)]
pub(crate) struct Seed;

impl Kind for Seed {
    type Value = u64;

    fn read(leaf: &Leaf) -> Result<u64, Refusal> {
        let refusal = || Refusal::new(format!("expected a whole number from 0 to {}", i64::MAX));
        match leaf {
            Leaf::Integer(number) => u64::try_from(*number).map_err(|_| refusal()),
            _ => Err(refusal()),
        }
    }

    fn schema() -> Schema {
        json!({ "title": "whole number, not negative", "type": "integer", "minimum": 0 })
    }
}

impl Written for Seed {
    fn written(value: u64) -> Leaf {
        Leaf::Integer(value as i64)
    }
}

/// Non-empty text.
#[derive(Debug, Clone)]
pub(crate) struct Title;

/// Name of a group of hosts, or of one host. Its existence is checked later.
#[derive(Debug, Clone)]
pub(crate) struct HostName;

/// Name of a node of a topology. Its existence is checked later.
#[derive(Debug, Clone)]
pub(crate) struct NodeName;

impl Kind for NodeName {
    type Value = String;

    fn read(leaf: &Leaf) -> Result<String, Refusal> {
        words(leaf, "expected the name of a node, as in [node.<name>]")
    }

    fn schema() -> Schema {
        json!({ "title": "name of a node", "type": "string", "minLength": 1 })
    }
}

impl Kind for Title {
    type Value = String;

    fn read(leaf: &Leaf) -> Result<String, Refusal> {
        words(leaf, "expected text that is not empty")
    }

    fn schema() -> Schema {
        json!({ "title": "text", "type": "string", "minLength": 1 })
    }
}

impl Kind for HostName {
    type Value = String;

    fn read(leaf: &Leaf) -> Result<String, Refusal> {
        words(leaf, "expected the name of hosts, as in [host.<name>]")
    }

    fn schema() -> Schema {
        json!({ "title": "name of hosts", "type": "string", "minLength": 1 })
    }
}

fn words(leaf: &Leaf, expected: &str) -> Result<String, Refusal> {
    match leaf {
        Leaf::Text(text) if !text.is_empty() => Ok(text.clone()),
        _ => Err(Refusal::new(expected)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_a_number_or_percent() {
        type Loss = Share<0, 1000>;
        assert_eq!(Loss::read(&0.05.into()), Ok(0.05));
        assert_eq!(Loss::read(&"5%".into()), Ok(0.05));
        assert_eq!(Loss::read(&1.into()), Ok(1.0));
        assert_eq!(Loss::read(&5.into()).unwrap_err().meant.as_deref(), Some("\"5%\""));
        for wrong in ["5", "101%", "-1%", "%", "nan%", "0.5 %%"] {
            assert!(Loss::read(&wrong.into()).is_err(), "{wrong}");
        }
        assert!(Share::<0, 990>::read(&"99.5%".into()).is_err());
    }

    #[test]
    fn a_host_can_be_free_of_cost() {
        assert_eq!(Capacity::read(&160.into()), Ok(Some(160.0)));
        assert_eq!(Capacity::read(&"unlimited".into()), Ok(None));
        assert_eq!(Capacity::read(&"Unlimitted".into()).unwrap_err().meant.as_deref(), Some("\"unlimited\""));
        assert_eq!(Capacity::read(&"160".into()).unwrap_err().meant.as_deref(), Some("160"));
        assert!(Capacity::read(&0.into()).is_err());
    }

    #[test]
    fn a_rate_may_be_zero_if_its_bound_allows_it() {
        assert_eq!(CallRate::<0>::read(&0.into()), Ok(0.0));
        assert!(CallRate::<1>::read(&0.into()).is_err());
        assert!(CallRate::<0>::read(&f64::NAN.into()).is_err());
    }
}
