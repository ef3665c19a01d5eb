//! State of a node that only the cluster needs.

use crate::OutcomeTally;
use base::Instant;

/// State of a node that only the cluster needs, not the shards.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Watch {
    /// Failed probes in a row.
    pub(super) failed: u32,
    /// Whether it has answered a request since the last probe was answered or failed.
    pub(super) heard: bool,
    /// Whether it answered the last probe with 503. Then responses to requests do not show that it takes calls.
    pub(super) refuses: bool,
    /// Responses in a row since its last return that did not know a call from before (481). `None` once it is known
    /// whether it kept its calls.
    pub(super) unknown: Option<u8>,
    /// Failed probes since the last answered one, during which it answered requests.
    pub(super) ignored: u32,
    /// Unanswered requests in a row, with no other response meanwhile.
    pub(super) unanswered: u32,
    /// End of a pause that was caused by an ICMP error.
    pub(super) unreachable_until: Instant,
    /// Outcomes of new requests in this interval.
    pub(super) tally: OutcomeTally,
    /// Outcomes of the previous interval.
    pub(super) last_tally: OutcomeTally,
    /// Number of ejections in a row.
    pub(super) ejections: u32,
    /// Answered probes in a row since the last refused or unanswered one in the present requested pause. `None` while
    /// every probe was answered.
    pub(super) returns: Option<u32>,
}
