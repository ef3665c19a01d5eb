//! The policy Transaction-Join-Shortest-Queue (TJSQ).

use super::least::Least;
use super::{Candidates, NewCall, Policy, PolicyKind};
use crate::Slot;

/// Transaction-Join-Shortest-Queue: the node with the fewest open transactions, divided by capacity.
///
/// Source: TLWL paper, section III A 2.
#[derive(Clone, Debug)]
pub struct Tjsq(Least);

impl Tjsq {
    /// `shard` makes the shards start at different nodes.
    pub fn new(shard: usize) -> Self {
        Self(Least::new(shard))
    }
}

impl Policy for Tjsq {
    fn name(&self) -> &'static str {
        PolicyKind::Tjsq.name()
    }

    fn choose(&mut self, _: &NewCall<'_>, candidates: &Candidates<'_>) -> Option<Slot> {
        self.0.choose(candidates, |candidate| f64::from(candidate.load.transactions))
    }

    fn clone_box(&self) -> Box<dyn Policy> {
        Box::new(self.clone())
    }
}
