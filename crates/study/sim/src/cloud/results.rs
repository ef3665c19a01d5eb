//! Results of a run.

use crate::stats::Delays;
use base::Instant;
use core::time::Duration;
use elastic::scale::ScalingDecision;

/// Results of one second. Values of a single server are those of the first server.
#[derive(Clone, Copy, PartialEq, Default, Debug)]
pub struct CloudSecond {
    /// End of the second, in seconds.
    pub at: f64,
    /// Calls that arrived.
    pub offered: u64,
    /// Calls whose INVITE was forwarded.
    pub carried: u64,
    /// Calls refused or given up.
    pub lost: u64,
    /// Smallest latency of the server.
    pub least: Option<Duration>,
    /// 95th percentile of its latency.
    pub p95: Option<Duration>,
    /// Largest latency.
    pub most: Option<Duration>,
    /// INVITEs that the server forwarded.
    pub goodput: u64,
    /// Calls per second that the server announced.
    pub requested: f64,
    /// Number of servers that take calls.
    pub ready: usize,
    /// Number of servers that cost money.
    pub paid: usize,
}

/// Results of a run. Calls count from the end of the warm-up.
#[derive(Clone, Debug, Default)]
pub struct CloudResults {
    /// Results of each second, warm-up included.
    pub seconds: Vec<CloudSecond>,
    /// Time from arrival in front until the INVITE was forwarded.
    pub set_up: Delays,
    /// Latency of the servers alone.
    pub latency: Delays,
    /// Calls that arrived.
    pub offered: u64,
    /// Calls whose INVITE was forwarded in time.
    pub carried: u64,
    /// Calls refused or given up.
    pub lost: u64,
    /// Sum of the hours of all servers, from the decision to start a server until it was stopped.
    pub server_hours: f64,
    /// Decisions of the scaler.
    pub decisions: Vec<(Instant, ScalingDecision)>,
}

impl CloudResults {
    /// Share of the calls that were lost.
    pub fn lost_part(&self) -> f64 {
        self.lost as f64 / (self.carried + self.lost).max(1) as f64
    }
}
