//! Counts of one shard at one moment, and sums over all shards.

use super::{SignalFigures, TriageCounts};
use balance::{
    Load, MemberRoom, NodeHistograms, NodeId, NodeRefusal, NodeStats, NodeTotals, PoolId, TableCounts,
};
use base::Ledger;
use control::ListedMember;
use node::{NeighbourReport, OverloadReport, ProxyReport, QueueReport, RegistrarReport, ShardCounters};
use std::collections::BTreeMap;
use streams::StreamCounts;

/// Counts of one shard.
#[derive(Clone, Debug)]
pub struct ShardCounts {
    /// Sessions by state.
    pub table: TableCounts,
    /// Transactions without a final response.
    pub transactions: usize,
    /// Load of each node, by slot.
    pub loads: Vec<(NodeId, Load)>,
    /// State of the members' limits by slot; `None` without limits.
    pub rooms: Vec<Option<MemberRoom>>,
    /// Counters of each node, by slot.
    pub totals: Vec<NodeTotals>,
    /// New requests for which no member of a pool took calls. Reset when pools change.
    pub without_takers: BTreeMap<PoolId, u64>,
    /// New requests refused because every member of a pool was at its limit, by the limit.
    pub at_limit: BTreeMap<(PoolId, &'static str), u64>,
    /// Requests that this process answered, by status and reason phrase.
    pub replies: BTreeMap<(u16, &'static str), u64>,
    /// Counts of forwarding with transactions.
    pub proxy: Option<ProxyReport>,
    /// Counts of the registrar.
    pub home: Option<RegistrarReport>,
    /// Counts of overload control.
    pub overload: OverloadReport,
    /// Overload control with each neighbour.
    pub neighbours: Vec<NeighbourReport>,
    /// Messages that wait for the thread.
    pub unread: usize,
    /// Share of new requests that the kernel passes to the thread. It drops the rest before the thread reads them.
    pub read_share: f64,
    /// Requests of a successor that wait for their answers on connections of this process.
    pub relayed: usize,
    /// Whether a dialog or binding depends on a connection of this process after a takeover.
    pub has_dialogs: bool,
    /// Queues by the number of their pool.
    pub queues: Vec<Option<QueueReport>>,
}

impl ShardCounts {
    /// Returns whether the shard has this node in this slot.
    pub fn knows(&self, slot: usize, id: NodeId) -> bool {
        self.loads.get(slot).is_some_and(|(there, _)| *there == id)
    }

    /// Returns calls in progress; for a proxy that keeps no dialogs, requests without a final response.
    pub fn open(&self) -> usize {
        let of_proxy = self
            .proxy
            .as_ref()
            .map_or(0, |proxy| proxy.unanswered + proxy.calls.as_ref().map_or(0, |calls| calls.answered));
        self.table.active + of_proxy
    }

    /// Returns the calls that wait in queues.
    pub fn queued(&self) -> usize {
        self.queues.iter().flatten().map(|queue| queue.waiting).sum()
    }

    /// Returns the number of entries, including those that are kept for late messages.
    pub fn kept(&self) -> usize {
        let of_proxy = self.proxy.as_ref().map_or(0, |proxy| proxy.transactions);
        self.table.active + self.table.expired + self.transactions + of_proxy
    }
}

/// All figures of a shard.
#[derive(Clone, Debug)]
pub struct ShardSnapshot {
    /// Counts of messages and their results.
    pub counters: ShardCounters,
    /// Counts of work, for its price.
    pub ledger: Ledger,
    /// Present numbers.
    pub counts: ShardCounts,
    /// First pool, counters and response times of each node, by slot.
    pub stats: Vec<(PoolId, NodeStats)>,
    /// Histograms of nodes that were in a pool.
    pub former: BTreeMap<PoolId, NodeHistograms>,
    /// Counts of messages between kernel and shard.
    pub traffic: Traffic,
    /// Load signals of the thread.
    pub signals: SignalFigures,
    /// Counts of messages that waited.
    pub triage: TriageCounts,
    /// Counts of connections; `None` without listeners for connections.
    pub streams: Option<StreamCounts>,
}

/// Counts of messages through a shard's sockets and rings.
#[derive(Clone, Copy, Debug, Default)]
pub struct Traffic {
    /// Messages read.
    pub received: u64,
    /// Messages that the kernel accepted.
    pub sent: u64,
    /// Messages that the kernel refused.
    pub send_failed: u64,
    /// Messages that the kernel discarded because they were not read in time.
    pub receive_lost: u64,
    /// Messages handed to the shard that owns their call.
    pub handed_over: u64,
    /// Messages lost because the ring to the owner was full.
    pub handover_lost: u64,
    /// Messages that no connection took.
    pub undelivered: u64,
}

/// The counts of all shards of a process.
#[derive(Clone, Copy)]
pub struct AllShards<'a>(pub &'a [ShardCounts]);

impl<'a> AllShards<'a> {
    /// Returns the shards that have this member in its slot. They learn of changes a moment after the control task.
    pub fn that_know(self, member: &ListedMember) -> impl Iterator<Item = &'a ShardCounts> {
        let (slot, id) = (member.slot.index(), member.node.id);
        self.0.iter().filter(move |counts| counts.knows(slot, id))
    }

    /// Returns the load of a member, including its load at other processes.
    pub fn load(self, member: &ListedMember) -> Load {
        self.that_know(member).fold(member.before, |sum, counts| sum + counts.loads[member.slot.index()].1)
    }

    /// Returns the counters of a member.
    pub fn totals(self, member: &ListedMember) -> NodeTotals {
        let mut sum = NodeTotals::default();
        self.that_know(member).for_each(|counts| sum += counts.totals[member.slot.index()]);
        sum
    }

    /// Returns the state of a member's limits. Each shard limits its own requests to the member. The member counts as
    /// at a limit if every shard is at its limit for the member.
    pub fn room(self, member: &ListedMember) -> Option<MemberRoom> {
        let rooms = self.that_know(member).filter_map(|counts| *counts.rooms.get(member.slot.index())?);
        rooms.reduce(|one, other| MemberRoom {
            law: one.law.or(other.law),
            open: one.open + other.open,
            refusal: one.refusal.filter(|_| other.refusal.is_some()),
            limited_for: one.limited_for.max(other.limited_for),
            pace: one.pace.zip(other.pace).map(|(one, other)| one + other).or(one.pace).or(other.pace),
            limit: one.limit.zip(other.limit).map(|(one, other)| one + other).or(one.limit).or(other.limit),
        })
    }

    /// Returns the requests refused by this process, by status and reason phrase. A challenge is no refusal.
    pub fn refused(self) -> BTreeMap<String, u64> {
        let mut sums = BTreeMap::new();
        let all = self.0.iter().flat_map(|counts| &counts.replies);
        for ((status, reason), count) in
            all.filter(|((status, _), _)| *status >= 400 && !matches!(status, 401 | 407))
        {
            *sums.entry(format!("{status} {reason}")).or_default() += count;
        }
        sums
    }

    /// Returns the new requests refused because every member of this pool was at its limit, by the limit.
    pub fn at_limit(self, pool: PoolId) -> BTreeMap<String, u64> {
        let mut sums = [NodeRefusal::Limit, NodeRefusal::Rate].map(|by| (by.name().to_owned(), 0));
        for ((of, by), count) in self.0.iter().flat_map(|counts| &counts.at_limit) {
            let sum = sums.iter_mut().find(|(name, _)| *of == pool && name == by);
            if let Some((_, sum)) = sum {
                *sum += count;
            }
        }
        sums.into()
    }

    /// Returns the queue of the pool with this number.
    pub fn queue(self, pool: PoolId) -> Option<QueueReport> {
        let reports = self.0.iter().filter_map(|counts| counts.queues.get(pool.index())?.clone());
        sum(reports, QueueReport::merge)
    }

    /// Returns the counts of transactions; `None` if no pool is forwarded to with transactions.
    pub fn proxy(self) -> Option<ProxyReport> {
        sum(self.0.iter().filter_map(|counts| counts.proxy.clone()), ProxyReport::merge)
    }

    /// Returns the state of overload control: the sum of counts, and the longest wait.
    pub fn overload(self) -> Option<OverloadReport> {
        sum(self.0.iter().map(|counts| counts.overload), OverloadReport::merge)
    }

    /// Returns the state of overload control with each neighbour, by address.
    pub fn neighbours(self) -> Vec<NeighbourReport> {
        let mut sums = BTreeMap::<_, NeighbourReport>::new();
        for report in self.0.iter().flat_map(|counts| &counts.neighbours) {
            sums.entry(report.address).and_modify(|sum| sum.merge(report)).or_insert(*report);
        }
        sums.into_values().collect()
    }

    /// Returns the messages that wait for a thread.
    pub fn unread(self) -> usize {
        self.0.iter().map(|counts| counts.unread).sum()
    }

    /// Returns the share of new requests that the kernel passes; the lowest of all threads.
    pub fn read_share(self) -> f64 {
        self.0.iter().map(|counts| counts.read_share).fold(1.0, f64::min)
    }

    /// Returns the state of the registrar; `None` without one.
    pub fn home(self) -> Option<RegistrarReport> {
        sum(self.0.iter().filter_map(|counts| counts.home.clone()), RegistrarReport::merge)
    }
}

fn sum<T>(parts: impl Iterator<Item = T>, merge: fn(&mut T, &T)) -> Option<T> {
    parts.reduce(|mut sum, part| {
        merge(&mut sum, &part);
        sum
    })
}
