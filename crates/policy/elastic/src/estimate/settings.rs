//! Settings of an estimator.

use core::time::Duration;

/// A law by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CapacityLaw {
    /// Law of the Cloud paper, sections IV-B and VI-C.
    Smace,
    /// Law of this project: a capacity that the server has carried within the threshold is announced again; an untried
    /// capacity is not.
    #[default]
    Proven,
}

/// Settings of an estimator. Rates are calls a second.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct EstimatorSettings {
    /// The law.
    pub law: CapacityLaw,
    /// Threshold of the 95th percentile of latency: 1 ms in the paper (figure 6). Set by the operator (section V-A).
    pub threshold: Duration,
    /// Largest capacity, from a stress test of the server (section V-A): 500, the paper's peak load.
    pub maximum: f64,
    /// Smallest capacity, so that a server is tried again: 1. An addition: the paper's law falls towards zero if load
    /// is not the cause of the latency.
    pub minimum: f64,
    /// Initial capacity as part of `maximum`: 0.5. The paper gives no value.
    pub start: f64,
    /// Whether [`CapacityLaw::Smace`] limits the goodput above the threshold to the capacity: yes. An addition; the
    /// paper uses the measured goodput. If a server carries more than its capacity, because calls bypass the queue, 90
    /// % of this goodput would be an increase.
    pub goodput_bounded: bool,
}

impl Default for EstimatorSettings {
    fn default() -> Self {
        Self {
            law: CapacityLaw::default(),
            threshold: Duration::from_millis(1),
            maximum: 500.0,
            minimum: 1.0,
            start: 0.5,
            goodput_bounded: true,
        }
    }
}
