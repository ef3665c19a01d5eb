//! Mean and standard deviation of observations that are not kept.

/// Welford's algorithm (Technometrics 4(3), 1962): it needs no difference of two large sums, so no digits are lost.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Moments {
    count: u64,
    mean: f64,
    /// Sum of the squared distances from the mean.
    squares: f64,
}

impl Moments {
    pub(super) fn note(&mut self, x: f64) {
        self.count += 1;
        let before = x - self.mean;
        self.mean += before / self.count as f64;
        self.squares += before * (x - self.mean);
    }

    pub(super) fn mean(&self) -> f64 {
        self.mean
    }

    /// Standard deviation of the sample, with n - 1 in the denominator; 0 for a single observation.
    pub(super) fn deviation(&self) -> f64 {
        if self.count < 2 { 0.0 } else { (self.squares / (self.count - 1) as f64).sqrt() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(values: &[f64]) -> Moments {
        let mut moments = Moments::default();
        for value in values {
            moments.note(*value);
        }
        moments
    }

    #[test]
    fn a_textbook_sample() {
        let moments = of(&[2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0]);
        assert!((moments.mean() - 5.0).abs() < 1e-12);
        assert!((moments.deviation() - (32.0_f64 / 7.0).sqrt()).abs() < 1e-12);
        assert!(of(&[3.0]).deviation().abs() < f64::EPSILON);
    }

    /// A sum of squares would lose the differences: 1e9 squared has no digits left for 1.
    #[test]
    fn small_differences_of_large_values_count() {
        let moments = of(&[1e9 + 1.0, 1e9 + 2.0, 1e9 + 3.0]);
        assert!((moments.deviation() - 1.0).abs() < 1e-6, "{}", moments.deviation());
    }
}
