//! Quantiles of Student's t distribution.

/// Two-sided quantile of Student's t: the `t` with P(|T| <= t) = `confidence` for this many degrees of freedom.
///
/// Found by bisection on the distribution function, which is a finite sum for whole degrees of freedom. A table of a
/// few values would not do, because each scenario chooses its number of replications.
///
/// # Panics
/// With zero degrees of freedom, or a confidence outside 0 to 1 (both exclusive).
pub fn student_t(confidence: f64, degrees: u64) -> f64 {
    assert!(degrees > 0 && confidence > 0.0 && confidence < 1.0, "t of {degrees} degrees at {confidence}");
    let (mut low, mut high) = (0.0, 1.0);
    while within(high, degrees) < confidence {
        (low, high) = (high, high * 2.0);
    }
    // Afterwards `low` and `high` are neighbouring numbers: each step halves the range, and f64 has 52 bits.
    for _ in 0..60 {
        let middle = f64::midpoint(low, high);
        if within(middle, degrees) < confidence { low = middle } else { high = middle }
    }
    f64::midpoint(low, high)
}

/// Above this number the sums are long, and the normal distribution is within 1e-6 of the quantile.
const DEGREES_MAX: u64 = 100_000;

/// P(|T| <= t): Abramowitz and Stegun, Handbook of Mathematical Functions, 26.7.3 (odd degrees) and 26.7.4 (even).
fn within(t: f64, degrees: u64) -> f64 {
    let degrees = degrees.min(DEGREES_MAX);
    let theta = (t / (degrees as f64).sqrt()).atan();
    let (sine, cosine) = theta.sin_cos();
    let square = cosine * cosine;
    // The terms are cos^k times a ratio of products of every second number below k.
    let odd = degrees % 2 == 1;
    let (mut term, mut sum) = if odd { (cosine, 0.0) } else { (1.0, 0.0) };
    let mut k = degrees % 2;
    while k <= degrees.saturating_sub(2) && degrees > 1 {
        sum += term;
        k += 2;
        term *= square * (k - 1) as f64 / k as f64;
    }
    if odd { (theta + sine * sum) * core::f64::consts::FRAC_2_PI } else { sine * sum }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_equal_the_printed_tables() {
        for (confidence, degrees, expected) in [
            (0.95, 1, 12.706),
            (0.95, 2, 4.303),
            (0.95, 3, 3.182),
            (0.95, 4, 2.776),
            (0.95, 9, 2.262),
            (0.95, 30, 2.042),
            (0.99, 5, 4.032),
            (0.99, 10, 3.169),
            (0.999, 1, 636.619),
            (0.999, 2, 31.599),
            (0.999, 7, 5.408),
            (0.999, 120, 3.373),
            (0.95, 1_000_000, 1.960),
        ] {
            let t = student_t(confidence, degrees);
            assert!((t - expected).abs() <= 5.1e-4, "t({confidence}, {degrees}) = {t}, not {expected}");
        }
    }
}
