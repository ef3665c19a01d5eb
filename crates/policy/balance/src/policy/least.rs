//! Choice of the node with the least load; three policies share it.

use super::turns::Turns;
use super::{Candidate, Candidates};
use crate::Slot;

/// Chooses the candidate with the least load divided by capacity. Equal candidates take turns in proportion to their
/// capacity, so that in an idle cluster the larger server gets more calls.
///
/// Shards start at different nodes. Otherwise shards that see the same loads would all choose the same node.
#[derive(Clone, Debug)]
pub(super) struct Least {
    turns: Turns,
}

impl Least {
    /// `shard` makes the shards start at different nodes.
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
        // No node is below the least value, so "at most" means "equal".
        self.turns.next(candidates, |candidate| relative(candidate) <= least)
    }
}
