//! Processes of one configuration with calls at the same members, and the remaining work of this process.

/// A process ID.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct ProcessId(pub u32);

/// Remaining work of the shards.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct WorkLeft {
    /// Calls and transactions of all shards, by slot.
    pub open: Vec<usize>,
    /// Requests of a proxy without a final response, and calls that wait in queues.
    pub waiting: usize,
    /// Whether a shard has entries for late messages, or connections that requests to clients depend on.
    pub is_any_kept: bool,
}
