//! The tree of figures: what the process shows of itself, made once of what the control task and the shards say. The
//! admin interface answers with branches of it, metrics are read from it, and the terminal reads it back from the
//! JSON. Times are seconds unless the name says otherwise.
//!
//! Each branch is declared with the macro of `metric.rs`: its text in `docs/openapi.json`, its source and its metric
//! stand in one place.

mod capacity;
mod commands;
mod connections;
mod contacts;
mod explanation;
mod health;
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

pub use capacity::{CapacityView, MemberCapacityView};
pub use commands::{Reloaded, Restarting, Stopping};
pub use connections::{CertificateView, ConnectionsView, PeerConnections};
pub use contacts::{ContactView, ContactsView};
pub use explanation::{CandidateView, ExplanationView, PassedOverView, RewriteView, Route};
pub use health::{HealthView, PoolHealth};
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

use balance::{NodeStats, PoolId};
use base::Instant;
use control::ListedMember;
use node::{CapacitySource, QueueMember};
use overload::ThreadFigures;
use shards::{AllShards, ShardCounts, ShardSnapshot, Traffic};
use std::collections::BTreeMap;
use streams::StreamCounts;
use text::Page;
use traffic::Messages;

/// What the process has to do, and whether it takes new calls: cheap to ask for.
#[derive(Clone, Debug)]
pub struct Standing {
    /// Whether new calls are taken, and what of each pool can take some.
    pub health: HealthView,
    /// How many sessions there are.
    pub sessions: Sessions,
    /// What is kept of transactions; `None` where no pool is forwarded to with them.
    pub proxy: Option<ProxyView>,
    /// How the home domain does, if there is one.
    pub registrar: Option<RegistrarView>,
    /// What has come of updates of capacity, where they are listened for.
    pub capacity: Option<CapacityView>,
    /// Pools whose servers are started and stopped.
    pub scale: ScalesView,
}

/// All figures of one moment.
#[derive(Clone, Debug)]
pub struct Figures {
    /// What the process has to do.
    pub standing: Standing,
    /// Every member and former member in the order of their slots, and how names stand.
    pub members: MembersView,
    /// Connections; `None` where there are no listeners for them.
    pub connections: Option<ConnectionsView>,
    messages: Messages,
    /// By shard.
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

fn next_hops(view: &View) -> Vec<NextHop> {
    let members = view.hops.iter().filter_map(|&slot| view.at(slot)).filter(|hop| hop.node.member);
    let hop = |hop: &ListedMember| NextHop {
        address: hop.peer.into(),
        resting: !hop.node.is_up() || hop.node.paused_until > view.now,
    };
    members.map(hop).collect()
}

/// The queue in front of a pool, if it has one.
fn queue(view: &View, shards: AllShards<'_>, pool: PoolId) -> Option<QueueView> {
    let report = shards.queue(pool)?;
    let source = view.pools.iter().find(|known| known.id == pool)?.source?;
    let member = |member: &QueueMember| {
        let listed = view.at(member.slot)?;
        Some(QueueMemberView {
            address: listed.peer.to_string(),
            calls_per_second: if member.is_open { member.capacity } else { 0.0 },
            // Nobody is beside a server that is off.
            silent: member.is_silent && !members::is_off(listed),
            by: known_by(source, member).to_owned(),
            unanswered: member.unanswered,
            unanswered_most: member.unanswered_most,
        })
    };
    let members = report.members.iter().filter_map(member).collect();
    Some(QueueView::new(&report, members))
}

/// Where the capacity comes from that counts for a member.
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
    /// `oldest` has the beginning of the oldest call by slot, where that was asked for.
    pub(crate) fn new(view: &View, snapshots: Vec<ShardSnapshot>, oldest: &BTreeMap<usize, Instant>) -> Self {
        let mut messages = Messages { look_ups_forgotten: view.look_ups_forgotten, ..Messages::default() };
        let (mut counts, mut stats, mut datagrams) = (Vec::new(), Vec::new(), Vec::new());
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
            for (counts, stats) in counts.iter().zip(&stats) {
                if counts.knows(slot, member.node.id) {
                    sum.merge(&stats[slot]);
                }
            }
            {
                let (load, oldest) = (shards.load(member), oldest.get(&slot).copied());
                MemberView::new(member, view, load, shards.room(member), sum, oldest)
            }
        };
        let members = view.members.iter().map(member).collect();
        let names = view.names.iter().map(NameView::new).collect();
        Self {
            standing: Standing::new(view, &counts),
            members: MembersView { members, names },
            connections: streams.map(|counts| ConnectionsView::new(&counts, &view.certificates)),
            messages,
            datagrams,
            threads,
        }
    }

    /// The page of `GET /metrics`, as Prometheus reads it. What each metric means is in `docs/admin.md`; a test holds
    /// the two together.
    pub(crate) fn metrics(&self) -> String {
        let Self {
            standing,
            members: MembersView { members, names },
            connections,
            messages,
            datagrams,
            threads,
        } = self;
        let mut page = Page::default();
        standing.put(&mut page);
        page.part(&crate::log::unwritten());
        process::put(&mut page, standing.health.uptime_seconds);
        page.part(&messages.counters);
        page.part(messages);
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
        // One that is in several pools has them all in one label: it has one load, and a sum over the members counts
        // it once.
        let texts = members.iter().map(|member| (member.address.to_string(), member.pools.join(",")));
        let texts: Vec<_> = texts.collect();
        let labelled = members.iter().zip(&texts).map(|(member, (address, pools))| {
            ([("member", &**address), ("name", &*member.name), ("pool", &**pools)], member)
        });
        page.parts(&labelled.collect::<Vec<_>>());
        page.parts(&names.iter().map(|name| ([("name", &*name.name)], name)).collect::<Vec<_>>());
        page.finish()
    }
}

impl Standing {
    fn put(&self, page: &mut Page) {
        let Self { health, sessions, proxy, registrar, capacity, scale } = self;
        page.gauge("sarabande_build_info", "Always 1; the label says which version runs.")
            .sample(&[("version", env!("CARGO_PKG_VERSION"))], 1);
        let mut policies = page
            .gauge("sarabande_policy_info", "Always 1; the labels say which policy chooses in which pool.");
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
