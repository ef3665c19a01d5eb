//! A pool and its traffic, as facts instead of messages.

use balance::*;
use base::Instant;
use std::time::Duration;
use wire::Method;

pub(crate) fn members(capacities: &[f64]) -> Vec<ClusterMember> {
    capacities
        .iter()
        .enumerate()
        .map(|(index, &capacity)| ClusterMember {
            id: NodeId(100 + index as u32),
            capacity,
            max_calls: 0,
            max_rate: 0,
            pool: PoolId::default(),
        })
        .collect()
}

pub(crate) fn limited_members(capacities: &[f64], max_calls: u32) -> Vec<ClusterMember> {
    members(capacities).into_iter().map(|member| ClusterMember { max_calls, ..member }).collect()
}

pub(crate) fn cluster(capacities: &[f64]) -> Cluster {
    let slow_start = Duration::ZERO;
    let mut cluster = Cluster::new(HealthSettings { fall: 1, slow_start, ..HealthSettings::default() });
    cluster.set_members(Instant::ZERO, &members(capacities));
    cluster
}

pub(crate) fn policies() -> Vec<Box<dyn Policy>> {
    PolicyKind::ALL.map(|kind| kind.make(0)).into()
}

pub(crate) fn balancer(policy: Box<dyn Policy>, capacities: &[f64]) -> Balancer {
    let mut balancer = Balancer::new(SessionSettings::default(), policy);
    balancer.set_nodes(cluster(capacities).nodes());
    balancer
}

pub(crate) fn key(call: u64) -> CallKey {
    // Spread like a hash.
    CallKey((u128::from(call) + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835))
}

pub(crate) fn request(call: u64, method: Method, cseq: u32) -> RequestFacts<'static> {
    let call_id = Vec::leak(format!("call-{call}@example.com").into_bytes());
    RequestFacts {
        key: key(call),
        call_id,
        pool: PoolId::default(),
        method,
        cseq,
        in_dialog: false,
        direction: Direction::ToPool,
        pinned: None,
        by_token: false,
        started_by_peer: false,
        branch: 0,
        tags: Tags::default(),
        has_priority: false,
    }
}

/// Hash of a tag, spread like a real one.
pub(crate) fn tag(number: u64) -> u64 {
    (number + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// Tag of the callee of a call that was answered once.
pub(crate) const DIALOG: u32 = 1;

/// Tags of a dialog: 0 for the caller, this number for the callee.
pub(crate) fn tags(callee: u32) -> Tags {
    Tags { from: 0, to: callee.into() }
}

pub(crate) fn in_dialog(call: u64, method: Method, cseq: u32) -> RequestFacts<'static> {
    RequestFacts { in_dialog: true, tags: tags(DIALOG), ..request(call, method, cseq) }
}

pub(crate) fn response(call: u64, method: Method, cseq: u32, status: u16) -> Response {
    Response {
        key: key(call),
        method,
        cseq,
        status,
        direction: Direction::ToPool,
        branch: 0,
        tags: tags(DIALOG),
    }
}

pub(crate) fn seconds(s: u64) -> Instant {
    Instant::from_millis(s * 1_000)
}

pub(crate) fn news(cluster: &mut Cluster) -> Vec<HealthNews> {
    let news = |effect| if let HealthEffect::Note(news) = effect { Some(news) } else { None };
    cluster.drain_effects().filter_map(news).collect()
}

/// Passes a shard's signs to the cluster, and the resulting nodes to the shard.
pub(crate) fn heed(now: Instant, balancer: &mut Balancer, cluster: &mut Cluster) -> Vec<HealthNews> {
    balancer.drain_signs().for_each(|sign| cluster.sign(now, sign));
    balancer.set_nodes(cluster.nodes());
    news(cluster)
}

/// Signs about the health of nodes, without tallies of outcomes.
pub(crate) fn health_signs(balancer: &mut Balancer) -> Vec<Sign> {
    balancer.drain_signs().filter(|sign| !matches!(sign, Sign::Tally { .. })).collect()
}

pub(crate) fn slot_of(decision: NodeDecision) -> Slot {
    match decision {
        NodeDecision::Forward { slot, .. } => slot,
        other => panic!("not forwarded: {other:?}"),
    }
}

pub(crate) fn loads(balancer: &Balancer) -> Vec<Load> {
    (0..balancer.nodes().len()).map(|index| balancer.load(Slot(index as u16)).own).collect()
}

/// Runs everything that is due until nothing is left.
pub(crate) fn run_out(balancer: &mut Balancer) {
    while let Some(deadline) = balancer.deadline() {
        balancer.expire(deadline);
    }
}
