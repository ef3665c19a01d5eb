//! Whether new calls are taken, and which parts do not work: `/api/health` and `/readyz`.

use super::members::state;
use super::metric::figures;
use super::view::View;
use super::{OverloadView, PoolName, QueueView, ScaleView, queue};
use balance::PoolId;
use control::{LISTED_MOST, ListedMember, name_and_address};
use shards::{AllShards, StoreReport};
use std::collections::BTreeMap;
use std::time::SystemTime;

figures! {
    /// `GET /api/health`
    HealthView as "Health" {
        /// Role of the process: `pool` or `proxy`.
        role: String,
        /// Whether new calls are taken.
        healthy: bool,
        /// Reasons why no new calls are taken; empty when healthy.
        reasons: Vec<String>,
        /// Faults of a process that takes new calls, with their causes. Examples are pools and next hops that take no
        /// calls, stores that are down, and servers that cannot be started. Others are silent monitors, and
        /// certificates that have expired or soon will.
        degraded: Vec<String>,
        /// Members that the configuration names. Each address of a name counts.
        members: usize,
        /// Names in the configuration for which no address was found yet.
        unresolved: Vec<String>,
        /// Members that take new calls.
        accepting: usize,
        /// Silent or resting members that get new calls because `accepting` is 0; otherwise 0.
        last_resort: usize,
        /// Name of the policy in force; with several pools, the policy of the first pool.
        policy: String,
        /// All pools: first the pools of the file in its order, then the next hops of `[proxy]` and of routes.
        pools: Vec<PoolHealth>,
        /// Whether a stop was requested.
        stopping: bool => [gauge "sarabande_stopping" "1 once a stop was requested."],
        /// Time in seconds until the process ends even if calls remain (`[stop] wait`); `null` before a stop.
        stop_seconds: Option<f64>,
        /// Calls, or requests of a proxy, that remain at the predecessor, the process whose sockets this process has
        /// taken over; `null` without a predecessor.
        predecessor_calls: Option<usize>,
        /// Changes of members by the API that are not in the file. They end at a reload or restart.
        unsaved: Vec<String>,
        /// Requests that the process itself refused since its start, by status and reason phrase, as `404 Not Found`.
        /// Challenges (401, 407) are not counted.
        refused: BTreeMap<String, u64>,
        /// Overload control; `null` until a thread has answered.
        overload: Option<OverloadView>,
        /// Process ID.
        process: u32,
        /// Time since the process started.
        uptime_seconds: f64 => [gauge "sarabande_uptime_seconds" "Time since the process started."],
        /// Version of the program.
        version: String,
        /// Whether new calls are taken, as a readiness probe sees it: members of last resort count.
        #[serde(skip)]
        ready: bool,
    }
}

figures! {
    /// Members of a pool that can take new calls.
    PoolHealth as "PoolHealth" {
        /// Name of the pool in the configuration.
        name: String,
        /// Name of the pool's policy.
        policy: String,
        /// Rule that chooses the member of a new call, in words: the policy, or a queue.
        orders: String,
        /// Members of the pool. Each address of a name counts.
        members: usize,
        /// Members that take new calls.
        accepting: usize,
        /// Silent or resting members that get new calls because `accepting` is 0; otherwise 0.
        last_resort: usize,
        /// Members that take new calls but are at a limit now: `limit` or `max_rate`.
        at_limit: usize => [
            gauge "sarabande_pool_members_at_limit" "Members that take new calls but are at a limit now."
        ],
        /// New requests that were refused because every member was at its limit, by the kind of limit: `limit` (found
        /// from the member's answers) or `max_rate`.
        refused: BTreeMap<String, u64> => [
            counter "sarabande_pool_refused_total" (limit) "New requests refused because every member was at its limit."
        ],
        /// The queue of new calls; `null` without a queue.
        queue: Option<QueueView>,
    }
}

/// State of one member with respect to new calls.
struct MemberAvailability {
    /// Name and address.
    label: String,
    pools: Vec<PoolId>,
    accepting: bool,
    /// Whether it gets new calls when no member takes any.
    last_resort: bool,
    /// Whether it would take new calls if it were not at a limit now.
    is_at_limit: bool,
    /// One word, as [`MemberView::state`](super::MemberView::state).
    state: &'static str,
}

/// Returns all members that the configuration names.
fn configured(view: &View, shards: AllShards<'_>) -> Vec<MemberAvailability> {
    let standing = |member: &ListedMember| {
        let (load, room) = (shards.load(member), shards.room(member));
        let accepting = member.node.refusal(view.now, load.calls).is_none();
        MemberAvailability {
            label: name_and_address(&member.label, member.peer),
            pools: member.pools.clone(),
            accepting,
            is_at_limit: accepting && room.is_some_and(|room| room.refusal.is_some()),
            last_resort: member.node.last_resort_refusal(view.now, load.calls).is_none(),
            state: state(member, view.now, load, room),
        }
    };
    view.members.iter().filter(|member| member.node.member).map(standing).collect()
}

/// Returns how many of these members take new calls, and how many get new calls as a last resort.
fn taking<'m>(members: impl Iterator<Item = &'m MemberAvailability> + Clone) -> (usize, usize) {
    let accepting = members.clone().filter(|member| member.accepting).count();
    (accepting, if accepting > 0 { 0 } else { members.filter(|member| member.last_resort).count() })
}

/// Lists these members with their states, and the names that are not resolved.
fn states<'m>(members: impl Iterator<Item = &'m MemberAvailability>, unresolved: &[String]) -> String {
    let states = members.map(|member| format!("{} is {}", member.label, member.state));
    let of_names = unresolved.iter().map(|name| format!("{name} is not resolved"));
    let mut states: Vec<_> = states.chain(of_names).collect();
    let more = states.len().saturating_sub(LISTED_MOST);
    if more > 0 {
        states.truncate(LISTED_MOST);
        states.push(format!("and {more} more"));
    }
    if states.is_empty() { "there are no members".to_owned() } else { states.join(", ") }
}

/// Describes the requests that fail because a store does not answer.
fn failing(stores: &[StoreReport]) -> Vec<String> {
    let text = |store: &StoreReport| {
        let requests = match store.name {
            StoreReport::USERS => "requests that need authentication",
            _ => "registrations and calls to users",
        };
        let (name, kind) = (store.name, store.kind);
        format!(
            "{requests} fail: the store of {name} ({kind}) is down: {}",
            store.trouble.as_deref().unwrap_or_default()
        )
    };
    stores.iter().filter(|store| !store.answers).map(text).collect()
}

/// Describes a store that answers queries but refuses new registrations, with the cause.
fn takes_nothing(store: &StoreReport) -> Option<String> {
    let (name, kind) = (store.name, store.kind);
    let why = store.trouble.as_ref().filter(|_| store.answers)?;
    Some(format!("registrations fail: the store of {name} ({kind}) accepts no writes: {why}"))
}

impl PoolHealth {
    /// Returns the pool, and why none of its members takes new calls now; `None` if one does.
    fn new(
        pool: &PoolName,
        members: &[MemberAvailability],
        refused: BTreeMap<String, u64>,
        queue: Option<QueueView>,
    ) -> (Self, Option<String>) {
        let members = members.iter().filter(|member| member.pools.contains(&pool.id));
        let (accepting, last_resort) = taking(members.clone());
        let PoolName { name, policy, .. } = pool;
        let at_limit = members.clone().filter(|member| member.is_at_limit).count();
        let states = || states(members.clone(), &[]);
        let trouble = match (accepting, last_resort) {
            (0, 0) => Some(format!("no member of {name} takes new calls: {}", states())),
            (0, tried) => Some(format!(
                "no member of {name} is known to take new calls; new calls go to {tried} members of last resort: {}",
                states()
            )),
            _ if at_limit == accepting => Some(format!(
                "every member of {name} that takes new calls is at its limit; {} refused so far: {}",
                refused.values().sum::<u64>(),
                states()
            )),
            _ => None,
        };
        let (name, policy, orders) = (name.clone(), (*policy).to_owned(), pool.orders.clone());
        let members = members.count();
        (Self { name, policy, orders, members, accepting, last_resort, at_limit, refused, queue }, trouble)
    }
}

/// Describes why no member is known to take new calls.
fn no_member(
    view: &View,
    members: &[MemberAvailability],
    unresolved: &[String],
    last_resort: usize,
) -> String {
    let noun = if view.is_proxy { "next hop" } else { "member" };
    let states = states(members.iter(), unresolved);
    if last_resort == 0 {
        format!("no {noun} takes new calls: {states}")
    } else {
        format!(
            "no {noun} is known to take new calls; new calls go to {last_resort} of last resort: {states}"
        )
    }
}

impl HealthView {
    pub(super) fn new(view: &View, shards: AllShards<'_>) -> Self {
        let members = configured(view, shards);
        let (accepting, last_resort) = taking(members.iter());
        let unresolved = view.names.iter().filter(|name| name.addresses == 0);
        let unresolved: Vec<_> = unresolved.map(|name| name.name.clone()).collect();
        let pool = |pool: &PoolName| {
            let refused = shards.at_limit(pool.id);
            PoolHealth::new(pool, &members, refused, queue(view, shards, pool.id))
        };
        let (pools, in_trouble): (Vec<_>, Vec<_>) = view.pools.iter().map(pool).unzip();
        let has_home = shards.home().is_some();
        let users = if has_home { failing(&view.stores) } else { Vec::new() };
        let has_users = has_home && users.is_empty();
        let is_nowhere = pools.is_empty() && !has_home;
        let ready = !view.stopping && (accepting + last_resort > 0 || has_users || is_nowhere);
        let mut reasons = Vec::new();
        if view.stopping {
            reasons.push("stopping: no new calls are taken".to_owned());
        }
        let stores = view.stores.iter().filter(|_| has_home);
        let mut degraded: Vec<_> = stores.filter_map(takes_nothing).collect();
        if accepting == 0 && !pools.is_empty() && !has_users {
            reasons.push(no_member(view, &members, &unresolved, last_resort));
        } else {
            degraded.extend(in_trouble.into_iter().flatten());
        }
        if accepting == 0 { &mut reasons } else { &mut degraded }.extend(users);
        let records = view.records.as_ref().and_then(|records| records.trouble.clone());
        degraded.extend(records.map(|why| format!("call records: {why}")));
        let now = SystemTime::now();
        degraded.extend(view.certificates.iter().flat_map(|facts| facts.warnings(now)));
        degraded.extend(view.scales.iter().flat_map(ScaleView::degraded));
        degraded.extend(view.capacity.iter().flat_map(|capacity| &capacity.silent).map(ToString::to_string));
        let neighbours = shards.neighbours();
        let overload = shards
            .overload()
            .map(|report| OverloadView::new(&report, shards.unread(), shards.read_share(), &neighbours));
        degraded.extend(overload.as_ref().and_then(OverloadView::degraded));
        Self {
            role: if view.is_proxy { "proxy" } else { "pool" }.to_owned(),
            healthy: reasons.is_empty(),
            reasons,
            degraded,
            members: members.len(),
            unresolved,
            accepting,
            last_resort,
            policy: view.pools.first().map_or("none", |pool| pool.policy).to_owned(),
            pools,
            stopping: view.stopping,
            stop_seconds: view.stops_at.map(|at| at.saturating_since(view.now).as_secs_f64()),
            predecessor_calls: view.predecessor_calls,
            unsaved: view.unsaved.clone(),
            refused: shards.refused(),
            overload,
            process: std::process::id(),
            uptime_seconds: view.now.as_secs_f64(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            ready,
        }
    }
}
