//! Pools: the nodes to which a new call may go, with the policy that chooses among them.

use crate::members::Members;
use crate::{Node, Policy, PoolId, Slot};
use overload::member::MemberLaw;

/// A pool of a shard.
#[derive(Debug)]
pub struct Pool {
    /// Policy for new calls.
    pub policy: Box<dyn Policy>,
    /// Nodes to choose from.
    pub members: Members,
    /// Law of the measured limit of each member; `None` for no such limit.
    pub law: Option<MemberLaw>,
}

impl Pool {
    /// Creates a pool of all nodes.
    pub fn of_all(policy: Box<dyn Policy>) -> Self {
        Self::new(policy, Members::All, None)
    }

    /// Creates a pool of these nodes.
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

    /// Index of a pool. An unknown pool maps to the first one.
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

    /// Pools that contain the node in a slot.
    pub(crate) fn with(&mut self, slot: Slot) -> impl Iterator<Item = &mut Pool> {
        self.0.iter_mut().filter(move |pool| pool.members.has(slot))
    }

    pub(crate) fn on_nodes(&mut self, nodes: &[Node]) {
        for pool in &mut self.0 {
            pool.policy.on_nodes(nodes);
        }
    }

    /// Law for the limit of the node in a slot: the law of the first pool that contains the node and has a law.
    pub(crate) fn law_of(&self, slot: Slot) -> Option<MemberLaw> {
        self.0.iter().filter(|pool| pool.members.has(slot)).find_map(|pool| pool.law)
    }
}
