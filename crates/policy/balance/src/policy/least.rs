//! The choice of the node with the least load, which three policies share.

use super::turns::Turns;
use super::{Candidate, Candidates};
use crate::Slot;

/// The candidate with the least load divided by capacity; those that are level take turns, in proportion to their
/// capacity: an idle cluster still gives the bigger server more calls.
///
/// Shards start at different places, so those that see the same loads do not all run to the same node.
#[derive(Clone, Debug)]
pub(super) struct Least {
    turns: Turns,
}

impl Least {
    /// `shard` spreads the first choices of the shards.
    pub(super) fn new(shard: usize) -> Self {
        Self { turns: Turns::new(shard) }
    }

    pub(super) fn choose(
        &mut self,
        candidates: &Candidates<'_>,
        load: impl Fn(&Candidate) -> f64,
    ) -> Option<Slot> {
        let relative = |candidate: &Candidate| load(candidate) / candidate.capacity;
        let least = candidates.iter().map(|candidate| relative(&candidate)).reduce(f64::min)?;
        // No node is below the least, so "at most" is "equal".
        self.turns.next(candidates, |candidate| relative(candidate) <= least)
    }
}
