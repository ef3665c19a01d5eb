//! Assumptions of a scenario, as sentences for the report.

use super::events;
use base::Transport;
use config::scenario::{Costs, Group, HostRole, Scenario, ServiceTimes, Stream};
use core::time::Duration;
use load::{ArrivalProcess, RandomTime};
use proxy::ProxyTimers;

/// Returns prices, timers, callers and callees in effect, and the simplifications of the model.
pub(super) fn assumptions(scenario: &Scenario) -> Vec<String> {
    let mut all = work(scenario);
    let ProxyTimers { transaction: timers, c } = &scenario.timers;
    all.push(format!(
        "SIP timers: T1 {:?}, T2 {:?}, T4 {:?}, Timer C {c:?}.",
        timers.t1, timers.t2, timers.t4
    ));
    all.extend(scenario.streams.iter().map(calls));
    all.extend(left_out(scenario));
    all
}

/// Describes the costs of the hosts' work.
fn work(scenario: &Scenario) -> Vec<String> {
    let costs = &scenario.costs;
    let timeless: Vec<_> = scenario
        .groups
        .iter()
        .filter(|group| group.capacities.is_empty())
        .map(|group| &*group.name)
        .collect();
    let mut work = Vec::new();
    if timeless.len() < scenario.groups.len() {
        work.extend(prices(scenario, costs));
    }
    if !timeless.is_empty() {
        work.push(format!("Without a capacity, the work of {} takes no time.", timeless.join(", ")));
    }
    work
}

fn prices(scenario: &Scenario, costs: &Costs) -> Vec<String> {
    let mut prices = vec![
        format!(
            "On a host of {} calls/s a message costs {:?}, a timer that acts {:?}, and one that clears a transaction \
             away {}; of another capacity, in proportion.",
            costs.base_capacity,
            costs.message,
            costs.timer,
            price(costs.cleanup)
        ),
        format!(
            "Rejecting a request costs {} without a transaction and {} with one, and the ACK to a rejection that left \
             no state {}.",
            price(costs.reject),
            price(costs.reject_stateful),
            price(costs.reject_ack)
        ),
    ];
    if scenario.groups.iter().any(|group| group.role == HostRole::Server) {
        prices.push(format!(
            "To a server that answers calls a call costs 1 / capacity: an INVITE {} times as much as a BYE or a response, \
             an ACK nothing. A request that comes again costs {}.",
            costs.invite_work,
            if costs.repeat_work > 0.0 {
                format!("{:.0} % of the first", 100.0 * costs.repeat_work)
            } else {
                "nothing, and waits for nothing".to_owned()
            }
        ));
    }
    if scenario.groups.iter().any(|group| group.role == HostRole::Database) {
        prices.push(
            "An INVITE that begins a call, a repeated one too, is looked up before its host sees it, which takes a \
             database 1 / capacity."
                .to_owned(),
        );
    }
    if scenario.groups.iter().any(|group| group.quota.is_some()) {
        prices.push(
            "A control group lets a host serve at the speed of a whole processor for a part of each period, and then not \
             until the next one."
                .to_owned(),
        );
    }
    if scenario.groups.iter().any(|group| group.card.is_some()) {
        prices.push(
            "A network card carries one message after another, each way; a thousand may wait.".to_owned(),
        );
    }
    prices.push(match &costs.service {
        ServiceTimes::Deterministic => "Service times do not spread around these means.".to_owned(),
        ServiceTimes::Exponential => "Service times are exponential with these means.".to_owned(),
        ServiceTimes::Table(quantiles) => {
            format!("Service times spread around these means by a table of {} quantiles.", quantiles.len())
        }
    });
    if !costs.operations.is_empty() {
        let named = costs.operations.iter().map(|(name, time)| format!("{name} {time:?}"));
        prices.push(format!("Operations cost on top of that: {}.", named.collect::<Vec<_>>().join(", ")));
    }
    prices
}

fn price(time: Duration) -> String {
    if time.is_zero() { "nothing".to_owned() } else { format!("{time:?}") }
}

/// Describes the arrivals, answers and ends of a stream's calls.
fn calls(stream: &Stream) -> String {
    let after =
        |time: Duration| if time.is_zero() { "at once".to_owned() } else { format!("after {time:?}") };
    let holding = match stream.holding {
        RandomTime::Fixed(time) => format!("{time:?}"),
        RandomTime::Exponential(mean) => format!("{mean:?} in the mean, exponential"),
        RandomTime::Normal(mean, deviation) => {
            format!("{mean:?} in the mean, normal with deviation {deviation:?}")
        }
    };
    format!(
        "Calls of {}: {}; callees ring {} and then answer {}; callers give up after {:?}; a call lasts {holding}.",
        stream.name,
        match stream.arrivals {
            ArrivalProcess::Poisson => "Poisson",
            ArrivalProcess::Constant => "equal gaps",
        },
        after(stream.ring),
        after(stream.answer),
        stream.patience,
    )
}

fn left_out(scenario: &Scenario) -> Vec<String> {
    let mut out = vec!["Callers and callees have no processor: what they do takes no time.".to_owned()];
    let links: Vec<_> = scenario.links.iter().filter_map(|link| events::impairment(scenario, link)).collect();
    let but = if links.is_empty() { "" } else { " but for these links" };
    out.push(format!("Networks take no time and lose nothing{but}."));
    out.extend(links);
    let tcp = scenario.groups.iter().any(|group| group.transport == Transport::Tcp)
        || scenario.streams.iter().any(|stream| stream.transport == Transport::Tcp);
    if tcp {
        out.push("Setting up TCP connections, windows and congestion are left out.".to_owned());
    }
    let probed = |group: &Group| matches!(&group.role, HostRole::Balancer(settings) if settings.probes);
    let probes = scenario.groups.iter().any(probed);
    let probes = if probes { " and the probes of balancers" } else { "" };
    out.push(format!("Only calls{probes} are simulated: no registrations, no look-ups of names."));
    out
}
