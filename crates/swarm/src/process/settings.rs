//! What the configuration of a site says to its control plane.

use super::{EPOCH_UNIX, TOKEN_LIFETIME, tokens};
use crate::plan::{BalancerPlan, ProxyPlan, SiteRole};
use ::node::{Orphans, PoolMode, ProxyLimits, Routes};
use balance::{HealthSettings, PolicyKind, PoolId, SessionSettings};
use control::{Address, ControlSettings, MemberSettings, PoolSettings, ProbeSettings};
use core::time::Duration;
use route::{Choice, Failover, Pools, RateSettings, Rule, Table, Target};
use std::sync::Arc;

pub(super) fn settings(role: &SiteRole, key: u8) -> ControlSettings {
    match role {
        SiteRole::Balancer(plan) => of_balancer(plan, key),
        SiteRole::Proxy(plan) => of_proxy(plan, key),
    }
}

/// One pool needs no routes; to several, one leads.
fn routes(pools: u16) -> Routes {
    let choice = |pool| Choice { pool, priority: 1, weight: 1.0 };
    let pools = Pools { choices: (0..pools).map(choice).collect(), failover: Failover::default() };
    let rule = Rule { name: "spread".to_owned(), target: Target::Pools(pools.clone()), ..Rule::default() };
    let rules = if pools.choices.len() > 1 { vec![rule] } else { Vec::new() };
    Routes { table: Table::new(rules, &[]), access: Vec::new() }
}

fn of_balancer(plan: &BalancerPlan, key: u8) -> ControlSettings {
    let member = |(index, member): (usize, &crate::PlannedMember)| MemberSettings {
        address: Address::Socket(member.destination.address()),
        capacity: member.capacity,
        max_calls: 0,
        pool: PoolId(index as u16 % plan.pools),
    };
    let mode = PoolMode { forward: plan.forward, ..PoolMode::default() };
    let pool = |number: u16| PoolSettings {
        name: format!("pool-{number}"),
        mode,
        policy: plan.policy,
        health: plan.health,
        probes: plan.probes,
    };
    // Each shard keeps as many sessions as the plan says.
    let max_sessions = plan.sessions.max_sessions.saturating_mul(plan.shards.into());
    ControlSettings {
        pools: (0..plan.pools).map(pool).collect(),
        members: plan.members.iter().enumerate().map(member).collect(),
        sessions: SessionSettings { max_sessions, ..plan.sessions.clone() },
        routes: Arc::new(routes(plan.pools)),
        ..common(key)
    }
}

/// One pool of next hops, as `[proxy]` makes it.
fn of_proxy(plan: &ProxyPlan, key: u8) -> ControlSettings {
    let member = |destination: &crate::Destination| MemberSettings {
        address: Address::Socket(destination.address()),
        capacity: 1.0,
        max_calls: 0,
        pool: PoolId::default(),
    };
    let hops = PoolSettings {
        name: "hops".to_owned(),
        mode: PoolMode::HOPS,
        policy: PolicyKind::Hash,
        health: HealthSettings::default(),
        probes: ProbeSettings::default(),
    };
    ControlSettings {
        pools: vec![hops],
        members: plan.hops.iter().map(member).collect(),
        orphans: Orphans::Balance,
        limits: plan.limits,
        ..common(key)
    }
}

fn common(key: u8) -> ControlSettings {
    ControlSettings {
        pools: Vec::new(),
        members: Vec::new(),
        sessions: SessionSettings::default(),
        routes: Arc::new(routes(1)),
        rates: RateSettings::default(),
        home: None,
        orphans: Orphans::Reject,
        limits: ProxyLimits::default(),
        distribution: None,
        dialogs: None,
        own_names: Vec::new(),
        tokens: Arc::new(tokens(key)),
        token_lifetime: TOKEN_LIFETIME,
        epoch_unix: EPOCH_UNIX,
        tell_failures: false,
        // Everybody in here is known by address.
        refresh: Duration::MAX,
        stop_wait: Duration::MAX,
    }
}
