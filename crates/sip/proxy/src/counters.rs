//! Counters of a proxy.

/// Counters of a proxy.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ProxyCounters {
    /// Requests forwarded with a transaction.
    pub forwarded: u64,
    /// Requests sent to an alternate next hop after a failure.
    pub retried: u64,
    /// Branches beyond the first one of a request.
    pub forked: u64,
    /// Groups of targets that ended because their time was over.
    pub rung_out: u64,
    /// CANCELs sent to next hops.
    pub cancelled: u64,
    /// ACKs and other requests forwarded without a transaction.
    pub stateless: u64,
    /// Responses forwarded.
    pub relayed: u64,
    /// Responses that match no transaction, and were dropped (RFC 6026 §8.9).
    pub stray: u64,
    /// Requests that the proxy itself answered with a status of 300 or more.
    pub refused: u64,
}

impl ProxyCounters {
    /// Adds the counters of another proxy.
    pub fn merge(&mut self, other: &Self) {
        self.forwarded += other.forwarded;
        self.retried += other.retried;
        self.forked += other.forked;
        self.rung_out += other.rung_out;
        self.cancelled += other.cancelled;
        self.stateless += other.stateless;
        self.relayed += other.relayed;
        self.stray += other.stray;
        self.refused += other.refused;
    }
}
