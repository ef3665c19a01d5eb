//! Pools: which nodes a new call may go to, and how one of them is chosen.

use crate::members::Members;
use crate::{Node, Policy, PoolId, Protection, Slot};
use overload::member::MemberLaw;

/// A pool of a shard.
#[derive(Debug)]
pub struct Pool {
    /// Chooses for new calls.
    pub policy: Box<dyn Policy>,
    /// Among these.
    pub members: Members,
    /// How these are kept from more than they can do.
    pub protection: Protection,
    /// Whether so many are dead that all are taken to be alive.
    pub(crate) panics: bool,
}

impl Pool {
    /// A pool of every node.
    pub fn of_all(policy: Box<dyn Policy>) -> Self {
        Self::new(policy, Members::All, Protection::default())
    }

    /// A pool of these nodes.
    pub fn new(policy: Box<dyn Policy>, members: Members, protection: Protection) -> Self {
        Self { policy, members, protection, panics: false }
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
            let members = || {
                pool.members
                    .from(Slot(0), nodes.len())
                    .map(|slot| &nodes[slot.index()])
                    .filter(|node| node.member)
            };
            let dead = members().filter(|node| !node.is_up()).count();
            pool.panics =
                pool.protection.panic < 1.0 && dead as f64 > pool.protection.panic * members().count() as f64;
        }
    }

    /// The law of the limits of the node in a slot: of several pools the first that has one.
    pub(crate) fn law_of(&self, slot: Slot) -> Option<MemberLaw> {
        self.0.iter().filter(|pool| pool.members.has(slot)).find_map(|pool| pool.protection.law)
    }
}
