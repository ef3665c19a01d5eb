//! The policy round-robin.

use super::turns::Turns;
use super::{Candidates, NewCall, Policy, PolicyKind};
use crate::Slot;

/// Round-robin, in proportion to capacity.
#[derive(Clone, Debug)]
pub struct RoundRobin(Turns);

impl RoundRobin {
    /// `shard` makes the shards start at different nodes.
    pub fn new(shard: usize) -> Self {
        Self(Turns::new(shard))
    }
}

impl Policy for RoundRobin {
    fn name(&self) -> &'static str {
        PolicyKind::RoundRobin.name()
    }

    fn choose(&mut self, _: &NewCall<'_>, candidates: &Candidates<'_>) -> Option<Slot> {
        self.0.next(candidates, |_| true)
    }

    fn clone_box(&self) -> Box<dyn Policy> {
        Box::new(self.clone())
    }
}
