//! Limits of the memory of transactions.

use ::proxy::{MOST_BRANCHES, ProxyTimers};

/// Settings of transactions.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ProxySettings {
    /// Timers of the transactions, and Timer C.
    pub timers: ProxyTimers,
    /// Limits, above which new requests are refused.
    pub limits: ProxyLimits,
}

/// Limits of a proxy, or of one of its shards.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ProxyLimits {
    /// Maximum number of transactions at a time.
    pub transactions: usize,
    /// Maximum bytes of memory for transactions and their messages.
    pub memory: usize,
    /// Maximum number of branches of a request (RFC 3261 §16.6), from 1 to 15.
    pub branches: u8,
}

impl Default for ProxyLimits {
    fn default() -> Self {
        Self { transactions: 1_000_000, memory: 256 << 20, branches: MOST_BRANCHES }
    }
}

impl ProxyLimits {
    /// Returns the limits of one of `shards` shards.
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

/// Divisor: a fourth of each limit is added to it for requests within dialogs, so that calls can end.
const RESERVE: usize = 4;

pub(super) fn with_reserve(limit: usize) -> usize {
    limit.saturating_add(limit / RESERVE)
}

/// Divisor: a request may take at most 1/256 of the remaining memory. Long requests are then refused while there is
/// still room for many short ones. So a flood of long requests does not block calls of usual length.
pub(super) const LONGEST_PART: usize = 256;

/// Minimum memory of a shard, so that an empty shard accepts a request of any length.
const SHARD_MEMORY_MIN: usize = LONGEST_PART << 16;

/// Number of calls whose use of the reserve is counted. A call is evicted only by as many other calls.
pub(super) const RESERVED_CALLS: usize = 65_536;
