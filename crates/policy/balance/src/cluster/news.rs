//! Effects and news of changes in health.

use crate::{PoolId, Slot};
use base::Instant;
use core::fmt;

/// Effect of a change of health, to be carried out by the caller.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HealthEffect {
    /// Send the node a probe, not before `at`.
    Ask {
        /// The node.
        slot: Slot,
        /// Earliest time.
        at: Instant,
    },
    /// Without regular probes: the node has shown that it lives, so the planned probe is not needed.
    Clear {
        /// The node.
        slot: Slot,
    },
    /// An event for the operator.
    Note(HealthNews),
}

/// An event in a pool's health that operators want to know.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HealthNews {
    /// A node counts as dead.
    Lost {
        /// The node.
        slot: Slot,
        /// Cause.
        cause: HealthCause,
    },
    /// A node is back.
    Back {
        /// The node.
        slot: Slot,
        /// Cause.
        cause: HealthCause,
    },
    /// A pausing node answers probes again after refused or unanswered ones: its pause is over.
    Recovered {
        /// The node.
        slot: Slot,
    },
    /// A node is back without its earlier calls.
    CallsLost {
        /// The node.
        slot: Slot,
    },
    /// A node answers requests and leaves probes unanswered.
    IgnoresProbes {
        /// The node.
        slot: Slot,
    },
    /// A node is ejected.
    Ejected {
        /// The node.
        slot: Slot,
        /// Reason.
        outlier: Outlier,
        /// End.
        until: Instant,
    },
    /// No member of a pool is alive. `silent`: some are dead only for silence, and get the calls all the same.
    NoneAlive {
        /// The pool.
        pool: PoolId,
        /// Whether calls still go to some.
        silent: bool,
    },
}

/// Cause for which a node counts as dead or as back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HealthCause {
    /// Probes went unanswered.
    ProbesUnanswered,
    /// Probes were answered 503.
    ProbesRefused,
    /// Requests went unanswered, and the node answered nothing else meanwhile.
    RequestsUnanswered,
    /// ICMP port unreachable in answer to a probe.
    PortClosed,
    /// A probe was answered.
    ProbeAnswered,
    /// A request was answered.
    RequestAnswered,
    /// An operator said so.
    Operator,
    /// The node was dead in the process that this one took over from.
    ProcessBefore,
}

impl fmt::Display for HealthCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::ProbesUnanswered => "no answer to probes",
            Self::ProbesRefused => "503 to probes",
            Self::RequestsUnanswered => "no answer to requests",
            Self::PortClosed => "port closed",
            Self::ProbeAnswered => "answer to a probe",
            Self::RequestAnswered => "answer to a request",
            Self::Operator => "operator",
            Self::ProcessBefore => "dead in the process before",
        })
    }
}

/// Reason why a member is an outlier.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outlier {
    /// It failed many new requests in a row, while others did not.
    InARow,
    /// It failed a far greater share of its new requests than the others.
    ByShare,
}

impl fmt::Display for Outlier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::InARow => "server failures or silence in a row, while others answer",
            Self::ByShare => "far more failures than the others",
        })
    }
}
