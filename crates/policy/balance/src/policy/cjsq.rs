//! The policy Call-Join-Shortest-Queue (CJSQ).

use super::least::Least;
use super::{Candidates, NewCall, Policy, PolicyKind};
use crate::Slot;

/// Call-Join-Shortest-Queue: the node with the fewest calls, divided by capacity.
///
/// Source: TLWL paper, section III A 1. Its text says that the counter is incremented when a call ends; the digest,
/// section IV A 1, correctly says decremented. Calls without traffic count like active ones.
#[derive(Clone, Debug)]
pub struct Cjsq(Least);

impl Cjsq {
    /// `shard` makes the shards start at different nodes.
    pub fn new(shard: usize) -> Self {
        Self(Least::new(shard))
    }
}

impl Policy for Cjsq {
    fn name(&self) -> &'static str {
        PolicyKind::Cjsq.name()
    }

    fn choose(&mut self, _: &NewCall<'_>, candidates: &Candidates<'_>) -> Option<Slot> {
        self.0.choose(candidates, |candidate| f64::from(candidate.load.calls))
    }

    fn clone_box(&self) -> Box<dyn Policy> {
        Box::new(self.clone())
    }
}
