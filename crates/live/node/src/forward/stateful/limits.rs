//! How much the transactions may hold.

use ::proxy::{MOST_BRANCHES, ProxyTimers};

/// How transactions are kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ProxySettings {
    /// Timers of the transactions, and Timer C.
    pub timers: ProxyTimers,
    /// Its limits; beyond them new requests are refused.
    pub limits: ProxyLimits,
}

/// Limits of a proxy, or of one of its shards.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ProxyLimits {
    /// Most transactions at a time.
    pub transactions: usize,
    /// Most bytes of memory for transactions and their messages.
    pub memory: usize,
    /// Most branches of a request (RFC 3261 §16.6), from 1 to 15.
    pub branches: u8,
}

impl Default for ProxyLimits {
    /// The defaults.
    fn default() -> Self {
        Self { transactions: 1_000_000, memory: 256 << 20, branches: MOST_BRANCHES }
    }
}

impl ProxyLimits {
    /// The limits of one of so many shards.
    #[must_use]
    pub fn share(self, shards: usize) -> Self {
        let share = |all: usize| all.div_ceil(shards.max(1));
        Self {
            transactions: share(self.transactions),
            memory: share(self.memory).max(SHARD_MEMORY_MIN.min(self.memory)),
            ..self
        }
    }
}

/// Of the limits, what is kept beyond them for requests within dialogs, so that calls can end.
const RESERVE: usize = 4;

pub(super) fn with_reserve(limit: usize) -> usize {
    limit.saturating_add(limit / RESERVE)
}

/// A request may have this part of the memory that is left. So long requests are refused while there is room for many
/// short ones: a flood of long requests does not shut out calls of the usual length.
pub(super) const LONGEST_PART: usize = 256;

/// Least memory of a shard, so that it takes a request of any length while it is empty.
const SHARD_MEMORY_MIN: usize = LONGEST_PART << 16;

/// Calls that the reserve is counted for. To have them forgotten takes as many other calls.
pub(super) const RESERVED_CALLS: usize = 65_536;
