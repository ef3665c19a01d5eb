//! Settings of an estimator.

use core::time::Duration;

/// A law by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Law {
    /// The Cloud paper's, sections IV-B and VI-C.
    Smace,
    /// Ours: a capacity that the server has carried within the threshold is announced again; an untried capacity is
    /// not.
    #[default]
    Proven,
}

/// Settings of an estimator. Rates are calls a second.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Settings {
    /// Which law.
    pub law: Law,
    /// Bound of the 95th percentile of latency: 1 ms in the paper (figure 6). Set by the operator (section V-A).
    pub threshold: Duration,
    /// Never more than this, from a stress test of the server (section V-A): 500, the paper's peak load.
    pub maximum: f64,
    /// Never less, so that a server is tried again: 1. Ours; the paper's law falls towards zero where load is not the
    /// cause.
    pub minimum: f64,
    /// The first capacity, as part of `maximum`: 0.5. Ours, the paper says nothing.
    pub start: f64,
    /// Whether the goodput above the threshold counts up to the capacity alone in [`Law::Smace`]: yes. Ours. The paper
    /// takes it as it is, and where a server carries more than its capacity, of calls that come past the queue, 90 % of
    /// that would be a rise.
    pub goodput_bounded: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            law: Law::default(),
            threshold: Duration::from_millis(1),
            maximum: 500.0,
            minimum: 1.0,
            start: 0.5,
            goodput_bounded: true,
        }
    }
}
