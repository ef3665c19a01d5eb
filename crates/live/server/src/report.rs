//! What a [`Handle`](crate::Handle) answers, put together from what the control task and the shards say.

use crate::admin::view::{
    MemberView, NameView, OccupancyView, ScaleView, Sessions, ShardView, TimesView, ended, work,
};
use crate::capacity::CapacityReport;
use crate::control::View;
use crate::log::{self, Unwritten};
use crate::records::RecordCounts;
use crate::registrations::Contacts;
use crate::shards::{ShardCounts, ShardSnapshot};
use crate::stores::StoreReport;
use balance::{
    CandidateVerdict, Decision, Load, NodeId, NodeRefusal, NodeStats, PoolId, SessionState, Slot, Why,
};
use base::{Instant, Ledger};
use control::{ListedMember, MemberName, PoolSettings};
use location::Aor;
use node::{
    Explanation, HomeReport, Orphans, ProxyReport, QueueMember, QueueReport, QueueTurn, RouteTaken,
    ShardCounters,
};
use route::Outcome;
use std::collections::BTreeMap;
use std::net::SocketAddr;

/// What the process has to do, and whether it takes new calls: cheap to ask for.
#[derive(Clone, Debug)]
pub struct Standing {
    /// Seconds since the start.
    pub uptime_seconds: f64,
    /// The pools: those of the file in its order, then next hops.
    pub pools: Vec<PoolName>,
    /// Whether a stop was asked for.
    pub stopping: bool,
    /// What the process before still has, calls or requests of a proxy; `None`: there is none.
    pub predecessor_calls: Option<usize>,
    /// Sessions and transactions by shard.
    pub sessions: Sessions,
    /// Every member and former member.
    pub members: Vec<MemberStanding>,
    /// Names in the configuration that stand for no address.
    pub unresolved: Vec<String>,
    /// Whether there are next hops only, and no pool in the configuration.
    pub is_proxy: bool,
    /// What is kept of transactions; `None` where no pool is forwarded to with them.
    pub proxy: Option<ProxyReport>,
    /// The next hops, and whether each rests since it has failed.
    pub hops: Vec<(SocketAddr, bool)>,
    /// What became of the records of calls, where any are kept.
    pub(crate) records: Option<RecordCounts>,
    /// How the home domain does, if there is one.
    pub home: Option<HomeStanding>,
    /// The queues in front of pools.
    pub queues: Vec<QueueStanding>,
    /// What has come of updates of capacity, where they are listened for.
    pub(crate) capacity: Option<CapacityReport>,
    /// Pools whose servers are started and stopped.
    pub scales: Vec<ScaleView>,
}

/// How the home domain does.
#[derive(Clone, Debug)]
pub struct HomeStanding {
    /// What became of requests, over all shards.
    pub report: HomeReport,
    /// Where bindings and users are kept.
    pub stores: Vec<StoreReport>,
}

/// The queue in front of a pool, over all shards.
#[derive(Clone, Debug)]
pub struct QueueStanding {
    /// Name of the pool.
    pub pool: String,
    /// What waits, and what has passed.
    pub report: QueueReport,
    /// Address of each member, with the new calls a second that it can take, none if it takes no calls now, and whether who says so
    /// has fallen silent.
    pub members: Vec<(SocketAddr, f64, bool)>,
}

/// A pool, and who gets its next call.
#[derive(Clone, Debug)]
pub struct PoolName {
    /// Its number in this process.
    pub(crate) id: PoolId,
    /// As the configuration names it.
    pub name: String,
    /// Name of its policy.
    pub policy: &'static str,
}

impl PoolName {
    pub(crate) fn new(id: PoolId, pool: &PoolSettings) -> Self {
        Self { id, name: pool.name.clone(), policy: pool.policy.name() }
    }
}

/// Whether a member takes new calls.
#[derive(Clone, Debug)]
pub struct MemberStanding {
    /// Where it is.
    pub address: SocketAddr,
    /// The names of the pools that it is in.
    pub pools: Vec<String>,
    /// Whether the configuration names it.
    pub member: bool,
    /// Whether it takes new calls now.
    pub accepting: bool,
    /// Whether it gets new calls where no member takes any.
    pub last_resort: bool,
    /// One word, as [`MemberView::state`].
    pub state: &'static str,
}

/// All figures of one moment.
#[derive(Clone, Debug)]
pub struct Figures {
    /// Of the whole process.
    pub totals: Totals,
    /// Every member and former member.
    pub members: Vec<MemberReport>,
    /// How the names stand that the configuration has as members.
    pub names: Vec<NameView>,
}

/// A member or former member with all its figures, over all shards.
#[derive(Clone, Debug)]
pub struct MemberReport {
    /// As the API shows it.
    pub shown: MemberView,
    /// What it did, in full.
    pub stats: NodeStats,
}

/// Figures of the whole process.
#[derive(Clone, Debug, Default)]
pub struct Totals {
    /// Seconds since the start.
    pub uptime_seconds: f64,
    /// The pools: those of the file in its order, then next hops.
    pub pools: Vec<PoolName>,
    /// Whether a stop was asked for.
    pub stopping: bool,
    /// What the pipelines did.
    pub counters: ShardCounters,
    /// What it cost.
    pub ledger: Ledger,
    /// Names in requests that were not looked up because too many others were.
    pub look_ups_forgotten: u64,
    /// Lines of the log that were not written.
    pub unwritten: Unwritten,
    /// By shard.
    pub shards: Vec<ShardTotals>,
    /// What is kept of transactions; `None` where no pool is forwarded to with them.
    pub proxy: Option<ProxyReport>,
    /// The next hops, and whether each rests since it has failed.
    pub hops: Vec<(SocketAddr, bool)>,
    /// What became of the records of calls, where any are kept.
    pub(crate) records: Option<RecordCounts>,
    /// How the home domain does, if there is one.
    pub home: Option<HomeStanding>,
    /// The queues in front of pools.
    pub queues: Vec<QueueStanding>,
    /// What has come of updates of capacity, where they are listened for.
    pub(crate) capacity: Option<CapacityReport>,
    /// Pools whose servers are started and stopped.
    pub scales: Vec<ScaleView>,
}

/// Figures of one shard.
#[derive(Clone, Copy, Debug)]
pub struct ShardTotals {
    /// What it has to do.
    pub table: ShardView,
    /// Datagrams received.
    pub received: u64,
    /// Datagrams sent.
    pub sent: u64,
    /// Datagrams that the kernel refused to send.
    pub send_failed: u64,
    /// Datagrams that the kernel threw away because the shard was late.
    pub receive_lost: u64,
    /// Datagrams given to the shard that owns their call.
    pub handed_over: u64,
    /// Datagrams lost because the way to that shard was full.
    pub handover_lost: u64,
}

/// A session in the table.
#[derive(Clone, Debug)]
pub struct SessionReport {
    /// Address of its node.
    pub node: SocketAddr,
    /// Where it stands.
    pub state: SessionState,
    /// Seconds since it began.
    pub age_seconds: f64,
    /// Whether it counts as a call.
    pub is_call: bool,
}

/// Where a request would go.
#[derive(Clone, Debug)]
pub struct ExplainReport {
    /// The node, if it would be forwarded to one.
    pub node: Option<SocketAddr>,
    /// `policy`, `queue`, `session`, `token` or `moved`, or what else would happen: `waits`, `full`, `located`, `outside`, `search`,
    /// `rejected`, `dropped`, `unavailable`.
    pub why: &'static str,
    /// The user to whose contacts it would go, and these.
    pub located: Option<(Aor, Contacts)>,
    /// Where it would go that a member sends to others than a pool.
    pub outside: Option<SocketAddr>,
    /// The route that it goes by.
    pub route: Option<RouteTaken>,
    /// Pools of its route that were asked before, and took nothing.
    pub passed_over: Vec<PassedOverReport>,
    /// The pool that was asked, if one was.
    pub pool: Option<String>,
    /// The policy in force.
    pub policy: &'static str,
    /// Whether its call is in the session table.
    pub known: bool,
    /// The node that a verified token in it names.
    pub token: Option<SocketAddr>,
    /// Every member of that pool.
    pub candidates: Vec<CandidateReport>,
}

/// A member at the moment of a choice.
#[derive(Clone, Debug)]
pub struct CandidateReport {
    /// Where it is.
    pub member: SocketAddr,
    /// Over all shards, as the policy sees it.
    pub load: Load,
    /// Now.
    pub capacity: f64,
    /// Why it takes no calls; `None`: it takes some.
    pub refusal: Option<&'static str>,
}

/// A pool that takes nothing, so that a request goes on to the next one of its route.
#[derive(Clone, Debug)]
pub struct PassedOverReport {
    /// Its name.
    pub pool: String,
    /// Why, in the words of `failover.on`.
    pub why: &'static str,
    /// Its members.
    pub candidates: Vec<CandidateReport>,
}

impl From<&ShardCounts> for ShardView {
    fn from(counts: &ShardCounts) -> Self {
        Self { active: counts.table.active, expired: counts.table.expired, transactions: counts.transactions }
    }
}

pub(crate) fn standing(view: &View, counts: &[ShardCounts]) -> Standing {
    let member = |member: &ListedMember| {
        let load = load(member, counts);
        let accepting = member.node.refusal(view.now, load.calls).is_none();
        let last_resort = member.node.last_resort_refusal(view.now, load.calls).is_none();
        let state = state(member, view.now, load);
        MemberStanding {
            address: member.address,
            pools: view.named(&member.pools),
            member: member.node.member,
            accepting,
            last_resort,
            state,
        }
    };
    let unresolved = view.names.iter().filter(|name| name.addresses == 0);
    Standing {
        uptime_seconds: view.now.as_secs_f64(),
        pools: view.pools.clone(),
        stopping: view.stopping,
        predecessor_calls: view.predecessor_calls,
        sessions: counts.iter().map(ShardView::from).collect(),
        members: view.members.iter().map(member).collect(),
        unresolved: unresolved.map(|name| name.name.clone()).collect(),
        is_proxy: view.is_proxy,
        proxy: proxy(counts),
        hops: hops(view),
        records: view.records.clone(),
        home: home(view, counts),
        queues: queues(view, counts),
        capacity: view.capacity.clone(),
        scales: view.scales.clone(),
    }
}

/// The queue in front of the pool of this number, over all shards.
pub(crate) fn queue(counts: &[ShardCounts], pool: PoolId) -> Option<QueueReport> {
    let reports = counts.iter().filter_map(|counts| counts.queues.get(pool.index())?.clone());
    reports.reduce(|mut sum, report| {
        sum.merge(&report);
        sum
    })
}

fn queues(view: &View, counts: &[ShardCounts]) -> Vec<QueueStanding> {
    let of_pool = |pool: &PoolName| {
        let report = queue(counts, pool.id)?;
        let member = |member: &QueueMember| {
            let listed = view.at(member.slot)?;
            // Nobody is beside a server that is off.
            let capacity = if member.is_open { member.capacity } else { 0.0 };
            Some((listed.address, capacity, member.is_silent && !is_off(listed)))
        };
        let members = report.members.iter().filter_map(member).collect();
        Some(QueueStanding { pool: pool.name.clone(), report, members })
    };
    view.pools.iter().filter_map(of_pool).collect()
}

fn hops(view: &View) -> Vec<(SocketAddr, bool)> {
    let members = view.hops.iter().filter_map(|&slot| view.at(slot)).filter(|hop| hop.node.member);
    members.map(|hop| (hop.address, !hop.node.is_up() || hop.node.paused_until > view.now)).collect()
}

/// Over all shards.
fn proxy(counts: &[ShardCounts]) -> Option<ProxyReport> {
    counts.iter().filter_map(|counts| counts.proxy.clone()).reduce(|mut sum, report| {
        sum.merge(&report);
        sum
    })
}

/// Over all shards.
fn home(view: &View, counts: &[ShardCounts]) -> Option<HomeStanding> {
    let reports = counts.iter().filter_map(|counts| counts.home.clone());
    let report = reports.reduce(|mut sum, report| {
        sum.merge(&report);
        sum
    });
    report.map(|report| HomeStanding { report, stores: view.stores.clone() })
}

/// `oldest` has the beginning of the oldest call by slot, where that was asked for.
pub(crate) fn figures(
    view: &View,
    snapshots: &[ShardSnapshot],
    oldest: &BTreeMap<usize, Instant>,
) -> Figures {
    let mut totals = Totals {
        uptime_seconds: view.now.as_secs_f64(),
        pools: view.pools.clone(),
        stopping: view.stopping,
        look_ups_forgotten: view.look_ups_forgotten,
        unwritten: log::unwritten(),
        hops: hops(view),
        records: view.records.clone(),
        capacity: view.capacity.clone(),
        scales: view.scales.clone(),
        ..Totals::default()
    };
    for snapshot in snapshots {
        totals.counters.merge(&snapshot.counters);
        totals.ledger += snapshot.ledger;
        totals.shards.push(ShardTotals {
            table: ShardView::from(&snapshot.counts),
            received: snapshot.traffic.received,
            sent: snapshot.traffic.sent,
            send_failed: snapshot.traffic.send_failed,
            receive_lost: snapshot.traffic.receive_lost,
            handed_over: snapshot.traffic.handed_over,
            handover_lost: snapshot.traffic.handover_lost,
        });
    }
    let counts: Vec<_> = snapshots.iter().map(|snapshot| snapshot.counts.clone()).collect();
    totals.proxy = proxy(&counts);
    totals.home = home(view, &counts);
    totals.queues = queues(view, &counts);
    let report = |member: &ListedMember| {
        let (slot, id) = (member.slot.index(), member.node.id);
        let mut stats = NodeStats::default();
        for snapshot in snapshots.iter().filter(|snapshot| is_at(&snapshot.counts, slot, id)) {
            stats.merge(&snapshot.stats[slot]);
        }
        let age = oldest.get(&slot).map(|began| view.now.saturating_since(*began).as_secs_f64());
        let shown = MemberView {
            pools: view.named(&member.pools),
            oldest_call_seconds: age,
            ..shown(member, view.now, load(member, &counts), &stats)
        };
        MemberReport { shown, stats }
    };
    let name = |MemberName { name, addresses, error }: MemberName| NameView { name, addresses, error };
    let names = view.names.iter().cloned().map(name).collect();
    Figures { totals, members: view.members.iter().map(report).collect(), names }
}

/// Whether the shard knows this node in this slot; it hears of changes a moment later than the control task.
pub(crate) fn is_at(counts: &ShardCounts, slot: usize, id: NodeId) -> bool {
    counts.loads.get(slot).is_some_and(|(there, _)| *there == id)
}

/// Load over all shards.
pub(crate) fn load(member: &ListedMember, counts: &[ShardCounts]) -> Load {
    let (slot, id) = (member.slot.index(), member.node.id);
    let here = counts.iter().filter(|counts| is_at(counts, slot, id));
    here.fold(member.before, |sum, counts| sum + counts.loads[slot].1)
}

/// Whether it does not answer, and its scaler wants it to have no calls: that is as it should be.
fn is_off(member: &ListedMember) -> bool {
    member.drains.scaler && !member.node.is_up()
}

fn state(member: &ListedMember, now: Instant, load: Load) -> &'static str {
    let node = &member.node;
    match node.refusal(now, load.calls) {
        Some(NodeRefusal::Unreachable) if is_off(member) => "off",
        Some(NodeRefusal::Unreachable) => "down",
        Some(refusal) => refusal.name(),
        None if node.capacity_at(now) < node.capacity => "slow-start",
        None => "up",
    }
}

/// Without what others know of it: the names of its pools, and its oldest call.
fn shown(member: &ListedMember, now: Instant, load: Load, stats: &NodeStats) -> MemberView {
    let node = &member.node;
    MemberView {
        name: member.name.clone(),
        address: member.address,
        pools: Vec::new(),
        state: state(member, now, load).to_owned(),
        member: node.member,
        reachable: node.is_up(),
        answers_probes: node.answers_probes,
        accepting: node.refusal(now, load.calls).is_none(),
        draining: node.draining,
        drained_by_scaler: member.drains.scaler,
        paused_seconds: node.paused_until.saturating_since(now).as_secs_f64(),
        ejected_seconds: node.ejected_until.saturating_since(now).as_secs_f64(),
        ejections_total: node.ejections,
        capacity: node.capacity,
        capacity_now: node.capacity_at(now),
        max_calls: node.max_calls,
        calls: load.calls,
        transactions: load.transactions,
        work: work(load.work),
        assigned_total: stats.assigned,
        transactions_total: stats.transactions,
        ended: ended(stats).map(|(reason, count)| (reason.to_owned(), count)).collect(),
        invite_ms: TimesView::from(&stats.invite_micros),
        bye_ms: TimesView::from(&stats.bye_micros),
        occupancy: OccupancyView::from(&stats.occupancy),
        oldest_call_seconds: None,
        last_probe: member.last_probe.map(|result| result.to_string()),
        since_change_seconds: now.saturating_since(member.last_change).as_secs_f64(),
    }
}

pub(crate) fn explained(view: &View, explanation: &Explanation, contacts: Option<Contacts>) -> ExplainReport {
    let address = |slot: Slot| view.at(slot).map(|member| member.address);
    let outside = explanation.outside.map(|way| way.peer);
    let (node, why) = match (explanation.decision, explanation.orphans) {
        _ if outside.is_some() => (None, "outside"),
        _ if explanation.located.is_some() => (None, "located"),
        _ if let Some(taken) = explanation.queue => match taken {
            QueueTurn::Member(slot) => (address(slot), "queue"),
            QueueTurn::Waits => (None, "waits"),
            QueueTurn::Full => (None, "full"),
        },
        (Decision::Forward { slot, why }, _) => (address(slot), why.name()),
        (Decision::Search, _) => (None, "search"),
        (Decision::Orphan, Orphans::Reject | Orphans::Balance) => (None, "rejected"),
        (Decision::Orphan, Orphans::Drop) => (None, "dropped"),
        (Decision::NoServer | Decision::NoRoom, _) => (None, "unavailable"),
    };
    let candidates = |verdicts: &[CandidateVerdict]| {
        let report = |verdict: &CandidateVerdict| {
            let candidate = verdict.candidate;
            Some(CandidateReport {
                member: address(candidate.slot)?,
                load: candidate.load,
                capacity: candidate.capacity,
                refusal: verdict.refusal.map(NodeRefusal::name),
            })
        };
        verdicts.iter().filter_map(report).collect()
    };
    let passed_over = explanation.passed_over.iter().map(|over| PassedOverReport {
        pool: view.named(&[over.pool]).pop().unwrap_or_default(),
        why: if over.outcome == Outcome::Full { "full" } else { "dead" },
        candidates: candidates(&over.verdicts),
    });
    let is_asked = outside.is_none()
        && explanation.located.is_none()
        && match explanation.decision {
            Decision::Forward { why, .. } => matches!(why, Why::Policy | Why::Moved),
            Decision::NoServer | Decision::NoRoom => true,
            Decision::Search | Decision::Orphan => false,
        };
    let named = |id| view.members.iter().find(|member| member.node.id == id).map(|member| member.address);
    ExplainReport {
        node,
        why,
        located: explanation.located.clone().zip(contacts),
        outside,
        route: explanation.route.clone(),
        passed_over: passed_over.collect(),
        pool: is_asked.then(|| view.named(&[explanation.pool]).pop()).flatten(),
        policy: explanation.policy,
        known: explanation.known,
        token: explanation.token.and_then(named),
        candidates: candidates(&explanation.verdicts),
    }
}
