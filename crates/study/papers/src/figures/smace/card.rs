//! Contention for a network card that several machines share, and that a monitor on one of them does not see.

use super::super::FigureRun;
use super::ways::{self, Compared, Times};
use super::{assumptions, deviation, mean, micros, pauses, server, settled};
use crate::report::{Axis, Figure, Plot, PlotSeries, Statement, StatementVerdict};
use core::time::Duration;
use sim::cloud::{CloudPlan, CloudResults, Neighbours, Resource, Vantage};
use sim::stats::Interval;

/// Messages per second that a card carries in each direction.
const RATE: f64 = 6_000.0;
/// Load of the single server in calls per second, equal to the load of figure 5.
const LOAD: f64 = 300.0;
/// Target latency of the estimators.
const GOAL: Duration = Duration::from_millis(5);

/// Part of the card that neighbours take.
const CLUSTERS: [(&str, f64); 2] = [("slow", 0.8), ("overloaded", 0.9)];
/// Indexes in [`CLUSTERS`].
const SLOW: usize = 0;
const FULL: usize = 1;
/// Part of the card that the single server's neighbours take, in addition to long slices.
const SHARE: f64 = 0.6;

pub(in crate::figures) fn run(work: &FigureRun<'_>) -> Figure {
    let times = Times::new(work);
    let alone = alone(work, times);
    let clusters = CLUSTERS.map(|(name, share)| {
        let mut plan = times.cluster();
        plan.host.card = Some(RATE);
        plan.neighbours = times.neighbours(Resource::Card, share);
        (name, plan)
    });
    let compared = Compared::run(work, times, &clusters, GOAL);
    let mut plots = vec![alone.plot()];
    plots.extend(compared.plots(FULL));
    let mut figure = work.figure(plots);
    figure.tables = vec![compared.table("card of the first server")];
    figure.claims = claims(&alone, &compared);
    figure.assumptions = [assumptions(), ways::assumptions()].concat();
    figure.assumptions.push(format!(
        "A card carries {RATE:.0} messages/s each way, and a thousand may wait; what finds no room comes again after 500 ms. \
         Neighbours of one server take 80 % of its card (slow: it carries the server's part of the calls), or 90 % (overloaded). \
         With the server that is looked at alone, at {LOAD:.0} calls/s, they take {:.0} %, and all of it for 2 ms in the mean \
         every 20 ms. Estimators aim at {} ms.",
        100.0 * SHARE,
        GOAL.as_millis()
    ));
    figure.assumptions.push(
        "A monitor captures within the machine, as libpcap does: messages wait for the card before they are captured on their \
         way in, and after it on their way out."
            .to_owned(),
    );
    figure
}

/// Runs of one server: without neighbours, and with neighbours as callers and as a monitor measure it.
struct Alone {
    times: Times,
    plans: [CloudPlan; 3],
    results: Vec<Vec<CloudResults>>,
}

/// Indexes of the runs.
const CALM: usize = 0;
const FRONT: usize = 1;
const MONITOR: usize = 2;

fn alone(work: &FigureRun<'_>, times: Times) -> Alone {
    let mut calm = server(LOAD, 2, times.unit * 5 / 2);
    calm.host.card = Some(RATE);
    calm.measured = Vantage::Front;
    let steal = Some(pauses(Duration::from_millis(20), Duration::from_millis(2)));
    let neighbours = times.neighbours(Resource::Card, SHARE);
    let neighbours = neighbours.into_iter().map(|of| Neighbours { steal: steal.clone(), ..of }).collect();
    let busy = CloudPlan { neighbours, ..calm.clone() };
    let within = CloudPlan { measured: Vantage::Server, ..busy.clone() };
    let plans = [calm, busy, within];
    let results = super::runs(work, &plans);
    Alone { times, plans, results }
}

impl Alone {
    fn plot(&self) -> Plot {
        let names =
            ["alone, from in front", "with neighbours, from in front", "with neighbours, by a monitor"];
        let line = |(name, runs): (&'static str, &Vec<CloudResults>)| {
            PlotSeries::line(name, runs[0].seconds.iter().map(|second| (second.at, micros(second.p95))))
        };
        let lines = names.into_iter().zip(&self.results).map(line);
        let [x, y] = [Axis::linear("time (s)"), Axis::log("95th percentile of latency (microseconds)")];
        let mut plot = Plot::of(format!("One server at {LOAD:.0} calls/s"), x, y, lines);
        plot.mark("neighbours begin", self.times.unit as f64);
        plot.mark("and end", (2 * self.times.unit) as f64);
        plot
    }

    /// Standard deviation of the 95th percentiles relative to the run without neighbours.
    fn variation(&self, place: usize) -> Interval {
        let of = |place: usize, run: &CloudResults| {
            let p95 =
                settled(run, &self.plans[place]).iter().map(|second| micros(second.p95)).collect::<Vec<_>>();
            deviation(&p95)
        };
        let pairs = self.results[place].iter().zip(&self.results[CALM]);
        Interval::over(pairs.map(|(busy, calm)| of(place, busy) / of(CALM, calm)))
    }

    /// Mean of the 95th percentiles while neighbours are active, relative to the other seconds.
    fn higher(&self, place: usize) -> Interval {
        let [from, to] = [1, 2].map(|units| (units * self.times.unit) as f64);
        let of = |run: &CloudResults| {
            let (inside, outside): (Vec<_>, Vec<_>) = settled(run, &self.plans[place])
                .into_iter()
                .partition(|second| second.at > from && second.at <= to);
            let mean_of =
                |seconds: &[&sim::cloud::CloudSecond]| mean(seconds.iter().map(|second| micros(second.p95)));
            mean_of(&inside) / mean_of(&outside)
        };
        Interval::over(self.results[place].iter().map(of))
    }
}

fn claims(alone: &Alone, compared: &Compared) -> Vec<Statement> {
    let (variation, seen) = (alone.variation(FRONT), alone.higher(MONITOR));
    let from_in_front = alone.higher(FRONT);
    claims! {
        "section VI-B", "Latency varies similarly when machines contend for a single network card.",
            ["Measured at the caller's side the standard deviation of p95 is {variation:.1} times that alone."],
            StatementVerdict::above(variation, 3.0);
        "section IV-A", "A monitor on the server measures the total latency, including the contention.",
            ["The mean p95 is {seen:.2} times that of the other seconds on the server, {from_in_front:.1} times at \
             the caller's side."],
            StatementVerdict::above(seen, 1.5),
            differs_by("Packets wait for the card in the hypervisor: before the monitor captures them on their way \
             in, and after it on their way out.");
        => compared.no_worse(SLOW, "If the card is slow and carries all messages, the queue is no worse than TLWL.");
        => compared.no_worse(FULL, "If the card is overloaded, the queue is no worse than TLWL.");
    }
}
