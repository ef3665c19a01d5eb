//! One server that collapses under a small overload and does not recover afterwards.

use super::topology::{at, hold, one, steps};
use super::{FigureRun, series};
use crate::report::{Figure, Plot, PlotSeries, Statement, Style};
use sim::model::{self, RunResults};
use sim::stats::sweep;

/// Calls per second in each phase.
const LOADS: [f64; 4] = [150.0, 200.0, 150.0, 50.0];

/// Simulates phases of `phase` seconds.
pub(super) fn simulate(phase: u64, holding: u64, seed: u64) -> RunResults {
    let mut scenario = one(4 * phase);
    let load: Vec<_> = (0..).map(|index| index * phase).zip(LOADS).collect();
    scenario.streams[0].load = steps(&load);
    hold(&mut scenario, holding);
    model::run(&scenario, seed)
}

/// Results of one run in the second half of each phase.
pub(super) struct Phases {
    pub(super) goodput: [f64; 4],
    pub(super) resends: [f64; 4],
    pub(super) give_ups: [f64; 4],
    pub(super) dropped: [f64; 4],
    pub(super) utilisation: [f64; 4],
}

impl Phases {
    pub(super) fn of(results: &RunResults, phase: u64) -> Self {
        let host = &results.hosts[0];
        let utilisation = series::utilisation(&results.hosts);
        let each = |value: &dyn Fn(u64, u64) -> f64| {
            [0, 1, 2, 3].map(|index| value(index * phase + phase / 2, (index + 1) * phase))
        };
        Self {
            goodput: each(&|from, to| series::goodput(&results.streams, from, to)),
            resends: each(&|from, to| host.resends.rate(at(from), at(to))),
            give_ups: each(&|from, to| host.give_ups.rate(at(from), at(to))),
            dropped: each(&|from, to| host.dropped.rate(at(from), at(to))),
            utilisation: each(&|from, to| series::mean(&utilisation, from, to)),
        }
    }
}

pub(in crate::figures) fn run(work: &FigureRun<'_>) -> Figure {
    let (phase, holding) = work.scale((1_000, 100), (500, 100), (40, 10));
    let runs = work.scale(3, 1, 1);
    let one = |run| simulate(phase, holding, sweep::replication_seed(work.seed, run));
    let results = work.sweep("collapse", runs, one);
    let phases: Vec<_> = results.iter().map(|results| Phases::of(results, phase)).collect();

    let mut figure = work.figure(plots(&results[0], phase));
    figure.claims = goodput_claims(&phases, phase);
    figure.claims.extend(load_claims(&phases));
    figure.assumptions = vec![
        "The paper shows the loads in its plot only. Here: 150, 200, 150 and 50 calls/s, a quarter of the run each."
            .into(),
        "Callees ring and answer at once, so that nobody gives up a call because of the callee.".into(),
        "Timers that only clear a transaction away (D, I, J, K and those of RFC 6026) cost nothing.".into(),
    ];
    figure.notes = vec![
        format!("Phases of {phase} s. The plots show the first of {runs} runs, as the paper shows one sample path."),
        "Numbers are those of the second half of a phase, all runs together where the text says so: the goodput \
         counts calls that end, and follows the load by the holding time."
            .into(),
    ];
    figure
}

fn plots(results: &RunResults, phase: u64) -> Vec<Plot> {
    let labels = [(phase, "to 200"), (2 * phase, "to 150"), (3 * phase, "to 50")];
    let host = &results.hosts[0];
    let stream = &results.streams[0];
    let mut goodput = series::plot("Offered load and goodput", "calls/s", &labels);
    goodput.series(series::steps("offered load", &stream.offered));
    goodput.series(series::steps("goodput", &stream.completed));
    series::late(&mut goodput, "answered late", &results.streams);
    let mut timers = series::plot("Timers that fire at the server", "timers/s", &labels);
    timers.series(series::steps("A, E, G: sent again", &host.resends));
    timers.series(series::steps("B, F, H: given up", &host.give_ups));
    let mut utilisation = series::plot("Utilisation of the server", "utilisation", &labels);
    utilisation.series(PlotSeries::new("server", Style::Step, series::utilisation(&results.hosts)));
    vec![goodput, timers, utilisation]
}

/// Returns the values of all runs in one phase as text.
fn list(phases: &[Phases], value: impl Fn(&Phases) -> f64) -> String {
    phases.iter().map(|phases| format!("{:.1}", value(phases))).collect::<Vec<_>>().join(", ")
}

fn goodput_claims(runs: &[Phases], phase: u64) -> Vec<Statement> {
    let all = |test: &dyn Fn(&Phases) -> bool| runs.iter().all(test);
    claims! {
        "section V-A", "After a delay by the holding time the goodput follows the offered load of about 150 \
         calls/s.",
            ["Goodput {} calls/s.", list(runs, |run| run.goodput[0])],
            all(&|run| (run.goodput[0] - 150.0).abs() < 7.5);
        "section V-A", "Above the capacity of about 160 calls/s (at 1000 s in the paper) the goodput collapses.",
            ["From {phase} s on, with 200 calls/s: {} calls/s.", list(runs, |run| run.goodput[1])],
            all(&|run| run.goodput[1] < 40.0);
        "section V-A", "Back at 150 calls/s (at 2000 s in the paper) the goodput remains low.",
            ["From {} s on: {} calls/s.", 2 * phase, list(runs, |run| run.goodput[2])],
            all(&|run| run.goodput[2] < 40.0);
        "section V-A", "The server recovers only after a sufficient reduction of the load (at 3000 s in the paper).",
            ["From {} s on, with 50 calls/s: {} calls/s.", 3 * phase, list(runs, |run| run.goodput[3])],
            all(&|run| (run.goodput[3] - 50.0).abs() < 5.0);
    }
}

fn load_claims(runs: &[Phases]) -> Vec<Statement> {
    let all = |test: &dyn Fn(&Phases) -> bool| runs.iter().all(test);
    claims! {
        "section V-A", "The server drops messages, and their senders retransmit them.",
            ["Dropped messages/s: {} before the overload, {} during it.", list(runs, |run| run.dropped[0]),
             list(runs, |run| run.dropped[1])],
            all(&|run| run.dropped[0] == 0.0 && run.dropped[1] > 50.0), about(1);
        "section V-A", "Although fewer new calls arrive, the retransmissions remain high.",
            ["Timers A, E and G fire {} times/s before the overload, {} during it, {} back at 150 calls/s.",
             list(runs, |run| run.resends[0]), list(runs, |run| run.resends[1]),
             list(runs, |run| run.resends[2])],
            all(&|run| run.resends[2] > 0.5 * run.resends[1] && run.resends[2] > 10.0 * run.resends[0]), about(1);
        "section V-A", "Timers B and F fire at a much lower rate than A and E.",
            ["B, F and H: {} times/s during the overload.", list(runs, |run| run.give_ups[1])],
            all(&|run| run.give_ups[1] < 0.25 * run.resends[1]), about(1);
        "section V-A", "The utilisation remains close to 1 back at 150 calls/s.",
            ["Utilisation {}.", list(runs, |run| run.utilisation[2])],
            all(&|run| run.utilisation[2] > 0.95), about(2);
        "section V-A", "After 3000 s the retransmissions end.",
            ["Timers A, E and G fire {} times/s; utilisation {}.", list(runs, |run| run.resends[3]),
             list(runs, |run| run.utilisation[3])],
            all(&|run| run.resends[3] < 1.0 && run.utilisation[3] < 0.5), about(2);
    }
}
