//! Identifiers of nodes and pools.

use core::fmt;

/// Identity of a node: a hash of its transport address. It is the same after a restart, on a peer balancer, and for any
/// order of the members. It does not depend on weight or health.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct NodeId(pub u32);

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:08x}", self.0)
    }
}

/// Index of a node in this process. A slot goes to another node only after its node has left and no session or token
/// uses the slot any more ([`Cluster::release`](crate::Cluster::release)).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Slot(pub u16);

impl Slot {
    /// The slot as an index.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// Number of a pool in this process. The number of a removed pool is not reused, so that waiting requests and ringing
/// calls never use another pool in its place.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct PoolId(pub u16);

impl PoolId {
    /// The number as an index.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}
