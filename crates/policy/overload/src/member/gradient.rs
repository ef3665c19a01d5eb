//! The gradient of the response time (Netflix, concurrency limits, "Gradient2"), against the floor of the server in
//! place of a long average: an average would learn the overload.

use super::batch::Batch;

/// Share of the new value in each step.
const SMOOTHING: f64 = 0.5;
/// The gradient that failures stand for.
const FAILING: f64 = 0.85;

pub(super) fn next(limit: f64, batch: &Batch) -> f64 {
    let gradient = if batch.fails { FAILING } else { (batch.bearable() / batch.delay).clamp(0.5, 1.0) };
    // Room for bursts, and what the limit grows by: without it the limit could only fall.
    let burst = if batch.is_used(limit) && !batch.fails { limit.sqrt() } else { 0.0 };
    let wanted = limit * gradient + burst;
    limit + SMOOTHING * (wanted - limit)
}
