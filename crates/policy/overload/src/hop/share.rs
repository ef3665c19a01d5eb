//! Division of a server's capacity among its upstream neighbours.

/// Share of each neighbour in `total`, max-min fair. A neighbour that needs less than the share gets its demand, and
/// the remaining capacity is divided equally among the other neighbours. The share is never below an equal division, so
/// that past traffic of others does not limit a neighbour.
///
/// The true demand of a limited neighbour is unknown. A neighbour that uses most of the present share (`before`) counts
/// as needing more.
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

/// A neighbour that uses at least this part of its share counts as needing more.
const PRESSED: f64 = 0.8;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_demands_leave_the_rest_to_other_neighbours() {
        let share = |before, demands: &[f64]| fair_share(160.0, before, demands.iter().copied());
        assert!((share(None, &[300.0, 10.0, 300.0, 10.0]) - 70.0).abs() < 1e-9);
        assert!((share(Some(70.0), &[70.0, 10.0, 70.0, 10.0]) - 70.0).abs() < 1e-9);
        assert!((share(None, &[300.0; 4]) - 40.0).abs() < 1e-9);
        // No neighbour is limited: each may use all of the rest.
        assert!((share(Some(70.0), &[20.0, 10.0]) - 150.0).abs() < 1e-9);
        assert!((share(None, &[]) - 160.0).abs() < 1e-9);
    }
}
