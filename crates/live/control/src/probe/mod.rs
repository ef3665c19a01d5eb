//! Asks nodes with OPTIONS whether they are alive (RFC 3261 §11): when whom, what a probe looks like as bytes, and
//! what follows from the answer.

mod message;
mod schedule;

pub(crate) use message::ProbeMessages;
pub use schedule::ProbeSchedule;

use balance::{Cluster, Slot};
use base::Instant;
use core::fmt;
use core::time::Duration;
use node::Pause;

/// When nodes are asked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ProbeSettings {
    /// Whether nodes are asked at the interval. If not, only on suspicion ([`ProbeSchedule::hurry`]), and then until
    /// they answer or are [cleared](ProbeSchedule::clear).
    pub periodic: bool,
    /// Time between two probes of a node.
    pub interval: Duration,
    /// A probe without an answer for this long has failed.
    pub timeout: Duration,
    /// An unanswered probe is sent again after this, doubling (T1, RFC 3261 §17.1.2.2): one lost datagram is no
    /// death.
    pub t1: Duration,
}

impl Default for ProbeSettings {
    /// Those of a configuration that says nothing of them.
    fn default() -> Self {
        Self {
            periodic: true,
            interval: Duration::from_secs(2),
            timeout: Duration::from_millis(1_500),
            t1: transaction::Timers::default().t1,
        }
    }
}

/// A probe to be sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Probe<A> {
    /// The node.
    pub slot: Slot,
    /// Where it is.
    pub address: A,
    /// Counts the probes of the node; one that is sent again keeps its number.
    pub cseq: u32,
}

/// What came of a probe.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ProbeOutcome {
    /// The node.
    pub slot: Slot,
    /// What came. Any final answer but 503 means that it is alive.
    pub result: ProbeResult,
    /// It answered 503: it gets no new calls for so long, as if a call had been answered with it.
    pub pause: Option<Pause>,
}

impl ProbeOutcome {
    /// No answer.
    fn failure(slot: Slot, result: ProbeResult) -> Self {
        Self { slot, result, pause: None }
    }

    /// What it means for the health of the node.
    pub fn apply(self, now: Instant, cluster: &mut Cluster) {
        let Self { slot, result, pause } = self;
        match (result, pause) {
            // A closed port answers for itself; silence and 503 have to repeat.
            (ProbeResult::Unreachable, _) => cluster.unreachable(now, slot),
            (_, Some(pause)) => cluster.refused(now, slot, now + pause.length, pause.asked),
            (_, None) => cluster.probed(now, slot, matches!(result, ProbeResult::Status(_))),
        }
    }
}

/// What decided a probe.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ProbeResult {
    /// A final response with this status.
    Status(u16),
    /// Nothing came.
    Timeout,
    /// The network said that nobody listens there.
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
