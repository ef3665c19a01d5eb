//! Evidence of a shard about a node, from its own traffic.

use crate::half_open::HalfOpen;
use crate::outlier::{Outcome, OutcomeTally, ROW};
use crate::refusals::Refusals;
use base::Instant;
use core::time::Duration;

/// Least time between two signs of life of a node: so that one in doubt that answers a thousand requests a second
/// does not tell the cluster a thousand times.
const SIGN_GAP: Duration = Duration::from_millis(250);

/// One of these for each slot.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Evidence {
    /// When the node last answered anything.
    answered: Option<Instant>,
    /// When it last answered an INVITE that begins a call for the first time.
    served: Option<Instant>,
    /// When the cluster was last told of an answer.
    told: Option<Instant>,
    pub(crate) half_open: HalfOpen,
    pub(crate) refusals: Refusals,
    /// Outcomes of new requests that the cluster has not been told of.
    tally: OutcomeTally,
    /// When it was last told of some.
    tallied: Option<Instant>,
    /// When the node last came back from the dead.
    returned: Option<Instant>,
    /// What it said of calls from before that has been told to the cluster so often, which decides whether it has
    /// kept them; `None` once it has shown here that it has.
    remembers: Option<u8>,
}

/// So many answers that tell nothing of a call are reported after a node came back.
const TOLD_MOST: u8 = 16;

/// Least time between two tallies of a node. Server failures in a row are told at once.
const TALLY_GAP: Duration = Duration::from_millis(500);

impl Evidence {
    /// The node has answered a request.
    pub(crate) fn answers(&mut self, now: Instant) {
        self.answered = Some(now);
    }

    /// The node has answered an INVITE that begins a call for the first time.
    pub(crate) fn serves(&mut self, now: Instant) {
        self.served = Some(now);
    }

    /// Whether it has done so for none since then.
    pub(crate) fn serves_nobody_since(&self, then: Instant) -> bool {
        self.served.is_none_or(|served| served < then)
    }

    /// Whether the cluster is to be told of an answer; it is not told of the next ones for a while then.
    pub(crate) fn is_to_be_told(&mut self, now: Instant) -> bool {
        let due = self.told.is_none_or(|told| now >= told + SIGN_GAP);
        if due {
            self.told = Some(now);
        }
        due
    }

    /// What became of a new request; `progressed`: it had been answered provisionally. Returns what the cluster is to
    /// be told now.
    pub(crate) fn ends(&mut self, now: Instant, outcome: Outcome, progressed: bool) -> Option<OutcomeTally> {
        self.tally.count(outcome, progressed);
        let due = self.tallied.is_none_or(|tallied| now >= tallied + TALLY_GAP);
        if !due && self.tally.row < ROW {
            return None;
        }
        self.tallied = Some(now);
        let told = core::mem::take(&mut self.tally);
        // A row that was told of is over: it counts once.
        self.tally.row = if told.row < ROW { told.row } else { 0 };
        Some(told)
    }

    /// The node is back since then.
    pub(crate) fn returns(&mut self, since: Instant) {
        if self.returned != Some(since) {
            (self.returned, self.remembers) = (Some(since), Some(0));
        }
    }

    /// The node has answered a request of a call that began then, and says that it knows it, or not. Returns whether
    /// the cluster is to be told: of calls from before it came back, and not for ever.
    pub(crate) fn is_memory(&mut self, created: Instant, knows: bool) -> bool {
        let (Some(returned), Some(told)) = (self.returned, self.remembers) else { return false };
        let tells = created < returned && told < TOLD_MOST;
        if tells {
            self.remembers = (!knows).then_some(told + 1);
        }
        tells
    }

    /// Whether the node has answered nothing since then.
    pub(crate) fn is_silent_since(&self, then: Instant) -> bool {
        self.answered.is_none_or(|answered| answered < then)
    }
}
