//! The policy Transaction-Least-Work-Left (TLWL).

use super::least::Least;
use super::{Candidates, NewCall, Policy, PolicyKind};
use crate::Slot;

/// Transaction-Least-Work-Left: the node with the least weighted work, divided by capacity.
///
/// Source: TLWL paper, section III A 3. A node with an open INVITE (1.75) and an open BYE (1.0) has a load of 2.75. The
/// leases carry the weights ([`crate::Weights`]).
#[derive(Clone, Debug)]
pub struct Tlwl(Least);

impl Tlwl {
    /// `shard` makes the shards start at different nodes.
    pub fn new(shard: usize) -> Self {
        Self(Least::new(shard))
    }
}

impl Policy for Tlwl {
    fn name(&self) -> &'static str {
        PolicyKind::Tlwl.name()
    }

    fn choose(&mut self, _: &NewCall<'_>, candidates: &Candidates<'_>) -> Option<Slot> {
        self.0.choose(candidates, |candidate| candidate.load.work as f64)
    }

    fn clone_box(&self) -> Box<dyn Policy> {
        Box::new(self.clone())
    }
}
