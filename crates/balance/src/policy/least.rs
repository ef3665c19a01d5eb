use super::{Candidate, Candidates};
use crate::Slot;

/// The candidate with the least load divided by capacity, ties taken in turn.
///
/// The search starts one past the last choice, so equal nodes are chosen round-robin; shards start at different
/// places, so those that see the same loads do not all run to the same node.
#[derive(Clone, Debug)]
pub(super) struct Least {
    start: usize,
}

impl Least {
    /// `shard` spreads the first choices of the shards.
    pub(super) fn new(shard: usize) -> Self {
        Self { start: shard }
    }

    pub(super) fn choose(
        &mut self,
        candidates: &Candidates<'_>,
        load: impl Fn(&Candidate) -> f64,
    ) -> Option<Slot> {
        let slots = candidates.slots();
        let mut best: Option<(f64, Slot)> = None;
        for step in 0..slots {
            let slot = Slot(((self.start + step) % slots) as u16);
            let Some(candidate) = candidates.get(slot) else { continue };
            let relative = load(&candidate) / candidate.capacity;
            if best.is_none_or(|(least, _)| relative < least) {
                best = Some((relative, slot));
            }
        }
        let (_, slot) = best?;
        self.start = (slot.index() + 1) % slots;
        Some(slot)
    }
}
