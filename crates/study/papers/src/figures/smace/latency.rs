//! Figure 3: minimum, 95th percentile and maximum of latency against load.

use super::super::FigureRun;
use super::{assumptions, micros, server, settled};
use crate::report::{Axis, Figure, Plot, PlotSeries, Statement};
use sim::cloud::run as simulate;

/// Loads in calls per second.
const LOADS: [f64; 11] = [50.0, 100.0, 150.0, 200.0, 250.0, 300.0, 350.0, 400.0, 500.0, 600.0, 650.0];

/// Latencies at a load: minimum, mean 95th percentile of a second, and maximum.
struct Point {
    least: f64,
    p95: f64,
    most: f64,
}

pub(in crate::figures) fn run(work: &FigureRun<'_>) -> Figure {
    let length = work.scale(400, 120, 4);
    let one = |index: usize| {
        let plan = server(LOADS[index], length / 4, length);
        let results = simulate(&plan, work.seed);
        let seconds = settled(&results, &plan);
        Point {
            least: seconds.iter().map(|second| micros(second.least)).fold(f64::INFINITY, f64::min),
            p95: super::mean(seconds.iter().map(|second| micros(second.p95))),
            most: seconds.iter().map(|second| micros(second.most)).fold(0.0, f64::max),
        }
    };
    let points = work.sweep("loads", LOADS.len(), one);
    let line = |name, value: fn(&Point) -> f64| {
        PlotSeries::line(name, LOADS.into_iter().zip(points.iter().map(value)))
    };
    let lines = [
        line("minimum", |point| point.least),
        line("95th percentile", |point| point.p95),
        line("maximum", |point| point.most),
    ];
    let (x, y) = (Axis::linear("load (calls/s)"), Axis::log("latency (microseconds)"));
    let mut plot = Plot::of("Latency of one server", x, y, lines);
    plot.level("threshold of figure 6", 1_000.0);
    let mut figure = work.figure(vec![plot]);
    figure.claims = claims(&points);
    figure.assumptions = assumptions();
    figure
}

fn claims(points: &[Point]) -> Vec<Statement> {
    let (first, last) = (&points[0], &points[points.len() - 1]);
    let most_least = points.iter().map(|point| point.least).fold(0.0, f64::max);
    let half = &points[LOADS.iter().position(|load| *load >= 300.0).unwrap_or(0)];
    let rises = points.windows(2).filter(|pair| pair[1].p95 > pair[0].p95).count();
    let most_times = points.iter().map(|point| point.most / point.p95).fold(f64::INFINITY, f64::min);
    claims! {
        "section IV-B", "The minimum value remains constant across all loads.",
            ["{:.0} microseconds at {:.0} calls/s, {most_least:.0} at most.", first.least, LOADS[0]],
            most_least < 1.1 * first.least;
        "section IV-B", "By controlling load on the server, the 95th percentile can be controlled.",
            ["From {:.0} to {:.0} microseconds; it rises in {rises} of {} steps.", first.p95, last.p95,
             LOADS.len() - 1],
            rises == LOADS.len() - 1;
        "section IV-B", "If the load is overestimated, latency degrades very quickly.",
            ["300 calls/s: {:.0} microseconds; {:.0} calls/s: {:.0}.", half.p95, LOADS[LOADS.len() - 1], last.p95],
            last.p95 > 4.0 * half.p95;
        "section IV-B", "The maximum depends on scheduling, faults and contention.",
            ["At least {most_times:.1} times the 95th percentile."],
            most_times > 2.0;
    }
}
