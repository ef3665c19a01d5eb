//! Count, mean and variance of a stream of numbers.

/// Count, mean and variance of a stream of numbers in constant memory (Welford, Technometrics 4, 1962). Exact up to
/// rounding even if the spread is small relative to the mean.
#[derive(Clone, Copy, PartialEq, Default, Debug)]
pub struct Moments {
    count: u64,
    mean: f64,
    /// Sum of squared distances from the mean.
    squares: f64,
}

impl Moments {
    /// Adds a number.
    pub fn add(&mut self, value: f64) {
        self.count += 1;
        let distance = value - self.mean;
        self.mean += distance / self.count as f64;
        self.squares += distance * (value - self.mean);
    }

    /// Count of the numbers.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Mean of the numbers; 0 when there are none.
    pub fn mean(&self) -> f64 {
        self.mean
    }

    /// Sample variance (divided by count - 1); 0 below two numbers.
    pub fn variance(&self) -> f64 {
        if self.count < 2 { 0.0 } else { self.squares / (self.count - 1) as f64 }
    }

    /// Standard deviation: the square root of the variance.
    pub fn deviation(&self) -> f64 {
        self.variance().sqrt()
    }
}

impl FromIterator<f64> for Moments {
    fn from_iter<I: IntoIterator<Item = f64>>(values: I) -> Self {
        let mut moments = Self::default();
        values.into_iter().for_each(|value| moments.add(value));
        moments
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_spread_on_a_large_mean_is_kept() {
        let moments: Moments = [4.0, 7.0, 13.0, 16.0].map(|x| x + 1e9).into_iter().collect();
        assert_eq!((moments.count(), moments.mean(), moments.variance()), (4, 1e9 + 10.0, 30.0));
    }
}
