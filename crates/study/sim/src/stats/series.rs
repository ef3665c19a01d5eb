//! A quantity over time, in bins.

use base::Instant;
use core::time::Duration;

/// A quantity over time, summed in bins of equal width, for example calls completed.
#[derive(Clone, PartialEq, Debug)]
pub struct Series {
    width: Duration,
    sums: Vec<f64>,
}

impl Series {
    /// Returns an empty series with bins of this width. The first bin starts at time zero.
    ///
    /// # Panics
    /// When the width is zero.
    pub fn new(width: Duration) -> Self {
        assert!(!width.is_zero(), "a bin needs a width");
        Self { width, sums: Vec::new() }
    }

    /// Adds an amount at an instant. Memory grows with the latest instant.
    pub fn add(&mut self, at: Instant, amount: f64) {
        let bin = (at.as_nanos() / self.width.as_nanos() as u64) as usize;
        if bin >= self.sums.len() {
            self.sums.resize(bin + 1, 0.0);
        }
        self.sums[bin] += amount;
    }

    /// Width of a bin.
    pub fn width(&self) -> Duration {
        self.width
    }

    /// Start of each bin and its sum, up to the latest amount.
    pub fn sums(&self) -> impl Iterator<Item = (Instant, f64)> + '_ {
        (0..).zip(&self.sums).map(|(bin, &sum)| (Instant::ZERO + self.width * bin, sum))
    }

    /// Start of each bin and its sum per second.
    pub fn rates(&self) -> impl Iterator<Item = (Instant, f64)> + '_ {
        self.sums().map(|(at, sum)| (at, sum / self.width.as_secs_f64()))
    }

    /// Mean per second between two instants, from the bins that are entirely within; 0 without such bins.
    pub fn rate(&self, from: Instant, to: Instant) -> f64 {
        let width = self.width.as_nanos() as u64;
        let (first, end) = (from.as_nanos().div_ceil(width), to.as_nanos() / width);
        if end <= first {
            return 0.0;
        }
        let within = self.sums.iter().take(end as usize).skip(first as usize);
        within.sum::<f64>() / ((end - first) as f64 * self.width.as_secs_f64())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_fall_into_their_bins_and_rates_are_per_second() {
        let mut series = Series::new(Duration::from_millis(500));
        for (ms, amount) in [(0, 1.0), (499, 2.0), (500, 4.0), (1_700, 8.0)] {
            series.add(Instant::from_millis(ms), amount);
        }
        let at = Instant::from_millis;
        let sums: Vec<_> = series.sums().collect();
        assert_eq!(sums, [(at(0), 3.0), (at(500), 4.0), (at(1_000), 0.0), (at(1_500), 8.0)]);
        assert_eq!(series.rates().nth(1), Some((at(500), 8.0)));
        // The partial bins at both ends do not count; bins after the last amount are zero.
        assert!((series.rate(at(1), at(1_600)) - 4.0).abs() < 1e-12);
        assert!((series.rate(at(1_500), at(5_500)) - 2.0).abs() < 1e-12);
        assert!(series.rate(at(1), at(900)).abs() < 1e-12);
    }
}
