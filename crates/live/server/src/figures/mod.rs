//! All figures that the process shows. They are made in one place from the state of the control task and of the shards.
//! The admin interface answers with parts of them, metrics are read from them, and the terminal reads them from the
//! JSON. Times are in seconds unless the name says otherwise.
//!
//! Each part is declared with the macro of `metric.rs`, which holds its text in `docs/openapi.json`, its source and its
//! metric in one place.

mod calls;
mod capacity;
mod commands;
mod connections;
mod contacts;
mod explanation;
mod failures;
mod health;
pub(crate) mod history;
mod members;
pub(crate) mod metric;
mod overload;
mod peer;
mod pool_name;
pub mod process;
mod proxy;
mod queue;
mod registrar;
mod scale;
mod sessions;
pub mod text;
mod traffic;
mod view;

pub use calls::{EndedCallsView, OpenCallView, OpenCallsView};
pub use capacity::{CapacityView, MemberCapacityView};
pub use commands::{Reloaded, Restarting, Stopping};
pub use connections::{CertificateView, ConnectionsView, PeerConnections};
pub use contacts::{ContactView, ContactsView};
pub use explanation::{CandidateView, ExplanationView, PassedOverView, RewriteView, Route, Unmatched};
pub(crate) use failures::WallClock;
pub use failures::{FailureView, FailuresView, TriedView};
pub use health::{HealthView, PoolHealth};
pub use history::{CurveView, HistoryView};
pub use members::{MemberView, MembersView, NameView, OccupancyView, TimesView};
pub use overload::{NeighbourView, OverloadView};
pub use peer::PeerText;
pub(crate) use pool_name::PoolName;
pub use proxy::{CallsView, DistributionView, NextHop, ProxyView};
pub use queue::{QueueMemberView, QueueView};
pub use registrar::{LogInsView, LookUpsView, RegistrarView, RegistrationsView, StoreView};
pub use scale::{ScaleDecisions, ScaleView, ScaledServer, ScalesView};
pub use sessions::{Session, Sessions, ShardView};
pub(crate) use view::View;

use balance::{NodeHistograms, NodeStats, PoolId};
use base::Instant;
use control::ListedMember;
use node::{CapacitySource, QueueMember};
use overload::ThreadFigures;
use shards::{AllShards, MirrorCounts, ShardCounts, ShardSnapshot, Traffic};
use std::collections::BTreeMap;
use streams::StreamCounts;
use text::Page;
use traffic::Messages;

/// Load of the process, and whether it takes new calls. These figures are cheap to collect.
#[derive(Clone, Debug)]
pub struct Standing {
    /// Whether new calls are taken, by the process and by each pool.
    pub health: HealthView,
    /// Numbers of sessions.
    pub sessions: Sessions,
    /// Figures of transactions; `None` if no pool is forwarded to with transactions.
    pub proxy: Option<ProxyView>,
    /// State of the registrar; `None` without one.
    pub registrar: Option<RegistrarView>,
    /// Counts of capacity updates; `None` without a listener for them.
    pub capacity: Option<CapacityView>,
    /// Pools whose servers are started and stopped.
    pub scale: ScalesView,
}

/// All figures at one moment.
#[derive(Clone, Debug)]
pub struct Figures {
    /// Load of the process, and whether it takes new calls.
    pub standing: Standing,
    /// Members and former members in the order of their slots, and the names of the configuration.
    pub members: MembersView,
    /// Connections; `None` without listeners for connections.
    pub connections: Option<ConnectionsView>,
    /// Histograms by the name of the pool.
    pools: Vec<(String, NodeHistograms)>,
    /// Whether the metrics have histograms of each member.
    shows_member_histograms: bool,
    messages: Messages,
    mirror: Option<MirrorCounts>,
    /// Datagrams by shard.
    datagrams: Vec<Traffic>,
    threads: Vec<ThreadFigures>,
}

impl Standing {
    pub(crate) fn new(view: &View, counts: &[ShardCounts]) -> Self {
        let shards = AllShards(counts);
        let records = view.records.clone().unwrap_or_default();
        Self {
            health: HealthView::new(view, shards),
            sessions: Sessions::new(counts),
            proxy: shards.proxy().map(|report| ProxyView::new(&report, next_hops(view), &records)),
            registrar: shards.home().map(|report| RegistrarView::new(&report, &view.stores)),
            capacity: view.capacity.as_ref().map(CapacityView::new),
            scale: ScalesView { pools: view.scales.clone() },
        }
    }
}

impl MembersView {
    /// Returns all members without histograms, which are large: without percentiles and occupancy.
    pub(crate) fn brief(view: &View, counts: &[ShardCounts]) -> Self {
        let members =
            view.members.iter().map(|member| of_member(view, AllShards(counts), member, None, None));
        Self { members: members.collect(), names: view.names.iter().map(NameView::new).collect() }
    }
}

fn of_member(
    view: &View,
    shards: AllShards<'_>,
    member: &ListedMember,
    stats: Option<Box<NodeStats>>,
    oldest: Option<Instant>,
) -> MemberView {
    let (load, room, totals) = (shards.load(member), shards.room(member), shards.totals(member));
    MemberView::new(member, view, load, room, totals, stats, oldest)
}

fn next_hops(view: &View) -> Vec<NextHop> {
    let members = view.hops.iter().filter_map(|&slot| view.at(slot)).filter(|hop| hop.node.member);
    let hop = |hop: &ListedMember| NextHop {
        address: hop.peer.into(),
        resting: !hop.node.is_up() || hop.node.paused_until > view.now,
    };
    members.map(hop).collect()
}

/// Returns the histograms of each pool, the sums over its members and former members. A member of several pools counts
/// in the first.
fn histograms(view: &View, snapshots: &[ShardSnapshot]) -> Vec<(String, NodeHistograms)> {
    let mut sums = BTreeMap::<PoolId, NodeHistograms>::new();
    for snapshot in snapshots {
        let present =
            snapshot.stats.iter().filter_map(|(pool, stats)| Some((pool, &**stats.histograms.as_ref()?)));
        for (pool, histograms) in present.chain(&snapshot.former) {
            sums.entry(*pool).or_default().merge(histograms);
        }
    }
    let pools = view.pools.iter().map(|pool| (pool.name.clone(), sums.remove(&pool.id).unwrap_or_default()));
    pools.collect()
}

/// Returns the queue of a pool; `None` without one.
fn queue(view: &View, shards: AllShards<'_>, pool: PoolId) -> Option<QueueView> {
    let report = shards.queue(pool)?;
    let source = view.pools.iter().find(|known| known.id == pool)?.source?;
    let member = |member: &QueueMember| {
        let listed = view.at(member.slot)?;
        Some(QueueMemberView {
            address: listed.peer.to_string(),
            calls_per_second: if member.is_open { member.capacity } else { 0.0 },
            // A server that is switched off has no monitor.
            silent: member.is_silent && !members::is_off(listed),
            by: known_by(source, member).to_owned(),
            unanswered: member.unanswered,
            unanswered_most: member.unanswered_most,
        })
    };
    let members = report.members.iter().filter_map(member).collect();
    Some(QueueView::new(&report, members))
}

/// Returns the source of the capacity that is used for a member.
fn known_by(source: CapacitySource, member: &QueueMember) -> &'static str {
    match source {
        CapacitySource::Fixed => "configured",
        CapacitySource::Announced if member.is_silent => "responses",
        _ if !member.is_known => "initial",
        CapacitySource::Announced => "monitor",
        CapacitySource::Responses => "responses",
    }
}

impl Figures {
    /// `oldest` holds the start of the oldest call by slot, if it was requested.
    pub(crate) fn new(view: &View, snapshots: Vec<ShardSnapshot>, oldest: &BTreeMap<usize, Instant>) -> Self {
        let mut messages = Messages { look_ups_forgotten: view.look_ups_forgotten, ..Messages::default() };
        let (mut counts, mut stats, mut datagrams) = (Vec::new(), Vec::new(), Vec::new());
        let pools = histograms(view, &snapshots);
        let mut streams: Option<StreamCounts> = None;
        let threads = snapshots.iter().map(ThreadFigures::new).collect();
        for snapshot in snapshots {
            messages.counters.merge(&snapshot.counters);
            messages.ledger += snapshot.ledger;
            counts.push(snapshot.counts);
            stats.push(snapshot.stats);
            datagrams.push(snapshot.traffic);
            if let Some(counts) = snapshot.streams {
                streams = Some(streams.unwrap_or_default().merge(&counts));
            }
        }
        let shards = AllShards(&counts);
        let member = |member: &ListedMember| {
            let (slot, mut sum) = (member.slot.index(), NodeStats::default());
            for (counts, stats) in counts.iter().zip(&mut stats) {
                if counts.knows(slot, member.node.id) {
                    sum.absorb(core::mem::take(&mut stats[slot].1));
                }
            }
            let oldest = oldest.get(&slot).copied();
            of_member(view, shards, member, Some(Box::new(sum)), oldest)
        };
        let members = view.members.iter().map(member).collect();
        let names = view.names.iter().map(NameView::new).collect();
        Self {
            standing: Standing::new(view, &counts),
            members: MembersView { members, names },
            pools,
            shows_member_histograms: view.shows_member_histograms,
            connections: streams.map(|counts| ConnectionsView::new(&counts, &view.certificates)),
            messages,
            mirror: view.mirror,
            datagrams,
            threads,
        }
    }

    /// Returns the page of `GET /metrics`, as Prometheus reads it. `docs/api.md` explains each metric; a test compares
    /// the two.
    pub(crate) fn metrics(&self) -> String {
        let Self {
            standing,
            members: MembersView { members, names },
            connections,
            pools,
            shows_member_histograms,
            messages,
            mirror,
            datagrams,
            threads,
        } = self;
        let mut page = Page::default();
        standing.put(&mut page);
        page.part(&crate::log::unwritten());
        process::put(&mut page, standing.health.uptime_seconds);
        page.part(&messages.counters);
        page.part(messages);
        if let Some(mirror) = mirror {
            page.part(mirror);
        }
        let shards: Vec<_> = (0..datagrams.len()).map(|index| index.to_string()).collect();
        let datagrams = shards.iter().zip(datagrams).map(|(index, each)| ([("shard", &**index)], each));
        page.parts(&datagrams.collect::<Vec<_>>());
        if let Some(connections) = connections {
            page.part(connections);
            let labelled = connections.certificates.iter().map(|each| ([("file", &*each.file)], each));
            page.parts(&labelled.collect::<Vec<_>>());
        }
        let threads = shards.iter().zip(threads).map(|(index, each)| ([("shard", &**index)], each));
        page.parts(&threads.collect::<Vec<_>>());
        page.parts(&pools.iter().map(|(pool, sums)| ([("pool", &**pool)], sums)).collect::<Vec<_>>());
        // A member of several pools has all their names in one label. Its load exists once, so a sum over the members
        // must count it once.
        let texts = members.iter().map(|member| (member.address.to_string(), member.pools.join(",")));
        let texts: Vec<_> = texts.collect();
        let labelled = members.iter().zip(&texts).map(|(member, (address, pools))| {
            // An empty label is the same as none.
            let name = if member.name == *address { "" } else { &*member.name };
            ([("member", &**address), ("name", name), ("pool", &**pools)], member)
        });
        page.parts_if(&labelled.collect::<Vec<_>>(), |kind| kind != "histogram" || *shows_member_histograms);
        page.parts(&names.iter().map(|name| ([("name", &*name.name)], name)).collect::<Vec<_>>());
        page.finish()
    }
}

impl Standing {
    fn put(&self, page: &mut Page) {
        let Self { health, sessions, proxy, registrar, capacity, scale } = self;
        page.gauge("sarabande_build_info", "Always 1; the label is the version of the program.")
            .sample(&[("version", env!("CARGO_PKG_VERSION"))], 1);
        let mut policies =
            page.gauge("sarabande_policy_info", "Always 1; the labels are a pool and its policy.");
        for PoolHealth { name, policy, .. } in &health.pools {
            policies.sample(&[("policy", policy), ("pool", name)], 1);
        }
        if health.pools.is_empty() {
            policies.sample(&[("policy", "none"), ("pool", "")], 1);
        }
        page.part(health);
        if let Some(overload) = &health.overload {
            page.part(overload);
            let addresses = overload.neighbours.iter().map(|neighbour| neighbour.address.to_string());
            let addresses: Vec<_> = addresses.collect();
            let labelled = addresses.iter().zip(&overload.neighbours);
            let labelled = labelled.map(|(address, each)| ([("neighbour", &**address)], each));
            page.parts(&labelled.collect::<Vec<_>>());
        }
        page.part(sessions);
        if let Some(proxy) = proxy {
            proxy.put(page);
        }
        if let Some(registrar) = registrar {
            registrar.put(page);
        }
        let pools = health.pools.iter().map(|pool| ([("pool", &*pool.name)], pool));
        page.parts(&pools.collect::<Vec<_>>());
        let queues = health.pools.iter().filter_map(|pool| Some((&*pool.name, pool.queue.as_ref()?)));
        queue::put(page, queues);
        if let Some(capacity) = capacity {
            capacity.put(page);
        }
        scale.put(page);
    }
}
