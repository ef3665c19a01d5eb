//! Figures 7 and 8: goodput of a server and time to ring, with and without a monitor on its machine. Measured, not
//! simulated: `bench elastic --record` writes the data.

use super::super::FigureRun;
use crate::report::{Axis, Figure, Plot, PlotSeries, ReportTable, Statement, StatementVerdict, Style};
use sim::stats::Interval;
use std::collections::BTreeSet;

/// A line for each round, rate and variant, after a line with the names of the columns.
const MEASURED: &str = include_str!("overhead.csv");
/// Highest rate of the paper, in calls per second.
const PAPER_MAX: u32 = 900;
/// Lowest rate at which times to ring are compared, because the paper measures a rather busy server.
const BUSY_MIN: u32 = 600;
/// Relative change of the goodput that still counts as none: calls in progress at the end, and chance.
const NONE: f64 = 0.02;
/// Relative overhead up to which it counts as minor.
const MINOR: f64 = 0.1;
/// The paper's round-trip time around the globe, and the maximum wait of a caller, in milliseconds.
const ROUND_TRIP: f64 = 250.0;
const RING_MAX: f64 = 1_000.0;

/// Results of a rate in a round.
struct Step {
    round: u32,
    rate: u32,
    is_monitored: bool,
    goodput: f64,
    p50_ms: f64,
    p95_ms: f64,
    /// Part of a processor that the monitor took.
    monitor: f64,
}

/// A value of a step.
type Value = fn(&Step) -> f64;

/// Steps of all rounds.
struct Measured(Vec<Step>);

impl Measured {
    fn parse(text: &str) -> Self {
        let step = |line: &str| {
            let numbers: Vec<f64> = line.split(';').map(|field| field.parse().expect("a number")).collect();
            let [round, rate, monitored, goodput, p50_ms, p95_ms, monitor] = numbers[..] else {
                panic!("a line has seven numbers: {line}")
            };
            let (round, rate, is_monitored) = (round as u32, rate as u32, monitored > 0.0);
            Step { round, rate, is_monitored, goodput, p50_ms, p95_ms, monitor }
        };
        Self(text.lines().skip(1).map(step).collect())
    }

    fn rates(&self) -> BTreeSet<u32> {
        self.0.iter().map(|step| step.rate).collect()
    }

    /// Number of measurements of each rate.
    fn rounds(&self) -> usize {
        self.0.iter().map(|step| step.round).collect::<BTreeSet<_>>().len()
    }

    /// Interval of a value at a rate, over the rounds.
    fn value(&self, rate: u32, is_monitored: bool, value: Value) -> Interval {
        let steps = self.0.iter().filter(|step| step.rate == rate && step.is_monitored == is_monitored);
        Interval::over(steps.map(value))
    }

    /// Logarithm of the ratio of a value with the monitor to the value without. Each round is compared with itself.
    fn ratio(&self, rate: u32, value: Value) -> Interval {
        let is_with = |step: &&Step| step.rate == rate && step.is_monitored;
        let ratio = |with: &Step| {
            let is_without =
                |step: &&Step| (step.round, step.rate, step.is_monitored) == (with.round, rate, false);
            self.0.iter().find(is_without).map(|without| (value(with) / value(without)).ln())
        };
        Interval::over(self.0.iter().filter(is_with).filter_map(ratio))
    }

    /// Highest goodput of each round at any rate, without and with the monitor.
    fn most(&self) -> Vec<[f64; 2]> {
        let rounds: BTreeSet<u32> = self.0.iter().map(|step| step.round).collect();
        let most = |round: u32, is_monitored: bool| {
            let steps = self.0.iter().filter(|step| step.round == round && step.is_monitored == is_monitored);
            steps.map(|step| step.goodput).fold(0.0, f64::max)
        };
        rounds.into_iter().map(|round| [false, true].map(|with| most(round, with))).collect()
    }

    /// Returns the rate, up to the paper's, at which the monitor changes the goodput most, and the logarithm of the
    /// change. Also returns whether the goodput changes at none of the rates.
    fn affected(&self) -> (u32, Interval, StatementVerdict) {
        let rates = self.rates().into_iter().filter(|rate| *rate <= PAPER_MAX);
        let ratios: Vec<_> = rates.map(|rate| (rate, self.ratio(rate, |step| step.goodput))).collect();
        let verdict = ratios.iter().fold(StatementVerdict::Holds, |verdict, (_, ratio)| {
            verdict
                .and(StatementVerdict::above(*ratio, (1.0 - NONE).ln()))
                .and(StatementVerdict::below(*ratio, (1.0 + NONE).ln()))
        });
        let end = |(_, ratio): &&(u32, Interval)| ratio.mean.abs() + ratio.half_width;
        let worst = ratios.iter().max_by(|a, b| end(a).total_cmp(&end(b))).expect("there are rates");
        (worst.0, worst.1, verdict)
    }
}

pub(in crate::figures) fn goodput(work: &FigureRun<'_>) -> Figure {
    let measured = Measured::parse(MEASURED);
    let mut plot = plot(&measured, "Goodput", Axis::linear("goodput (calls/s)"), |step| step.goodput);
    let most = f64::from(measured.rates().into_iter().max().unwrap_or_default());
    plot.series(PlotSeries::new("all that is offered", Style::Law, [(0.0, 0.0), (most, most)]));
    let mut figure = figure(work, plot, &measured);
    figure.claims = goodput_claims(&measured);
    figure
}

fn goodput_claims(measured: &Measured) -> Vec<Statement> {
    let (rate, worst, is_unaffected) = measured.affected();
    let most = measured.most();
    let [without, with] = [0, 1].map(|place| Interval::over(most.iter().map(|most| most[place])));
    let less = Interval::over(most.iter().map(|[without, with]| 1.0 - with / without));
    let percent = |part: Interval| Interval { mean: 100.0 * part.mean, half_width: 100.0 * part.half_width };
    let cost = [BUSY_MIN, PAPER_MAX]
        .map(|rate| 1e6 * measured.value(rate, true, |step| step.monitor / step.goodput).mean);
    claims! {
        "section VI-D, figure 7", "The monitor changes goodput by less than 2 % up to 900 calls/s.",
            ["{} times as large with the monitor at {rate} calls/s, where it may differ most.", worst.ratio()],
            is_unaffected;
        "section VI-D", "At higher loads the overhead is minor: the monitor costs less than a tenth of the goodput.",
            ["At most {with:.0} calls/s with the monitor and {without:.0} without: {:.0} % less. The monitor takes \
             {:.0} us of a processor per call at {BUSY_MIN} calls/s, {:.0} at {PAPER_MAX}.", percent(less), cost[0],
             cost[1]],
            StatementVerdict::above(less, 0.0).and(StatementVerdict::below(less, MINOR));
    }
}

pub(in crate::figures) fn ringing(work: &FigureRun<'_>) -> Figure {
    let measured = Measured::parse(MEASURED);
    let label = Axis::log("95th percentile from INVITE to 180 (ms)");
    let plot = plot(&measured, "Time to ring", label, |step| step.p95_ms);
    let mut figure = figure(work, plot, &measured);
    figure.claims = ringing_claims(&measured);
    figure
}

fn ringing_claims(measured: &Measured) -> Vec<Statement> {
    let longest = measured.value(PAPER_MAX, true, |step| ROUND_TRIP + step.p95_ms);
    let rates: Vec<_> =
        measured.rates().into_iter().filter(|rate| (BUSY_MIN..=PAPER_MAX).contains(rate)).collect();
    let ratios = |value: Value| rates.iter().map(move |rate| measured.ratio(*rate, value));
    let listed = |value: Value| ratios(value).map(|ratio| ratio.ratio()).collect::<Vec<_>>().join(", ");
    let names: Vec<_> = rates.iter().map(u32::to_string).collect();
    let as_soon = ratios(|step| step.p95_ms).fold(StatementVerdict::Holds, |verdict, ratio| {
        verdict.and(StatementVerdict::below(ratio, (1.0 + MINOR).ln()))
    });
    claims! {
        "section VI-D, figure 8", "With a round trip of 250 ms a call still rings within a second at 900 calls/s.",
            ["p95 {longest:.1} ms."],
            StatementVerdict::below(longest, RING_MAX);
        "section VI-D, figure 8", "At 600 to 900 calls/s the monitor delays 95 % of the ringing by at most 10 %.",
            ["At {} calls/s p95 is {} times as long, the median {} times.", names.join(", "),
             listed(|step| step.p95_ms), listed(|step| step.p50_ms)],
            as_soon;
    }
}

fn plot(measured: &Measured, title: &str, y: Axis, value: Value) -> Plot {
    let lines = [("without monitor", false), ("with monitor", true)].map(|(name, is_monitored)| {
        let point = |rate| (f64::from(rate), measured.value(rate, is_monitored, value));
        PlotSeries::intervals(name, Style::Line, measured.rates().into_iter().map(point))
    });
    Plot::of(title, Axis::linear("offered load (calls/s)"), y, lines)
}

fn figure(work: &FigureRun<'_>, plot: Plot, measured: &Measured) -> Figure {
    let mut figure = work.figure(vec![plot]);
    let mut table =
        ReportTable::new(["calls/s", "monitor", "goodput", "p50 ms", "p95 ms", "monitor, of a processor"]);
    for (rate, is_monitored) in measured.rates().into_iter().flat_map(|rate| [(rate, false), (rate, true)]) {
        let value = |value: Value| measured.value(rate, is_monitored, value);
        let with = if is_monitored { "yes" } else { "no" };
        table.rows.push(vec![
            rate.to_string(),
            with.to_owned(),
            format!("{:.0}", value(|step| step.goodput)),
            format!("{:.2}", value(|step| step.p50_ms)),
            format!("{:.2}", value(|step| step.p95_ms)),
            format!("{:.2} %", value(|step| 100.0 * step.monitor)),
        ]);
    }
    figure.tables = vec![table];
    figure.assumptions = vec![
        "Kamailio as a proxy with transactions and one next hop, in a control group with a part of a processor, as \
         bench elastic is told; the monitor is in the same group. Callers and next hop are SIP of our own, on the other \
         processor. Nothing is sent twice by callers."
            .to_owned(),
    ];
    figure.notes = vec![format!(
        "Nothing is simulated, and the seed means nothing: the data are those that bench elastic has measured last, in {} \
         rounds (docs/evidence/elastic-simulated.md). The monitor is started anew in each, and so is the server.",
        measured.rounds()
    )];
    figure
}

#[cfg(test)]
mod tests {
    use super::*;
    use StatementVerdict::{Fails, Holds, Open};

    /// Verdicts on three rounds of a server that carries 1,200 calls/s. `goodput` and `most` are the relative goodput
    /// and capacity with the monitor, `p95` is the ratio of the times within which 95 % of the calls ring. Rounds
    /// differ by the part `chance`.
    fn verdicts(goodput: f64, most: f64, p95: f64, chance: f64) -> Vec<StatementVerdict> {
        let steps = [0, 1, 2].into_iter().flat_map(|round| [300, 600, 900, 1_500].map(|rate| (round, rate)));
        let lines = steps.map(|(round, rate)| {
            let by_chance = 1.0 + chance * f64::from(round - 1);
            let carried = |part: f64, most: f64| (part * f64::from(rate)).min(1_200.0 * most);
            let (with, without) = (carried(goodput, most) * by_chance, carried(1.0, 1.0));
            let p95 = 2.0 * p95 * by_chance;
            format!("\n{round};{rate};0;{without};0.5;2;0\n{round};{rate};1;{with};0.5;{p95};0.03")
        });
        let measured = Measured::parse(&lines.collect::<String>());
        assert_eq!(measured.rounds(), 3);
        let claims = goodput_claims(&measured).into_iter().chain(ringing_claims(&measured));
        claims.map(|claim| claim.verdict).collect()
    }

    #[test]
    fn a_monitor_that_costs_little_is_told_from_one_that_costs_much_and_from_chance() {
        assert_eq!(verdicts(1.0, 0.95, 1.05, 0.001), [Holds, Holds, Holds, Holds]);
        assert_eq!(verdicts(0.97, 0.85, 1.15, 0.001), [Fails, Fails, Holds, Fails]);
        // A higher goodput is as suspicious as a lower one, and no overhead at all is another statement.
        assert_eq!(verdicts(1.03, 1.0, 400.0, 0.0), [Fails, Fails, Fails, Fails]);
        assert_eq!(verdicts(1.0, 0.95, 1.05, 0.2), [Open, Open, Holds, Open]);
    }

    #[test]
    fn a_round_is_compared_with_itself() {
        let measured =
            Measured::parse("\n0;900;0;900;1;2;0\n1;900;1;500;1;6;0\n0;900;1;450;1;4;0\n1;900;0;500;1;3;0");
        assert_eq!(measured.ratio(900, |step| step.p95_ms).ratio(), "2.00 (2.00 - 2.00)");
        assert_eq!(measured.most(), [[900.0, 450.0], [500.0, 500.0]]);
    }
}
