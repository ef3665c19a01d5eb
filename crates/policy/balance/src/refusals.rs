//! Share of new requests that a node refuses with 503. The share shows whether the node is busy, or whether one caller
//! provokes the refusals.
//!
//! An outsider may know a request that gets 503 with Retry-After, such as a call to a gateway whose trunk is full. If
//! each 503 stopped all new calls to the node, a few such requests could stop the whole pool. A failed request is tried
//! at one member after another. A busy node refuses any request. So a 503 stops new calls only if the node has lately
//! refused at least half of its new requests.

use crate::limits::Totals;
use crate::{CallLimits, Slot};
use base::Instant;
use core::time::Duration;

/// Length of a window. The present and the previous window count, so a node that starts to refuse everything pauses
/// within two windows. To provoke a pause, an outsider must send half of the requests that the node gets in a window.
const WINDOW: Duration = Duration::from_secs(5);
/// Least number of requests of a window. The window lasts longer if fewer requests come. Otherwise a single 503 would
/// have too much weight in quiet hours.
const LEAST: u32 = 8;

/// Refusals of a node as a shard knows them.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Refusals {
    /// Totals of this shard.
    own: Totals,
    /// Start of the present window, and the totals of all shards at that time.
    since: Instant,
    current: Totals,
    /// Totals at the start of the previous window.
    before: Totals,
}

/// Counters that the shards of a process share, and the slot of the node; `None` for a single shard.
pub(crate) type Shared<'a> = Option<(&'a CallLimits, Slot)>;

impl Refusals {
    /// Counts a new request to the node. `rested` is the end of the node's present or last pause. Refusals from before
    /// the pause no longer count.
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

    /// Counts a 503 of the node. Returns whether the node refuses new requests in general.
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

    /// Resets the counts of a node that was restarted, or answers again.
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
