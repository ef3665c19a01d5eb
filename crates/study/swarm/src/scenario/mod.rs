//! Translates a scenario of the simulator into a plan, to run it on real bytes.
//!
//! Answerers take the service times of the model. Balancers and proxies take no time.

mod faults;
mod sites;

use super::plan::{AnswererPlan, Callee, CallerPlan, DATAGRAMS_MAX, Plan, Severity};
use base::{Instant, Transport};
use config::scenario::{Costs, Group, HostRole, Overload, Scenario, ServiceTimes, Stream, Ties};
use core::time::Duration;
use load::{ArrivalPlan, INVITE_WORK, RandomTime, ServiceModel};
use sim::engine::HostIndex;
use sim::model::{arrivals, rules};
use sites::{Answerer, Sites};

/// Returns the plan of a scenario.
///
/// A proxy on bytes sends new requests to one list of next hops. A group of proxies or balancers therefore becomes
/// several groups of sites, one for each continuation of a path. On a path `[edge, core, edge]` the last edges are
/// other sites than the first. Behind each last proxy of a path stands an answerer.
///
/// # Errors
/// Names the part of the scenario that does not exist on bytes: TCP, hosts that slow down, processors other than those
/// of servers. Settings without effect where proxies take no time are ignored: [`left_out`] lists them.
pub fn plan(scenario: &Scenario) -> Result<Plan, String> {
    refuse(scenario)?;
    let ring = ring(&scenario.streams)?;
    let sites = Sites::of(scenario);
    let answerers = sites.answerers().map(|Answerer { name, server }| {
        let service = server.map_or_else(ServiceModel::default, |(group, host)| {
            service(&scenario.costs, &scenario.groups[group], host)
        });
        AnswererPlan { name: name.clone(), ring, trying: false, options: true, refuses: None, service }
    });
    let mut plan = Plan {
        seed: scenario.run.seed,
        severity: Severity::Measured,
        callers: callers(scenario, &sites),
        answerers: answerers.collect(),
        sites: sites.plans(),
        phones: Vec::new(),
        timers: scenario.timers.transaction,
        transport: Transport::Udp,
        delay: Duration::ZERO,
        rules: Vec::new(),
        actions: Vec::new(),
        end: Instant::ZERO + scenario.run.duration,
        datagrams_max: DATAGRAMS_MAX,
    };
    let hosts = |group: Option<usize>| match group {
        None => agents(&plan, &sites),
        Some(group) => {
            (0..scenario.groups[group].count).flat_map(|host| sites.hosts(&plan, group, host)).collect()
        }
    };
    plan.rules =
        scenario.links.iter().flat_map(|link| rules(link, &hosts(link.from), &hosts(link.to))).collect();
    plan.actions = faults::actions(scenario, &plan, &sites)?;
    Ok(plan)
}

/// Lists, for people, the parts of a scenario that have no effect because proxies and balancers take no time.
pub fn left_out(scenario: &Scenario) -> Vec<String> {
    let timeless = || scenario.groups.iter().filter(|group| group.role != HostRole::Server);
    let named = |part: &str, is: fn(&Group) -> bool| {
        let names: Vec<_> = timeless().filter(|group| is(group)).map(|group| group.name.as_str()).collect();
        (!names.is_empty()).then(|| format!("{part} of {}", names.join(", ")))
    };
    let all = [
        named("the capacity", |group| !group.capacities.is_empty()),
        named("overload control", |group| group.overload != Overload::default()),
        named("a background job", |group| group.background > 0.0),
        (!scenario.costs.operations.is_empty()).then(|| "the prices of operations".to_owned()),
    ];
    all.into_iter().flatten().collect()
}

/// Returns the agents' side of a link: callers, and answerers that belong to no group.
fn agents(plan: &Plan, sites: &Sites) -> Vec<HostIndex> {
    let own = (0..).zip(sites.answerers()).filter(|(_, answerer)| answerer.server.is_none());
    (0..plan.process_host(0)).chain(own.map(|(answerer, _)| plan.answerer_host(answerer))).collect()
}

/// Rejects scenarios with parts that would silently have no effect.
fn refuse(scenario: &Scenario) -> Result<(), String> {
    let at_all = |of: fn(&Group) -> bool| scenario.groups.iter().any(of);
    let not_proxy = |group: &Group| group.role != HostRole::Proxy;
    let service = &scenario.costs.service;
    let begins_at_server = |stream: &Stream| scenario.groups[stream.path[0]].role == HostRole::Server;
    let has_servers = at_all(|group| group.role == HostRole::Server);
    let refused = [
        (
            "a background job of balancers and servers",
            scenario.groups.iter().any(|group| not_proxy(group) && group.background > 0.0),
        ),
        ("calls that start at a server", scenario.streams.iter().any(begins_at_server)),
        ("databases", at_all(|group| group.role == HostRole::Database)),
        ("network cards", at_all(|group| group.card.is_some())),
        ("quotas", at_all(|group| group.quota.is_some())),
        ("TCP", at_all(|group| group.transport != Transport::Udp)),
        ("TCP", scenario.streams.iter().any(|stream| stream.transport != Transport::Udp)),
        (
            "more than one worker a server",
            at_all(|group| group.role == HostRole::Server && group.workers != 1),
        ),
        ("a table of service times", has_servers && matches!(service, ServiceTimes::Table(_))),
        ("a `repeat_work` other than 0", has_servers && scenario.costs.repeat_work > 0.0),
        (
            "ties that are drawn",
            at_all(|group| matches!(&group.role, HostRole::Balancer(of) if of.ties == Ties::Random)),
        ),
        (
            "an `invite_work` other than 1.75",
            has_servers && (scenario.costs.invite_work - INVITE_WORK).abs() > 1e-9,
        ),
    ];
    match refused.into_iter().find(|(_, is_there)| *is_there) {
        Some((part, _)) => Err(format!("a run on bytes cannot have {part}")),
        None => Ok(()),
    }
}

/// Returns the time from 180, which is sent at once, to the answer. It must be equal for all calls.
fn ring(streams: &[Stream]) -> Result<RandomTime, String> {
    let rings = |stream: &Stream| stream.ring + stream.answer;
    let first = streams.first().map(rings).unwrap_or_default();
    if streams.iter().any(|stream| rings(stream) != first) {
        return Err("in a run on bytes all calls ring for the same time".to_owned());
    }
    Ok(RandomTime::Fixed(first))
}

/// Returns an agent for each stream and each of its entry hosts, with equal shares of the rate.
fn callers(scenario: &Scenario, sites: &Sites) -> Vec<CallerPlan> {
    let mut callers = Vec::new();
    for stream in &scenario.streams {
        let entries = sites.entries(stream);
        let share = 1.0 / entries.len() as f64;
        let caller = |&site: &u16| CallerPlan {
            site,
            callee: Callee::Anyone,
            start: Instant::ZERO,
            arrivals: ArrivalPlan { duration: Some(scenario.run.duration), ..arrivals(stream, share) },
            holding: stream.holding,
            answer_wait: stream.patience,
            knows_password: true,
            must_succeed: false,
        };
        callers.extend(entries.iter().map(caller));
    }
    callers
}

/// Returns the service times of a server.
fn service(costs: &Costs, pool: &Group, host: u16) -> ServiceModel {
    let service_per_work = pool
        .capacity(host)
        .map_or(Duration::ZERO, |capacity| costs.server_request().mul_f64(costs.base_capacity / capacity));
    let exponential = costs.service == ServiceTimes::Exponential;
    let queue_max = Some(pool.buffer as usize);
    ServiceModel { service_per_work, exponential, queue_max, ..ServiceModel::default() }
}
