//! Figure 3: capacities of networks with state kept by hand and shared out by each law, and their optimum.

use super::super::{FigureOptions, FigureRun};
use super::network::{Mode, Network};
use super::stairs::{Stairs, Step, capacity_with_state};
use super::{assumptions, claims};
use crate::report::{Axis, Figure, Plot, PlotSeries, ReportTable};
use distribute::ShareLaw;

/// Simulated modes of each network, in this order.
pub(super) const MODES: [&str; 7] = [
    "every server stateful",
    "stateful or stateless",
    "halves",
    "law paper",
    "law level",
    "law paper, unmarked",
    "Cortes et al.",
];
/// Indexes in [`MODES`].
pub(super) const EVERY: usize = 0;
pub(super) const BY_HAND: usize = 1;
pub(super) const HALVES: usize = 2;
pub(super) const PAPER: usize = 3;
pub(super) const LEVEL: usize = 4;
pub(super) const UNMARKED: usize = 5;
pub(super) const CORTES: usize = 6;

/// Modes that must follow a jump of the load.
pub(super) const LAWS: [usize; 2] = [PAPER, LEVEL];
/// Parts of the optimum from which and to which the load jumps.
pub(super) const JUMP: [f64; 2] = [0.5, 0.95];

/// Capacities of a network in calls per second.
pub(super) struct Row {
    pub(super) network: Network,
    /// Result of the linear program.
    pub(super) optimum: f64,
    /// Capacities in the order of [`MODES`].
    pub(super) carried: Vec<f64>,
    /// Share of the calls without state at the step nearest to 95 % of the optimum, in the order of [`MODES`].
    pub(super) without_state: Vec<f64>,
    /// Share of the calls that are answered some time after the jump, in the order of [`LAWS`].
    pub(super) jumped: Vec<f64>,
}

impl Row {
    /// Capacity in percent of the optimum.
    pub(super) fn percent(&self, mode: usize) -> f64 {
        100.0 * self.carried[mode] / self.optimum
    }
}

fn networks() -> Vec<Network> {
    let series = (2..=6).map(Network::series);
    series.chain([Network::fork(), Network::join(), Network::edges()]).collect()
}

fn modes(network: &Network) -> [Mode; MODES.len()] {
    let laws = [Mode::Law(ShareLaw::Paper), Mode::Law(ShareLaw::Level), Mode::Unmarked, Mode::Cortes];
    let [paper, level, unmarked, cortes] = laws;
    [Mode::Stateful, network.by_hand(), Mode::Share(0.5), paper, level, unmarked, cortes]
}

/// Returns steps around the expected capacity, in parts of the optimum. A law starts far below the optimum.
fn stairs(options: &FigureOptions, network: &Network, mode: Mode) -> Stairs {
    let optimum = network.optimum();
    let (step, rise, hold, count, scale) =
        options.scale((0.005, 60, 16, 8, 2.0), (0.01, 40, 10, 5, 6.0), (0.05, 2, 2, 1, 20.0));
    let (from, to) = match network.expected(mode) {
        Some(expected) => (0.94 * expected, 1.03 * expected),
        // The rule stops keeping state at a utilisation of 0.75.
        None if mode == Mode::Cortes => (0.6 * optimum, optimum),
        None => (0.84 * optimum, 1.02 * optimum),
    };
    // The range is large.
    let step = if mode == Mode::Cortes { 2.0 * step } else { step };
    Stairs { from, to, step: step * optimum, rise, hold, count, scale }
}

/// Returns two steps whose difference is a jump.
fn jump(options: &FigureOptions, network: &Network) -> Stairs {
    let [from, to] = JUMP.map(|part| part * network.optimum());
    let stairs = stairs(options, network, Mode::Stateful);
    let (hold, count) = options.scale((60, 20), (60, 20), (4, 2));
    Stairs { from, to, step: to - from, hold, count, ..stairs }
}

pub(in crate::figures) fn run(work: &FigureRun<'_>) -> Figure {
    let networks = networks();
    let tried = MODES.len() + LAWS.len();
    let of = networks.len() * tried;
    let one = |index: usize| {
        let (network, which) = (&networks[index / tried], index % tried);
        let climb = |stairs: Stairs, mode, enough| stairs.climb(network, mode, false, enough, work.seed);
        if let Some(law) = which.checked_sub(MODES.len()) {
            let steps = climb(jump(work, network), modes(network)[LAWS[law]], None);
            return (steps.last().map_or(0.0, Step::share_answered), 0.0);
        }
        let (mode, optimum) = (modes(network)[which], network.optimum());
        let steps = climb(stairs(work, network, mode), mode, Some(JUMP[1] * optimum));
        (capacity_with_state(&steps), without_state(&steps, optimum))
    };
    let shown = work.sweep("networks", of, one);
    let row = |(network, shown): (&Network, &[(f64, f64)])| Row {
        network: network.clone(),
        optimum: network.optimum(),
        carried: shown[..MODES.len()].iter().map(|of| of.0).collect(),
        without_state: shown[..MODES.len()].iter().map(|of| of.1).collect(),
        jumped: shown[MODES.len()..].iter().map(|of| of.0).collect(),
    };
    let rows: Vec<Row> = networks.iter().zip(shown.chunks(tried)).map(row).collect();
    let mut figure = work.figure(vec![plot(&rows), jumps(&rows)]);
    figure.tables = vec![table(&rows)];
    figure.claims = claims::of_capacity(&rows);
    let Stairs { hold, count, scale, .. } = stairs(work, &networks[0], Mode::Stateful);
    figure.assumptions = assumptions(scale);
    figure.assumptions.push(
        "No server answers with 100: the linear program of the paper has no such message. Figure 4 has it."
            .to_owned(),
    );
    let jump = jump(work, &networks[0]);
    figure.notes = vec![
        format!(
            "Where the load jumps, the last {} s of {} s after it count.",
            jump.count, jump.hold
        ),
        format!(
            "One run a bar, and the axis does not begin at 0. The load goes up in steps of {hold} s, by {} % of the optimum. It is carried as long as \
             99 % of the calls of the last {count} s of a step are answered in them: a step or so above what servers can \
             work off, buffers still take that in. A call whose state no server keeps is not carried.",
            work.scale(0.5, 1.0, 10.0)
        ),
        "\"stateful or stateless\" is the best that can be set by hand where a server keeps all state or none; \"halves\" \
         lets each server keep the half of what comes without state, and the last one the rest."
            .to_owned(),
        "\"law paper, unmarked\" marks no call: a server hears once a second which part of all its calls has state \
         before it, and all servers order calls alike. It carries 0 where more than 1 % of the calls have no state from \
         the first step on. \"Cortes et al.\" is the rule of section 6, with links that count \
         as lossy: each server by itself keeps the state of an INVITE or BYE while its utilisation is below 75 %."
            .to_owned(),
        "In the fork one of two branches is a third as fast and gets a third of the calls. In the join two servers of half \
         the speed stand before one. The two edges call each other through the core, half of the calls each way."
            .to_owned(),
    ];
    figure
}

/// Share of the calls without state at the step nearest to the end of [`JUMP`].
fn without_state(steps: &[Step], optimum: f64) -> f64 {
    let distance = |step: &&Step| (step.load - JUMP[1] * optimum).abs();
    let nearest = steps.iter().min_by(|one, other| distance(one).total_cmp(&distance(other)));
    nearest.map_or(0.0, Step::share_without_state)
}

fn plot(rows: &[Row]) -> Plot {
    let of_mode =
        |(mode, name): (usize, &&str)| PlotSeries::bars(*name, rows.iter().map(|row| row.carried[mode]));
    let optimum = PlotSeries::bars("optimum", rows.iter().map(|row| row.optimum));
    let series = MODES.iter().enumerate().map(of_mode).chain([optimum]);
    Plot::of("Capacity", names(rows), Axis::linear("calls/s").from_to(3000.0, 5800.0), series)
}

fn names(rows: &[Row]) -> Axis {
    Axis::names("network", rows.iter().map(|row| row.network.name.clone()))
}

fn jumps(rows: &[Row]) -> Plot {
    let [from, to] = JUMP.map(|part| 100.0 * part);
    let title = format!("After a jump from {from:.0} to {to:.0} % of the optimum");
    let of_law = |(law, mode): (usize, &usize)| {
        // The same colours as in the other plot.
        PlotSeries::bars(MODES[*mode], rows.iter().map(|row| 100.0 * row.jumped[law])).colour(*mode)
    };
    let y = Axis::linear("calls answered (%)").from_to(0.0, 105.0);
    Plot::of(title, names(rows), y, LAWS.iter().enumerate().map(of_law))
}

fn table(rows: &[Row]) -> ReportTable {
    let mut table = ReportTable::new(["calls/s"]);
    table.header.extend(MODES.map(str::to_owned));
    table.header.push("optimum".to_owned());
    for row in rows {
        let each = |mode: usize| format!("{:.0} ({:.0} %)", row.carried[mode], row.percent(mode));
        let carried = (0..MODES.len()).map(each);
        let name = [row.network.name.clone()].into_iter();
        table.rows.push(name.chain(carried).chain([format!("{:.0}", row.optimum)]).collect());
    }
    table
}
