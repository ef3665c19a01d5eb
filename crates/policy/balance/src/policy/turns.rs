//! Turns of nodes in proportion to their capacity.

use super::{Candidate, Candidates};
use crate::Slot;

/// Turns in proportion to capacity, and smooth: with capacities 4 and 2 every third call is for b.
///
/// Start-time fair queueing (Goyal, Vin and Cheng, SIGCOMM 1996) with calls for packets: a call takes `1 / capacity`
/// of its node's virtual time, and the node that is free first has its turn. With equal capacities this is plain
/// round-robin. A choice among some of the nodes counts for all: whoever had more calls than the others of late waits
/// longest when they are level again. Those that are free already are equals, and go in a circle. Shards start at
/// different nodes.
#[derive(Clone, Debug)]
pub(super) struct Turns {
    /// When each node is free again. A node that was left out starts from `now`: it has saved up nothing, or it would
    /// come back to a burst.
    free_at: Vec<f64>,
    /// The virtual time at which the last call began.
    now: f64,
    /// The slot that goes before its equals.
    first: Slot,
}

impl Turns {
    /// The first turn goes to the node `first`.
    pub(super) fn new(first: usize) -> Self {
        Self { free_at: Vec::new(), now: 0.0, first: Slot(first as u16) }
    }

    /// Whose turn it is among the candidates that `may`.
    pub(super) fn next(
        &mut self,
        candidates: &Candidates<'_>,
        may: impl Fn(&Candidate) -> bool,
    ) -> Option<Slot> {
        let mut earliest: Option<(f64, Candidate)> = None;
        for candidate in candidates.from(self.first).filter(may) {
            let free_at = self.free_at.get(candidate.slot.index()).copied().unwrap_or_default();
            let begin = free_at.max(self.now);
            // Rounding must not decide between equals, or the order would wobble.
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
