//! Figures 7 and 8: goodput of a server and time to ring, with a monitor beside it and without. Measured, not
//! simulated: `bench elastic --record` writes the data.

use super::super::{Entry, Options, Work};
use crate::report::{Axis, Claim, Figure, Plot, PlotSeries, ReportTable, Style};

/// Goodput.
pub(in super::super) const GOODPUT: Entry = Entry {
    name: "smace-7",
    title: "Goodput of a server with a monitor beside it and without",
    source: "Cloud paper, section VI-D, figure 7",
    run: goodput,
};

/// Time to ring.
pub(in super::super) const RINGING: Entry = Entry {
    name: "smace-8",
    title: "Time to ring with a monitor beside the server and without",
    source: "Cloud paper, section VI-D, figure 8",
    run: ringing,
};

/// A line a rate and way, behind one that names the columns.
const MEASURED: &str = include_str!("overhead.csv");
/// How much of the goodput may be missing that would still be called none: calls that were under way at the end, and
/// chance.
const NONE: f64 = 0.02;
/// What the paper takes for the way around the globe and back, and the most that a caller may wait, in milliseconds.
const ROUND_TRIP: f64 = 250.0;
const RING_MAX: f64 = 1_000.0;

/// What came of a rate.
struct Step {
    rate: u32,
    is_monitored: bool,
    goodput: f64,
    p50_ms: f64,
    p95_ms: f64,
    /// Part of a processor that the monitor took.
    monitor: f64,
}

fn measured() -> Vec<Step> {
    let step = |line: &str| {
        let numbers: Vec<f64> = line.split(';').map(|field| field.parse().expect("a number")).collect();
        let [rate, monitored, goodput, p50_ms, p95_ms, monitor] = numbers[..] else {
            panic!("a line has six numbers: {line}")
        };
        Step { rate: rate as u32, is_monitored: monitored > 0.0, goodput, p50_ms, p95_ms, monitor }
    };
    MEASURED.lines().skip(1).map(step).collect()
}

/// Each rate without the monitor and with it.
fn pairs(steps: &[Step]) -> Vec<(&Step, &Step)> {
    let with = |without: &Step| steps.iter().find(|step| step.is_monitored && step.rate == without.rate);
    let without = steps.iter().filter(|step| !step.is_monitored);
    without.filter_map(|step| with(step).map(|with| (step, with))).collect()
}

fn goodput(work: &Work<'_>) -> Figure {
    let steps = measured();
    let mut plot = plot(&steps, "Goodput", "goodput (calls/s)", |step| step.goodput);
    let most = f64::from(steps.iter().map(|step| step.rate).max().unwrap_or_default());
    plot.series(PlotSeries::new("all that is offered", Style::Law, [(0.0, 0.0), (most, most)]));
    let lost = |(without, with): &(&Step, &Step)| (without.rate, 1.0 - with.goodput / without.goodput);
    let lost: Vec<_> = pairs(&steps).iter().map(lost).collect();
    let worst = lost.iter().copied().fold((0, f64::MIN), |most, of| if of.1 > most.1 { of } else { most });
    let share = |step: &&Step| step.monitor / step.goodput * 1e6;
    let cost = steps.iter().filter(|step| step.is_monitored);
    let cost = cost
        .map(|step| share(&step))
        .fold((f64::MAX, 0.0), |(low, high): (f64, f64), cost| (low.min(cost), high.max(cost)));
    let mut figure = figure(work, &GOODPUT, plot, &steps);
    figure.claims = vec![Claim::check(
        "section VI-D, figure 7",
        "Goodput is not affected by the monitor, up to 900 calls/s.",
        format!(
            "at most {:.1} % less, at {} calls/s; the monitor takes {:.0} to {:.0} us of a processor a call",
            100.0 * worst.1,
            worst.0,
            cost.0,
            cost.1
        ),
        worst.1 <= NONE,
    )];
    figure
}

fn ringing(work: &Work<'_>) -> Figure {
    let steps = measured();
    let plot = plot(&steps, "Time to ring", "95th percentile from INVITE to 180 (ms)", |step| step.p95_ms);
    let longest = steps.iter().filter(|step| step.is_monitored).map(|step| step.p95_ms).fold(0.0, f64::max);
    let more = |(without, with): &(&Step, &Step)| with.p50_ms - without.p50_ms;
    let more = pairs(&steps).iter().map(more).fold(f64::MIN, f64::max);
    let mut figure = figure(work, &RINGING, plot, &steps);
    figure.claims = vec![Claim::check(
        "section VI-D, figure 8",
        "With 250 ms around the globe and back a call still rings in less than a second, at 900 calls/s.",
        format!(
            "{:.0} ms of 95 % of the calls; the median is at most {more:.2} ms more with the monitor",
            ROUND_TRIP + longest
        ),
        ROUND_TRIP + longest < RING_MAX,
    )];
    figure
}

fn plot(steps: &[Step], title: &str, label: &str, of: fn(&Step) -> f64) -> Plot {
    let lines = [("without monitor", false), ("with monitor", true)].map(|(name, is_monitored)| {
        let points = steps.iter().filter(|step| step.is_monitored == is_monitored);
        PlotSeries::line(name, points.map(|step| (f64::from(step.rate), of(step))))
    });
    Plot::of(title, Axis::linear("offered load (calls/s)"), Axis::linear(label), lines)
}

fn figure(options: &Options, entry: &Entry, plot: Plot, steps: &[Step]) -> Figure {
    let mut figure = options.figure(entry, vec![plot]);
    let mut table =
        ReportTable::new(["calls/s", "monitor", "goodput", "p50 ms", "p95 ms", "monitor, of a processor"]);
    for step in steps {
        let with = if step.is_monitored { "yes" } else { "no" };
        let numbers = [step.goodput, step.p50_ms, step.p95_ms].map(|number| format!("{number:.1}"));
        let names = [step.rate.to_string(), with.to_owned()];
        let last = format!("{:.2} %", 100.0 * step.monitor);
        table.rows.push(names.into_iter().chain(numbers).chain([last]).collect());
    }
    figure.tables = vec![table];
    figure.assumptions = vec![
        "Kamailio as a proxy with transactions and one next hop, in a control group with a part of a processor, as \
         bench elastic is told; the monitor is in the same group. Callers and next hop are SIP of our own, on the other processor."
            .to_owned(),
    ];
    figure.notes = vec![
        "Nothing is simulated, and the seed means nothing: the data are those that bench elastic has measured last \
         (docs/elastic.md)."
            .to_owned(),
    ];
    figure
}
