//! Two proxies in series in the simulator, at the measured prices.

use std::time::Duration;

use base::Instant;
use config::scenario::{Costs, Group, RunSettings, Scenario, Stream};
use distribute::{Law, Settings};
use load::{ArrivalProcess, RandomTime, RateStep};
use proxy::ProxyTimers;
use sim::model::{NetworkState, StateKeeping, run_sharing};
use sim::stats::Series;

use super::prices::NodePrices;

/// Messages that a proxy reads of a call, and transactions that it makes where it keeps one.
const MESSAGES: f64 = 6.0;
const TRANSACTIONS: f64 = 4.0;
/// Messages that may wait in a proxy's socket.
const BUFFER: u32 = 3_000;
/// Seconds in which the load goes up, those at the load, and the last ones of them, which count.
const RISE: u64 = 10;
const HOLD: u64 = 30;
const COUNTED: u64 = 10;

/// What both proxies do, given the share that the plan keeps at the first one and the calls/s of the plan.
type Keeping = fn(f64, f64) -> [StateKeeping; 2];

/// Arrangements, with the names of those that are measured.
const MODES: [(&str, Keeping); 6] = [
    ("every proxy", |_, _| [StateKeeping::Always; 2]),
    ("the first", |_, _| [StateKeeping::Share(1.0); 2]),
    ("the last", |_, _| [StateKeeping::Share(0.0); 2]),
    ("by the plan, fixed", |keep, _| [StateKeeping::Share(keep); 2]),
    ("law paper", |_, plan| law(Law::Paper, plan)),
    ("law level", |_, plan| law(Law::Level, plan)),
];

fn law(law: Law, plan: f64) -> [StateKeeping; 2] {
    [StateKeeping::Distributed(Settings { law, delta_c: plan / 100.0, ..Settings::default() }); 2]
}

/// What the simulator makes of an arrangement at a load.
#[derive(Clone, Copy, Debug)]
pub struct SimulatedPoint {
    /// As it is printed.
    pub name: &'static str,
    /// Load, as part of the plan.
    pub load: f64,
    /// Calls answered, a second.
    pub goodput: f64,
}

/// The prices of the first proxy hold for both, and the second is so much slower as its rate with state says: the
/// scenario has one list of prices.
fn scenario(prices: &[NodePrices; 2], rate: f64) -> Scenario {
    let NodePrices { stateless, stateful } = prices[0];
    let message = 1.0 / stateless / MESSAGES;
    let transaction = (1.0 / stateful - 1.0 / stateless).max(0.0) / TRANSACTIONS;
    let seconds = Duration::from_secs_f64;
    let costs = Costs {
        base_capacity: stateful,
        message: Duration::ZERO,
        timer: seconds(message / 2.0),
        reject_ack: Duration::ZERO,
        operations: vec![("scan", seconds(message)), ("create_transaction", seconds(transaction))],
        ..Costs::default()
    };
    let group = |(number, prices): (usize, &NodePrices)| Group {
        buffer: BUFFER,
        ..Group::proxies(&format!("proxy {number}"), 1, prices.stateful)
    };
    let step = |at, rate, ramp| RateStep { at: Duration::from_secs(at), rate, ramp };
    let stream = Stream {
        holding: RandomTime::Fixed(Duration::from_millis(1)),
        arrivals: ArrivalProcess::Poisson,
        load: vec![step(0, rate / 2.0, true), step(RISE, rate, false)],
        ..Stream::of_paper("calls", vec![0, 1], rate)
    };
    Scenario {
        title: "two in series".to_owned(),
        run: RunSettings {
            duration: Duration::from_secs(RISE + HOLD),
            warm_up: Duration::ZERO,
            bin: Duration::from_secs(1),
            ..RunSettings::default()
        },
        costs,
        timers: ProxyTimers::default(),
        groups: (1..).zip(prices).map(group).collect(),
        streams: vec![stream],
        links: Vec::new(),
        faults: Vec::new(),
    }
}

/// Simulates all arrangements at these loads, parts of the plan.
pub fn run(prices: &[NodePrices; 2], plan: f64, keep: f64, loads: &[f64]) -> Vec<SimulatedPoint> {
    let mut points = Vec::new();
    for (name, groups) in MODES {
        for &load in loads {
            let state = NetworkState { groups: groups(keep, plan).to_vec(), trying: false };
            let results = run_sharing(&scenario(prices, load * plan), &state, 1);
            let [from, to] =
                [RISE + HOLD - COUNTED, RISE + HOLD].map(|at| Instant::ZERO + Duration::from_secs(at));
            let answered = |series: &Series| series.rate(from, to);
            let goodput = results.streams.iter().map(|stream| answered(&stream.answered[0])).sum();
            points.push(SimulatedPoint { name, load, goodput });
        }
    }
    points
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chain_that_keeps_all_carries_what_one_carries_with_state() {
        let prices = [NodePrices { stateless: 120.0, stateful: 100.0 }; 2];
        let points = run(&prices, 109.0, 0.5, &[0.85, 0.99]);
        let of = |name: &str, load: f64| {
            let point = points.iter().find(|point| point.name == name && (point.load - load).abs() < 1e-9);
            point.expect("this point").goodput
        };
        assert!((of("every proxy", 0.85) / (109.0 * 0.85) - 1.0).abs() < 0.1);
        assert!(of("by the plan, fixed", 0.99) > 1.02 * of("every proxy", 0.99));
    }
}
