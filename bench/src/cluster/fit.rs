//! Least squares.

/// Returns the coefficients `c` that minimize the sum of the squares of `y - x * c` over all rows. `None`: the rows do
/// not determine them. By the normal equations `(X'X) c = X'y`.
pub(super) fn fit(rows: &[(Vec<f64>, f64)]) -> Option<Vec<f64>> {
    let unknowns = rows.first()?.0.len();
    // Scaled, since columns of very different size would lose digits.
    let scale = |at: usize| rows.iter().map(|(x, _)| x[at].abs()).fold(0.0, f64::max);
    let scales: Vec<f64> = (0..unknowns).map(scale).collect();
    let x = |row: &(Vec<f64>, f64), at: usize| row.0[at] / scales[at];
    let normal: Vec<Vec<f64>> = (0..unknowns)
        .map(|i| (0..unknowns).map(|j| rows.iter().map(|row| x(row, i) * x(row, j)).sum()).collect())
        .collect();
    let inverse = inverse(normal)?;
    let right: Vec<f64> = (0..unknowns).map(|i| rows.iter().map(|row| x(row, i) * row.1).sum()).collect();
    let scaled = inverse.iter().map(|line| line.iter().zip(&right).map(|(a, b)| a * b).sum::<f64>());
    Some(scaled.zip(&scales).map(|(scaled, scale)| scaled / scale).collect())
}

/// Returns the inverse, by Gauss-Jordan elimination with pivots; `None` if there is none.
fn inverse(mut matrix: Vec<Vec<f64>>) -> Option<Vec<Vec<f64>>> {
    let size = matrix.len();
    for (at, line) in matrix.iter_mut().enumerate() {
        line.extend((0..size).map(|column| f64::from(u8::from(column == at))));
    }
    for at in 0..size {
        let pivot = (at..size).max_by(|a, b| matrix[*a][at].abs().total_cmp(&matrix[*b][at].abs()))?;
        matrix.swap(at, pivot);
        let head = matrix[at][at];
        // NaN too: a column of zeros.
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

    #[test]
    fn a_line_through_exact_points_is_found() {
        let rows: Vec<_> = (0..6).map(|x| (vec![1.0, f64::from(x)], 3.0 - 2.0 * f64::from(x))).collect();
        let found = fit(&rows).expect("a line");
        assert!((found[0] - 3.0).abs() < 1e-9 && (found[1] + 2.0).abs() < 1e-9);
    }

    #[test]
    fn the_line_is_in_the_middle_of_points_beside_it() {
        let rows = [(0.0, 1.0), (0.0, 3.0), (2.0, 5.0), (2.0, 7.0)].map(|(x, y)| (vec![1.0, x], y));
        let found = fit(&rows).expect("a line");
        assert!((found[0] - 2.0).abs() < 1e-9 && (found[1] - 2.0).abs() < 1e-9);
    }

    #[test]
    fn linearly_dependent_columns_have_no_fit() {
        let rows: Vec<_> = (0..6).map(|x| (vec![f64::from(x), 2.0 * f64::from(x)], f64::from(x))).collect();
        assert_eq!(fit(&rows), None);
        assert_eq!(fit(&[(vec![0.0], 1.0), (vec![0.0], 2.0)]), None);
    }
}
