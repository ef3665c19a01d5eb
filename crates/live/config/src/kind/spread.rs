//! Distributions of times, in the notation of `sarabande load --hold`.

use std::time::Duration;

use serde_json::json;

use super::duration::{likely_millis, millis};
use super::{Kind, Leaf, Refusal, Schema, Written, quoted, show};
use load::RandomTime;

/// Name of the constant distribution, which may be left out.
const FIXED: &str = "fixed";

/// A distribution whose times are up to `MAX` milliseconds.
#[derive(Debug, Clone)]
pub(crate) struct Times<const MAX: u64>;

impl<const MAX: u64> Kind for Times<MAX> {
    type Value = RandomTime;

    fn read(leaf: &Leaf) -> Result<RandomTime, Refusal> {
        let refusal = Refusal::new(format!(
            "expected a duration up to {max}, such as \"100s\", or \"exp:100s\" (exponential with this mean) or \
             \"normal:60s,30s\" (mean, standard deviation)",
            max = show(Duration::from_millis(MAX))
        ));
        let legal = |millis: u64| (millis <= MAX).then(|| Duration::from_millis(millis));
        let Leaf::Text(text) = leaf else { return Err(refusal) };
        let (law, times) = text.split_once(':').unwrap_or((FIXED, text));
        if let Some(spread) = spread(law, times, |time| millis(time).and_then(legal)) {
            return Ok(spread);
        }
        let law = if law.starts_with("exp") { "exp" } else { law };
        let law = if law.starts_with("norm") { "normal" } else { law };
        let meant = spread(law, times, |time| likely_millis(time).and_then(legal));
        Err(refusal.meant(meant.map(|spread| quoted(&written(spread)))))
    }

    fn schema() -> Schema {
        json!({
            "title": "duration, \"exp:MEAN\" or \"normal:MEAN,DEVIATION\"",
            "type": "string",
            "pattern": "^((fixed:|exp:)?[0-9]+(ms|s|m|h|d)|normal:[0-9]+(ms|s|m|h|d),[0-9]+(ms|s|m|h|d))$",
        })
    }
}

impl<const MAX: u64> Written for Times<MAX> {
    fn written(value: RandomTime) -> Leaf {
        Leaf::Text(written(value))
    }
}

fn spread(law: &str, times: &str, time: impl Fn(&str) -> Option<Duration>) -> Option<RandomTime> {
    match law {
        FIXED => time(times).map(RandomTime::Fixed),
        "exp" => time(times).map(RandomTime::Exponential),
        "normal" => {
            let (mean, deviation) = times.split_once(',')?;
            Some(RandomTime::Normal(time(mean)?, time(deviation)?))
        }
        _ => None,
    }
}

fn written(spread: RandomTime) -> String {
    match spread {
        RandomTime::Fixed(time) => show(time),
        RandomTime::Exponential(mean) => format!("exp:{}", show(mean)),
        RandomTime::Normal(mean, deviation) => format!("normal:{},{}", show(mean), show(deviation)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Short = Times<1_000_000>;

    #[test]
    fn three_laws_are_read() {
        let second = Duration::from_secs(1);
        assert_eq!(Short::read(&"1s".into()), Ok(RandomTime::Fixed(second)));
        assert_eq!(Short::read(&"exp:1s".into()), Ok(RandomTime::Exponential(second)));
        assert_eq!(Short::read(&"normal:60s,1s".into()), Ok(RandomTime::Normal(60 * second, second)));
        for wrong in
            ["", "1", "exp:", ":1s", "normal:1s", "exp:1s,1s", "uniform:1s", "exp:1001s", "normal:1s,1001s"]
        {
            assert!(Short::read(&wrong.into()).is_err(), "{wrong}");
        }
    }

    #[test]
    fn nearly_valid_values_are_corrected() {
        let meant = |text: &str| Short::read(&text.into()).unwrap_err().meant;
        assert_eq!(meant("exponential:100 s").as_deref(), Some("\"exp:100s\""));
        assert_eq!(meant("normal:60s, 0.5s").as_deref(), Some("\"normal:1m,500ms\""));
        assert_eq!(meant("1.5s").as_deref(), Some("\"1500ms\""));
        assert_eq!(meant("uniform:1s"), None);
    }
}
