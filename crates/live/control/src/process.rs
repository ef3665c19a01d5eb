//! The processes of one configuration that have calls on the same members, and the work that the own one has left.

/// A process, by its number on the machine.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct ProcessId(pub u32);

/// What the shards still have to do.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct WorkLeft {
    /// By slot, calls and transactions of all shards.
    pub open: Vec<usize>,
    /// Requests of a proxy that wait for their answer.
    pub waiting: usize,
    /// Whether a shard has entries for late messages, or connections that requests to clients depend on.
    pub is_any_kept: bool,
}
