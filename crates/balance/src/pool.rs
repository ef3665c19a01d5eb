//! Pools: which nodes a new call may go to, and how one of them is chosen.

use crate::{Node, Policy, Slot};

/// Number of a pool in this process.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct PoolId(pub u16);

impl PoolId {
    /// As an index.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// The nodes of a pool. A node may be in several; it has one load and one health.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum Members {
    /// Every node.
    #[default]
    All,
    /// By slot; what is beyond the end is in no pool of this kind.
    Some(Vec<bool>),
}

impl Members {
    /// Those in these slots.
    pub fn of(slots: impl IntoIterator<Item = Slot>) -> Self {
        let mut members = Vec::new();
        for slot in slots {
            members.resize(members.len().max(slot.index() + 1), false);
            members[slot.index()] = true;
        }
        Self::Some(members)
    }

    /// Whether the node in a slot is one of them.
    pub fn has(&self, slot: Slot) -> bool {
        match self {
            Self::All => true,
            Self::Some(members) => members.get(slot.index()).copied().unwrap_or_default(),
        }
    }
}

/// A pool of a shard.
#[derive(Debug)]
pub struct Pool {
    /// Chooses for new calls.
    pub policy: Box<dyn Policy>,
    /// Among these.
    pub members: Members,
}

impl Pool {
    /// A pool of every node.
    pub fn of_all(policy: Box<dyn Policy>) -> Self {
        Self { policy, members: Members::All }
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

    /// A request that names a pool which is no more, after a reload, goes to the first one.
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
}
