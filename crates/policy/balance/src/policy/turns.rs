//! Turns of nodes in proportion to their capacity.

use super::{Candidate, Candidates};
use crate::Slot;

/// Turns in proportion to capacity, evenly spread: with capacities 4 and 2 every third call goes to the second node.
///
/// Start-time fair queueing (Goyal, Vin and Cheng, SIGCOMM 1996) with calls for packets. A call takes `1 / capacity` of
/// its node's virtual time, and the node that is free first is next. With equal capacities this is plain round-robin. A
/// choice among only some of the nodes still counts: a node that lately got more calls than the others waits longest
/// when all are equal again. Nodes that are already free take turns. Shards start at different nodes.
#[derive(Clone, Debug)]
pub(super) struct Turns {
    /// Virtual time at which each node is free again. A node that was left out starts from `now`, without a credit;
    /// otherwise it would get a burst of calls.
    free_at: Vec<f64>,
    /// Virtual time at which the last call started.
    now: f64,
    /// Slot that is chosen first among equal nodes.
    first: Slot,
}

impl Turns {
    /// Starts with the node in slot `first`.
    pub(super) fn new(first: usize) -> Self {
        Self { free_at: Vec::new(), now: 0.0, first: Slot(first as u16) }
    }

    /// Next node among the candidates that `may` be chosen.
    pub(super) fn next(
        &mut self,
        candidates: &Candidates<'_>,
        may: impl Fn(&Candidate) -> bool,
    ) -> Option<Slot> {
        let mut earliest: Option<(f64, Candidate)> = None;
        for candidate in candidates.from(self.first).filter(may) {
            let free_at = self.free_at.get(candidate.slot.index()).copied().unwrap_or_default();
            let begin = free_at.max(self.now);
            // Rounding must not decide between equal nodes. Otherwise their order would vary.
            if earliest.as_ref().is_none_or(|(earliest, _)| begin < earliest - 1e-9) {
                earliest = Some((begin, candidate));
            }
        }
        let (begin, Candidate { slot, capacity, .. }) = earliest?;
        (self.now, self.first) = (begin, Slot(slot.0 + 1));
        if self.free_at.len() <= slot.index() {
            self.free_at.resize(slot.index() + 1, 0.0);
        }
        self.free_at[slot.index()] = begin + 1.0 / capacity;
        Some(slot)
    }
}
