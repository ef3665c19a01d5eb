//! Batch means: an interval from one long run.

use super::{Confidence, Interval, Moments};

/// Minimum number of batches; there are always less than twice as many. With fewer batches, Student's t is wide; with
/// more, batches are short and no longer independent.
const BATCHES_MIN: usize = 10;

/// Mean of one long correlated run (a rate, a waiting time) by batch means. The bins are joined to batches so long that
/// their means are almost independent. Each bin has its part of a total and of the number that divides the total.
///
/// `None` if there are fewer than ten bins, or if the number of a batch is zero.
///
/// # Panics
/// When `totals` and `numbers` differ in length.
pub fn batch_means(totals: &[f64], numbers: &[f64], confidence: Confidence) -> Option<Interval> {
    assert_eq!(totals.len(), numbers.len(), "each bin has both");
    let length = totals.len() / BATCHES_MIN;
    if length == 0 {
        return None;
    }
    // Bins that fill no batch are the earliest ones, which may still show the start of the run.
    let rest = totals.len() % length;
    let batches = totals[rest..].chunks_exact(length).zip(numbers[rest..].chunks_exact(length));
    let mean = |(totals, numbers): (&[f64], &[f64])| {
        let number: f64 = numbers.iter().sum();
        (number > 0.0).then(|| totals.iter().sum::<f64>() / number)
    };
    let means: Option<Moments> = batches.map(mean).collect();
    means.map(|means| Interval::of(&means, confidence))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_earliest_bins_that_fill_no_batch_do_not_count() {
        let totals: Vec<f64> = [100.0].into_iter().chain((0..20).map(|bin| f64::from(bin % 2))).collect();
        let Interval { mean, half_width } =
            batch_means(&totals, &[1.0; 21], Confidence::P95).expect("ten batches of two");
        assert!((mean - 0.5).abs() < 1e-12 && half_width < 1e-12);
    }

    #[test]
    fn a_batch_is_weighted_by_its_number() {
        let numbers = [1.0, 3.0].repeat(10);
        let totals = [4.0, 0.0].repeat(10);
        let interval = batch_means(&totals, &numbers, Confidence::P95).expect("ten batches of two");
        assert!((interval.mean - 1.0).abs() < 1e-12);
    }

    #[test]
    fn too_few_bins_or_an_empty_batch_have_no_interval() {
        assert!(batch_means(&[1.0; 9], &[1.0; 9], Confidence::P95).is_none());
        let mut numbers = [1.0; 10];
        numbers[3] = 0.0;
        assert!(batch_means(&[1.0; 10], &numbers, Confidence::P95).is_none());
    }
}
