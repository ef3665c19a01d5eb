//! Two proxies in series in the simulator, at the measured prices, with the entry gate and overload control of the
//! server.

use std::time::Duration;

use base::Instant;
use config::scenario::{Costs, Group, RunSettings, Scenario, Stream};
use distribute::{Law, Settings};
use load::{ArrivalProcess, RandomTime, RateStep};
use node::Distribution;
use proxy::ProxyTimers;
use sim::model::{NetworkState, ProxyModel, StateKeeping, run_sharing};
use sim::stats::Series;

use super::arrangement::{Kept, Shape};
use super::prices::{NetworkPrices, NodePrices};

/// Messages that a proxy reads of a call, and transactions that it makes where it keeps one.
const MESSAGES: f64 = 6.0;
const TRANSACTIONS: f64 = 4.0;
/// Messages that may wait in a proxy's socket.
const BUFFER: u32 = 3_000;
/// Seconds in which the load goes up, those at the load, and the last ones of them, which count.
const RISE: u64 = 10;
const HOLD: u64 = 30;
const COUNTED: u64 = 10;

/// What the shares of proxies go by.
struct Shares {
    /// What the plan keeps at the first proxy.
    keep: f64,
    /// Calls a second that the plan carries.
    plan: f64,
    /// As the proxies are configured.
    state_cost: f64,
}

/// What both proxies do.
type Keeping = fn(&Shares) -> [StateKeeping; 2];

/// Arrangements, with the names of those that are measured.
const MODES: [(&str, Keeping); 6] = [
    ("every proxy", |_| [StateKeeping::Always; 2]),
    ("the first", |_| [StateKeeping::Share(1.0); 2]),
    ("the last", |_| [StateKeeping::Share(0.0); 2]),
    ("by the plan, fixed", |shares| law(Law::Fixed, shares)),
    ("law paper", |shares| law(Law::Paper, shares)),
    ("law level", |shares| law(Law::Level, shares)),
];

fn law(law: Law, &Shares { keep, plan, state_cost }: &Shares) -> [StateKeeping; 2] {
    let delta_c = plan / 100.0;
    [StateKeeping::Distributed(Settings { law, keep, delta_c, state_cost, ..Settings::default() }); 2]
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
/// scenario has one list of prices. The measured price of a first proxy without state has the 100 of the second one
/// in it.
fn scenario(prices: &NetworkPrices, rate: f64) -> Scenario {
    let [first, _] = prices.nodes;
    let message = 1.0 / first.stateless / MESSAGES;
    let transaction = (1.0 / first.stateful - 1.0 / first.stateless).max(0.0) / TRANSACTIONS;
    let refusal = 1.0 / prices.refusals;
    let seconds = Duration::from_secs_f64;
    let costs = Costs {
        base_capacity: first.stateful,
        message: seconds(message),
        timer: seconds(message / 2.0),
        // Of INVITE, 503 and ACK, which were measured together, the ACK is one.
        reject: seconds(refusal * 2.0 / 3.0),
        reject_ack: seconds(refusal / 3.0),
        operations: vec![("create_transaction", seconds(transaction))],
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
        groups: (1..).zip(&prices.nodes).map(group).collect(),
        streams: vec![stream],
        links: Vec::new(),
        faults: Vec::new(),
    }
}

/// Simulates all arrangements at these loads, parts of the plan.
pub fn run(kept: Kept, prices: &NetworkPrices, plan: f64, loads: &[f64]) -> Vec<SimulatedPoint> {
    let (keep, state_cost) =
        (Shape::Series(2).keep(&prices.nodes), Distribution::state_cost(kept != Kept::Transactions));
    let shares = Shares { keep, plan, state_cost };
    let mut points = Vec::new();
    for (name, groups) in MODES {
        for &load in loads {
            let state = NetworkState { groups: groups(&shares).to_vec(), model: ProxyModel::OfServer };
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

    /// As recorded in docs/distribution/measured.md, two in series, transactions.
    const RECORDED: NetworkPrices = NetworkPrices {
        nodes: [
            NodePrices { stateless: 2188.0, stateful: 1587.0 },
            NodePrices { stateless: 2030.0, stateful: 1622.0 },
        ],
        refusals: 12409.0,
    };

    fn answered(points: &[SimulatedPoint], name: &str, load: f64, plan: f64) -> f64 {
        let point = points.iter().find(|point| point.name == name && (point.load - load).abs() < 1e-9);
        point.expect("this point").goodput / plan
    }

    #[test]
    fn below_capacity_all_is_carried_and_above_it_as_much_as_live() {
        let plan = 1818.0;
        let points = run(Kept::Transactions, &RECORDED, plan, &[0.7, 1.2, 2.0]);
        for (name, _) in MODES {
            assert!((answered(&points, name, 0.7, plan) / 0.7 - 1.0).abs() < 0.02, "{name}");
        }
        let level = [1.2, 2.0].map(|load| answered(&points, "law level", load, plan));
        // What running proxies carried at these loads, in the same record.
        let is_near = |(simulated, live): (f64, f64)| (simulated / live - 1.0).abs() < 0.15;
        assert!(level.into_iter().zip([0.89, 0.81]).all(is_near), "{level:?}");
    }
}
