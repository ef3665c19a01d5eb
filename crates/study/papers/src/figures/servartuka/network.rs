//! Networks of the paper's servers, their ways of keeping state, and their optimum capacity.

use config::scenario::{Costs, Group, Scenario, Stream};
use core::time::Duration;
use distribute::{DistributionSettings, ShareLaw};
use load::{ArrivalProcess, RandomTime};
use plan::{PlanNode, Routing, Topology, solve};
use sim::model::{NetworkState, ProxyModel, StateKeeping};

/// Calls per second that the paper's server forwards without state: `T_SL` (section 2.2).
pub(super) const STATELESS: f64 = 5700.0;
/// Calls per second with the state of every call: `T_SF`.
pub(super) const STATEFUL: f64 = 4700.0;
/// Calls per second that the paper's law gives away in a period.
pub(super) const DELTA_C: f64 = 50.0;
/// Messages of a call that a server reads, and transactions that it creates for a call's state.
const MESSAGES: f64 = 6.0;
const TRANSACTIONS: f64 = 4.0;
/// Maximum of messages that wait at a server.
pub(super) const BUFFER: u32 = 1000;
/// Mean holding time, seconds.
const HOLDING: u64 = 2;

/// Servers, and the paths of calls through them.
#[derive(Clone, Debug)]
pub(super) struct Network {
    pub(super) name: String,
    /// Speed of each server, in units of the paper's server.
    speeds: Vec<f64>,
    /// Servers of each path, and the path's share of all calls.
    paths: Vec<(Vec<usize>, f64)>,
}

/// How all servers of a network keep state.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Mode {
    /// Each server keeps the state of every call.
    Stateful,
    /// No server keeps state.
    Stateless,
    /// Each server before the last of a path keeps this share of the calls that arrive without state; the last one
    /// keeps the rest. With 1 only the first server of each path is stateful, with 0 only the last one.
    Share(f64),
    /// Each server finds its share by this law.
    Law(ShareLaw),
    /// Each server finds its share by the paper's law, without marks on calls: it learns only how many of its calls
    /// have their state kept by servers before it.
    Unmarked,
    /// Each server decides by its own utilisation: the rule of Cortes et al. (section 6).
    Cortes,
}

impl Network {
    pub(super) fn series(servers: usize) -> Self {
        let paths = vec![((0..servers).collect(), 1.0)];
        Self { name: format!("series {servers}"), speeds: vec![1.0; servers], paths }
    }

    fn new(name: &str, speeds: &[f64], paths: &[(&[usize], f64)]) -> Self {
        let paths = paths.iter().map(|(path, share)| (path.to_vec(), *share)).collect();
        Self { name: name.to_owned(), speeds: speeds.to_vec(), paths }
    }

    /// Two branches behind one server. One branch is as busy as the server, the other one has spare capacity.
    pub(super) fn fork() -> Self {
        let third = 1.0 / 3.0;
        Self::new("fork", &[1.0, 1.0, third], &[(&[0, 1], 2.0 * third), (&[0, 2], third)])
    }

    /// Two servers in front of one, each with half of its calls.
    pub(super) fn join() -> Self {
        Self::new("join", &[0.5, 0.5, 1.0], &[(&[0, 2], 0.5), (&[1, 2], 0.5)])
    }

    /// Two edges that call each other through a core: the servers have no order.
    pub(super) fn edges() -> Self {
        Self::new("edges", &[1.0; 3], &[(&[0, 1, 2], 0.5), (&[2, 1, 0], 0.5)])
    }

    /// Optimum capacity if each call's state is kept once, from the linear program.
    pub(super) fn optimum(&self) -> f64 {
        let nodes = self.speeds.iter().map(|speed| PlanNode::new("", STATELESS * speed, STATEFUL * speed));
        let topology = Topology::of_paths(nodes.collect(), &self.paths, Routing::Fixed);
        solve(&topology.expect("shares add up to 1")).expect("each server may keep state").load
    }

    /// Capacity by arithmetic, if each server's share is known; `None` with a law.
    pub(super) fn expected(&self, mode: Mode) -> Option<f64> {
        let mut busy = vec![0.0; self.speeds.len()];
        for (path, share) in &self.paths {
            let mut open = 1.0;
            for (place, &server) in path.iter().enumerate() {
                let keeps = match mode {
                    Mode::Stateful => 1.0,
                    Mode::Stateless => 0.0,
                    Mode::Share(_) if place + 1 == path.len() => open,
                    Mode::Share(keep) => open * keep,
                    Mode::Law(_) | Mode::Unmarked | Mode::Cortes => return None,
                };
                open -= keeps;
                let state = 1.0 / STATEFUL - 1.0 / STATELESS;
                busy[server] += share * (1.0 / STATELESS + keeps * state) / self.speeds[server];
            }
        }
        Some(1.0 / busy.into_iter().fold(0.0, f64::max))
    }

    /// Returns the better of two static modes: the first server of each path keeps all state, or the last one.
    pub(super) fn by_hand(&self) -> Mode {
        let [first, last] = [1.0, 0.0].map(Mode::Share);
        if self.expected(last) > self.expected(first) { last } else { first }
    }

    /// Returns the scenario for a run of this length, with all capacities `scale` times smaller.
    pub(super) fn scenario(&self, seconds: u64, scale: f64) -> Scenario {
        let capacity = |speed: &f64| STATEFUL * speed / scale;
        // A buffer with the same total service time.
        let buffer = (f64::from(BUFFER) / scale).round() as u32;
        let group = |(index, speed)| Group {
            buffer,
            ..Group::proxies(&format!("server {index}"), 1, capacity(speed))
        };
        let groups = (1..).zip(&self.speeds).map(group).collect();
        let stream = |(path, _): &(Vec<usize>, f64)| Stream {
            holding: RandomTime::Exponential(Duration::from_secs(HOLDING)),
            arrivals: ArrivalProcess::Constant,
            ..Stream::of_paper(&format!("{path:?}"), path.clone(), 0.0)
        };
        let streams = self.paths.iter().map(stream).collect();
        let mut scenario = Scenario::new(groups, streams, Duration::from_secs(seconds));
        scenario.costs = costs(scale);
        scenario.run.bin = Duration::from_secs(1);
        scenario
    }

    /// For a series of servers, returns the share of the calls without state that each keeps at this load. State is as
    /// near to the first server, or to the last, as utilisations up to `busiest` allow.
    pub(super) fn filled(&self, load: f64, busiest: f64, from_first: bool) -> Vec<f64> {
        let state = 1.0 / STATEFUL - 1.0 / STATELESS;
        // Part of the calls whose state a server has time for.
        let room = |speed: &f64| ((busiest * speed / load - 1.0 / STATELESS) / state).clamp(0.0, 1.0);
        let mut left = 1.0;
        let mut take = |speed| {
            let kept = f64::min(room(speed), left);
            left -= kept;
            kept
        };
        let kept: Vec<f64> = if from_first {
            self.speeds.iter().map(&mut take).collect()
        } else {
            let mut kept: Vec<f64> = self.speeds.iter().rev().map(&mut take).collect();
            kept.reverse();
            kept
        };
        let mut open = 1.0_f64;
        let share = |kept: f64| {
            let share = if open > 0.0 { kept / open } else { 0.0 };
            open = (open - kept).max(0.0);
            share.min(1.0)
        };
        kept.into_iter().map(share).collect()
    }

    /// Shares of the streams.
    pub(super) fn shares(&self) -> impl Iterator<Item = f64> {
        self.paths.iter().map(|path| path.1)
    }

    /// Returns the state keeping of its servers.
    pub(super) fn state(&self, mode: Mode, trying: bool, scale: f64) -> NetworkState {
        let law =
            |law| DistributionSettings { law, delta_c: DELTA_C / scale, ..DistributionSettings::default() };
        let keeping = match mode {
            Mode::Stateful => StateKeeping::Always,
            Mode::Stateless => StateKeeping::Never,
            Mode::Share(share) => StateKeeping::Share(share),
            Mode::Law(of) => StateKeeping::Distributed(law(of)),
            Mode::Unmarked => StateKeeping::Unmarked(law(ShareLaw::Paper)),
            Mode::Cortes => StateKeeping::ByUtilisation,
        };
        NetworkState { groups: vec![keeping; self.speeds.len()], model: ProxyModel::OfPaper { trying } }
    }
}

/// Prices of operations that result in the paper's measured costs of a call.
fn costs(scale: f64) -> Costs {
    let message = scale / STATELESS / MESSAGES;
    let transaction = scale * (1.0 / STATEFUL - 1.0 / STATELESS) / TRANSACTIONS;
    let seconds = Duration::from_secs_f64;
    Costs {
        base_capacity: STATEFUL / scale,
        message: Duration::ZERO,
        timer: seconds(message / 2.0),
        reject_ack: Duration::ZERO,
        operations: vec![("scan", seconds(message)), ("create_transaction", seconds(transaction))],
        ..Costs::default()
    }
}
