//! What a shard has seen of a node in its own traffic.

use crate::outlier::{Outcome, ROW, Tally};
use crate::trial::Trial;
use base::Instant;
use core::time::Duration;

/// Least time between two signs of life of a node: so that one in doubt that answers a thousand requests a second does
/// not tell the cluster a thousand times.
const SIGN_GAP: Duration = Duration::from_millis(250);

/// One of these for each slot.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Evidence {
    /// When the node last answered anything.
    answered: Option<Instant>,
    /// When the cluster was last told of an answer.
    told: Option<Instant>,
    pub(crate) trial: Trial,
    /// Outcomes of new requests that the cluster has not been told of.
    tally: Tally,
    /// When it was last told of some.
    tallied: Option<Instant>,
    /// When the node last came back from the dead.
    returned: Option<Instant>,
    /// Requests in a row, of calls from before that, which it has answered with 481. `None` once it is known whether it
    /// has kept its calls.
    unknown: Option<u8>,
}

/// So many calls in a row of which a node knows nothing, after it came back, are all of them.
const LOST_CALLS: u8 = 3;

/// Least time between two tallies of a node. Server failures in a row are told at once.
const TALLY_GAP: Duration = Duration::from_millis(500);

impl Evidence {
    /// The node has answered a request.
    pub(crate) fn answers(&mut self, now: Instant) {
        self.answered = Some(now);
    }

    /// Whether the cluster is to be told of an answer; it is not told of the next ones for a while then.
    pub(crate) fn is_to_be_told(&mut self, now: Instant) -> bool {
        let due = self.told.is_none_or(|told| now >= told + SIGN_GAP);
        if due {
            self.told = Some(now);
        }
        due
    }

    /// What became of a new request. Returns what the cluster is to be told now.
    pub(crate) fn ends(&mut self, now: Instant, outcome: Outcome) -> Option<Tally> {
        self.tally.count(outcome);
        let due = self.tallied.is_none_or(|tallied| now >= tallied + TALLY_GAP);
        if !due && self.tally.row < ROW {
            return None;
        }
        self.tallied = Some(now);
        let told = self.tally;
        self.tally = Tally { row: told.row, ..Tally::default() };
        Some(told)
    }

    /// The node is back since then.
    pub(crate) fn returns(&mut self, since: Instant) {
        if self.returned != Some(since) {
            (self.returned, self.unknown) = (Some(since), Some(0));
        }
    }

    /// The node has answered a request of a call that began then, and says that it knows it, or not. Returns whether it has
    /// lost the calls that it had before it came back.
    pub(crate) fn has_lost_calls(&mut self, created: Instant, knows: bool) -> bool {
        let (Some(returned), Some(unknown)) = (self.returned, self.unknown) else { return false };
        if created >= returned {
            return false;
        }
        let unknown = unknown + 1;
        let lost = !knows && unknown >= LOST_CALLS;
        self.unknown = (!knows && !lost).then_some(unknown);
        lost
    }

    /// Whether the node has answered nothing since then.
    pub(crate) fn is_silent_since(&self, then: Instant) -> bool {
        self.answered.is_none_or(|answered| answered < then)
    }
}
