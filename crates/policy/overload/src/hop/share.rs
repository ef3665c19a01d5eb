//! How a server divides its capacity among its upstream neighbours.

/// The share of each neighbour in `total`, max-min fair: who wants less than the share gets what it wants, and the
/// rest is split evenly among the others. Never below an even split, so that nobody is held down by what others were
/// sending a moment ago.
///
/// The true demand of a neighbour that is being limited cannot be seen, so one that uses most of the share that is
/// in force (`before`) counts as wanting more.
pub(super) fn fair_share(total: f64, before: Option<f64>, demands: impl Iterator<Item = f64> + Clone) -> f64 {
    let even = total / demands.clone().count().max(1) as f64;
    let limit = before.unwrap_or(even) * PRESSED;
    let (mut rest, mut pressed, mut largest) = (total, 0_u32, 0.0_f64);
    for demand in demands {
        if demand >= limit {
            pressed += 1;
        } else {
            rest -= demand;
            largest = largest.max(demand);
        }
    }
    let share = if pressed > 0 { rest / f64::from(pressed) } else { rest + largest };
    share.clamp(even, total)
}

/// Who uses this much of its share would use more.
const PRESSED: f64 = 0.8;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_wants_little_leaves_the_rest_to_the_others() {
        let share = |before, demands: &[f64]| fair_share(160.0, before, demands.iter().copied());
        assert!((share(None, &[300.0, 10.0, 300.0, 10.0]) - 70.0).abs() < 1e-9);
        assert!((share(Some(70.0), &[70.0, 10.0, 70.0, 10.0]) - 70.0).abs() < 1e-9);
        assert!((share(None, &[300.0; 4]) - 40.0).abs() < 1e-9);
        // Nobody is pressed: each may take all that is spare.
        assert!((share(Some(70.0), &[20.0, 10.0]) - 150.0).abs() < 1e-9);
        assert!((share(None, &[]) - 160.0).abs() < 1e-9);
    }
}
