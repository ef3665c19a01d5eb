//! A report of the transactions of a shard.

use super::limits::ProxyLimits;
use crate::site::sharing::SharingReport;
use ::dialog::CallCounts;

/// Transactions and counts of a shard of the proxy.
#[derive(Clone, Debug, Default)]
pub struct ProxyReport {
    /// Transactions there are.
    pub transactions: usize,
    /// Requests without a final response.
    pub unanswered: usize,
    /// Bytes of memory that they and their messages take.
    pub memory: usize,
    /// Most of both at a time.
    pub limits: ProxyLimits,
    /// Its counts.
    pub counters: ::proxy::ProxyCounters,
    /// What it made of the calls whose state is shared out with neighbours, if that is so.
    pub sharing: Option<SharingReport>,
    /// The calls with kept dialogs, if a pool keeps dialogs.
    pub calls: Option<CallCounts>,
}

impl ProxyReport {
    /// Adds what another shard has and did.
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
