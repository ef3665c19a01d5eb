//! Additive increase, multiplicative decrease (Chiu and Jain 1989), driven by response time and failures.

use super::batch::Batch;

/// Factor of the limit when responses are late or requests fail.
const BACKOFF: f64 = 0.9;

pub(super) fn next(limit: f64, batch: &Batch) -> f64 {
    if batch.fails || batch.delay > batch.late() {
        limit * BACKOFF
    } else if batch.is_used(limit) {
        limit + 1.0
    } else {
        limit
    }
}
