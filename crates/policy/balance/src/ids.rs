//! What nodes and pools are known by.

use core::fmt;

/// Identity of a node: a hash of its transport address, so the same after a restart, on a peer balancer, and
/// whatever the order of the members. Weight and health are not part of it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct NodeId(pub u32);

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:08x}", self.0)
    }
}

/// Index of a node in this process. A slot goes to another node only after its node has left and nothing points there
/// any more ([`Cluster::release`](crate::Cluster::release)).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Slot(pub u16);

impl Slot {
    /// As an index.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// Number of a pool in this process. One that is gone keeps its number, so that nothing which waits or rings takes
/// another pool for it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct PoolId(pub u16);

impl PoolId {
    /// As an index.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}
