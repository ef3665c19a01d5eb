//! The share of its new requests that a node refuses with 503: whether it is the node that is busy, or one caller
//! provokes the answer.
//!
//! What a node answers depends on what it is asked, so a stranger may know a request that gets 503 with Retry-After:
//! a call to a gateway whose trunk is full, for one. If each such answer stopped all new calls to the node, one
//! request now and then would stop the pool, since the request fails over from member to member. A node that is busy
//! refuses whatever comes. So its word counts for all calls once it has lately refused at least half of its new
//! requests.

use crate::limits::Totals;
use crate::{CallLimits, Slot};
use base::Instant;
use core::time::Duration;

/// Length of a window. The present one counts and the one before, so a node that begins to refuse everything is heard
/// after as long as both together at the latest, and whoever provokes a rest sends half as many requests as the node
/// gets in one of them.
const WINDOW: Duration = Duration::from_secs(5);
/// Fewest requests of a window, which lasts longer where fewer come: in a quiet hour one answer is not more than by
/// day.
const LEAST: u32 = 8;

/// What a shard knows of a node's refusals.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Refusals {
    /// Of this shard.
    own: Totals,
    /// When the present window began, and the totals of all shards then.
    since: Instant,
    current: Totals,
    /// The totals when the window before began.
    before: Totals,
}

/// What the shards of a process share, and the node in question; `None` for the only shard.
pub(crate) type Shared<'a> = Option<(&'a CallLimits, Slot)>;

impl Refusals {
    /// The node is sent a new request; `rested`: until when it rests or did last. What it refused before its rest
    /// says nothing of what it does now.
    pub(crate) fn sends(&mut self, now: Instant, rested: Instant, shared: Shared<'_>) {
        let totals = self.totals(shared);
        self.own.sent = self.own.sent.wrapping_add(1);
        if let Some((limits, slot)) = shared {
            limits.count_sent(slot);
        }
        let is_back = self.since < rested && rested <= now;
        if is_back {
            self.begin(now, totals, totals);
        } else if now >= self.since + WINDOW && totals.sent.wrapping_sub(self.current.sent) >= LEAST {
            self.begin(now, self.current, totals);
        }
    }

    /// The node has answered 503. Returns whether that stands for all new requests.
    pub(crate) fn refuses(&mut self, shared: Shared<'_>) -> bool {
        self.own.refused = self.own.refused.wrapping_add(1);
        if let Some((limits, slot)) = shared {
            limits.count_refused(slot);
        }
        let totals = self.totals(shared);
        let sent = totals.sent.wrapping_sub(self.before.sent);
        let refused = totals.refused.wrapping_sub(self.before.refused);
        refused >= sent.div_ceil(2)
    }

    /// The node is not what it was: it was restarted, or answers again.
    pub(crate) fn forget(&mut self, shared: Shared<'_>) {
        let totals = self.totals(shared);
        self.begin(self.since, totals, totals);
    }

    fn begin(&mut self, now: Instant, before: Totals, current: Totals) {
        (self.since, self.before, self.current) = (now, before, current);
    }

    fn totals(&self, shared: Shared<'_>) -> Totals {
        shared.map_or(self.own, |(limits, slot)| limits.totals(slot))
    }
}
