//! What follows from a change of health: what is to be done, and what people want to know.

use crate::{PoolId, Slot};
use base::Instant;
use core::fmt;

/// What a change of health asks of whoever carries the cluster's decisions out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HealthEffect {
    /// Send the node a probe, not before that time.
    Ask {
        /// The node.
        slot: Slot,
        /// When.
        at: Instant,
    },
    /// Without regular probes: the node has given a sign of life, so the probe that was to bring one is not needed.
    Clear {
        /// The node.
        slot: Slot,
    },
    /// People want to know.
    Note(HealthNews),
}

/// What people want to know of a pool's health.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HealthNews {
    /// A node counts as dead.
    Lost {
        /// The node.
        slot: Slot,
        /// What said so.
        cause: HealthCause,
    },
    /// A node is back.
    Back {
        /// The node.
        slot: Slot,
        /// What said so.
        cause: HealthCause,
    },
    /// A node that rests and refused probes, or left them unanswered, answers them again: its rest is over.
    Recovered {
        /// The node.
        slot: Slot,
    },
    /// A node is back without the calls that it had.
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
        /// Why.
        outlier: Outlier,
        /// Until when.
        until: Instant,
    },
    /// No member of a pool is alive. `silent`: some are dead for silence alone, and get the calls all the same.
    NoneAlive {
        /// The pool.
        pool: PoolId,
        /// Whether calls still go to some.
        silent: bool,
    },
}

/// What decided that a node is dead or back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HealthCause {
    /// Probes went unanswered.
    ProbesUnanswered,
    /// Probes were answered 503.
    ProbesRefused,
    /// Requests went unanswered, and nothing else was answered meanwhile.
    RequestsUnanswered,
    /// ICMP port unreachable in answer to a probe.
    PortClosed,
    /// A probe was answered.
    ProbeAnswered,
    /// A request was answered.
    RequestAnswered,
    /// An operator said so.
    Operator,
    /// The process before, which this one has taken over from, held it for dead.
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

/// Why a member is an outlier.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outlier {
    /// It failed many new requests in a row, while others did not.
    InARow,
    /// It failed a far greater share of them than the others.
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
