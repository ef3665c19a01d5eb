//! Response times of one run in batches, so that two runs with the same arrivals can be compared batch by batch.

use base::Instant;
use sim::stats::{Confidence, Interval, Moments, Series, paired};

/// Mean response times of one method in ms, for each batch of a run; `None` for a batch without responses.
#[derive(Clone, Debug)]
pub(super) struct Batches(Vec<Option<f64>>);

impl Batches {
    /// Returns the batches from `from` on of the numbers of answered requests and the sums of their seconds.
    pub(super) fn new([number, seconds]: &[Series; 2], from: Instant) -> Self {
        let bins = number.sums().zip(seconds.sums()).filter(|((at, _), _)| *at >= from);
        Self(bins.map(|((_, count), (_, sum))| (count > 0.0).then(|| 1e3 * sum / count)).collect())
    }

    /// Mean over the batches.
    pub(super) fn interval(&self) -> Interval {
        Interval::of(&self.0.iter().flatten().copied().collect::<Moments>(), Confidence::P95)
    }

    /// Interval of the difference `self - times * other` in ms, batch by batch: common effects of arrivals and pauses
    /// cancel. The confidence is 99 %, because a statement depends on several intervals.
    pub(super) fn above(&self, other: &Self, times: f64) -> Interval {
        let both = self.0.iter().zip(&other.0).filter_map(|(a, b)| Some((((*a)?), times * ((*b)?))));
        let (these, others): (Vec<f64>, Vec<f64>) = both.unzip();
        paired(&these, &others, Confidence::P99)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::time::Duration;

    /// Two batches of a second each after one that does not count, then an empty batch and one with a response.
    fn batches(extra_seconds: f64) -> Batches {
        let mut series = [Series::new(Duration::from_secs(1)), Series::new(Duration::from_secs(1))];
        for (second, seconds) in [(0, 9.0), (1, 0.2), (1, 0.4), (2, 0.5), (4, 0.8)] {
            let at = Instant::from_millis(1_000 * second);
            series[0].add(at, 1.0);
            series[1].add(at, seconds + extra_seconds);
        }
        Batches::new(&series, Instant::from_millis(1_000))
    }

    #[test]
    fn a_batch_counts_by_the_mean_of_what_was_answered_in_it() {
        let of = batches(0.0);
        assert_eq!(of.0.iter().map(Option::is_some).collect::<Vec<_>>(), [true, true, false, true]);
        assert!((of.interval().mean - (300.0 + 500.0 + 800.0) / 3.0).abs() < 1e-9);
    }

    #[test]
    fn a_small_difference_that_all_batches_show_is_sure() {
        let (slow, fast) = (batches(0.001), batches(0.0));
        assert!(fast.interval().half_width > 100.0);
        let Interval { mean, half_width } = slow.above(&fast, 1.0);
        assert!((mean - 1.0).abs() < 1e-9 && half_width < 1e-6);
        assert!((fast.above(&fast, 2.0).mean + fast.interval().mean).abs() < 1e-9);
    }
}
