//! Counters and response times of each node.

use crate::NodeRefusal;
use core::time::Duration;
use hdrhistogram::Histogram;
use wire::Method;

/// Reason why a transaction lease ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EndReason {
    /// A 2xx response.
    Success,
    /// A 3xx to 6xx response.
    Failure,
    /// No final response in time.
    TimedOut,
    /// The call ended (its own lease ran out) while the transaction was still open.
    CallEnded,
    /// Its unanswered request moved to another node.
    Moved,
    /// The node was marked dead.
    NodeDied,
    /// The session of the unanswered transaction was evicted for lack of room.
    Evicted,
}

impl EndReason {
    /// Every reason, in declaration order.
    pub const ALL: [Self; 7] = [
        Self::Success,
        Self::Failure,
        Self::TimedOut,
        Self::CallEnded,
        Self::Moved,
        Self::NodeDied,
        Self::Evicted,
    ];

    /// The word used in metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Success => "success",
            Self::Failure => "failure",
            Self::TimedOut => "timed_out",
            Self::CallEnded => "call_ended",
            Self::Moved => "moved",
            Self::NodeDied => "node_died",
            Self::Evicted => "evicted",
        }
    }
}

/// Longest response time that is recorded: 200 s, above Timer C (RFC 3261 §16.6 step 11: over 3 minutes).
const LONGEST_MICROS: u64 = 200_000_000;
/// Highest occupancy that is recorded.
const MOST_TRANSACTIONS: u64 = 1 << 20;

/// Counters of one node, as seen by one shard.
#[derive(Clone, Debug)]
pub struct NodeStats {
    /// New calls, and other requests outside dialogs, that were assigned to the node.
    pub assigned: u64,
    /// Calls of `assigned` that went to another node as well, since this node left them unanswered
    /// ([`Balancer::move_on`](crate::Balancer::move_on)).
    pub moved: u64,
    /// New requests that did not go to the node because of a limit, by [`NodeStats::LIMITS`]. Each of them went to
    /// another node, or to no node.
    pub held_back: [u64; NodeStats::LIMITS.len()],
    /// Requests sent to the node, including retransmissions, by `Method as usize`.
    pub requests: [u64; Method::ALL.len()],
    /// Responses that came from the node.
    pub responses: StatusCounts,
    /// Transactions opened.
    pub transactions: u64,
    /// Transaction leases ended, by reason.
    pub ended: [u64; EndReason::ALL.len()],
    /// Time from an INVITE to its 2xx, in microseconds.
    pub invite_micros: Histogram<u32>,
    /// Time from a BYE to its 2xx, in microseconds.
    pub bye_micros: Histogram<u32>,
    /// Transactions that were already open on the node when another one was opened (the paper's occupancy).
    pub occupancy: Histogram<u32>,
}

impl Default for NodeStats {
    fn default() -> Self {
        // The histograms have two digits. A resolution of 1 % is finer than any decision based on them needs, and they
        // take only some 30 kB for each node. The bounds are fixed, so that recording never allocates.
        let histogram =
            |max| Histogram::new_with_bounds(1, max, 2).expect("1 to max at 2 digits are valid bounds");
        Self {
            assigned: 0,
            moved: 0,
            held_back: [0; NodeStats::LIMITS.len()],
            requests: [0; Method::ALL.len()],
            responses: StatusCounts::default(),
            transactions: 0,
            ended: [0; EndReason::ALL.len()],
            invite_micros: histogram(LONGEST_MICROS),
            bye_micros: histogram(LONGEST_MICROS),
            occupancy: histogram(MOST_TRANSACTIONS),
        }
    }
}

/// Number of responses by status.
#[derive(Clone, Debug)]
pub struct StatusCounts([u64; STATUSES]);

/// From 100 to 699 (RFC 3261 §7.2).
const STATUSES: usize = 600;
const FIRST_STATUS: u16 = 100;

impl Default for StatusCounts {
    fn default() -> Self {
        Self([0; STATUSES])
    }
}

impl StatusCounts {
    pub(crate) fn count(&mut self, status: u16) {
        // Status codes outside of SIP's range are not counted.
        if let Some(count) = self.0.get_mut(usize::from(status.wrapping_sub(FIRST_STATUS))) {
            *count += 1;
        }
    }

    /// Statuses that were seen, with their counts.
    pub fn iter(&self) -> impl Iterator<Item = (u16, u64)> {
        (FIRST_STATUS..).zip(self.0).filter(|&(_, count)| count > 0)
    }
}

fn add(sums: &mut [u64], more: &[u64]) {
    for (sum, more) in sums.iter_mut().zip(more) {
        *sum += more;
    }
}

impl NodeStats {
    /// The limits by which [`held_back`](Self::held_back) is counted.
    pub const LIMITS: [NodeRefusal; 2] = [NodeRefusal::Limit, NodeRefusal::Rate];

    /// Counts a new request that did not go to the node because of a limit.
    pub(crate) fn holds_back(&mut self, by: NodeRefusal) {
        let counts = Self::LIMITS.iter().zip(&mut self.held_back);
        counts.filter(|(limit, _)| **limit == by).for_each(|(_, count)| *count += 1);
    }

    pub(crate) fn opened(&mut self, occupancy: u32) {
        self.transactions += 1;
        self.occupancy.saturating_record(u64::from(occupancy));
    }

    pub(crate) fn ended(&mut self, reason: EndReason) {
        self.ended[reason as usize] += 1;
    }

    pub(crate) fn answered(&mut self, method: Method, took: Duration) {
        let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        match method {
            Method::Invite => self.invite_micros.saturating_record(micros),
            Method::Bye => self.bye_micros.saturating_record(micros),
            _ => {}
        }
    }

    /// Adds the counters of another shard for the same node.
    pub fn merge(&mut self, other: &Self) {
        self.assigned += other.assigned;
        self.moved += other.moved;
        add(&mut self.held_back, &other.held_back);
        self.transactions += other.transactions;
        add(&mut self.requests, &other.requests);
        add(&mut self.responses.0, &other.responses.0);
        add(&mut self.ended, &other.ended);
        for (sum, more) in [
            (&mut self.invite_micros, &other.invite_micros),
            (&mut self.bye_micros, &other.bye_micros),
            (&mut self.occupancy, &other.occupancy),
        ] {
            sum.add(more).expect("all histograms of a kind have the same bounds");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_status_is_counted_and_invalid_ones_are_ignored() {
        let mut counts = StatusCounts::default();
        for status in [100, 200, 200, 699, 0, 99, 700, 999, u16::MAX] {
            counts.count(status);
        }
        assert_eq!(counts.iter().collect::<Vec<_>>(), [(100, 1), (200, 2), (699, 1)]);
        let mut sum = NodeStats { responses: counts.clone(), ..NodeStats::default() };
        sum.merge(&NodeStats { responses: counts, ..NodeStats::default() });
        assert_eq!(sum.responses.iter().collect::<Vec<_>>(), [(100, 2), (200, 4), (699, 2)]);
    }
}
