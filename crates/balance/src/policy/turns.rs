use super::Candidate;
use crate::Slot;

/// Turns in proportion to capacity, and smooth: with capacities 2 and 1 the order is a, b, a, not a, a, b.
///
/// Each turn adds every taker's capacity to its credit, takes the one with the most, and charges it the sum. With
/// equal capacities this is plain round-robin. Shards start at different nodes.
#[derive(Clone, Debug)]
pub(super) struct Turns {
    credits: Vec<f64>,
    start: usize,
}

impl Turns {
    /// The first turn goes to the node `start`, where capacities are equal.
    pub(super) fn new(start: usize) -> Self {
        Self { credits: Vec::new(), start }
    }

    /// Whose turn it is among `takers`, which are given by `taker` for each of `slots`.
    pub(super) fn next(&mut self, slots: usize, taker: impl Fn(Slot) -> Option<Candidate>) -> Option<Slot> {
        self.credits.resize(slots, 0.0);
        let mut sum = 0.0;
        let mut best: Option<Slot> = None;
        for step in 0..slots {
            let slot = Slot(((self.start + step) % slots) as u16);
            let Some(candidate) = taker(slot) else { continue };
            sum += candidate.capacity;
            self.credits[slot.index()] += candidate.capacity;
            // Rounding must not decide between equals, or the order would wobble.
            let ahead = |best: Slot| self.credits[slot.index()] > self.credits[best.index()] + 1e-9;
            if best.is_none_or(ahead) {
                best = Some(slot);
            }
        }
        self.credits[best?.index()] -= sum;
        best
    }

    /// A node that takes no calls saves up nothing, or it would come back to a burst.
    pub(super) fn forget(&mut self, slot: Slot) {
        if let Some(credit) = self.credits.get_mut(slot.index()) {
            *credit = 0.0;
        }
    }
}
