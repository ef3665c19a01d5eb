//! Compares the duration of calls with the length of a run. The rate of completed calls reaches the offered rate only
//! after the first calls have ended.

use config::scenario::{RunSettings, Scenario, Stream};
use core::time::Duration;
use load::RandomTime;
use serde::{Serialize, Serializer};

/// Minimum share of the offered calls for a remark.
const SHARE_MIN: f64 = 0.05;

/// A stream whose calls last too long for the run to complete them.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Unfinished {
    /// Name of the stream.
    pub stream: String,
    /// Share of the calls offered after the warm-up that is missing among the completed ones, even without any loss.
    pub share: f64,
    /// Mean time from INVITE to BYE in seconds, without delays.
    #[serde(serialize_with = "seconds", rename = "lifetime_seconds")]
    pub lifetime: Duration,
}

fn seconds<S: Serializer>(time: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(time.as_secs_f64())
}

/// Returns the streams that need a remark.
pub(super) fn unfinished(scenario: &Scenario) -> Vec<Unfinished> {
    let of = |stream: &Stream| Unfinished {
        stream: stream.name.clone(),
        share: share(stream, &scenario.run),
        lifetime: stream.ring + stream.answer + mean(stream.holding),
    };
    scenario.streams.iter().map(of).filter(|stream| stream.share >= SHARE_MIN).collect()
}

/// Share of missing completions. At t after the start, a call that was offered x ago is still in progress with
/// probability S(x), for x up to t. With a steady load, the rate of completed calls at t lacks S(t) of the offered
/// rate. The result is the mean of S over the counted time.
fn share(stream: &Stream, run: &RunSettings) -> f64 {
    let before = stream.ring + stream.answer;
    let [from, to] = [run.warm_up, run.duration].map(|at| at.saturating_sub(before).as_secs_f64());
    let counted = run.duration.saturating_sub(run.warm_up).as_secs_f64();
    // Calls do not end before they are answered.
    let early = before.saturating_sub(run.warm_up).as_secs_f64().min(counted);
    (early + left(stream.holding, from, to)) / counted
}

/// Integral over t of the probability that a call lasts longer than t.
fn left(holding: RandomTime, from: f64, to: f64) -> f64 {
    match holding {
        RandomTime::Fixed(time) => (to.min(time.as_secs_f64()) - from).max(0.0),
        RandomTime::Exponential(mean) => {
            let mean = mean.as_secs_f64();
            if mean > 0.0 { mean * ((-from / mean).exp() - (-to / mean).exp()) } else { 0.0 }
        }
        // Approximated by the uniform distribution of the same mean and deviation, which is exact enough for a remark.
        RandomTime::Normal(mean, deviation) => {
            let (mean, half) = (mean.as_secs_f64(), 3_f64.sqrt() * deviation.as_secs_f64());
            let (low, high) = ((mean - half).max(0.0), mean + half);
            let sure = (to.min(low) - from).max(0.0);
            let (begin, end) = (from.clamp(low, high), to.clamp(low, high));
            let falling = if high > low {
                ((high - begin).powi(2) - (high - end).powi(2)) / (2.0 * (high - low))
            } else {
                0.0
            };
            sure + falling
        }
    }
}

fn mean(holding: RandomTime) -> Duration {
    match holding {
        RandomTime::Fixed(mean) | RandomTime::Exponential(mean) | RandomTime::Normal(mean, _) => mean,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(found: f64, expected: f64) {
        assert!((found - expected).abs() < 1e-9, "{found} is not {expected}");
    }

    #[test]
    fn what_is_left_is_the_integral_of_the_survival_function() {
        let s = Duration::from_secs;
        near(left(RandomTime::Fixed(s(60)), 10.0, 100.0), 50.0);
        near(left(RandomTime::Fixed(s(60)), 10.0, 40.0), 30.0);
        near(left(RandomTime::Fixed(s(60)), 70.0, 100.0), 0.0);
        near(left(RandomTime::Exponential(s(60)), 0.0, 1e9), 60.0);
        near(left(RandomTime::Exponential(s(0)), 0.0, 9.0), 0.0);
        // Certain until 60 - 3^0.5 * 20, then falling: the integral is the mean.
        near(left(RandomTime::Normal(s(60), s(20)), 0.0, 1e9), 60.0);
        near(left(RandomTime::Normal(s(60), s(0)), 10.0, 100.0), 50.0);
    }
}
