//! What the cluster remembers of a node.

use crate::OutcomeTally;
use base::Instant;

/// What the cluster remembers of a node beside what the shards need.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Watch {
    /// Probes that failed in a row.
    pub(super) failed: u32,
    /// Whether it has answered a request since the last probe was answered or failed.
    pub(super) heard: bool,
    /// Whether it has answered the last probe with 503: then answers to requests do not show that it takes calls.
    pub(super) refuses: bool,
    /// Requests of calls from before its last return that it answered with 481, and no other one. `None` once it is
    /// known whether it has kept its calls.
    pub(super) unknown: Option<u8>,
    /// Probes that failed since the last one was answered although requests were answered meanwhile.
    pub(super) ignored: u32,
    /// Requests in a row that it left unanswered, and everything else meanwhile.
    pub(super) unanswered: u32,
    /// Until when it pauses as the network called it unreachable.
    pub(super) unreachable_until: Instant,
    /// Outcomes of new requests in this interval.
    pub(super) tally: OutcomeTally,
    /// Those of the interval before.
    pub(super) last_tally: OutcomeTally,
    /// How often it was ejected in a row.
    pub(super) ejections: u32,
    /// In the present rest that it asked for: whether a probe was refused or went unanswered, and how many were
    /// answered since, in a row.
    pub(super) returns: Option<u32>,
}
