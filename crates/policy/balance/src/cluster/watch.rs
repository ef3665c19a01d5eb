//! State of a node that only the cluster needs.

use crate::OutcomeTally;
use base::Instant;

/// State of a node that only the cluster needs, not the shards.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Watch {
    /// Number of successive failed probes.
    pub(super) failed: u32,
    /// Whether the node has answered a request since the last probe was answered or failed.
    pub(super) heard: bool,
    /// Whether the node answered the last probe with 503. Then responses to requests do not show that it takes calls.
    pub(super) refuses: bool,
    /// Number of successive responses since the node's last return that did not know a call from before (481). `None`
    /// if it is known whether the node kept its calls.
    pub(super) unknown: Option<u8>,
    /// Number of failed probes since the last answered probe, while the node answered requests.
    pub(super) ignored: u32,
    /// Number of successive unanswered requests, without any other response meanwhile.
    pub(super) unanswered: u32,
    /// End of a pause that was caused by an ICMP error.
    pub(super) unreachable_until: Instant,
    /// Outcomes of new requests in this interval.
    pub(super) tally: OutcomeTally,
    /// Outcomes of the previous interval.
    pub(super) last_tally: OutcomeTally,
    /// Number of successive ejections.
    pub(super) ejections: u32,
    /// Number of successive answered probes since the last refused or unanswered probe in the present requested pause.
    /// `None` as long as every probe was answered.
    pub(super) returns: Option<u32>,
}
