//! Figure 5: one server at the same load, alone on its host and with neighbours.

use super::super::FigureRun;
use super::{
    about_neighbours, assumptions, deviation, mean, micros, neighbours, runs, seconds, server, settled,
};
use crate::report::{Axis, Figure, Plot, PlotSeries, Statement, StatementVerdict};
use sim::cloud::{CloudResults, CloudSecond};
use sim::stats::Interval;

const LOAD: f64 = 300.0;

pub(in crate::figures) fn run(work: &FigureRun<'_>) -> Figure {
    // The paper's 600 s, of which seconds 300 to 400 are worse.
    let unit = work.scale(100, 60, 5);
    let plans = [false, true].map(|contended| {
        let mut plan = server(LOAD, 2, 6 * unit);
        if contended {
            let short = |at: u64| (seconds(at), seconds(at + unit.div_ceil(25)));
            let mut times: Vec<_> =
                [40, 110, 150, 230, 260, 430, 520].map(|at| short(at * unit / 100)).into();
            times.push((seconds(3 * unit), seconds(4 * unit)));
            plan.neighbours = vec![neighbours(times)];
        }
        plan
    });
    let results = runs(work, &plans);
    let line = |(name, results): (&str, &CloudResults)| {
        PlotSeries::line(name, results.seconds.iter().map(|second| (second.at, micros(second.p95))))
    };
    let firsts = results.iter().map(|runs| &runs[0]);
    let lines = ["with neighbours", "alone"].into_iter().zip(firsts.rev()).map(line);
    let axes = ["time (s)", "95th percentile of latency (microseconds)"].map(Axis::linear);
    let ([x, y], title) = (axes, format!("One server at {LOAD:.0} calls/s"));
    let mut plot = Plot::of(title, x, y, lines);
    plot.mark("neighbours begin", (3 * unit) as f64);
    plot.mark("and end", (4 * unit) as f64);
    let pairs = results[0].iter().zip(&results[1]);
    let seen: Vec<_> = pairs
        .map(|(alone, contended)| {
            Seen::of(&settled(alone, &plans[0]), &settled(contended, &plans[1]), unit as f64)
        })
        .collect();
    let mut figure = work.figure(vec![plot]);
    figure.claims = claims(&seen);
    figure
        .notes
        .push(format!("The curves are of the first of {} runs; statements are about all.", seen.len()));
    figure.assumptions = assumptions();
    figure.assumptions.push(about_neighbours());
    figure.assumptions.push(
        "Neighbours are busy from half of the time to two thirds of it, and for a few seconds seven times besides, as the \
         paper's curve has it."
            .to_owned(),
    );
    figure
}

/// Results of two runs with the same seed, alone and with neighbours, in microseconds.
struct Seen {
    /// Standard deviations of the 95th percentiles.
    calm: f64,
    busy: f64,
    /// Means of the 95th percentiles, during the long activity of neighbours and otherwise.
    inside: f64,
    outside: f64,
    /// Largest 95th percentile of the run alone.
    most: f64,
}

impl Seen {
    fn of(alone: &[&CloudSecond], contended: &[&CloudSecond], unit: f64) -> Self {
        let p95 = |seconds: &[&CloudSecond]| -> Vec<f64> {
            seconds.iter().map(|second| micros(second.p95)).collect()
        };
        let within = |second: &&&CloudSecond| second.at > 3.0 * unit && second.at <= 4.0 * unit;
        let outside = contended.iter().filter(|second| !within(second));
        Self {
            calm: deviation(&p95(alone)),
            busy: deviation(&p95(contended)),
            inside: mean(contended.iter().filter(within).map(|second| micros(second.p95))),
            outside: mean(outside.map(|second| micros(second.p95))),
            most: p95(alone).into_iter().fold(0.0, f64::max),
        }
    }
}

fn claims(seen: &[Seen]) -> Vec<Statement> {
    let of = |value: fn(&Seen) -> f64| Interval::over(seen.iter().map(value));
    let (variation, higher) = (of(|seen| seen.busy / seen.calm), of(|seen| seen.inside / seen.outside));
    let (inside, most) = (of(|seen| seen.inside), of(|seen| seen.most));
    let below = Interval::over(seen.iter().map(|seen| -seen.most));
    claims! {
        "section VI-B", "Latency varies much more with neighbours, at the same low load.",
            ["The standard deviation of p95 is {variation:.1} times that alone."],
            StatementVerdict::above(variation, 3.0);
        "section VI-B", "For some 100 s latency is higher at the same load.",
            ["The mean p95 is {higher:.1} times that of the other seconds."],
            StatementVerdict::above(higher, 1.5);
        "section II", "Low latency does not follow from the absence of overload.",
            ["At {LOAD:.0} calls/s {inside:.0} microseconds with neighbours, above the threshold of 1,000; alone \
             {most:.0} in the worst second."],
            StatementVerdict::above(inside, 1_000.0).and(StatementVerdict::above(below, -1_000.0));
    }
}
