//! TCP Vegas (Brakmo and Peterson 1995), with the bounds of Netflix's concurrency limits, which grow with the logarithm
//! of the limit.

use super::batch::Batch;

/// The limit grows if fewer requests wait than this number for each decade of the limit.
const ALPHA: f64 = 3.0;
/// The limit falls if more requests wait than this number for each decade of the limit.
const BETA: f64 = 6.0;

pub(super) fn next(limit: f64, batch: &Batch) -> f64 {
    let decades = limit.log10().max(1.0);
    // By Little's law, this is the number of requests that wait longer than tolerated.
    let waiting = limit * (1.0 - batch.bearable() / batch.delay).max(0.0);
    if batch.fails || waiting > BETA * decades {
        limit - decades
    } else if waiting < ALPHA * decades && batch.is_used(limit) {
        limit + decades
    } else {
        limit
    }
}
