//! Turns of nodes in proportion to their capacity.

use super::Candidate;
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
    first: usize,
}

impl Turns {
    /// The first turn goes to the node `first`.
    pub(super) fn new(first: usize) -> Self {
        Self { free_at: Vec::new(), now: 0.0, first }
    }

    /// Whose turn it is among `takers`, which are given by `taker` for each of `slots`.
    pub(super) fn next(&mut self, slots: usize, taker: impl Fn(Slot) -> Option<Candidate>) -> Option<Slot> {
        self.free_at.resize(slots, 0.0);
        let mut earliest: Option<(f64, Candidate, Slot)> = None;
        for step in 0..slots {
            let slot = Slot(((self.first + step) % slots) as u16);
            let Some(candidate) = taker(slot) else { continue };
            let begin = self.free_at[slot.index()].max(self.now);
            // Rounding must not decide between equals, or the order would wobble.
            if earliest.is_none_or(|(earliest, ..)| begin < earliest - 1e-9) {
                earliest = Some((begin, candidate, slot));
            }
        }
        let (begin, candidate, slot) = earliest?;
        (self.now, self.first) = (begin, slot.index() + 1);
        self.free_at[slot.index()] = begin + 1.0 / candidate.capacity;
        Some(slot)
    }
}
