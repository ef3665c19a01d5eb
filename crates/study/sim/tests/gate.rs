//! Proxies of the model that refuse calls like a running server. Tests the throughput of a chain above its capacity,
//! the refused calls, and the time of the 100.

use base::Instant;
use config::scenario::{Costs, Group, LinkFaults, Scenario, Stream};
use distribute::{DistributionSettings, ShareLaw};
use load::{ArrivalProcess, RandomTime, RateStep};
use sim::model::{NetworkState, ProxyModel, RunResults, StateKeeping, run_sharing};
use sim::stats::Series;
use std::time::Duration;

/// Measurements of two proxies by `bench/distribution`, per second: calls of the first without and with state, calls of
/// the second with state, refusals of a proxy that does nothing else. The last one is the plan's result for these
/// numbers.
const STATELESS: f64 = 1772.0;
const STATEFUL: f64 = 1525.0;
const SECOND_STATEFUL: f64 = 1532.0;
const REFUSALS: f64 = 9472.0;
const PLAN: f64 = 1666.0;
/// Messages of a call that a proxy reads: INVITE, 180, 200, ACK, BYE, 200. INVITE and BYE have two transactions each.
const MESSAGES: f64 = 6.0;
const TRANSACTIONS: f64 = 4.0;

fn second(second: u64) -> Instant {
    Instant::ZERO + Duration::from_secs(second)
}

fn costs() -> Costs {
    let seconds = Duration::from_secs_f64;
    let message = 1.0 / STATELESS / MESSAGES;
    Costs {
        base_capacity: STATEFUL,
        message: seconds(message),
        timer: seconds(message / 2.0),
        reject: seconds(2.0 / 3.0 / REFUSALS),
        reject_ack: seconds(1.0 / 3.0 / REFUSALS),
        operations: vec![("create_transaction", seconds((1.0 / STATEFUL - 1.0 / STATELESS) / TRANSACTIONS))],
        ..Costs::default()
    }
}

/// Two proxies in series with these capacities, and calls at this rate until the second `ends`.
fn series(capacities: [f64; 2], rate: f64, ends: u64) -> Scenario {
    let step = |at, rate, ramp| RateStep { at: Duration::from_secs(at), rate, ramp };
    let stream = Stream {
        load: vec![step(0, rate / 2.0, true), step(ends / 4, rate, false), step(ends, 0.0, false)],
        arrivals: ArrivalProcess::Poisson,
        holding: RandomTime::Fixed(Duration::from_millis(1)),
        ..Stream::of_paper("calls", vec![0, 1], rate)
    };
    let group = |(number, capacity): (usize, f64)| Group {
        buffer: 3_000,
        ..Group::proxies(&format!("proxy {number}"), 1, capacity)
    };
    let groups = (1..).zip(capacities).map(group).collect();
    let mut scenario = Scenario::new(groups, vec![stream], Duration::from_secs(ends));
    (scenario.run.bin, scenario.costs) = (Duration::from_secs(1), costs());
    scenario
}

const OF_PAPER: ProxyModel = ProxyModel::OfPaper { trying: false };

fn run(scenario: &Scenario, keeping: StateKeeping, model: ProxyModel) -> RunResults {
    run_sharing(scenario, &NetworkState { groups: vec![keeping; 2], model }, 1)
}

fn law(law: ShareLaw) -> StateKeeping {
    let settings = DistributionSettings {
        law,
        keep: 0.4,
        delta_c: PLAN / 100.0,
        state_cost: 0.35,
        ..DistributionSettings::default()
    };
    StateKeeping::Distributed(settings)
}

/// Rate of answered calls relative to the plan, while `load` times the plan is offered.
fn answered(keeping: StateKeeping, load: f64, model: ProxyModel) -> f64 {
    const ENDS: u64 = 40;
    let scenario = series([STATEFUL, SECOND_STATEFUL], load * PLAN, ENDS);
    let results = run(&scenario, keeping, model);
    results.streams[0].answered[0].rate(second(ENDS - 10), second(ENDS)) / PLAN
}

#[test]
fn a_chain_above_its_capacity_carries_most_of_it_where_the_rest_is_refused() {
    for (load, without) in [(1.2, 0.5), (2.0, 0.35)] {
        let refusing = answered(law(ShareLaw::Level), load, ProxyModel::OfServer);
        assert!(refusing > 0.8, "{load}: {refusing} of the plan");
        let taking_all = answered(law(ShareLaw::Level), load, OF_PAPER);
        assert!(taking_all < without, "{load}: {taking_all} of the plan without refusals");
    }
}

/// The second proxy is fully loaded by the first, which has spare capacity.
#[test]
fn excess_calls_of_the_second_proxy_are_refused_at_the_entry() {
    const ENDS: u64 = 40;
    let scenario = series([2.0 * STATEFUL, STATEFUL], 1.5 * STATELESS, ENDS);
    let results = run(&scenario, law(ShareLaw::Level), ProxyModel::OfServer);
    let lately = |series: &Series| series.rate(second(ENDS - 20), second(ENDS));
    let [first, behind] = [0, 1].map(|host: usize| lately(&results.hosts[host].rejected));
    assert!(first > 500.0 && behind < 0.1 * first, "refused: {first} calls/s, {behind} behind");
    let answered = lately(&results.streams[0].answered[0]);
    assert!(answered > 0.9 * STATELESS, "{answered} calls/s");
}

#[test]
fn copies_of_a_call_get_the_same_decision() {
    const ENDS: u64 = 20;
    // The second proxy has capacity for all calls that the first forwards.
    let mut scenario = series([STATEFUL, 4.0 * STATEFUL], 2.0 * STATELESS, ENDS);
    scenario.run.duration += Duration::from_secs(140);
    // A delay so long that callers retransmit INVITEs that the first proxy has forwarded and that are not answered yet.
    scenario.links = vec![LinkFaults {
        from: Some(0),
        to: Some(1),
        until: scenario.run.duration,
        delay: Duration::from_millis(400),
        ..LinkFaults::default()
    }];
    let results = run(&scenario, law(ShareLaw::Level), ProxyModel::OfServer);
    let stream = &results.streams[0];
    let resent = stream.resends.rate(second(ENDS / 2), second(ENDS));
    let refused = stream.outcomes.refused;
    // A caller of the model gives up after 10 s, and hangs up if the answer comes later.
    let set_up = stream.outcomes.completed + stream.outcomes.answered_late;
    let kept: usize = results.hosts.iter().map(|host| host.kept.len()).sum();
    assert!(resent > 100.0 && refused > 1_000, "{resent} copies/s, {refused} calls refused");
    assert_eq!(set_up + refused, stream.calls, "{:?}", stream.outcomes);
    assert_eq!(kept as u64, set_up, "all other kept calls had been refused");
}

/// Number of messages of a run with few calls.
fn messages(keeping: StateKeeping, model: ProxyModel, ring: Duration) -> u64 {
    let mut scenario = series([STATEFUL, SECOND_STATEFUL], 20.0, 10);
    scenario.run.duration += Duration::from_mins(1);
    scenario.streams[0].ring = ring;
    run(&scenario, keeping, model).messages
}

#[test]
fn the_100_of_a_second_proxy_is_sent_after_200_ms_between_neighbours_that_share_out_state() {
    let at_once = ProxyModel::OfPaper { trying: true };
    let soon = Duration::from_millis(100);
    let late = Duration::from_millis(300);
    let of_server = |keeping, ring| messages(keeping, ProxyModel::OfServer, ring);
    // The last proxy keeps the state.
    let last = StateKeeping::Share(0.0);
    assert_eq!(of_server(last, soon), messages(last, OF_PAPER, soon));
    assert_eq!(of_server(last, late), messages(last, at_once, late));
    assert!(of_server(last, soon) < of_server(last, late));
    // Proxies that do not share state send the 100 at once.
    assert_eq!(of_server(StateKeeping::Always, soon), messages(StateKeeping::Always, at_once, soon));
}
