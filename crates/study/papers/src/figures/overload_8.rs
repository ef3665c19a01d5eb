//! A collapse that spreads from one core server to the edge, and from there to the other core server.

use super::topology::{EDGES, gateways, steps};
use super::{FigureRun, series};
use crate::report::{Figure, Plot, PlotSeries, Statement, Style};
use core::ops::Range;
use sim::model::{self, HostResults, RunResults};
use sim::stats::sweep;

/// Load of gateway 1 in calls per second, in each phase.
const FIRST: [f64; 3] = [65.0, 85.0, 65.0];
/// Load of gateway 2.
const SECOND: f64 = 80.0;
/// Relative difference of goodput and load if all calls are completed: three standard deviations of the smaller load.
const COMPLETE: f64 = 0.03;
/// Utilisation from which a server counts as overloaded.
const FULL: f64 = 0.99;

/// Hosts of the run that share one line.
const LINES: [(&str, Range<usize>); 5] = {
    let edges = EDGES as usize;
    [
        ("edge servers", 0..edges),
        ("core server 1", edges..edges + 1),
        ("core server 2", edges + 1..edges + 2),
        ("gateway 1", edges + 2..edges + 3),
        ("gateway 2", edges + 3..edges + 4),
    ]
};

fn simulate(phase: u64, seed: u64) -> RunResults {
    let mut scenario = gateways(3 * phase);
    let halves: Vec<_> = (0..).map(|index| index * phase).zip(FIRST.map(|rate| rate / 2.0)).collect();
    for (index, stream) in scenario.streams.iter_mut().enumerate() {
        stream.load = if index < 2 { steps(&halves) } else { steps(&[(0, SECOND / 2.0)]) };
    }
    model::run(&scenario, seed)
}

pub(in crate::figures) fn run(work: &FigureRun<'_>) -> Figure {
    let phase = work.scale(1_000, 600, 40);
    let runs = work.scale(2, 1, 1);
    let one = |run| simulate(phase, sweep::replication_seed(work.seed, run));
    let results = work.sweep("cascade", runs, one);

    let mut figure = work.figure(plots(&results[0], phase));
    figure.claims = goodput_claims(&results, phase);
    figure.claims.extend(server_claims(&results, phase));
    figure.assumptions = vec![
        "The load to gateway 1 goes from 65 to 85 calls/s, the paper's \"slightly above 80\", and back to 65.".into(),
        "Half of each load is called from the gateway's side and half from that of the edge servers.".into(),
        "M = 4 edge servers, as in the paper's drawing.".into(),
    ];
    figure.notes = vec![
        format!("Phases of {phase} s. The plots show the first of {runs} runs; goodputs are those of the last third \
                 of a phase, other numbers those of its second half, by run."),
        "A core server takes in a seventh message a call, the 100 Trying of the next server. With 7 ms a call on the \
         base server, \"80 calls/s\" are 71."
            .into(),
    ];
    figure
}

fn plots(results: &RunResults, phase: u64) -> Vec<Plot> {
    let labels = [(phase, "first load to 85"), (2 * phase, "to 65")];
    let mut goodput = series::plot("Offered loads and goodputs", "calls/s", &labels);
    for (index, name) in ["1", "2"].into_iter().enumerate() {
        let streams = &results.streams[2 * index..2 * index + 2];
        let offered = series::sum(streams.iter().map(|stream| &stream.offered));
        goodput.series(PlotSeries::new(format!("offered load {name}"), Style::Law, offered).colour(index));
        let completed = series::sum(streams.iter().map(|stream| &stream.completed));
        goodput.series(PlotSeries::new(format!("goodput {name}"), Style::Step, completed).colour(index));
        series::late(&mut goodput, &format!("answered late {name}"), streams);
    }
    let mut resends = series::plot("Messages sent again, a server", "messages/s", &labels);
    let mut utilisation = series::plot("Utilisation", "utilisation", &labels);
    for (name, hosts) in LINES {
        let hosts = &results.hosts[hosts];
        let sum = series::sum(hosts.iter().map(|host| &host.resends));
        let mean = sum.into_iter().map(|(at, rate)| (at, rate / hosts.len() as f64));
        resends.series(PlotSeries::new(name, Style::Step, mean));
        utilisation.series(PlotSeries::new(name, Style::Step, series::utilisation(hosts)));
    }
    vec![goodput, resends, utilisation]
}

/// Start in seconds of the first three overloaded bins in a row.
fn overloaded(hosts: &[HostResults]) -> f64 {
    let points = series::utilisation(hosts);
    let first = points.windows(3).find(|bins| bins.iter().all(|bin| bin.1 > FULL));
    first.map_or(f64::INFINITY, |bins| bins[0].0)
}

/// First second in which each host sends more than `rate` retransmissions on average.
fn resending(hosts: &[HostResults], rate: f64) -> f64 {
    let points = series::sum(hosts.iter().map(|host| &host.resends));
    points.iter().find(|point| point.1 > rate * hosts.len() as f64).map_or(f64::INFINITY, |point| point.0)
}

/// Returns a value of all runs as text.
fn list(runs: &[RunResults], digits: usize, value: impl Fn(&RunResults) -> f64) -> String {
    // Adding zero turns -0, the sum of no values, into 0.
    runs.iter().map(|run| format!("{:.digits$}", value(run) + 0.0)).collect::<Vec<_>>().join(", ")
}

fn goodput_claims(runs: &[RunResults], phase: u64) -> Vec<Statement> {
    let goodput = |run: &RunResults, stream: usize, index: u64| {
        let streams = &run.streams[2 * stream..2 * stream + 2];
        // Calls last 100 s on average, so the goodput of a load is reached after several times that.
        series::goodput(streams, index * phase + 2 * phase / 3, (index + 1) * phase)
    };
    let both = |index: u64| {
        let [first, second] = [0, 1].map(|stream| list(runs, 1, |run| goodput(run, stream, index)));
        format!("Goodputs {first} and {second} calls/s with {} and {SECOND} offered.", FIRST[index as usize])
    };
    let low = |index| runs.iter().all(|run| goodput(run, 0, index) < 20.0 && goodput(run, 1, index) < 40.0);
    let is_whole =
        |run: &RunResults, stream: usize, load: f64| (goodput(run, stream, 0) / load - 1.0).abs() < COMPLETE;
    let whole = |run: &RunResults| is_whole(run, 0, FIRST[0]) && is_whole(run, 1, SECOND);
    let source = "section V-B";
    claims! {
        source, "At first calls succeed, because both core servers have ample capacity.",
            ["{}", both(0)],
            runs.iter().all(whole);
        source, "Overload of core server 1 also reduces the goodput of the other path.",
            ["{}", both(1)],
            low(1);
        source, "The collapse persists after the first load is reduced.",
            ["{}", both(2)],
            low(2);
    }
}

fn server_claims(runs: &[RunResults], phase: u64) -> Vec<Statement> {
    let all = |test: &dyn Fn(&RunResults) -> bool| runs.iter().all(test);
    let hosts = |line: usize| LINES[line].1.clone();
    let busy = |run: &RunResults, line| {
        series::mean(&series::utilisation(&run.hosts[hosts(line)]), phase / 2, phase)
    };
    let full = |run: &RunResults, line| overloaded(&run.hosts[hosts(line)]);
    let resends = |run: &RunResults, line| resending(&run.hosts[hosts(line)], 10.0);
    let source = "section V-B";
    claims! {
        source, "The edge servers retransmit first, core server 2 later.",
            ["More than 10 retransmissions/s: an edge server from {} s on, core server 2 from {} s on.",
             list(runs, 0, |run| resends(run, 0)), list(runs, 0, |run| resends(run, 2))],
            all(&|run| resends(run, 0) < resends(run, 2) && resends(run, 2).is_finite()), about(1);
        source, "Before the overload core server 1 has a high utilisation, the others a moderate one.",
            ["Core server 1 {}, edge servers {}, core server 2 {}.",
             list(runs, 2, |run| busy(run, 1)), list(runs, 2, |run| busy(run, 0)), list(runs, 2, |run| busy(run, 2))],
            all(&|run| busy(run, 1) > 0.75 && busy(run, 0) < 0.7 && busy(run, 2) < 0.7), about(2);
        source, "Core server 1 is overloaded first, then the edge servers, finally core server 2.",
            ["Utilisation above {FULL} for three bins from: core server 1 {} s, edge servers {} s, core server 2 \
             {} s.", list(runs, 0, |run| full(run, 1)), list(runs, 0, |run| full(run, 0)),
             list(runs, 0, |run| full(run, 2))],
            all(&|run| { full(run, 1) < full(run, 0) && full(run, 0) < full(run, 2) && full(run, 2).is_finite() }),
            about(2);
    }
}
