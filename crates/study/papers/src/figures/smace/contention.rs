//! Figure 5: the same server at the same load, alone on its host and with neighbours.

use super::super::{Entry, Work};
use super::{assumptions, deviation, mean, micros, neighbours, seconds, server, settled};
use crate::report::{Axis, Claim, Figure, Plot, PlotSeries};
use sim::cloud::{Bursts, CloudResults, CloudSecond};

/// Calm and contended.
pub(in super::super) const CONTENTION: Entry = Entry {
    name: "smace-5",
    title: "95th percentile of latency at 300 calls/s, alone and with neighbours",
    source: "Cloud paper, section VI-B, figure 5",
    run,
};

const LOAD: f64 = 300.0;

fn run(work: &Work<'_>) -> Figure {
    // The paper's 600 s, of which 300 to 400 are worse.
    let unit = work.scale(100, 60, 5);
    let plans = [false, true].map(|contended| {
        let mut plan = server(LOAD, 2, 6 * unit);
        if contended {
            let short = |at: u64| (seconds(at), seconds(at + unit.div_ceil(25)));
            let mut times: Vec<_> =
                [40, 110, 150, 230, 260, 430, 520].map(|at| short(at * unit / 100)).into();
            times.push((seconds(3 * unit), seconds(4 * unit)));
            plan.neighbours = vec![neighbours(Bursts::At(times))];
        }
        plan
    });
    let results = work.clouds("servers", &plans);
    let line = |(name, results): (&str, &CloudResults)| {
        PlotSeries::line(name, results.seconds.iter().map(|second| (second.at, micros(second.p95))))
    };
    let lines = ["with neighbours", "alone"].into_iter().zip(results.iter().rev()).map(line);
    let axes = ["time (s)", "95th percentile of latency (microseconds)"].map(Axis::linear);
    let ([x, y], title) = (axes, format!("One server at {LOAD:.0} calls/s"));
    let mut plot = Plot::of(title, x, y, lines);
    plot.mark("neighbours begin", (3 * unit) as f64);
    plot.mark("and end", (4 * unit) as f64);
    let values = |place: usize| settled(&results[place], &plans[place]);
    let mut figure = work.figure(&CONTENTION, vec![plot]);
    figure.claims = claims(&values(0), &values(1), unit as f64);
    figure.assumptions = assumptions();
    figure.assumptions.push(
        "Neighbours are busy from half of the time to two thirds of it, and for a few seconds seven times besides, as the \
         paper's curve has it."
            .to_owned(),
    );
    figure
}

fn claims(alone: &[&CloudSecond], contended: &[&CloudSecond], unit: f64) -> Vec<Claim> {
    let p95 =
        |seconds: &[&CloudSecond]| -> Vec<f64> { seconds.iter().map(|second| micros(second.p95)).collect() };
    let (calm, busy) = (deviation(&p95(alone)), deviation(&p95(contended)));
    let within = |second: &&&CloudSecond| second.at > 3.0 * unit && second.at <= 4.0 * unit;
    let inside = mean(contended.iter().filter(within).map(|second| micros(second.p95)));
    let outside = mean(contended.iter().filter(|second| !within(second)).map(|second| micros(second.p95)));
    let most = p95(alone).into_iter().fold(0.0, f64::max);
    claims! {
        "section VI-B", "There is much more variation with neighbours, at the same low load.",
            ["Standard deviation {busy:.0} microseconds, alone {calm:.0}."],
            busy > 3.0 * calm;
        "section VI-B", "For some 100 s latency is higher, although the server has no more to do.",
            ["{inside:.0} microseconds in the mean of the 95th percentiles, {outside:.0} otherwise."],
            inside > 1.5 * outside;
        "section II", "Balancers that count on latency being fine as long as no server is overloaded are wrong here.",
            ["At {LOAD:.0} calls/s the server has {inside:.0} microseconds with neighbours, over the threshold of \
             1,000; alone {most:.0} at most."],
            inside > 1_000.0 && most < 1_000.0;
    }
}
