//! Pools: which nodes a new call may go to, and how one of them is chosen.

use crate::members::Members;
use crate::{Node, Policy, PoolId, Slot};
use overload::member::MemberLaw;

/// A pool of a shard.
#[derive(Debug)]
pub struct Pool {
    /// Chooses for new calls.
    pub policy: Box<dyn Policy>,
    /// Among these.
    pub members: Members,
    /// The law of the limit that is found for each of them; `None` for no such limit.
    pub law: Option<MemberLaw>,
}

impl Pool {
    /// A pool of every node.
    pub fn of_all(policy: Box<dyn Policy>) -> Self {
        Self::new(policy, Members::All, None)
    }

    /// A pool of these nodes.
    pub fn new(policy: Box<dyn Policy>, members: Members, law: Option<MemberLaw>) -> Self {
        Self { policy, members, law }
    }
}

/// The pools of a shard, at least one.
#[derive(Debug)]
pub(crate) struct Pools(Vec<Pool>);

impl Pools {
    pub(crate) fn new(pools: Vec<Pool>) -> Self {
        assert!(!pools.is_empty(), "a balancer has a pool");
        Self(pools)
    }

    pub(crate) fn take(&mut self) -> Vec<Pool> {
        core::mem::take(&mut self.0)
    }

    /// One that has no pool here is as the first.
    fn at(&self, PoolId(id): PoolId) -> usize {
        let index = usize::from(id);
        if index < self.0.len() { index } else { 0 }
    }

    pub(crate) fn get(&self, id: PoolId) -> &Pool {
        &self.0[self.at(id)]
    }

    pub(crate) fn get_mut(&mut self, id: PoolId) -> &mut Pool {
        let at = self.at(id);
        &mut self.0[at]
    }

    /// Those that have the node in a slot.
    pub(crate) fn with(&mut self, slot: Slot) -> impl Iterator<Item = &mut Pool> {
        self.0.iter_mut().filter(move |pool| pool.members.has(slot))
    }

    pub(crate) fn on_nodes(&mut self, nodes: &[Node]) {
        for pool in &mut self.0 {
            pool.policy.on_nodes(nodes);
        }
    }

    /// The law of the limits of the node in a slot: of several pools the first that has one.
    pub(crate) fn law_of(&self, slot: Slot) -> Option<MemberLaw> {
        self.0.iter().filter(|pool| pool.members.has(slot)).find_map(|pool| pool.law)
    }
}
