//! Gradient of the response time (Netflix, concurrency limits, "Gradient2"), relative to the floor of the server. A
//! long average in place of the floor would adapt to the overload.

use super::batch::Batch;

/// Weight of the new value in each step.
const SMOOTHING: f64 = 0.5;
/// Gradient that is used in place of the measured one when requests fail.
const FAILING: f64 = 0.85;

pub(super) fn next(limit: f64, batch: &Batch) -> f64 {
    let gradient = if batch.fails { FAILING } else { (batch.bearable() / batch.delay).clamp(0.5, 1.0) };
    // This is room for bursts and growth. Without it the limit could only fall. A server that has lost requests gets
    // little of it, since the delay does not show when its buffer is full.
    let room = limit.sqrt() * batch.patience.powi(2);
    let burst = if batch.is_used(limit) && !batch.fails { room } else { 0.0 };
    let wanted = limit * gradient + burst;
    limit + SMOOTHING * (wanted - limit)
}
