//! Distribution of holding times and ringing times.
use base::Rng;
use core::fmt;
use core::str::FromStr;
use core::time::Duration;
use rand_distr::{Distribution, Exp1, StandardNormal};

/// A distribution of times.
///
/// As text: `fixed:10s` or just `10s` (also `0s`: hang up at once), `exp:100s` (mean), `normal:60s,30s` (mean and
/// standard deviation). Units are `us`, `ms`, `s`, `m` and `h`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RandomTime {
    /// Constant.
    Fixed(Duration),
    /// Exponential with this mean.
    Exponential(Duration),
    /// Normal with mean and standard deviation, truncated at zero: a negative time is drawn again. The mean of the
    /// drawn times is therefore slightly above the given mean.
    Normal(Duration, Duration),
}

/// Error of parsing a [`RandomTime`]. Its message quotes the text and shows valid forms.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RandomTimeError(String);

impl fmt::Display for RandomTimeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` is not a time: write 10s, fixed:500ms, exp:100s or normal:60s,30s", self.0)
    }
}

impl core::error::Error for RandomTimeError {}

impl RandomTime {
    /// Draws a time.
    pub fn sample(self, rng: &mut Rng) -> Duration {
        let seconds = match self {
            Self::Fixed(time) => return time,
            Self::Exponential(mean) => mean.as_secs_f64() * Distribution::<f64>::sample(&Exp1, rng),
            Self::Normal(mean, deviation) => loop {
                let unit: f64 = StandardNormal.sample(rng);
                let seconds = mean.as_secs_f64() + deviation.as_secs_f64() * unit;
                if seconds >= 0.0 {
                    break seconds;
                }
            },
        };
        Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX)
    }
}

impl FromStr for RandomTime {
    type Err = RandomTimeError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let parsed = match text.split_once(':') {
            None => duration(text).map(Self::Fixed),
            Some(("fixed", time)) => duration(time).map(Self::Fixed),
            Some(("exp", mean)) => duration(mean).map(Self::Exponential),
            Some(("normal", both)) => both
                .split_once(',')
                .and_then(|(mean, deviation)| Some(Self::Normal(duration(mean)?, duration(deviation)?))),
            Some(_) => None,
        };
        parsed.ok_or_else(|| RandomTimeError(text.to_owned()))
    }
}

/// Parses a number with a unit, such as `1.5s`.
fn duration(text: &str) -> Option<Duration> {
    let text = text.trim();
    let unit_at = text.find(|c: char| c.is_ascii_alphabetic())?;
    let (number, unit) = text.split_at(unit_at);
    let scale = match unit {
        "us" => 1e-6,
        "ms" => 1e-3,
        "s" => 1.0,
        "m" => 60.0,
        "h" => 3600.0,
        _ => return None,
    };
    Duration::try_from_secs_f64(number.parse::<f64>().ok()? * scale).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns mean and standard deviation of drawn times, in seconds.
    fn moments(text: &str) -> (f64, f64) {
        let holding: RandomTime = text.parse().unwrap();
        let mut rng = Rng::from_seed(5);
        let drawn: Vec<_> = (0..100_000).map(|_| holding.sample(&mut rng).as_secs_f64()).collect();
        let mean = drawn.iter().sum::<f64>() / drawn.len() as f64;
        let variance = drawn.iter().map(|time| (time - mean).powi(2)).sum::<f64>() / drawn.len() as f64;
        (mean, variance.sqrt())
    }

    #[test]
    fn times_have_the_moments_that_were_asked_for() {
        assert_eq!(moments("fixed:250ms"), (0.25, 0.0));
        assert_eq!(moments("0s"), (0.0, 0.0));
        let (mean, deviation) = moments("exp:100s");
        assert!((mean - 100.0).abs() < 1.0 && (deviation - 100.0).abs() < 1.5, "{mean} {deviation}");
        let (mean, deviation) = moments("normal:60s,10s");
        assert!((mean - 60.0).abs() < 0.2 && (deviation - 10.0).abs() < 0.2, "{mean} {deviation}");
    }

    #[test]
    fn a_normal_is_cut_at_zero_not_folded() {
        // A normal around zero, truncated there, is a half-normal: mean sd * sqrt(2 / pi) = 0.798 sd.
        let (mean, _) = moments("normal:0s,10s");
        assert!((mean - 7.98).abs() < 0.1, "{mean}");
    }

    #[test]
    fn text_that_is_no_time_is_refused() {
        for text in ["", "10", "s", "exp:", "exp:-1s", "normal:60s", "uniform:1s", "fixed:1d", "1e300h"] {
            assert_eq!(text.parse::<RandomTime>(), Err(RandomTimeError(text.to_owned())));
        }
        assert_eq!("1.5m".parse(), Ok(RandomTime::Fixed(Duration::from_secs(90))));
    }
}
