//! Delays and their percentiles.

use core::time::Duration;
use hdrhistogram::Histogram;

/// Longest distinguished delay, a day; longer delays count as this.
const MAX_NS: u64 = 86_400_000_000_000;

/// Delays with their percentiles to three significant digits, from a microsecond to a day, in constant memory.
///
/// The interface uses nanoseconds, the histogram tenths of a microsecond.
#[derive(Clone, Debug)]
pub struct Delays {
    histogram: Histogram<u64>,
    total: Duration,
}

/// Resolution of the smallest delays.
const UNIT_NS: u64 = 100;

impl Default for Delays {
    fn default() -> Self {
        let histogram = Histogram::new_with_bounds(1, MAX_NS / UNIT_NS, 3);
        let histogram = histogram.expect("the bounds are constants that the histogram accepts");
        Self { histogram, total: Duration::ZERO }
    }
}

impl Delays {
    /// Adds a delay.
    pub fn add(&mut self, delay: Duration) {
        let units = u64::try_from(delay.as_nanos() / u128::from(UNIT_NS)).unwrap_or(u64::MAX);
        self.histogram.saturating_record(units);
        self.total = self.total.saturating_add(delay);
    }

    /// Number of delays.
    pub fn count(&self) -> u64 {
        self.histogram.len()
    }

    /// Exact mean; zero when there are none.
    pub fn mean(&self) -> Duration {
        self.total.div_f64(self.count().max(1) as f64)
    }

    /// Delay that `percent` (0 to 100) of all delays do not exceed; zero when there are none.
    pub fn percentile(&self, percent: f64) -> Duration {
        Duration::from_nanos(self.histogram.value_at_percentile(percent) * UNIT_NS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_have_three_digits_and_the_mean_is_exact() {
        let mut delays = Delays::default();
        for ms in 1..=1_000 {
            delays.add(Duration::from_millis(ms));
        }
        assert_eq!((delays.count(), delays.mean()), (1_000, Duration::from_micros(500_500)));
        for (percent, ms) in [(50.0, 500.0), (99.0, 990.0), (100.0, 1_000.0)] {
            let found = delays.percentile(percent).as_secs_f64() * 1e3;
            assert!((found - ms).abs() <= 1e-3 * ms, "p{percent} is {found} ms");
        }
        assert_eq!((Delays::default().mean(), Delays::default().count()), (Duration::ZERO, 0));
    }

    #[test]
    fn delays_beyond_the_range_count_as_the_longest() {
        let mut delays = Delays::default();
        delays.add(Duration::from_nanos(1));
        delays.add(Duration::from_secs(1_000_000));
        assert!(delays.percentile(1.0) <= Duration::from_micros(1));
        assert!(delays.percentile(100.0) >= Duration::from_hours(23));
    }
}
