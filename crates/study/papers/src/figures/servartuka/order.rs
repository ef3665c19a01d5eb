//! The order in which servers in series get state (section 3): set-up times with state as near as possible to the first
//! server, and to the last.

use super::super::FigureRun;
use super::network::{Mode, Network};
use super::{assumptions, claims};
use crate::report::{Axis, Figure, Plot, PlotSeries, ReportTable};
use core::time::Duration;
use load::{ArrivalProcess, RateStep};
use sim::model::{NetworkState, StateKeeping, StreamResults, run_sharing};

/// Loads, as parts of the optimum.
const LOADS: [f64; 3] = [0.5, 0.8, 0.95];
/// Lengths of the series.
const LENGTHS: [usize; 2] = [2, 3];
/// Utilisation up to which a server keeps state; the rest is for the next server.
const BUSIEST: f64 = 0.98;

/// Servers in series under a load.
#[derive(Clone, Copy)]
struct Case {
    servers: usize,
    /// Load, as part of the optimum.
    load: f64,
    from_first: bool,
}

/// Set-up times from INVITE to 200 at the caller, in milliseconds of the paper's server.
#[derive(Clone, Copy)]
pub(super) struct Times {
    pub(super) mean: f64,
    pub(super) p95: f64,
}

/// Set-up times under one load, with state near the first server and near the last.
pub(super) struct Pair {
    pub(super) name: String,
    pub(super) first: Times,
    pub(super) last: Times,
}

impl Pair {
    /// Ratio of the mean with state at the last server to the mean with state at the first.
    pub(super) fn ratio(&self) -> f64 {
        self.last.mean / self.first.mean
    }
}

fn times(case: Case, (seconds, scale): (u64, f64), seed: u64) -> Times {
    let network = Network::series(case.servers);
    let load = case.load * network.optimum();
    let warm_up = seconds / 4;
    let mut scenario = network.scenario(seconds, scale);
    scenario.run.warm_up = Duration::from_secs(warm_up);
    let stream = &mut scenario.streams[0];
    stream.arrivals = ArrivalProcess::Poisson;
    let step = |at, rate: f64, ramp| RateStep { at: Duration::from_secs(at), rate: rate / scale, ramp };
    stream.load = vec![step(0, load / 2.0, true), step(warm_up / 2, load, false)];
    let shares = network.filled(load, BUSIEST, case.from_first);
    let groups = shares.into_iter().map(StateKeeping::Share).collect();
    let state = NetworkState { groups, ..network.state(Mode::Share(1.0), false, scale) };
    let results = run_sharing(&scenario, &state, seed);
    let StreamResults { answer_delay, .. } = &results.streams[0];
    // A smaller server takes longer for a message.
    let time = |delay: Duration| delay.as_secs_f64() * 1e3 / scale;
    Times { mean: time(answer_delay.mean()), p95: time(answer_delay.percentile(95.0)) }
}

pub(in crate::figures) fn run(work: &FigureRun<'_>) -> Figure {
    let length = work.scale((400, 2.0), (160, 10.0), (8, 20.0));
    let load = |servers| LOADS.into_iter().map(move |load| (servers, load));
    let loads: Vec<(usize, f64)> = LENGTHS.into_iter().flat_map(load).collect();
    let case =
        |&(servers, load): &(usize, f64)| [true, false].map(|from_first| Case { servers, load, from_first });
    let cases: Vec<Case> = loads.iter().flat_map(case).collect();
    let times = work.sweep("orders", cases.len(), |index| times(cases[index], length, work.seed));
    let pair = |((servers, load), times): (&(usize, f64), &[Times])| Pair {
        name: format!("{servers} at {:.0} %", 100.0 * load),
        first: times[0],
        last: times[1],
    };
    let pairs: Vec<Pair> = loads.iter().zip(times.chunks(2)).map(pair).collect();
    let mut figure = work.figure(vec![plot(&pairs)]);
    figure.tables = vec![table(&pairs)];
    figure.claims = claims::of_order(&pairs);
    figure.assumptions = assumptions(length.1);
    figure.assumptions.push(
        "Calls begin at random (Poisson), other than above: set-up time is waiting. Links take no time and lose nothing, and \
         nobody answers with 100."
            .to_owned(),
    );
    figure.notes = vec![format!(
        "A server keeps state until it would be busy for more than {:.0} % of its time; the next in the order keeps the \
         rest. At 50 and 80 % of the optimum a single server keeps all. Times are those of a server of the paper's speed.",
        100.0 * BUSIEST
    )];
    figure
}

fn plot(pairs: &[Pair]) -> Plot {
    let bars = |name, time: fn(&Pair) -> f64| PlotSeries::bars(name, pairs.iter().map(time));
    let series = [
        bars("mean, state at the first", |pair| pair.first.mean),
        bars("mean, state at the last", |pair| pair.last.mean),
        bars("95 %, state at the first", |pair| pair.first.p95),
        bars("95 %, state at the last", |pair| pair.last.p95),
    ];
    let x = Axis::names(
        "servers in series, at a part of the optimum",
        pairs.iter().map(|pair| pair.name.clone()),
    );
    Plot::of("Set-up time", x, Axis::linear("INVITE to 200 (ms)"), series)
}

fn table(pairs: &[Pair]) -> ReportTable {
    let mut table = ReportTable::new([
        "INVITE to 200, ms",
        "mean, first",
        "mean, last",
        "last/first",
        "95 %, first",
        "95 %, last",
    ]);
    for pair in pairs {
        let Pair { name, first, last } = pair;
        let cells =
            [first.mean, last.mean, pair.ratio(), first.p95, last.p95].map(|cell| format!("{cell:.2}"));
        table.rows.push([name.clone()].into_iter().chain(cells).collect());
    }
    table
}
