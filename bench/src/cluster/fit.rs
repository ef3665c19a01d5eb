//! Least squares.

use sim::stats::{Confidence, Interval, student_t};

/// The coefficients `c` for which the sum of the squares of `y - x * c` over all rows is the least, with their 95 %
/// intervals. `None`: the rows do not tell them apart, or are too few for an interval.
///
/// By the normal equations `(X'X) c = X'y`; the variance of `c[i]` is the residual variance times the i-th element of
/// the diagonal of the inverse of `X'X`.
pub fn fit(rows: &[(Vec<f64>, f64)]) -> Option<Vec<Interval>> {
    let unknowns = rows.first()?.0.len();
    let freedom = rows.len().checked_sub(unknowns).filter(|freedom| *freedom > 0)?;
    // Columns of unlike size would lose digits.
    let scale = |at: usize| rows.iter().map(|(x, _)| x[at].abs()).fold(0.0, f64::max);
    let scales: Vec<f64> = (0..unknowns).map(scale).collect();
    let x = |row: &(Vec<f64>, f64), at: usize| row.0[at] / scales[at];
    let normal: Vec<Vec<f64>> = (0..unknowns)
        .map(|i| (0..unknowns).map(|j| rows.iter().map(|row| x(row, i) * x(row, j)).sum()).collect())
        .collect();
    let inverse = inverse(normal)?;
    let right: Vec<f64> = (0..unknowns).map(|i| rows.iter().map(|row| x(row, i) * row.1).sum()).collect();
    let scaled: Vec<f64> =
        inverse.iter().map(|line| line.iter().zip(&right).map(|(a, b)| a * b).sum()).collect();
    let residual = |row: &(Vec<f64>, f64)| row.1 - (0..unknowns).map(|i| x(row, i) * scaled[i]).sum::<f64>();
    let variance = rows.iter().map(|row| residual(row).powi(2)).sum::<f64>() / freedom as f64;
    let t = student_t(Confidence::P95.0, freedom as u64);
    let interval = |i: usize| Interval {
        mean: scaled[i] / scales[i],
        half_width: t * (variance * inverse[i][i]).sqrt() / scales[i],
    };
    Some((0..unknowns).map(interval).collect())
}

/// The inverse, by Gauss and Jordan with pivots. `None`: there is none.
fn inverse(mut matrix: Vec<Vec<f64>>) -> Option<Vec<Vec<f64>>> {
    let size = matrix.len();
    for (at, line) in matrix.iter_mut().enumerate() {
        line.extend((0..size).map(|column| f64::from(u8::from(column == at))));
    }
    for at in 0..size {
        let pivot = (at..size).max_by(|a, b| matrix[*a][at].abs().total_cmp(&matrix[*b][at].abs()))?;
        matrix.swap(at, pivot);
        let head = matrix[at][at];
        // NaN as well: a column of zeros.
        if head.is_nan() || head.abs() < 1e-9 {
            return None;
        }
        matrix[at].iter_mut().for_each(|value| *value /= head);
        let line = matrix[at].clone();
        for (_, other) in matrix.iter_mut().enumerate().filter(|(row, _)| *row != at) {
            let factor = other[at];
            other.iter_mut().zip(&line).for_each(|(value, head)| *value -= factor * head);
        }
    }
    Some(matrix.into_iter().map(|line| line[size..].to_vec()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::Rng;
    use rand_distr::{Distribution as _, StandardNormal};

    #[test]
    fn a_line_through_exact_points_is_found() {
        let rows: Vec<_> = (0..6).map(|x| (vec![1.0, f64::from(x)], 3.0 - 2.0 * f64::from(x))).collect();
        let found = fit(&rows).expect("a line");
        assert!((found[0].mean - 3.0).abs() < 1e-9 && (found[1].mean + 2.0).abs() < 1e-9);
        assert!(found.iter().all(|it| it.half_width < 1e-6));
    }

    #[test]
    fn columns_that_say_the_same_are_not_told_apart() {
        let rows: Vec<_> = (0..6).map(|x| (vec![f64::from(x), 2.0 * f64::from(x)], f64::from(x))).collect();
        assert_eq!(fit(&rows), None);
        assert_eq!(fit(&[(vec![0.0], 1.0), (vec![0.0], 2.0)]), None);
        assert_eq!(fit(&[(vec![1.0], 1.0)]), None, "one row says nothing of chance");
    }

    #[test]
    fn intervals_have_the_true_value_as_often_as_they_say() {
        let mut rng = Rng::from_seed(5);
        let mut within = 0;
        for _ in 0..400 {
            let row = |at: i32| {
                let (a, b) = (f64::from(at % 3) * 500.0, f64::from(at % 4) * 800.0);
                let noise: f64 = StandardNormal.sample(&mut rng);
                (vec![1.0, a, b], 0.02 + 175e-6 * a + 100e-6 * b + 0.01 * noise)
            };
            let found = fit(&(0..12).map(row).collect::<Vec<_>>()).expect("three unknowns");
            within += i32::from(found[1].contains(175e-6));
        }
        // 95 % of 400, and four standard deviations.
        assert!((363..=397).contains(&within), "{within}");
    }
}
