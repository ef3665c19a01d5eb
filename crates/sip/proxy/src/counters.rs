//! What a proxy did, counted.

/// What a proxy did.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ProxyCounters {
    /// Requests that began a transaction and were forwarded.
    pub forwarded: u64,
    /// Requests sent to an alternate after a 503.
    pub retried: u64,
    /// Branches that a request had beyond its first one.
    pub forked: u64,
    /// Groups of targets that were given up because their time was over.
    pub rung_out: u64,
    /// CANCELs sent to next hops.
    pub cancelled: u64,
    /// ACKs and other requests forwarded without a transaction.
    pub stateless: u64,
    /// Responses relayed.
    pub relayed: u64,
    /// Responses that answer nothing of ours: dropped (RFC 6026 §8.9).
    pub stray: u64,
    /// Requests answered by the proxy itself with 300 or more.
    pub refused: u64,
}

impl ProxyCounters {
    /// Adds what another proxy did.
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
