//! Distributions of simulated times around their mean.

use base::Rng;
use core::time::Duration;
use rand::Rng as _;
use rand_distr::{Distribution, Exp1};
use std::sync::Arc;

/// Distribution of times around their mean.
#[derive(Clone, PartialEq, Debug, Default)]
pub enum TimeSpread {
    /// Constant.
    #[default]
    Fixed,
    /// Exponential.
    Exponential,
    /// Measured.
    Measured(QuantileTable),
}

impl TimeSpread {
    /// Draws a factor with mean 1.
    pub fn factor(&self, rng: &mut Rng) -> f64 {
        match self {
            Self::Fixed => 1.0,
            Self::Exponential => Exp1.sample(rng),
            Self::Measured(table) => table.at(rng.random()),
        }
    }

    /// Draws a time with this mean.
    pub fn draw(&self, mean: Duration, rng: &mut Rng) -> Duration {
        match self {
            Self::Fixed => mean,
            _ => Duration::from_nanos(scaled(nanos(mean), self.factor(rng))),
        }
    }
}

/// Converts a time to nanoseconds. Times over 584 years saturate.
pub(crate) fn nanos(time: Duration) -> u64 {
    time.as_secs().saturating_mul(1_000_000_000).saturating_add(time.subsec_nanos().into())
}

/// Multiplies nanoseconds and rounds to the nearest whole number. Values out of range saturate.
pub(crate) fn scaled(nanos: u64, factor: f64) -> u64 {
    // Half a nanosecond is added for rounding; a library call would take longer than everything else here. Signed
    // numbers are converted by one instruction, and their range of 292 years is enough.
    (nanos.min(i64::MAX as u64) as i64 as f64 * factor + 0.5) as i64 as u64
}

/// A measured distribution as a table of quantiles at equal steps of probability, linear in between, scaled to mean 1.
/// Cheap to clone.
#[derive(Clone, PartialEq, Debug)]
pub struct QuantileTable(Arc<[f64]>);

impl QuantileTable {
    /// Returns the table of the quantiles at probabilities 0, 1/n, 2/n ... 1. The unit is arbitrary: only the ratio to
    /// the mean counts.
    ///
    /// # Panics
    /// When the quantiles are fewer than two, out of order, negative, infinite, or all zero.
    pub fn new(quantiles: &[f64]) -> Self {
        let is_right = quantiles.len() > 1 && quantiles.is_sorted() && quantiles[0] >= 0.0;
        // Mean of a distribution that is linear between its quantiles.
        let mean = quantiles.windows(2).map(|pair| f64::midpoint(pair[0], pair[1])).sum::<f64>()
            / (quantiles.len().max(2) - 1) as f64;
        assert!(is_right && mean > 0.0 && mean.is_finite(), "no quantiles of a time: {quantiles:?}");
        Self(quantiles.iter().map(|quantile| quantile / mean).collect())
    }

    /// Returns the table of measurements in any order and unit. They are sorted, and each becomes a quantile.
    ///
    /// # Panics
    /// Like [`new`](Self::new).
    pub fn from_samples(samples: &[f64]) -> Self {
        let mut sorted = samples.to_vec();
        sorted.sort_by(f64::total_cmp);
        Self::new(&sorted)
    }

    /// Quantile at a probability from 0 to 1.
    fn at(&self, probability: f64) -> f64 {
        let place = probability * (self.0.len() - 1) as f64;
        let below = (place as usize).min(self.0.len() - 2);
        self.0[below] + (self.0[below + 1] - self.0[below]) * (place - below as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_is_scaled_to_mean_one_and_linear_between_its_quantiles() {
        let table = QuantileTable::new(&[0.0, 10.0, 40.0]);
        // Mean (5 + 25) / 2 = 15.
        assert_eq!((table.at(0.0), table.at(0.5), table.at(1.0)), (0.0, 10.0 / 15.0, 40.0 / 15.0));
        assert!((table.at(0.75) - 25.0 / 15.0).abs() < 1e-12);
        let mut rng = Rng::from_seed(1);
        let spread = TimeSpread::Measured(table);
        let mean = (0..100_000).map(|_| spread.factor(&mut rng)).sum::<f64>() / 1e5;
        // Standard deviation about 0.77; 4 sigma of the mean.
        assert!((mean - 1.0).abs() < 0.01, "{mean}");
    }

    #[test]
    fn a_table_of_anything_else_is_refused() {
        let wrong: [&[f64]; 5] = [&[], &[1.0], &[1.0, 3.0, 2.0], &[-1.0, 3.0], &[0.0, 0.0]];
        for quantiles in wrong.into_iter().chain([&[f64::NAN, 3.0][..], &[1.0, f64::INFINITY]]) {
            assert!(std::panic::catch_unwind(|| QuantileTable::new(quantiles)).is_err(), "{quantiles:?}");
        }
        assert_eq!(QuantileTable::from_samples(&[3.0, 1.0]), QuantileTable::new(&[1.0, 3.0]));
    }
}
