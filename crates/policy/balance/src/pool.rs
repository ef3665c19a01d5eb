//! Pools: which nodes a new call may go to, and how one of them is chosen.

use crate::{Node, Policy, Slot};

/// Number of a pool in this process. One that is gone keeps its number, so that nothing which waits or rings takes another pool
/// for it.
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
    /// Those in some slots.
    Some {
        /// The slots in order: what goes through a pool does not go through all nodes.
        slots: Vec<Slot>,
        /// The same by slot; what is beyond the end is in no pool of this kind.
        has: Vec<bool>,
    },
}

impl Members {
    /// Those in these slots.
    pub fn of(slots: impl IntoIterator<Item = Slot>) -> Self {
        let mut slots: Vec<_> = slots.into_iter().collect();
        slots.sort_unstable();
        slots.dedup();
        let mut has = vec![false; slots.last().map_or(0, |last| last.index() + 1)];
        for slot in &slots {
            has[slot.index()] = true;
        }
        Self::Some { slots, has }
    }

    /// Whether the node in a slot is one of them.
    pub fn has(&self, slot: Slot) -> bool {
        match self {
            Self::All => true,
            Self::Some { has, .. } => has.get(slot.index()).copied().unwrap_or_default(),
        }
    }

    /// Their slots where there are so many nodes: from `first` on, then those before it.
    pub(crate) fn from(&self, first: Slot, nodes: usize) -> impl Iterator<Item = Slot> + '_ {
        let (slots, start) = match self {
            Self::All => (None, first.index()),
            Self::Some { slots, .. } => (Some(slots), slots.partition_point(|slot| *slot < first)),
        };
        let count = slots.map_or(nodes, Vec::len);
        let at = move |place: usize| slots.map_or(Slot(place as u16), |slots| slots[place]);
        (start..count).chain(0..start.min(count)).map(at).filter(move |slot| slot.index() < nodes)
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
}
