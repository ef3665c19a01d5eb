//! Counters and response times of each node.

use crate::NodeRefusal;
use core::ops::AddAssign;
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
#[derive(Clone, Debug, Default)]
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
    /// Sums of the times from an INVITE to its 2xx.
    pub invites: TimeSum,
    /// Sums of the times from a BYE to its 2xx.
    pub byes: TimeSum,
    /// Histograms of the node; `None` before its first transaction, since they are large.
    pub histograms: Option<Box<NodeHistograms>>,
}

/// Histograms of a node, or of all nodes of a pool. They have two digits: a resolution of 1 % is finer than any decision
/// based on them needs, and they take only some 30 kB. The bounds are fixed, so that recording never allocates.
#[derive(Clone, Debug)]
pub struct NodeHistograms {
    /// Time from an INVITE to its 2xx, in microseconds.
    pub invite_micros: Histogram<u32>,
    /// Time from a BYE to its 2xx, in microseconds.
    pub bye_micros: Histogram<u32>,
    /// Transactions that were already open on the node when another one was opened (the paper's occupancy).
    pub occupancy: Histogram<u32>,
}

impl Default for NodeHistograms {
    fn default() -> Self {
        let histogram =
            |max| Histogram::new_with_bounds(1, max, 2).expect("1 to max at 2 digits are valid bounds");
        Self {
            invite_micros: histogram(LONGEST_MICROS),
            bye_micros: histogram(LONGEST_MICROS),
            occupancy: histogram(MOST_TRANSACTIONS),
        }
    }
}

impl NodeHistograms {
    /// Adds the values of another shard or node.
    pub fn merge(&mut self, other: &Self) {
        for (sum, more) in [
            (&mut self.invite_micros, &other.invite_micros),
            (&mut self.bye_micros, &other.bye_micros),
            (&mut self.occupancy, &other.occupancy),
        ] {
            sum.add(more).expect("all histograms of a kind have the same bounds");
        }
    }
}

/// Counters of one node without histograms, which are cheap to copy.
#[derive(Clone, Copy, Debug, Default)]
pub struct NodeTotals {
    /// As [`NodeStats::assigned`].
    pub assigned: u64,
    /// As [`NodeStats::moved`].
    pub moved: u64,
    /// As [`NodeStats::held_back`].
    pub held_back: [u64; NodeStats::LIMITS.len()],
    /// As [`NodeStats::transactions`].
    pub transactions: u64,
    /// As `NodeStats::ended`.
    pub ended: [u64; EndReason::ALL.len()],
    /// Responses of the node by class, from 1xx to 6xx.
    pub responses: [u64; CLASSES],
    /// Times from an INVITE to its 2xx.
    pub invites: TimeSum,
    /// Times from a BYE to its 2xx.
    pub byes: TimeSum,
}

/// Number of response times, and their sum.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct TimeSum {
    /// Number of response times.
    pub count: u64,
    /// Sum of the times in microseconds.
    pub micros: u64,
}

impl TimeSum {
    /// Returns the mean in milliseconds; `None` without response times.
    pub fn mean_ms(self) -> Option<f64> {
        (self.count > 0).then(|| self.micros as f64 / self.count as f64 / 1000.0)
    }
}

impl AddAssign for TimeSum {
    fn add_assign(&mut self, more: Self) {
        self.count += more.count;
        self.micros += more.micros;
    }
}

impl AddAssign for NodeTotals {
    fn add_assign(&mut self, more: Self) {
        self.assigned += more.assigned;
        self.moved += more.moved;
        add(&mut self.held_back, &more.held_back);
        self.transactions += more.transactions;
        add(&mut self.ended, &more.ended);
        add(&mut self.responses, &more.responses);
        self.invites += more.invites;
        self.byes += more.byes;
    }
}

/// Number of responses by status.
#[derive(Clone, Debug, Default)]
pub struct StatusCounts {
    /// One count for each status; empty before the first response.
    each: Vec<u64>,
    /// From 1xx to 6xx.
    classes: [u64; CLASSES],
}

/// From 100 to 699 (RFC 3261 §7.2).
const STATUSES: usize = 600;
const FIRST_STATUS: u16 = 100;
/// Classes of responses, from 1xx to 6xx.
const CLASSES: usize = STATUSES / 100;

impl StatusCounts {
    pub(crate) fn count(&mut self, status: u16) {
        // Status codes outside of SIP's range are not counted.
        let index = usize::from(status.wrapping_sub(FIRST_STATUS));
        self.grow();
        if let Some(count) = self.each.get_mut(index) {
            *count += 1;
            self.classes[index / 100] += 1;
        }
    }

    fn grow(&mut self) {
        if self.each.is_empty() {
            self.each.resize(STATUSES, 0);
        }
    }

    /// Statuses that were seen, with their counts.
    pub fn iter(&self) -> impl Iterator<Item = (u16, u64)> {
        (FIRST_STATUS..).zip(self.each.iter().copied()).filter(|&(_, count)| count > 0)
    }

    fn merge(&mut self, other: &Self) {
        if !other.each.is_empty() {
            self.grow();
        }
        add(&mut self.each, &other.each);
        add(&mut self.classes, &other.classes);
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
        self.histograms.get_or_insert_default().occupancy.saturating_record(u64::from(occupancy));
    }

    pub(crate) fn ended(&mut self, reason: EndReason) {
        self.ended[reason as usize] += 1;
    }

    pub(crate) fn answered(&mut self, method: Method, took: Duration) {
        let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        match method {
            Method::Invite => {
                self.invites += TimeSum { count: 1, micros };
                self.histograms.get_or_insert_default().invite_micros.saturating_record(micros);
            }
            Method::Bye => {
                self.byes += TimeSum { count: 1, micros };
                self.histograms.get_or_insert_default().bye_micros.saturating_record(micros);
            }
            _ => {}
        }
    }

    /// Returns the counters without histograms.
    pub fn totals(&self) -> NodeTotals {
        NodeTotals {
            assigned: self.assigned,
            moved: self.moved,
            held_back: self.held_back,
            transactions: self.transactions,
            ended: self.ended,
            responses: self.responses.classes,
            invites: self.invites,
            byes: self.byes,
        }
    }

    /// Adds the counters of another shard for the same node.
    pub fn absorb(&mut self, other: Self) {
        self.assigned += other.assigned;
        self.moved += other.moved;
        add(&mut self.held_back, &other.held_back);
        self.transactions += other.transactions;
        add(&mut self.requests, &other.requests);
        self.responses.merge(&other.responses);
        self.invites += other.invites;
        self.byes += other.byes;
        add(&mut self.ended, &other.ended);
        match (&mut self.histograms, other.histograms) {
            (Some(sums), Some(more)) => sums.merge(&more),
            (sums, more) => *sums = sums.take().or(more),
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
        sum.absorb(NodeStats { responses: counts, ..NodeStats::default() });
        assert_eq!(sum.responses.iter().collect::<Vec<_>>(), [(100, 2), (200, 4), (699, 2)]);
    }

    #[test]
    fn totals_have_sums_of_times_and_classes_of_responses() {
        let mut stats = NodeStats::default();
        stats.answered(Method::Invite, Duration::from_millis(3));
        stats.answered(Method::Invite, Duration::from_millis(5));
        stats.answered(Method::Bye, Duration::from_millis(1));
        for status in [180, 200, 404, 499, 603] {
            stats.responses.count(status);
        }
        let mut totals = stats.totals();
        assert_eq!((totals.invites.mean_ms(), totals.byes.count), (Some(4.0), 1));
        assert_eq!(totals.responses, [1, 1, 0, 2, 0, 1]);
        totals += stats.totals();
        stats.absorb(stats.clone());
        assert_eq!((totals.invites, totals.responses), (stats.totals().invites, [2, 2, 0, 4, 0, 2]));
        assert_eq!(NodeTotals::default().byes.mean_ms(), None);
    }
}
