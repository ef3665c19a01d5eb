//! Figure 3: minimum, 95th percentile and maximum of latency against load.

use super::super::{Entry, Options, Progress};
use super::{assumptions, micros, server, settled};
use crate::report::{Axis, Claim, Figure, Plot, PlotSeries, Style};
use sim::cloud::run as simulate;
use sim::stats::sweep;

/// Latency against load.
pub(in super::super) const LATENCY: Entry = Entry {
    name: "smace-3",
    title: "Latency of a server against its load: minimum, 95th percentile, maximum",
    source: "Cloud paper, section IV-B, figure 3",
    run,
};

/// Calls a second.
const LOADS: [f64; 11] = [50.0, 100.0, 150.0, 200.0, 250.0, 300.0, 350.0, 400.0, 500.0, 600.0, 650.0];

/// Of a second: the least, the 95th percentile in the mean, and the most of all.
struct Point {
    least: f64,
    p95: f64,
    most: f64,
}

fn run(options: &Options, progress: &dyn Fn(Progress<'_>)) -> Figure {
    let length = options.scale(400, 120, 4);
    let done = |done| progress(Progress { done, of: LOADS.len(), what: "loads" });
    let one = |index: usize| {
        let plan = server(LOADS[index], length / 4, length);
        let results = simulate(&plan, options.seed);
        let seconds = settled(&results, &plan);
        Point {
            least: seconds.iter().map(|second| micros(second.least)).fold(f64::INFINITY, f64::min),
            p95: super::mean(seconds.iter().map(|second| micros(second.p95))),
            most: seconds.iter().map(|second| micros(second.most)).fold(0.0, f64::max),
        }
    };
    let points = sweep::sweep(LOADS.len(), options.threads, one, done);
    let mut plot = Plot::new(
        "Latency of one server",
        Axis::linear("load (calls/s)"),
        Axis::log("latency (microseconds)"),
    );
    let mut line = |name, value: fn(&Point) -> f64| {
        plot.series(PlotSeries::new(name, Style::Line, LOADS.into_iter().zip(points.iter().map(value))));
    };
    line("minimum", |point| point.least);
    line("95th percentile", |point| point.p95);
    line("maximum", |point| point.most);
    plot.level("threshold of figure 6", 1_000.0);
    let mut figure = options.figure(&LATENCY, vec![plot]);
    figure.claims = claims(&points);
    figure.assumptions = assumptions();
    figure
}

fn claims(points: &[Point]) -> Vec<Claim> {
    let (first, last) = (&points[0], &points[points.len() - 1]);
    let most_least = points.iter().map(|point| point.least).fold(0.0, f64::max);
    let half = &points[LOADS.iter().position(|load| *load >= 300.0).unwrap_or(0)];
    let rises = points.windows(2).filter(|pair| pair[1].p95 > pair[0].p95).count();
    let most_times = points.iter().map(|point| point.most / point.p95).fold(f64::INFINITY, f64::min);
    vec![
        Claim::check(
            "section IV-B",
            "The minimum value remains constant across all loads.",
            format!("{:.0} microseconds at {:.0} calls/s, {most_least:.0} at most.", first.least, LOADS[0]),
            most_least < 1.1 * first.least,
        ),
        Claim::check(
            "section IV-B",
            "By controlling load on the server, the 95th percentile can be controlled.",
            format!(
                "From {:.0} to {:.0} microseconds; it rises in {rises} of {} steps.",
                first.p95,
                last.p95,
                LOADS.len() - 1
            ),
            rises == LOADS.len() - 1,
        ),
        Claim::check(
            "section IV-B",
            "If the load is overestimated, latency degrades very quickly.",
            format!(
                "300 calls/s: {:.0} microseconds; {:.0} calls/s: {:.0}.",
                half.p95,
                LOADS[LOADS.len() - 1],
                last.p95
            ),
            last.p95 > 4.0 * half.p95,
        ),
        Claim::check(
            "section IV-B",
            "The maximum is another matter: scheduling, faults and contention make it.",
            format!("It is {most_times:.1} times the 95th percentile at least."),
            most_times > 2.0,
        ),
    ]
}
