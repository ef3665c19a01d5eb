//! Health checks of nodes with OPTIONS (RFC 3261 §11): schedule, bytes of the probes, and effect of the answers.

mod message;
mod schedule;

pub(crate) use message::ProbeMessages;
pub use schedule::ProbeSchedule;

use balance::{Cluster, Slot};
use base::Instant;
use core::fmt;
use core::time::Duration;
use node::Pause;

/// Schedule of the probes of a node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ProbeSettings {
    /// Whether nodes are probed at the interval. If not, they are probed only on suspicion ([`ProbeSchedule::hurry`]),
    /// until they answer or are [cleared](ProbeSchedule::clear).
    pub periodic: bool,
    /// Time between two probes of a node.
    pub interval: Duration,
    /// Time after which an unanswered probe has failed.
    pub timeout: Duration,
    /// Time after which an unanswered probe is sent again, doubling (T1, RFC 3261 §17.1.2.2). The loss of one datagram
    /// then does not fail the probe.
    pub t1: Duration,
}

impl Default for ProbeSettings {
    /// The settings of a configuration without probe settings.
    fn default() -> Self {
        Self {
            periodic: true,
            interval: Duration::from_secs(2),
            timeout: Duration::from_millis(1_500),
            t1: transaction::Timers::default().t1,
        }
    }
}

/// A probe to send.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Probe<A> {
    /// The node.
    pub slot: Slot,
    /// Address of the node.
    pub address: A,
    /// Number of the probe at its node. A retransmission keeps the number.
    pub cseq: u32,
}

/// Result of a probe.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ProbeOutcome {
    /// The node.
    pub slot: Slot,
    /// The result. Any final answer but 503 means that the node is alive.
    pub result: ProbeResult,
    /// Pause that a 503 asks for. The node gets no new calls during it, as after a 503 to a call.
    pub pause: Option<Pause>,
}

impl ProbeOutcome {
    /// Returns the outcome of a probe without an answer.
    fn failure(slot: Slot, result: ProbeResult) -> Self {
        Self { slot, result, pause: None }
    }

    /// Applies the outcome to the health of the node.
    pub fn apply(self, now: Instant, cluster: &mut Cluster) {
        let Self { slot, result, pause } = self;
        match (result, pause) {
            // A closed port counts at once; silence and 503 count only if they repeat.
            (ProbeResult::Unreachable, _) => cluster.unreachable(now, slot),
            (_, Some(pause)) => cluster.refused(now, slot, now + pause.length, pause.asked),
            (_, None) => cluster.probed(now, slot, matches!(result, ProbeResult::Status(_))),
        }
    }
}

/// Event that decided a probe.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ProbeResult {
    /// A final response with this status.
    Status(u16),
    /// No answer in time.
    Timeout,
    /// The network reported that no process listens at the address.
    Unreachable,
}

impl fmt::Display for ProbeResult {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Status(status) => write!(f, "status {status}"),
            Self::Timeout => f.write_str("timeout"),
            Self::Unreachable => f.write_str("unreachable"),
        }
    }
}
