//! Confidence intervals.

use super::{Moments, student_t};
use core::fmt;

/// Probability with which an interval covers the true value, 0 to 1.
#[derive(Clone, Copy, PartialEq, PartialOrd, Debug)]
pub struct Confidence(pub f64);

impl Confidence {
    /// For reports.
    pub const P95: Self = Self(0.95);
    /// For checks of statements about several differences at once, which chance must rarely refute.
    pub const P99: Self = Self(0.99);
    /// For tests against exact mathematics: one false alarm in a thousand.
    pub const P999: Self = Self(0.999);
}

/// A mean with the half width of its confidence interval (Student's t).
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Interval {
    /// The estimate.
    pub mean: f64,
    /// Maximum distance of the true value from the mean, with the given confidence. Infinite below two samples.
    pub half_width: f64,
}

impl Interval {
    /// Returns the interval of independent and roughly normal samples: means of replications or of long batches.
    pub fn of(samples: &Moments, confidence: Confidence) -> Self {
        let count = samples.count();
        let half_width = if count < 2 {
            f64::INFINITY
        } else {
            student_t(confidence.0, count - 1) * samples.deviation() / (count as f64).sqrt()
        };
        Self { mean: samples.mean(), half_width }
    }

    /// Returns the interval of these values at 95 %.
    pub fn over(values: impl IntoIterator<Item = f64>) -> Self {
        Self::of(&values.into_iter().collect(), Confidence::P95)
    }

    /// Formats the interval of a ratio's logarithm as the ratio, with the ends of its interval if it is finite. A dash
    /// if the mean is not a number.
    pub fn ratio(&self) -> String {
        let Self { mean, half_width } = *self;
        let [low, ratio, high] = [mean - half_width, mean, mean + half_width].map(f64::exp);
        match (mean.is_nan(), half_width.is_finite()) {
            (true, _) => "-".to_owned(),
            (false, true) => format!("{ratio:.2} ({low:.2} - {high:.2})"),
            (false, false) => format!("{ratio:.2}"),
        }
    }

    /// Whether a value is within the interval.
    pub fn contains(&self, value: f64) -> bool {
        (value - self.mean).abs() <= self.half_width
    }

    /// Whether the half width exceeds this part of the mean: the run was too short, or there were too few runs.
    pub fn too_wide(&self, relative: f64) -> bool {
        // A half width of NaN is too wide as well.
        self.half_width.is_nan() || self.half_width > relative * self.mean.abs()
    }
}

impl fmt::Display for Interval {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = f.precision().unwrap_or(4);
        write!(f, "{:.digits$} ± {:.digits$}", self.mean, self.half_width)
    }
}

/// Returns the interval of the mean difference `a - b`, sample by sample.
///
/// If replication i of both used the same seed (common random numbers), their common variation cancels. The interval is
/// then much narrower than those of `a` and `b`; if it excludes zero, the two differ.
///
/// # Panics
/// When `a` and `b` differ in length.
pub fn paired(a: &[f64], b: &[f64], confidence: Confidence) -> Interval {
    assert_eq!(a.len(), b.len(), "each replication of one is compared with the same of the other");
    Interval::of(&a.iter().zip(b).map(|(a, b)| a - b).collect(), confidence)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ratio_has_the_ends_of_its_interval_if_there_is_one() {
        let of = |mean: f64, half_width: f64| Interval { mean, half_width }.ratio();
        assert_eq!(of(2.0_f64.ln(), 2.0_f64.ln()), "2.00 (1.00 - 4.00)");
        assert_eq!([of(0.0, f64::INFINITY), of(f64::NAN, f64::NAN)], ["1.00", "-"]);
    }

    #[test]
    fn the_interval_is_t_times_the_standard_error() {
        let samples: Moments = [9.0, 10.0, 11.0, 12.0, 13.0].into_iter().collect();
        let interval = Interval::of(&samples, Confidence::P95);
        // t(95 %, 4) = 2.776, deviation sqrt(2.5), square root of 5 samples.
        assert!((interval.half_width - 2.776 * (2.5_f64 / 5.0).sqrt()).abs() < 1e-3, "{interval}");
        assert!(interval.contains(9.1) && !interval.contains(9.0) && !interval.contains(13.0));
        assert!(interval.too_wide(0.1) && !interval.too_wide(0.2));
    }

    #[test]
    fn too_little_to_judge_is_too_wide() {
        assert!(Interval::of(&Moments::default(), Confidence::P95).too_wide(1e9));
        assert!(Interval::of(&[5.0].into_iter().collect(), Confidence::P95).too_wide(1e9));
        assert!(Interval { mean: f64::NAN, half_width: f64::NAN }.too_wide(1.0));
    }

    #[test]
    fn the_common_variation_of_pairs_cancels() {
        let common = [3.0, 80.0, 41.0, 7.0, 55.0];
        let faster = common.map(|x| x + 1.0);
        let slower = [3.9, 81.1, 42.0, 8.1, 55.9].map(|x| x + 1.0);
        let difference = paired(&slower, &faster, Confidence::P95);
        assert!(!difference.contains(0.5) && difference.contains(1.0), "{difference}");
        assert!(Interval::of(&slower.into_iter().collect(), Confidence::P95).half_width > 40.0);
    }
}
