//! Batch means: an interval from one long run.

use super::{Confidence, Interval, Moments};

/// One run is cut into this many batches at least, and not into twice as many. With fewer, Student's t is wide; with
/// more, batches are short and no longer independent.
const BATCHES_MIN: usize = 10;

/// The mean of one long correlated run (a rate, a waiting time) by batch means: its bins are joined to batches so
/// long that their means are all but independent. Each bin has its part of a total and of the number that the total
/// is divided by.
///
/// `None` where there are fewer than ten bins, or where a batch has nothing to be divided by.
///
/// # Panics
/// When there is not a number for each total.
pub fn batch_means(totals: &[f64], numbers: &[f64], confidence: Confidence) -> Option<Interval> {
    assert_eq!(totals.len(), numbers.len(), "each bin has both");
    let length = totals.len() / BATCHES_MIN;
    if length == 0 {
        return None;
    }
    // The rest that fills no batch is the earliest part, which may still show how the run began.
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
    fn a_batch_counts_by_what_it_is_divided_by() {
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
