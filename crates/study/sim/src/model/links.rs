//! Links between hosts and agents, and their faults in a scenario.

use super::medium::Map;
use super::message::HostId;
use crate::engine::{self, FaultEffect, FaultRule, LinkConfig, Reliable, SimNetwork};
use base::{Instant, Rng};
use config::scenario::{LinkFaults, Scenario};
use core::time::Duration;
use std::collections::BTreeSet;
use transaction::TransportKind;

/// Minimum retransmission timeout of TCP on Linux (`TCP_RTO_MIN`).
pub(super) const RETRANSMISSION_TIMEOUT: Duration = Duration::from_millis(200);

/// Number of network places of the agents, after the hosts' places: one for UDP, one for TCP.
const AGENTS: u32 = 2;

/// Network place of a host, or of an agent with a call of this stream.
pub(super) fn place(map: &Map, host: HostId, stream: u16) -> engine::HostIndex {
    if host != HostId::AGENTS {
        return host.0.into();
    }
    let reliable = map.to_agents[usize::from(stream)] == TransportKind::Reliable;
    map.group_of.len() as u32 + u32::from(reliable)
}

/// Returns the links with their rules; `None` when all are perfect.
pub(super) fn network(scenario: &Scenario, map: &Map, rng: &Rng) -> Option<SimNetwork> {
    if scenario.links.is_empty() {
        return None;
    }
    let hosts = map.group_of.len() as u32;
    let places = |group: Option<usize>| match group {
        Some(group) => map.groups[group].clone().map(u32::from).collect::<Vec<_>>(),
        None => (hosts..hosts + AGENTS).collect(),
    };
    let rules = scenario.links.iter().flat_map(|link| rules(link, &places(link.from), &places(link.to)));
    let perfect = LinkConfig { delay: Duration::ZERO, reliable: None };
    let mut network = SimNetwork::new(hosts + AGENTS, perfect, rules.collect(), &rng.fork("links"));
    let mut connect = |from, to, shared| {
        let reliable = Some(Reliable { timeout: RETRANSMISSION_TIMEOUT, shared });
        network.set_link(from, to, LinkConfig { reliable, ..perfect });
    };
    for from in 0..hosts {
        for to in 0..hosts {
            if map.transport(HostId(from as u16), HostId(to as u16), 0) == TransportKind::Reliable {
                connect(from, to, true);
            }
        }
        // There are many agents, so their messages do not wait for one another.
        let agents = hosts + 1;
        connect(from, agents, false);
        connect(agents, from, false);
    }
    Some(network)
}

/// Returns the rules of a link in both directions; each pair of hosts occurs once even if both ends are the same group.
pub fn rules(link: &LinkFaults, from: &[engine::HostIndex], to: &[engine::HostIndex]) -> Vec<FaultRule> {
    let when = Instant::ZERO + link.since..Instant::ZERO + link.until;
    let both = from.iter().flat_map(|&one| to.iter().flat_map(move |&other| [(one, other), (other, one)]));
    let pairs: BTreeSet<_> = both.collect();
    let of_pair = |(from, to)| {
        let rule = |effect| FaultRule { from: Some(from), to: Some(to), when: when.clone(), effect };
        effects(link).into_iter().map(rule).collect::<Vec<_>>()
    };
    pairs.into_iter().flat_map(of_pair).collect()
}

/// Returns the effects of a link on each message.
fn effects(link: &LinkFaults) -> Vec<FaultEffect> {
    let mut effects = Vec::new();
    if !link.delay.is_zero() {
        effects.push(FaultEffect::Delay(link.delay));
    }
    if !link.jitter.is_zero() {
        effects.push(FaultEffect::Jitter(link.jitter));
    }
    if link.loss >= 1.0 {
        effects.push(FaultEffect::Partition);
    } else if link.loss > 0.0 {
        effects.push(FaultEffect::Loss(link.loss));
    }
    if link.duplication > 0.0 {
        effects.push(FaultEffect::Duplicate(link.duplication));
    }
    if link.reordering > 0.0 {
        effects.push(FaultEffect::Reorder(link.reordering, link.delay + link.jitter));
    }
    effects
}
