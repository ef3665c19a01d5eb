//! Report on the transactions of a shard.

use super::limits::ProxyLimits;
use crate::site::sharing::SharingReport;
use ::dialog::CallCounts;

/// Transactions and counts of one shard.
#[derive(Clone, Debug, Default)]
pub struct ProxyReport {
    /// Number of transactions.
    pub transactions: usize,
    /// Requests without a final response.
    pub unanswered: usize,
    /// Bytes of memory of transactions and their messages.
    pub memory: usize,
    /// Limits of the number of transactions and of their memory.
    pub limits: ProxyLimits,
    /// Counts of the proxy's core.
    pub counters: ::proxy::ProxyCounters,
    /// Decisions about the calls whose state is shared out with neighbours. `None` if no state is shared out.
    pub sharing: Option<SharingReport>,
    /// Calls with kept dialogs, if a pool keeps dialogs.
    pub calls: Option<CallCounts>,
}

impl ProxyReport {
    /// Adds the report of another shard.
    pub fn merge(&mut self, other: &Self) {
        self.transactions += other.transactions;
        self.unanswered += other.unanswered;
        self.memory += other.memory;
        let ProxyLimits { transactions, memory, branches } = other.limits;
        self.limits.transactions = self.limits.transactions.saturating_add(transactions);
        self.limits.memory = self.limits.memory.saturating_add(memory);
        self.limits.branches = branches;
        self.counters.merge(&other.counters);
        if let Some(sharing) = &other.sharing {
            self.sharing.get_or_insert_default().merge(sharing);
        }
        if let Some(calls) = &other.calls {
            self.calls.get_or_insert_default().merge(calls);
        }
    }
}
