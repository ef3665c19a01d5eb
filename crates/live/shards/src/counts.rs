//! What a shard has to do and did, at one moment, and what all have together.

use super::{SignalFigures, TriageCounts};
use balance::{Load, MemberRoom, NodeId, NodeRefusal, NodeStats, PoolId, TableCounts};
use base::Ledger;
use control::ListedMember;
use node::{NeighbourReport, OverloadReport, ProxyReport, QueueReport, RegistrarReport, ShardCounters};
use std::collections::BTreeMap;
use streams::StreamCounts;

/// What a shard has to do.
#[derive(Clone, Debug)]
pub struct ShardCounts {
    /// Calls by their state.
    pub table: TableCounts,
    /// Transactions that wait for an answer.
    pub transactions: usize,
    /// By slot.
    pub loads: Vec<(NodeId, Load)>,
    /// By slot, how the limits of members stand, where they have any.
    pub rooms: Vec<Option<MemberRoom>>,
    /// New requests that each slot was given, but for those that another member of the pool has, too.
    pub assigned: Vec<u64>,
    /// New requests that found nobody in a pool who takes them. Begins anew when pools change.
    pub without_takers: BTreeMap<PoolId, u64>,
    /// New requests that were refused since every member of a pool had too much to do, by the limit.
    pub at_limit: BTreeMap<(PoolId, &'static str), u64>,
    /// Requests that were answered here, by status and reason phrase.
    pub replies: BTreeMap<(u16, &'static str), u64>,
    /// Of a proxy.
    pub proxy: Option<ProxyReport>,
    /// Of the home domain.
    pub home: Option<RegistrarReport>,
    /// Of overload control.
    pub overload: OverloadReport,
    /// Overload control with each neighbour.
    pub neighbours: Vec<NeighbourReport>,
    /// Messages that wait for the thread.
    pub unread: usize,
    /// Requests of another process that has taken over, which wait for their answers on connections that are here.
    pub relayed: usize,
    /// Whether a dialog or binding names a connection that is here, where another process has taken over.
    pub has_dialogs: bool,
    /// Of the queues, by the number of their pool.
    pub queues: Vec<Option<QueueReport>>,
}

impl ShardCounts {
    /// Whether the shard knows this node in this slot.
    pub fn knows(&self, slot: usize, id: NodeId) -> bool {
        self.loads.get(slot).is_some_and(|(there, _)| *there == id)
    }

    /// Calls in progress; of a proxy that keeps no dialogs, requests that wait for their answer.
    pub fn open(&self) -> usize {
        let of_proxy = self
            .proxy
            .as_ref()
            .map_or(0, |proxy| proxy.unanswered + proxy.calls.as_ref().map_or(0, |calls| calls.answered));
        self.table.active + of_proxy
    }

    /// Calls that wait in queues.
    pub fn queued(&self) -> usize {
        self.queues.iter().flatten().map(|queue| queue.waiting).sum()
    }

    /// Entries, with those that are kept for late messages.
    pub fn kept(&self) -> usize {
        let of_proxy = self.proxy.as_ref().map_or(0, |proxy| proxy.transactions);
        self.table.active + self.table.expired + self.transactions + of_proxy
    }
}

/// All figures of a shard.
#[derive(Clone, Debug)]
pub struct ShardSnapshot {
    /// Of messages and what became of them.
    pub counters: ShardCounters,
    /// Of work done, for its price.
    pub ledger: Ledger,
    /// What is there now.
    pub counts: ShardCounts,
    /// By slot.
    pub stats: Vec<NodeStats>,
    /// Of messages between kernel and shard.
    pub traffic: Traffic,
    /// How busy the thread is.
    pub signals: SignalFigures,
    /// Of messages that waited.
    pub triage: TriageCounts,
    /// Of its connections; `None`: there are no listeners for them.
    pub streams: Option<StreamCounts>,
}

/// What went through a shard's sockets and rings.
#[derive(Clone, Copy, Debug, Default)]
pub struct Traffic {
    /// Messages that were read.
    pub received: u64,
    /// Messages that the kernel took.
    pub sent: u64,
    /// Refused by the kernel on sending.
    pub send_failed: u64,
    /// Thrown away by the kernel because nobody fetched them in time.
    pub receive_lost: u64,
    /// Messages that went to the shard that owns their call.
    pub handed_over: u64,
    /// The ring to the owner was full.
    pub handover_lost: u64,
    /// No connection took them.
    pub undelivered: u64,
}

/// All shards of a process.
#[derive(Clone, Copy)]
pub struct AllShards<'a>(pub &'a [ShardCounts]);

impl<'a> AllShards<'a> {
    /// Those that know this member in its slot; they hear of changes a moment later than the control task.
    pub fn that_know(self, member: &ListedMember) -> impl Iterator<Item = &'a ShardCounts> {
        let (slot, id) = (member.slot.index(), member.node.id);
        self.0.iter().filter(move |counts| counts.knows(slot, id))
    }

    /// Load of a member, with what the process before still has there.
    pub fn load(self, member: &ListedMember) -> Load {
        self.that_know(member).fold(member.before, |sum, counts| sum + counts.loads[member.slot.index()].1)
    }

    /// How the limits of a member stand: each shard has its own, for what it sends there itself. The member is at a
    /// limit where it is for all of them.
    pub fn room(self, member: &ListedMember) -> Option<MemberRoom> {
        let rooms = self.that_know(member).filter_map(|counts| *counts.rooms.get(member.slot.index())?);
        rooms.reduce(|one, other| MemberRoom {
            law: one.law.or(other.law),
            open: one.open + other.open,
            refusal: one.refusal.filter(|_| other.refusal.is_some()),
            limit: one.limit.zip(other.limit).map(|(one, other)| one + other).or(one.limit).or(other.limit),
        })
    }

    /// Requests that were refused here, by status and reason phrase. A challenge is no refusal.
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

    /// New requests that were refused since every member of this pool had too much to do, by the limit.
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

    /// The queue in front of the pool of this number.
    pub fn queue(self, pool: PoolId) -> Option<QueueReport> {
        let reports = self.0.iter().filter_map(|counts| counts.queues.get(pool.index())?.clone());
        sum(reports, QueueReport::merge)
    }

    /// What is kept of transactions; `None` where no pool is forwarded to with them.
    pub fn proxy(self) -> Option<ProxyReport> {
        sum(self.0.iter().filter_map(|counts| counts.proxy.clone()), ProxyReport::merge)
    }

    /// Overload control: the counts of all, and the longest wait.
    pub fn overload(self) -> Option<OverloadReport> {
        sum(self.0.iter().map(|counts| counts.overload), OverloadReport::merge)
    }

    /// Overload control with each neighbour, by address.
    pub fn neighbours(self) -> Vec<NeighbourReport> {
        let mut sums = BTreeMap::<_, NeighbourReport>::new();
        for report in self.0.iter().flat_map(|counts| &counts.neighbours) {
            sums.entry(report.address).and_modify(|sum| sum.merge(report)).or_insert(*report);
        }
        sums.into_values().collect()
    }

    /// Messages that wait for a thread.
    pub fn unread(self) -> usize {
        self.0.iter().map(|counts| counts.unread).sum()
    }

    /// How the home domain does, if there is one.
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
