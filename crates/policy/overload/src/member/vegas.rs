//! TCP Vegas (Brakmo and Peterson 1995), with the bounds of the concurrency limits of Netflix, which grow with the
//! logarithm of the limit.

use super::batch::Batch;

/// So many requests may wait for each decade of the limit: fewer, and the limit grows;
const ALPHA: f64 = 3.0;
/// more than these, and it falls.
const BETA: f64 = 6.0;

pub(super) fn next(limit: f64, batch: &Batch) -> f64 {
    let decades = limit.log10().max(1.0);
    // Requests that wait for longer than is bearable, by Little's law.
    let waiting = limit * (1.0 - batch.bearable() / batch.delay).max(0.0);
    if batch.fails || waiting > BETA * decades {
        limit - decades
    } else if waiting < ALPHA * decades && batch.is_used(limit) {
        limit + decades
    } else {
        limit
    }
}
