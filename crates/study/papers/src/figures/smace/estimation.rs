//! Figure 6: requested and actual load when the latency exceeds the threshold, with the paper's law and with ours.

use super::super::FigureRun;
use super::{THRESHOLD, about_neighbours, assumptions, micros, neighbours, runs, seconds, server, settled};
use crate::report::{Axis, Figure, Plot, PlotSeries, Statement, StatementVerdict};
use elastic::estimate::{CapacityLaw, EstimatorSettings};
use elastic::queue::{MemberChoice, Overflow, QueueSettings};
use sim::cloud::{Announcing, CloudPlan, CloudResults, CloudSecond, Front};
use sim::stats::Interval;

/// More calls per second than the server handles within the threshold.
const LOAD: f64 = 600.0;
const MAXIMUM: f64 = 500.0;

const CASES: [(&str, Option<CapacityLaw>); 3] = [
    ("no estimate", None),
    ("law smace", Some(CapacityLaw::Smace)),
    ("law proven", Some(CapacityLaw::Proven)),
];

fn plan(law: Option<CapacityLaw>, length: u64) -> CloudPlan {
    let mut plan = server(LOAD, length / 10, length);
    let at = |from: u64, to: u64| (seconds(length * from / 300), seconds(length * to / 300));
    plan.neighbours = vec![neighbours(vec![at(60, 63), at(88, 96), at(140, 180), at(268, 272)])];
    plan.announcing = match law {
        None => Announcing::Fixed(MAXIMUM),
        Some(law) => Announcing::Estimated(Box::new(EstimatorSettings {
            law,
            threshold: THRESHOLD,
            maximum: MAXIMUM,
            // As in the paper.
            goodput_bounded: false,
            ..EstimatorSettings::default()
        })),
    };
    // The paper chooses "a server with capacity > 0", whatever number of calls it has open.
    let choice = MemberChoice::MostRoom;
    let queue = QueueSettings { overflow: Overflow::Drop, choice, threshold: None, ..Default::default() };
    plan.front = Front::Queue(Box::new(queue));
    plan
}

pub(in crate::figures) fn run(work: &FigureRun<'_>) -> Figure {
    let length = work.scale(900, 300, 30);
    let plans = CASES.map(|(_, law)| plan(law, length));
    let results = runs(work, &plans);
    let mut plots = Vec::new();
    for ((name, _), results) in CASES.iter().zip(&results).skip(1) {
        let line = |name: &str, of: fn(&CloudSecond) -> f64| {
            PlotSeries::line(name, results[0].seconds.iter().map(|second| (second.at, of(second))))
        };
        let lines = [
            line("actual load", |second| second.goodput as f64),
            line("requested load", |second| second.requested),
        ];
        let (time, title) = (|| Axis::linear("time (s)"), format!("Load, {name}"));
        let loads = Plot::of(title, time(), Axis::linear("calls/s"), lines);
        let (y, p95) =
            ("95th percentile (microseconds)", line("95th percentile", |second| micros(second.p95)));
        let mut latency = Plot::of(format!("Latency, {name}"), time(), Axis::log(y), [p95]);
        latency.level("threshold", 1_000.0);
        plots.extend([loads, latency]);
    }
    let mut figure = work.figure(plots);
    figure.claims = claims(&plans, &results, length);
    figure
        .notes
        .push(format!("The curves are of the first of {} runs; statements are about all.", results[0].len()));
    figure.assumptions = assumptions();
    figure.assumptions.push(about_neighbours());
    figure.assumptions.push(format!(
        "{LOAD:.0} calls/s come, more than the server takes within the threshold; its maximum is set to {MAXIMUM:.0}. What it \
         does not ask for is dropped after 250 ms in the queue."
    ));
    figure.assumptions.push(
        "The paper's load before a change is what is requested, not what has come; the conservative mode begins with the \
         second reduction in a row (docs/evidence/elastic-simulated.md)."
            .to_owned(),
    );
    figure
}

/// Returns each second with the rate that is requested in the next one.
fn changes(results: &CloudResults) -> impl Iterator<Item = (&CloudSecond, f64)> {
    results.seconds.windows(2).map(|pair| (&pair[0], pair[1].requested))
}

fn has_changed(second: &CloudSecond, next: f64) -> bool {
    (second.requested - next).abs() > 0.0
}

fn is_high(second: &CloudSecond) -> bool {
    second.p95.is_some_and(|p95| p95 > THRESHOLD)
}

/// Returns the percentage of seconds above the threshold, and the mean goodput in calls per second.
fn score(results: &CloudResults, plan: &CloudPlan) -> (f64, f64) {
    let seconds = settled(results, plan);
    let high = seconds.iter().filter(|second| is_high(second)).count() as f64;
    let goodput = super::mean(seconds.iter().map(|second| second.goodput as f64));
    (100.0 * high / seconds.len() as f64, goodput)
}

/// Seconds from the end of the long contention until 90 % of the former rate is requested again, or until the run ends.
fn back(results: &CloudResults, length: u64) -> f64 {
    let at = |part: u64| (length * part) as f64 / 300.0;
    let within = |second: &&CloudSecond| second.at > at(100) && second.at <= at(140);
    let before = super::mean(results.seconds.iter().filter(within).map(|second| second.requested));
    let after = results.seconds.iter().filter(|second| second.at > at(180));
    let again = after.into_iter().find(|second| second.requested >= 0.9 * before);
    again.map_or(at(300), |second| second.at) - at(180)
}

/// Changes by the paper's law in a run.
struct Changes {
    reductions: usize,
    /// Number of reductions to exactly 90 % of the goodput.
    exact: usize,
    /// Seconds above the threshold without a change after them.
    ignored: usize,
    /// The shortest time between two changes, seconds.
    gap: f64,
    /// Maximum relative growth: with the latency less than a third of the threshold below it, and with more.
    growth: [f64; 2],
}

impl Changes {
    fn of(smace: &CloudResults) -> Self {
        let changed: Vec<_> = changes(smace).filter(|(second, next)| has_changed(second, *next)).collect();
        let cuts: Vec<_> = changed.iter().filter(|(second, _)| is_high(second)).collect();
        let is_exact = |(second, next): &&&(&CloudSecond, f64)| {
            (next - (0.9 * second.goodput as f64).min(MAXIMUM)).abs() < 1e-6
        };
        let is_ignored =
            |(second, next): &(&CloudSecond, f64)| is_high(second) && !has_changed(second, *next);
        let growth = |low: f64, high: f64| -> f64 {
            let room = |second: &CloudSecond| 1.0 - micros(second.p95) / 1e3;
            let grown = changed.iter().filter(|(second, _)| (low..high).contains(&room(second)));
            grown.map(|(second, next)| next / second.requested - 1.0).fold(0.0, f64::max)
        };
        Self {
            reductions: cuts.len(),
            exact: cuts.iter().filter(is_exact).count(),
            ignored: changes(smace).filter(is_ignored).count(),
            gap: changed.windows(2).map(|pair| pair[1].0.at - pair[0].0.at).fold(f64::INFINITY, f64::min),
            growth: [growth(0.0, 0.33), growth(0.33, 1.0)],
        }
    }
}

/// Returns the claims; `results` contains the runs of each law.
fn claims(plans: &[CloudPlan], results: &[Vec<CloudResults>], length: u64) -> Vec<Statement> {
    let seen: Vec<_> = results[1].iter().map(Changes::of).collect();
    let sum = |of: fn(&Changes) -> usize| seen.iter().map(of).sum::<usize>();
    let (reductions, exact, ignored) =
        (sum(|seen| seen.reductions), sum(|seen| seen.exact), sum(|seen| seen.ignored));
    let gap = seen.iter().map(|seen| seen.gap).fold(f64::INFINITY, f64::min);
    let [small, large] = [0, 1].map(|place| Interval::over(seen.iter().map(|seen| seen.growth[place])));
    let more = Interval::over(seen.iter().map(|seen| seen.growth[1] - seen.growth[0]));
    let scores = |law: usize| results[law].iter().map(move |run| score(run, &plans[law]));
    let high = |law: usize| Interval::over(scores(law).map(|(high, _)| high));
    let carried = |law: usize| Interval::over(scores(law).map(|(_, goodput)| goodput)).mean;
    let lower = Interval::over(scores(0).zip(scores(1)).map(|((fixed, _), (paper, _))| fixed - paper));
    let fewer = Interval::over(scores(1).zip(scores(2)).map(|((paper, _), (ours, _))| paper - ours));
    let backs = |law: usize| results[law].iter().map(move |run| back(run, length));
    let sooner = Interval::over(backs(1).zip(backs(2)).map(|(paper, ours)| paper - ours));
    let [back_paper, back_ours] = [1, 2].map(|law| Interval::over(backs(law)));
    claims! {
        "section VI-C", "Latency above the threshold reduces the load to 90 % of the current goodput.",
            ["{exact} of {reductions} reductions."],
            exact == reductions && exact > 0;
        "section VI-C", "The requested load changes only every 10 s.",
            ["At least {gap:.0} s between two changes."],
            gap >= 10.0 && gap.is_finite();
        "section VI-C", "So the load sometimes stays the same while latency is well above the threshold, in every \
         run.",
            ["In {ignored} s above the threshold."],
            seen.iter().all(|seen| seen.ignored > 0), about(1);
        "section VI-C", "Growth is small close to the threshold, and large far below it.",
            ["At most by the fraction {small:.2} with less than a third to spare, and {large:.2} with more."],
            StatementVerdict::above(small, 0.0).and(StatementVerdict::above(more, 0.0));
        "abstract", "The system lowers latency by reducing the load of the server.",
            ["Above the threshold in {:.0} % of the seconds at {:.0} calls/s; without an estimate {:.0} % at {:.0}.",
             high(1), carried(1), high(0), carried(0)],
            StatementVerdict::above(lower, 0.0), about(1);
        "ours", "The law `proven` is above the threshold less often, and recovers to 90 % of its previous load \
         sooner.",
            ["In {:.0} % of the seconds, at {:.0} calls/s; recovers after {back_ours:.0} s, the paper's law after \
             {back_paper:.0}.", high(2), carried(2)],
            StatementVerdict::above(fewer, 0.0).and(StatementVerdict::above(sooner, 0.0)), about(3);
    }
}
