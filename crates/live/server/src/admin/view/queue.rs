//! What the admin interface shows of the queue in front of a pool.

use crate::QueueStanding;
use serde::{Deserialize, Serialize};

/// The queue in front of a pool: counts are since the queue was set up.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[cfg_attr(test, schemars(rename = "Queue"))]
pub struct QueueView {
    /// Calls that wait for a member with room.
    pub waiting: usize,
    /// New calls that came, copies not counted.
    pub offered: u64,
    /// Those that members have pulled.
    pub delivered: u64,
    /// Those that were refused at once, since too many waited.
    pub refused: u64,
    /// Those that had waited for too long.
    pub expired: u64,
    /// Those whose callers hung up while they waited.
    pub cancelled: u64,
    /// Those that went to another member, since the first one did not answer.
    pub moved: u64,
    /// Copies of what waited.
    pub copies: u64,
    /// How long the delivered ones had waited, on the average; `null` without any.
    pub mean_wait_ms: Option<f64>,
    /// What each member can take.
    pub members: Vec<QueueMemberView>,
}

/// A member as the queue sees it.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[cfg_attr(test, schemars(rename = "QueueMember"))]
pub struct QueueMemberView {
    /// Its address.
    pub address: String,
    /// New calls a second that it can take.
    pub calls_per_second: f64,
    /// Whether its monitor has fallen silent.
    pub silent: bool,
}

impl From<&QueueStanding> for QueueView {
    fn from(queue: &QueueStanding) -> Self {
        let counts = &queue.report.counts;
        let mean = || counts.waited.as_secs_f64() * 1000.0 / counts.delivered as f64;
        let member = |&(address, calls_per_second, silent): &(std::net::SocketAddr, f64, bool)| {
            QueueMemberView { address: address.to_string(), calls_per_second, silent }
        };
        Self {
            waiting: queue.report.waiting,
            offered: counts.offered,
            delivered: counts.delivered,
            refused: counts.refused,
            expired: counts.expired,
            cancelled: counts.removed,
            moved: counts.moved,
            copies: counts.absorbed,
            mean_wait_ms: (counts.delivered > 0).then(mean),
            members: queue.members.iter().map(member).collect(),
        }
    }
}
