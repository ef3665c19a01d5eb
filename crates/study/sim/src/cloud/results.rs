//! What a run has brought.

use crate::stats::Delays;
use base::Instant;
use core::time::Duration;
use elastic::scale::Decision;

/// One second of a run. What is of one server is of the first.
#[derive(Clone, Copy, PartialEq, Default, Debug)]
pub struct CloudSecond {
    /// Its end, seconds.
    pub at: f64,
    /// Calls that came.
    pub offered: u64,
    /// Calls whose INVITE was forwarded.
    pub carried: u64,
    /// Calls that were refused or given up.
    pub lost: u64,
    /// Smallest latency of the server.
    pub least: Option<Duration>,
    /// 95th percentile.
    pub p95: Option<Duration>,
    /// Largest.
    pub most: Option<Duration>,
    /// INVITEs that the server has forwarded.
    pub goodput: u64,
    /// What it asks for, calls a second.
    pub requested: f64,
    /// Servers that take calls.
    pub ready: usize,
    /// Servers that are paid for.
    pub paid: usize,
}

/// What a run has brought. Calls count from the end of the warm-up.
#[derive(Clone, Debug, Default)]
pub struct CloudResults {
    /// Second by second, warm-up included.
    pub seconds: Vec<CloudSecond>,
    /// From arrival in front until the INVITE was forwarded.
    pub set_up: Delays,
    /// Of servers alone.
    pub latency: Delays,
    /// Calls that came.
    pub offered: u64,
    /// Calls whose INVITE was forwarded in time.
    pub carried: u64,
    /// Calls that were refused or given up.
    pub lost: u64,
    /// Hours of all servers, from the decision to start one until it was stopped.
    pub server_hours: f64,
    /// What the scaler has decided.
    pub decisions: Vec<(Instant, Decision)>,
}

impl CloudResults {
    /// Part of the calls that were lost.
    pub fn lost_part(&self) -> f64 {
        self.lost as f64 / (self.carried + self.lost).max(1) as f64
    }
}
