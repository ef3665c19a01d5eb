//! What the shards of a process count together: calls on a node that has a limit, and what a node refuses.

use crate::Slot;
use core::sync::atomic::{AtomicU32, Ordering};

/// New requests that a node was sent, and how many it answered with 503; both wrap.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Totals {
    pub(crate) sent: u32,
    pub(crate) refused: u32,
}

/// The calls on each node that has a limit, over all shards of a process: what they have to agree on at once, since
/// what they hear of each other's load is a batch late. And the new requests of each node with those that it refused:
/// a caller has the shard that his address leads to, and must not be all that is known there of a node.
///
/// The number of a node is the sum over the call leases of all shards, as its load is within one; a shard changes it
/// together with its own. Relaxed atomics suffice: each number stands for itself.
#[derive(Debug)]
pub struct CallLimits {
    /// By slot.
    taken: Box<[AtomicU32]>,
    /// By slot, what another process has there.
    elsewhere: Box<[AtomicU32]>,
    /// By slot, new requests.
    sent: Box<[AtomicU32]>,
    /// By slot, how many of these were answered 503.
    refused: Box<[AtomicU32]>,
}

/// One for each slot that there can be.
const SLOTS: usize = 1 << 16;

impl Default for CallLimits {
    fn default() -> Self {
        let none = || (0..SLOTS).map(|_| AtomicU32::new(0)).collect();
        Self { taken: none(), elsewhere: none(), sent: none(), refused: none() }
    }
}

impl CallLimits {
    /// The calls on the node in `slot`, another process's too; 0 of ours if it has no limit.
    pub fn calls(&self, slot: Slot) -> u32 {
        self.taken[slot.index()].load(Ordering::Relaxed) + self.elsewhere(slot)
    }

    fn elsewhere(&self, slot: Slot) -> u32 {
        self.elsewhere[slot.index()].load(Ordering::Relaxed)
    }

    /// How many calls another process has on the node in `slot`: these places are taken, too.
    pub fn set_elsewhere(&self, slot: Slot, calls: u32) {
        self.elsewhere[slot.index()].store(calls, Ordering::Relaxed);
    }

    /// Takes a place if fewer than `limit` are taken.
    pub(crate) fn take(&self, slot: Slot, limit: u32) -> bool {
        let limit = limit.saturating_sub(self.elsewhere(slot));
        let next = |calls| (calls < limit).then_some(calls + 1);
        self.taken[slot.index()].fetch_update(Ordering::Relaxed, Ordering::Relaxed, next).is_ok()
    }

    /// Counts calls that are there whatever the limit.
    pub(crate) fn add(&self, slot: Slot, calls: u32) {
        self.taken[slot.index()].fetch_add(calls, Ordering::Relaxed);
    }

    /// Gives places back.
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

    /// Both counts.
    pub(crate) fn totals(&self, slot: Slot) -> Totals {
        let [sent, refused] =
            [&self.sent, &self.refused].map(|counts| counts[slot.index()].load(Ordering::Relaxed));
        Totals { sent, refused }
    }
}

/// The new calls that each node was sent, by slot, over all shards of a process. Each count wraps.
#[derive(Debug)]
pub struct SentCalls(Box<[AtomicU32]>);

impl Default for SentCalls {
    fn default() -> Self {
        Self((0..SLOTS).map(|_| AtomicU32::new(0)).collect())
    }
}

impl SentCalls {
    /// The calls that the node in `slot` was sent so far.
    pub fn of(&self, slot: Slot) -> u32 {
        self.0[slot.index()].load(Ordering::Relaxed)
    }

    pub(crate) fn count(&self, slot: Slot) {
        self.0[slot.index()].fetch_add(1, Ordering::Relaxed);
    }
}
