//! Counters that the shards of a process share: calls on limited nodes, and refusals of nodes.

use crate::Slot;
use core::sync::atomic::{AtomicU32, Ordering};

/// Number of new requests to a node, and number of these requests that were answered with 503. Both wrap.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Totals {
    pub(crate) sent: u32,
    pub(crate) refused: u32,
}

/// Calls on each node with a limit, over all shards of a process. All shards must see these numbers at once, but a
/// shard learns the load of the others one batch late. Also counts the new requests of each node and its refusals: a
/// caller's requests may all reach one shard, so one shard's counts are not enough.
///
/// The number of calls is the sum over the call leases of all shards; a shard updates it together with its own load.
/// Relaxed atomics are enough, since the numbers are independent.
#[derive(Debug)]
pub struct CallLimits {
    /// Calls of this process, by slot.
    taken: Box<[AtomicU32]>,
    /// Calls of another process, by slot.
    elsewhere: Box<[AtomicU32]>,
    /// New requests, by slot.
    sent: Box<[AtomicU32]>,
    /// New requests that were answered with 503, by slot.
    refused: Box<[AtomicU32]>,
}

/// Number of possible slots.
const SLOTS: usize = 1 << 16;

impl Default for CallLimits {
    fn default() -> Self {
        let none = || (0..SLOTS).map(|_| AtomicU32::new(0)).collect();
        Self { taken: none(), elsewhere: none(), sent: none(), refused: none() }
    }
}

impl CallLimits {
    /// Calls on the node in `slot`, including those of another process. Calls of this process are not counted if the
    /// node has no limit.
    pub fn calls(&self, slot: Slot) -> u32 {
        self.taken[slot.index()].load(Ordering::Relaxed) + self.elsewhere(slot)
    }

    fn elsewhere(&self, slot: Slot) -> u32 {
        self.elsewhere[slot.index()].load(Ordering::Relaxed)
    }

    /// Sets the number of calls that another process has on the node in `slot`. These calls take places as well.
    pub fn set_elsewhere(&self, slot: Slot, calls: u32) {
        self.elsewhere[slot.index()].store(calls, Ordering::Relaxed);
    }

    /// Takes a place if fewer than `limit` are taken.
    pub(crate) fn take(&self, slot: Slot, limit: u32) -> bool {
        let limit = limit.saturating_sub(self.elsewhere(slot));
        let next = |calls| (calls < limit).then_some(calls + 1);
        self.taken[slot.index()].fetch_update(Ordering::Relaxed, Ordering::Relaxed, next).is_ok()
    }

    /// Counts calls, even beyond the limit.
    pub(crate) fn add(&self, slot: Slot, calls: u32) {
        self.taken[slot.index()].fetch_add(calls, Ordering::Relaxed);
    }

    /// Frees places.
    pub(crate) fn give(&self, slot: Slot, calls: u32) {
        self.taken[slot.index()].fetch_sub(calls, Ordering::Relaxed);
    }

    /// Counts a new request.
    pub(crate) fn count_sent(&self, slot: Slot) {
        self.sent[slot.index()].fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a new request that was answered 503.
    pub(crate) fn count_refused(&self, slot: Slot) {
        self.refused[slot.index()].fetch_add(1, Ordering::Relaxed);
    }

    /// Both counters of a node.
    pub(crate) fn totals(&self, slot: Slot) -> Totals {
        let [sent, refused] =
            [&self.sent, &self.refused].map(|counts| counts[slot.index()].load(Ordering::Relaxed));
        Totals { sent, refused }
    }
}

/// New calls sent to each node, by slot, over all shards of a process. Each count wraps.
#[derive(Debug)]
pub struct SentCalls(Box<[AtomicU32]>);

impl Default for SentCalls {
    fn default() -> Self {
        Self((0..SLOTS).map(|_| AtomicU32::new(0)).collect())
    }
}

impl SentCalls {
    /// Number of calls sent to the node in `slot` so far.
    pub fn of(&self, slot: Slot) -> u32 {
        self.0[slot.index()].load(Ordering::Relaxed)
    }

    pub(crate) fn count(&self, slot: Slot) {
        self.0[slot.index()].fetch_add(1, Ordering::Relaxed);
    }
}
