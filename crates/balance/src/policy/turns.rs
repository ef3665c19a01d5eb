use super::Candidate;
use crate::Slot;

/// Turns in proportion to capacity, and smooth: with capacities 2 and 1 the order is a, b, a, not a, a, b.
///
/// Start-time fair queueing (Goyal, Vin and Cheng, SIGCOMM 1996) with calls for packets: a call takes `1 / capacity`
/// of its node's virtual time, and the node that is free first has its turn. With equal capacities this is plain
/// round-robin. A choice among some of the nodes counts for all: whoever had more calls than the others, for whatever
/// reason, waits longest when they are level again. Shards start at different nodes.
#[derive(Clone, Debug)]
pub(super) struct Turns {
    /// When each node is free again. A node that was left out starts from `now`: it has saved up nothing, or it would
    /// come back to a burst.
    free_at: Vec<f64>,
    /// The virtual time at which the last call began.
    now: f64,
    start: usize,
}

impl Turns {
    /// The first turn goes to the node `start`, where capacities are equal.
    pub(super) fn new(start: usize) -> Self {
        Self { free_at: Vec::new(), now: 0.0, start }
    }

    /// Whose turn it is among `takers`, which are given by `taker` for each of `slots`.
    pub(super) fn next(&mut self, slots: usize, taker: impl Fn(Slot) -> Option<Candidate>) -> Option<Slot> {
        self.free_at.resize(slots, 0.0);
        let mut first: Option<(f64, Candidate, Slot)> = None;
        for step in 0..slots {
            let slot = Slot(((self.start + step) % slots) as u16);
            let Some(candidate) = taker(slot) else { continue };
            let begin = self.free_at[slot.index()].max(self.now);
            // Rounding must not decide between equals, or the order would wobble.
            if first.is_none_or(|(earliest, ..)| begin < earliest - 1e-9) {
                first = Some((begin, candidate, slot));
            }
        }
        let (begin, candidate, slot) = first?;
        self.now = begin;
        self.free_at[slot.index()] = begin + 1.0 / candidate.capacity;
        Some(slot)
    }
}
