//! Effects and news of changes in health.

use crate::{PoolId, Slot};
use base::Instant;
use core::fmt;

/// Effect of a change of health, to be carried out by the caller.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HealthEffect {
    /// Send a probe to the node, but not before `at`.
    Probe {
        /// The node.
        slot: Slot,
        /// Earliest time.
        at: Instant,
    },
    /// Only without regular probes: the node has shown that it is alive, so the planned probe is not needed.
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
    /// A node in a pause answers probes again: its pause ends early. The node asked for the pause and then refused probes
    /// or left them unanswered, or the pause came from an ICMP error.
    Recovered {
        /// The node.
        slot: Slot,
    },
    /// A node is back without its earlier calls.
    CallsLost {
        /// The node.
        slot: Slot,
    },
    /// A node answers requests, but leaves probes unanswered.
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
        /// End of the ejection.
        until: Instant,
    },
    /// No member of a pool is alive. `silent`: some members are dead only because they were silent, and still get
    /// calls.
    NoneAlive {
        /// The pool.
        pool: PoolId,
        /// Whether calls still go to some members.
        silent: bool,
    },
}

/// Cause for which a node counts as dead or as back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HealthCause {
    /// Probes were not answered.
    ProbesUnanswered,
    /// Probes were answered with 503.
    ProbesRefused,
    /// Requests were not answered, and the node answered nothing else meanwhile.
    RequestsUnanswered,
    /// ICMP port unreachable in answer to a probe.
    PortClosed,
    /// A probe was answered.
    ProbeAnswered,
    /// A request was answered.
    RequestAnswered,
    /// An operator marked the node up.
    Operator,
    /// The node was dead in the previous process, from which this process took over.
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
            Self::ProcessBefore => "dead in the previous process",
        })
    }
}

/// Reason why a member is an outlier.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outlier {
    /// Many successive new requests failed at this member, but not at other members.
    InARow,
    /// A far greater share of the new requests failed at this member than at other members.
    ByShare,
}

impl fmt::Display for Outlier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::InARow => "server failures or silence in a row, while other members answer",
            Self::ByShare => "far more failures than the other members",
        })
    }
}
