//! Whether new calls are taken, and what does not work: `/api/health` and `/readyz`.

use super::{QueueView, ScaleView};
use crate::{HomeStanding, MemberStanding, PoolName, Standing, StoreReport};
use serde::{Deserialize, Serialize};

/// `GET /api/health`
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[cfg_attr(test, schemars(rename = "Health"))]
pub struct HealthView {
    /// What the process is: `pool` or `proxy`.
    pub role: String,
    /// Whether new calls are taken.
    pub healthy: bool,
    /// Why not; empty when healthy.
    pub reasons: Vec<String>,
    /// What does not work although new calls are taken: pools and next hops that take none, stores that are down, servers
    /// that cannot be started, monitors without word, and why.
    pub degraded: Vec<String>,
    /// Members that the configuration names, each address of a name for itself.
    pub members: usize,
    /// Names in the configuration that stand for no address: none was found yet.
    pub unresolved: Vec<String>,
    /// Members that take new calls.
    pub accepting: usize,
    /// Members that get new calls all the same while `accepting` is 0: silent or resting ones; 0 otherwise.
    pub last_resort: usize,
    /// Name of the policy in force; of several pools that of the first.
    pub policy: String,
    /// Each pool: those of the file in its order, then the next hops of `[proxy]` and of routes.
    pub pools: Vec<PoolHealth>,
    /// Whether a stop was asked for.
    pub stopping: bool,
    /// Calls, or requests of a proxy, that the process before still has, whose sockets this one has taken over; `null`: there
    /// is none.
    pub predecessor_calls: Option<usize>,
    /// Number of the process.
    pub process: u32,
    /// Since the process started.
    pub uptime_seconds: f64,
    /// Of the program.
    pub version: String,
}

/// What of a pool can take new calls.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct PoolHealth {
    /// As the configuration names it.
    pub name: String,
    /// Name of its policy.
    pub policy: String,
    /// Members that it has, each address of a name for itself.
    pub members: usize,
    /// Members that take new calls.
    pub accepting: usize,
    /// Members that get new calls all the same while `accepting` is 0: silent or resting ones; 0 otherwise.
    pub last_resort: usize,
    /// The queue in front of it; `null` without one.
    pub queue: Option<QueueView>,
}

/// How many of these members take new calls, and how many get them where none does.
fn taking<'m>(members: impl Iterator<Item = &'m MemberStanding> + Clone) -> (usize, usize) {
    let accepting = members.clone().filter(|member| member.accepting).count();
    (accepting, if accepting > 0 { 0 } else { members.filter(|member| member.last_resort).count() })
}

/// The members that the configuration names.
fn configured(standing: &Standing) -> impl Iterator<Item = &MemberStanding> + Clone {
    standing.members.iter().filter(|member| member.member)
}

/// Each of these members with its state, and names that are not resolved.
fn states<'m>(members: impl Iterator<Item = &'m MemberStanding>, unresolved: &[String]) -> String {
    let states = members.map(|member| format!("{} is {}", member.address, member.state));
    let of_names = unresolved.iter().map(|name| format!("{name} is not resolved"));
    let states: Vec<_> = states.chain(of_names).collect();
    if states.is_empty() { "there is none".to_owned() } else { states.join(", ") }
}

/// What fails at a registrar while a store cannot be asked.
fn failing(home: &HomeStanding) -> Vec<String> {
    let down = home.stores.iter().filter(|store| !store.answers);
    let text = |store: &StoreReport| {
        let who = match store.name {
            StoreReport::USERS => "requests of users, who have to log in,",
            _ => "registrations and calls to users",
        };
        let (name, kind) = (store.name, store.kind);
        format!(
            "{who} fail: the store of {name} ({kind}) is down: {}",
            store.trouble.as_deref().unwrap_or_default()
        )
    };
    down.map(text).collect()
}

/// That a store can be asked, but takes nothing new, and why.
fn takes_nothing(store: &StoreReport) -> Option<String> {
    let (name, kind) = (store.name, store.kind);
    let why = store.trouble.as_ref().filter(|_| store.answers)?;
    Some(format!("registrations fail: the store of {name} ({kind}) takes none: {why}"))
}

impl PoolHealth {
    fn new(pool: &PoolName, standing: &Standing) -> Self {
        let members = configured(standing).filter(|member| member.pools.contains(&pool.name));
        let (accepting, last_resort) = taking(members.clone());
        let queue = standing.queues.iter().find(|queue| queue.pool == pool.name).map(QueueView::from);
        let (name, policy) = (pool.name.clone(), pool.policy.to_owned());
        Self { name, policy, members: members.count(), accepting, last_resort, queue }
    }

    /// Why none of its members is known to take new calls; `None` when one is.
    fn trouble(&self, standing: &Standing) -> Option<String> {
        let members = configured(standing).filter(|member| member.pools.contains(&self.name));
        let states = states(members, &[]);
        match (self.accepting, self.last_resort) {
            (0, 0) => Some(format!("no member of {} takes new calls: {states}", self.name)),
            (0, tried) => Some(format!(
                "no member of {} is known to take new calls; {tried} get them all the same: {states}",
                self.name
            )),
            _ => None,
        }
    }
}

/// Why no member is known to take new calls.
fn no_member(standing: &Standing, last_resort: usize) -> String {
    let noun = if standing.is_proxy { "next hop" } else { "member" };
    let states = states(configured(standing), &standing.unresolved);
    if last_resort == 0 {
        format!("no {noun} takes new calls: {states}")
    } else {
        format!("no {noun} is known to take new calls; {last_resort} get them all the same: {states}")
    }
}

impl HealthView {
    /// Whether new calls are taken: also where they go to members that are only silent. A process that sends no calls anywhere
    /// answers them itself, which cannot fail.
    pub(in super::super) fn takes_calls(standing: &Standing) -> bool {
        let (accepting, last_resort) = taking(configured(standing));
        let users = standing.home.as_ref().is_some_and(|home| failing(home).is_empty());
        let is_nowhere = standing.pools.is_empty() && standing.home.is_none();
        !standing.stopping && (accepting + last_resort > 0 || users || is_nowhere)
    }

    pub(in super::super) fn new(standing: &Standing) -> Self {
        let (accepting, last_resort) = taking(configured(standing));
        let pools: Vec<_> = standing.pools.iter().map(|pool| PoolHealth::new(pool, standing)).collect();
        let users = standing.home.as_ref().map(failing);
        let has_users = users.as_ref().is_some_and(Vec::is_empty);
        let mut reasons = Vec::new();
        if standing.stopping {
            reasons.push("stopping: no new calls are taken".to_owned());
        }
        let stores = standing.home.iter().flat_map(|home| &home.stores);
        let mut degraded: Vec<_> = stores.filter_map(takes_nothing).collect();
        if accepting == 0 && !pools.is_empty() && !has_users {
            reasons.push(no_member(standing, last_resort));
        } else {
            degraded.extend(pools.iter().filter_map(|pool| pool.trouble(standing)));
        }
        if accepting == 0 {
            reasons.extend(users.clone().unwrap_or_default());
        } else {
            degraded.extend(users.unwrap_or_default());
        }
        let records = standing.records.as_ref().and_then(|records| records.trouble.clone());
        degraded.extend(records.map(|why| format!("records of calls: {why}")));
        degraded.extend(standing.scales.iter().flat_map(ScaleView::degraded));
        degraded
            .extend(standing.capacity.iter().flat_map(|capacity| &capacity.silent).map(ToString::to_string));
        Self {
            role: if standing.is_proxy { "proxy" } else { "pool" }.to_owned(),
            healthy: reasons.is_empty(),
            reasons,
            degraded,
            members: configured(standing).count(),
            unresolved: standing.unresolved.clone(),
            accepting,
            last_resort,
            policy: standing.pools.first().map_or("none", |pool| pool.policy).to_owned(),
            pools,
            stopping: standing.stopping,
            predecessor_calls: standing.predecessor_calls,
            process: std::process::id(),
            uptime_seconds: standing.uptime_seconds,
            version: env!("CARGO_PKG_VERSION").to_owned(),
        }
    }
}
