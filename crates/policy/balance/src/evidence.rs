//! Evidence about a node from the traffic of one shard.

use crate::half_open::HalfOpen;
use crate::outlier::{Outcome, OutcomeTally, ROW};
use crate::refusals::Refusals;
use base::Instant;
use core::time::Duration;

/// Least time between two reports that a doubted node answers. The node may answer a thousand requests a second, but
/// the cluster needs few reports.
const SIGN_GAP: Duration = Duration::from_millis(250);

/// Evidence about the node in one slot.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Evidence {
    /// Time of the node's last response.
    answered: Option<Instant>,
    /// Time of the last response of the node that was the first one to an INVITE of a new call.
    served: Option<Instant>,
    /// Time of the last report of a response to the cluster.
    reported: Option<Instant>,
    pub(crate) half_open: HalfOpen,
    pub(crate) refusals: Refusals,
    /// Outcomes of new requests that were not yet reported to the cluster.
    tally: OutcomeTally,
    /// Time of the last report of outcomes.
    tallied: Option<Instant>,
    /// Time at which the node last came back.
    returned: Option<Instant>,
    /// Number of responses to calls from before the node's return that were reported to the cluster. The cluster
    /// decides whether the node has kept its calls. `None` when this shard knows that the node has kept them.
    remembers: Option<u8>,
}

/// Most responses to unknown calls (481) that are reported after a node came back.
const REPORTED_MOST: u8 = 16;

/// Least time between two reports of outcomes of a node. Successive server failures are reported at once.
const TALLY_GAP: Duration = Duration::from_millis(500);

impl Evidence {
    /// Records that the node answered a request.
    pub(crate) fn answers(&mut self, now: Instant) {
        self.answered = Some(now);
    }

    /// Records the node's first response to an INVITE that starts a call.
    pub(crate) fn serves(&mut self, now: Instant) {
        self.served = Some(now);
    }

    /// Whether the node has given no first response to an INVITE of a new call since `then`.
    pub(crate) fn serves_no_call_since(&self, then: Instant) -> bool {
        self.served.is_none_or(|served| served < then)
    }

    /// Whether to report a response to the cluster now. If so, the next reports wait for [`SIGN_GAP`].
    pub(crate) fn is_report_due(&mut self, now: Instant) -> bool {
        let due = self.reported.is_none_or(|told| now >= told + SIGN_GAP);
        if due {
            self.reported = Some(now);
        }
        due
    }

    /// Counts the outcome of a new request. `progressed`: the request had got a provisional response. Returns the tally
    /// to report to the cluster now, if it is due.
    pub(crate) fn ends(&mut self, now: Instant, outcome: Outcome, progressed: bool) -> Option<OutcomeTally> {
        self.tally.count(outcome, progressed);
        let due = self.tallied.is_none_or(|tallied| now >= tallied + TALLY_GAP);
        if !due && self.tally.row < ROW {
            return None;
        }
        self.tallied = Some(now);
        let told = core::mem::take(&mut self.tally);
        // Successive failures that were reported count only once.
        self.tally.row = if told.row < ROW { told.row } else { 0 };
        Some(told)
    }

    /// Records that the node came back at `since`.
    pub(crate) fn returns(&mut self, since: Instant) {
        if self.returned != Some(since) {
            (self.returned, self.remembers) = (Some(since), Some(0));
        }
    }

    /// Records a response to a request of a call created at `created`; `knows`: the node knows the call. Returns
    /// whether to report the response. Only calls from before the node's return count, and only a limited number of
    /// responses.
    pub(crate) fn is_memory(&mut self, created: Instant, knows: bool) -> bool {
        let (Some(returned), Some(told)) = (self.returned, self.remembers) else { return false };
        let tells = created < returned && told < REPORTED_MOST;
        if tells {
            self.remembers = (!knows).then_some(told + 1);
        }
        tells
    }

    /// Whether the node has given no response since `then`.
    pub(crate) fn is_silent_since(&self, then: Instant) -> bool {
        self.answered.is_none_or(|answered| answered < then)
    }
}
