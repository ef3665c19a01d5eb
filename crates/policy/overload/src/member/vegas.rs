//! TCP Vegas (Brakmo and Peterson 1995), with the bounds of Netflix's concurrency limits, which grow with the logarithm
//! of the limit.

use super::batch::Batch;

/// Waiting requests per decade of the limit below which the limit grows.
const ALPHA: f64 = 3.0;
/// Waiting requests per decade above which the limit falls.
const BETA: f64 = 6.0;

pub(super) fn next(limit: f64, batch: &Batch) -> f64 {
    let decades = limit.log10().max(1.0);
    // Requests that wait longer than tolerated, by Little's law.
    let waiting = limit * (1.0 - batch.bearable() / batch.delay).max(0.0);
    if batch.fails || waiting > BETA * decades {
        limit - decades
    } else if waiting < ALPHA * decades && batch.is_used(limit) {
        limit + decades
    } else {
        limit
    }
}
