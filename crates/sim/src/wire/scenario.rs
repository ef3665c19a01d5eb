//! From a scenario of the simulator to a plan: the same file, on real bytes.
//!
//! Answerers take their time for each request as in the model; the balancer takes none.

use super::plan::{Action, AnswererPlan, CallerPlan, Care, Member, Plan, SiteConfig};
use crate::engine::{HostId, Rule};
use crate::model::{books, effects, holding};
use balance::HealthSettings;
use base::{Instant, Rng};
use config::scenario::{Costs, Group, Overload, Role, Scenario, Service, Stream, Transport, What};
use core::time::Duration;
use load::{ArrivalPlan, Holding, Process, Ramp, ServiceModel};
use node::ProbeSettings;

/// An INVITE's work at an answerer in units of a BYE's, which is fixed there.
const INVITE_WORK: f64 = 1.75;

/// The plan of a scenario.
///
/// # Errors
/// Says what of the scenario does not exist on bytes: any path but from a balancer to servers, overload control, other
/// processors than those of servers.
pub fn plan(scenario: &Scenario) -> Result<Plan, String> {
    let (balancers, servers) = groups(scenario)?;
    let (policy, site, pool) = match (&scenario.groups[balancers], &scenario.groups[servers]) {
        (site @ Group { role: Role::Balancer { policy }, count: 1, .. }, pool)
            if pool.role == Role::Server =>
        {
            (policy, site, pool)
        }
        _ => {
            return Err(
                "a run on bytes goes from one balancer to servers: path = [balancer, servers]".to_owned()
            );
        }
    };
    refuse(scenario, site, pool)?;
    let timers = load::Timers { t1: scenario.timers.t1, t2: scenario.timers.t2 };
    let ring = ring(&scenario.streams)?;
    let mut plan = Plan {
        seed: scenario.run.seed,
        care: Care::Measured,
        callers: scenario.streams.iter().flat_map(|stream| callers(stream, scenario.run.duration)).collect(),
        balancers: 1,
        answerers: (0..pool.count).map(|host| answerer(&scenario.costs, pool, host, ring)).collect(),
        config: SiteConfig {
            policy: policy.name(),
            members: (0..pool.count).map(|host| member(pool, host)).collect(),
            key: 0,
            health: HealthSettings { fall: 2, rise: 1, slow_start: Duration::from_secs(30) },
            probes: ProbeSettings {
                periodic: true,
                interval: Duration::from_secs(2),
                timeout: Duration::from_millis(1_800),
                t1: timers.t1,
            },
            books: books(policy, &scenario.timers),
        },
        timers,
        delay: Duration::ZERO,
        rules: Vec::new(),
        actions: Vec::new(),
        end: Instant::ZERO + scenario.run.duration,
    };
    let hosts = |group: Option<usize>| -> Vec<HostId> {
        match group {
            None => (0..plan.balancer_host(0)).collect(),
            Some(group) if group == balancers => vec![plan.balancer_host(0)],
            Some(_) => (plan.answerer_host(0)..plan.hosts()).collect(),
        }
    };
    plan.rules =
        scenario.links.iter().flat_map(|link| rules(link, &hosts(link.from), &hosts(link.to))).collect();
    plan.actions = actions(scenario, &plan, balancers)?;
    Ok(plan)
}

/// The balancers' and the servers' group: there are no others, and every call passes both.
fn groups(scenario: &Scenario) -> Result<(usize, usize), String> {
    let first = scenario.streams.first().ok_or("there are no calls")?;
    let (&[balancers, servers], 2) = (first.path.as_slice(), scenario.groups.len()) else {
        return Err("a run on bytes has two groups of hosts: path = [balancer, servers]".to_owned());
    };
    if scenario.streams.iter().any(|stream| stream.path != first.path) {
        return Err("in a run on bytes all calls take the same path".to_owned());
    }
    Ok((balancers, servers))
}

/// What would silently be left out.
fn refuse(scenario: &Scenario, site: &Group, pool: &Group) -> Result<(), String> {
    let at_all = |of: fn(&Group) -> bool| of(site) || of(pool);
    let service = &scenario.costs.service;
    let refused = [
        ("overload control", at_all(|group| group.overload != Overload::default())),
        ("a background job", at_all(|group| group.background > 0.0)),
        ("TCP", at_all(|group| group.transport != Transport::Udp)),
        ("TCP", scenario.streams.iter().any(|stream| stream.transport != Transport::Udp)),
        ("more than one worker a server", pool.workers != 1),
        ("a table of service times", matches!(service, Service::Table(_))),
        ("an `invite_work` other than 1.75", (scenario.costs.invite_work - INVITE_WORK).abs() > 1e-9),
    ];
    match refused.into_iter().find(|(_, is_there)| *is_there) {
        Some((what, _)) => Err(format!("a run on bytes cannot have {what}")),
        None => Ok(()),
    }
}

/// Every call is answered so long after its 180, which comes at once.
fn ring(streams: &[Stream]) -> Result<Holding, String> {
    let rings = |stream: &Stream| stream.ring + stream.answer;
    let first = streams.first().map(rings).unwrap_or_default();
    if streams.iter().any(|stream| rings(stream) != first) {
        return Err("in a run on bytes all calls ring for the same time".to_owned());
    }
    Ok(Holding::Fixed(first))
}

/// An agent for each step of a stream's load.
fn callers(stream: &Stream, duration: Duration) -> impl Iterator<Item = CallerPlan> {
    stream.load.iter().enumerate().filter(move |(_, step)| step.at < duration).map(move |(index, step)| {
        let next = stream.load.get(index + 1);
        let over = next.map_or(duration, |next| next.at.min(duration)).saturating_sub(step.at);
        // A ramp that the end of the run cuts off keeps its slope.
        let ramp = next
            .filter(|_| step.ramp)
            .map(|next| (Ramp { from_rate: step.rate, over: next.at.saturating_sub(step.at) }, next.rate));
        CallerPlan {
            start: Instant::ZERO + step.at,
            arrivals: ArrivalPlan {
                process: if stream.poisson { Process::Poisson } else { Process::Constant },
                rate: ramp.map_or(step.rate, |(_, to)| to),
                ramp: ramp.map(|(ramp, _)| ramp),
                calls_max: None,
                duration: Some(over),
            },
            holding: holding(stream.holding),
            answer_wait: stream.patience,
            must_succeed: false,
        }
    })
}

fn answerer(costs: &Costs, pool: &Group, host: u16, ring: Holding) -> AnswererPlan {
    let service_per_work = pool
        .capacity(host)
        .map_or(Duration::ZERO, |capacity| costs.message.mul_f64(costs.base_capacity / capacity));
    let exponential = costs.service == Service::Exponential;
    let queue_max = Some(pool.buffer as usize);
    let service = ServiceModel { service_per_work, exponential, queue_max, ..ServiceModel::default() };
    AnswererPlan { ring, trying: false, service }
}

/// Capacity relative to that of the first.
fn member(pool: &Group, host: u16) -> Member {
    let capacity = pool.capacity(host).zip(pool.capacity(0)).map_or(1.0, |(own, first)| own / first);
    Member { answerer: host, capacity }
}

fn rules(link: &config::scenario::Link, from: &[HostId], to: &[HostId]) -> Vec<Rule> {
    let when = Instant::ZERO + link.since..Instant::ZERO + link.until;
    let pairs = from.iter().flat_map(|&one| to.iter().flat_map(move |&other| [(one, other), (other, one)]));
    let of_pair = |(from, to)| {
        let rule = |what| Rule { from: Some(from), to: Some(to), when: when.clone(), what };
        effects(link).into_iter().map(rule).collect::<Vec<_>>()
    };
    pairs.flat_map(of_pair).collect()
}

/// Faults, and the pauses of hosts that have some.
fn actions(scenario: &Scenario, plan: &Plan, balancers: usize) -> Result<Vec<(Instant, Action)>, String> {
    let mut actions = Vec::new();
    for fault in &scenario.faults {
        let (start, is_balancer) = (Instant::ZERO + fault.at, fault.group == balancers);
        let host = if is_balancer { plan.balancer_host(fault.host) } else { plan.answerer_host(fault.host) };
        match fault.what {
            What::Restart(time) if is_balancer => {
                actions.push((start, Action::Fail(fault.host)));
                actions.push((start + time, Action::Start(fault.host)));
            }
            What::Restart(time) => {
                actions.push((start, Action::Die { answerer: fault.host, refuses: false }));
                actions.push((start + time, Action::Return(fault.host)));
            }
            What::Stall(time) => actions.push((start, Action::Stall(host, time))),
            What::Slowdown(_) => return Err("a run on bytes cannot have a slowdown".to_owned()),
        }
    }
    for (index, group) in scenario.groups.iter().enumerate() {
        let Some(stalls) = &group.stalls else { continue };
        for number in 0..group.count {
            let host =
                if index == balancers { plan.balancer_host(number) } else { plan.answerer_host(number) };
            let mut rng = Rng::from_seed(plan.seed).fork(&format!("stalls {host}"));
            let mut at = Instant::ZERO + exponential(stalls.every, &mut rng);
            while at < plan.end {
                let length = holding(stalls.length).sample(&mut rng);
                actions.push((at, Action::Stall(host, length)));
                at = at + length + exponential(stalls.every, &mut rng);
            }
        }
    }
    actions.sort_by_key(|&(at, _)| at);
    Ok(actions)
}

fn exponential(mean: Duration, rng: &mut Rng) -> Duration {
    Holding::Exponential(mean).sample(rng)
}
