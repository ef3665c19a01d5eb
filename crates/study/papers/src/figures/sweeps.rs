//! Goodput and delay against load, for variants of a network with the same arrivals.

use super::topology::{at, hold, rise};
use super::{FigureOptions, FigureRun};
use crate::report::{Axis, Plot, PlotSeries, ReportTable, StatementVerdict, Style};
use base::Instant;
use config::scenario::Scenario;
use core::time::Duration;
use sim::model::{self, BinRates, NetworkState, StreamResults};
use sim::stats::{Confidence, Interval, Moments, Series, Settling};

/// Mean holding time in seconds, in full runs the paper's. The steady state does not depend on it, but is reached
/// sooner with a short holding time.
fn holding(options: &FigureOptions) -> u64 {
    options.scale(100, 10, 10)
}

/// Text of this assumption.
pub(super) fn holding_assumed(options: &FigureOptions) -> String {
    let holding = holding(options);
    format!(
        "Calls last {holding} s in the mean (section IV-B: 100 s, as in full runs): the goodput of a load that lasts is the \
         same, and is reached sooner with a short time."
    )
}
/// Load at the start of every run in calls per second, which all networks carry.
const BEGIN: f64 = 200.0;
/// Seconds in which a rising load doubles: at most 5 % per second, half of what the occupancy algorithm can follow.
const DOUBLING: f64 = 20.0;
/// Text of this assumption.
pub(super) const RISE_ASSUMED: &str = "Loads above 200 calls/s are reached from there, doubling every 20 s, so that \
                                       what is shown is the state that a lasting load leads to and not the shock of \
                                       its beginning.";
/// Minimum of established calls for a meaningful delay.
const ENOUGH: f64 = 20.0;

/// A curve of a plot, with the function that creates its network for a run of this many seconds.
#[derive(Clone, Copy)]
pub(super) struct Variant {
    pub(super) name: &'static str,
    pub(super) network: fn(u64) -> Scenario,
}

/// Results of one run of one variant under one load, after it has settled.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shown {
    /// Calls completed per second.
    pub(super) goodput: f64,
    /// Calls per second that were answered after their callers had given up.
    pub(super) late: f64,
    /// Mean setup delay in milliseconds; NaN if too few calls were set up.
    pub(super) delay: f64,
    /// Whether the goodput was stationary in the counted time.
    pub(super) is_stationary: bool,
}

/// All runs of one variant, by load.
#[derive(Clone, Debug)]
pub(super) struct Curve {
    name: &'static str,
    points: Vec<(f64, Vec<Shown>)>,
}

/// Negligible difference of goodputs in calls per second: half a percent of the capacity of topology 3.
const MATTERS: f64 = 1.5;

/// Durations of a run in seconds, from the time when its load is reached.
#[derive(Clone, Copy)]
struct Length {
    /// Time of the first test for stationary goodput.
    least: usize,
    /// Maximum time to wait for it.
    most: usize,
    /// Time in which a rising load doubles.
    doubling: f64,
    /// Mean holding time.
    holding: u64,
}

/// Runs a network under a load.
fn simulate(variant: &Variant, load: f64, length: Length, seed: u64) -> Shown {
    let doublings = (load / BEGIN).log2().max(0.0);
    let rising = (doublings * length.doubling).ceil() as u64;
    let mut scenario = (variant.network)(rising + length.most as u64);
    hold(&mut scenario, length.holding);
    rise(&mut scenario, load.min(BEGIN), load, length.doubling);
    scenario.run.warm_up = Duration::from_secs(rising);
    // Rates are over whole bins, and a load rarely stops rising at the end of a wide bin.
    scenario.run.bin = Duration::from_secs(1);
    let mut settling = Settling::new(length.least, length.most, MATTERS);
    let mut is_over = |now: Instant, lately: BinRates| now > at(rising) && settling.add(lately.completed);
    let results = model::run_until(&scenario, &NetworkState::default(), seed, &mut is_over);
    let (from, to) = (at(rising + settling.warm_up() as u64), at(rising + settling.len() as u64));
    let rate = |of: fn(&StreamResults) -> &Series| -> f64 {
        results.streams.iter().map(|stream| of(stream).rate(from, to)).sum()
    };
    let [set_up, seconds] = [rate(|stream| &stream.established[0]), rate(|stream| &stream.established[1])];
    let is_enough = set_up * (to - from).as_secs_f64() >= ENOUGH;
    Shown {
        goodput: rate(|stream| &stream.completed),
        late: rate(|stream| &stream.late),
        delay: if is_enough { 1e3 * seconds / set_up } else { f64::NAN },
        is_stationary: settling.is_stationary(),
    }
}

/// Runs each variant under each load. Replication i has the same arrivals for every variant.
pub(super) fn curves(work: &FigureRun<'_>, variants: &[Variant], loads: &[f64]) -> Vec<Curve> {
    let (replications, length) = extent(work);
    let cases: Vec<(usize, f64)> =
        (0..variants.len()).flat_map(|variant| loads.iter().map(move |&load| (variant, load))).collect();
    let one = |&(variant, load): &(usize, f64), seed| simulate(&variants[variant], load, length, seed);
    let shown = work.replicate("loads", &cases, replications, one);
    let mut points = cases.iter().map(|case| case.1).zip(shown);
    let curve =
        |variant: &Variant| Curve { name: variant.name, points: points.by_ref().take(loads.len()).collect() };
    variants.iter().map(curve).collect()
}

/// Returns the number of runs per point, and their length.
fn extent(options: &FigureOptions) -> (usize, Length) {
    options.scale(
        (3, Length { least: 400, most: 6_400, doubling: DOUBLING, holding: holding(options) }),
        (1, Length { least: 40, most: 320, doubling: DOUBLING, holding: holding(options) }),
        (1, Length { least: 4, most: 4, doubling: 0.25, holding: holding(options) }),
    )
}

/// Returns this extent as text for a figure's notes, with the points that did not settle.
pub(super) fn note(options: &FigureOptions, curves: &[Curve]) -> String {
    let (replications, Length { least, most, .. }) = extent(options);
    let runs = if replications == 1 { "One run".to_owned() } else { format!("{replications} runs") };
    let unsettled: Vec<String> = curves.iter().flat_map(Curve::unsettled).collect();
    let unsettled = match unsettled.as_slice() {
        [] => "All did.".to_owned(),
        some => format!("These did not: {}.", some.join(", ")),
    };
    format!(
        "{runs} a point. Once the load is reached a run goes on until its goodput is stationary. Tests are made after {least} s, \
         twice that and so on up to {most} s; a test is passed when the means of the third and the last quarter of that time are \
         within 5 % or {MATTERS} calls/s, and two in a row with means as near are needed, so that a decay with a time constant of up to \
         {:.0} s does not pass for what lasts. The second half counts. {unsettled} Run i meets the same \
         arrivals in every variant. A delay is drawn only where {ENOUGH} calls were set up in the time that counts.",
        Settling::SLOWEST * least as f64
    )
}

/// Returns a plot of goodput against load.
pub(super) fn goodputs(title: &str, curves: &[Curve]) -> Plot {
    let axes = ["offered load (calls/s)", "goodput (calls/s)"].map(Axis::linear);
    let [x, y] = axes;
    Plot::of(title, x, y, curves.iter().map(Curve::goodput_line))
}

/// Returns the calls answered late, which are no goodput, by load and variant. Marks points that did not settle.
pub(super) fn late(curves: &[Curve]) -> ReportTable {
    let mut table = ReportTable::new(["answered late, calls/s"]);
    let loads: Vec<f64> = curves.first().map(|curve| curve.loads().collect()).unwrap_or_default();
    table.header.extend(loads.iter().map(|load| format!("{load:.0} offered")));
    for curve in curves {
        let cell = |runs: &[Shown]| {
            let rate = Curve::interval(runs, |run| run.late).mean;
            let is_stationary = runs.iter().all(|run| run.is_stationary);
            format!("{rate:.1}{}", if is_stationary { "" } else { " (not stationary)" })
        };
        let cells = loads.iter().map(|&load| cell(curve.at(load)));
        table.rows.push([curve.name.to_owned()].into_iter().chain(cells).collect());
    }
    table
}

impl Curve {
    fn at(&self, load: f64) -> &[Shown] {
        let point = self.points.iter().find(|point| (point.0 - load).abs() < 1e-9);
        &point.expect("a claim is about a load that was simulated").1
    }

    fn interval(runs: &[Shown], value: fn(&Shown) -> f64) -> Interval {
        let samples: Moments = runs.iter().map(value).filter(|value| value.is_finite()).collect();
        let mean = if samples.count() == 0 { f64::NAN } else { samples.mean() };
        let half_width =
            if samples.count() < 2 { 0.0 } else { Interval::of(&samples, Confidence::P95).half_width };
        Interval { mean, half_width }
    }

    /// Returns as text the points with a run that was not stationary at its end.
    fn unsettled(&self) -> impl Iterator<Item = String> {
        let points = self.points.iter().filter(|(_, runs)| !runs.iter().all(|run| run.is_stationary));
        points.map(|(load, _)| format!("{} at {load:.0}", self.name))
    }

    /// Mean goodput under this load in calls per second.
    pub(super) fn goodput(&self, load: f64) -> f64 {
        Self::interval(self.at(load), |run| run.goodput).mean.max(0.0)
    }

    /// Whether the goodput under this load is above a level, at 95 % confidence if there are several runs.
    pub(super) fn is_above(&self, load: f64, level: f64) -> StatementVerdict {
        let Interval { mean, half_width } = Self::interval(self.at(load), |run| run.goodput);
        StatementVerdict::above_zero(Interval { mean: mean - level, half_width })
    }

    /// Whether the goodput under this load is above another curve's, at 95 % confidence if there are several runs.
    pub(super) fn is_above_curve(&self, other: &Self, load: f64) -> StatementVerdict {
        let pairs = self.at(load).iter().zip(other.at(load));
        let differences: Moments = pairs.map(|(one, two)| one.goodput - two.goodput).collect();
        let half_width = if differences.count() < 2 {
            0.0
        } else {
            Interval::of(&differences, Confidence::P95).half_width
        };
        StatementVerdict::above_zero(Interval { mean: differences.mean(), half_width })
    }

    /// Mean setup delay under this load in milliseconds; NaN if too few calls were set up.
    pub(super) fn delay(&self, load: f64) -> f64 {
        Self::interval(self.at(load), |run| run.delay).mean
    }

    /// Loads, in order.
    pub(super) fn loads(&self) -> impl Iterator<Item = f64> {
        self.points.iter().map(|point| point.0)
    }

    /// Highest goodput under any load in calls per second, and that load.
    pub(super) fn peak(&self) -> (f64, f64) {
        let goodputs = self.loads().map(|load| (self.goodput(load), load));
        goodputs.fold((0.0, 0.0), |best, each| if each.0 > best.0 { each } else { best })
    }

    /// Returns the goodput as a curve.
    pub(super) fn goodput_line(&self) -> PlotSeries {
        self.line(|run| run.goodput)
    }

    /// Returns the setup delay as a curve.
    pub(super) fn delay_line(&self) -> PlotSeries {
        self.line(|run| run.delay)
    }

    fn line(&self, value: fn(&Shown) -> f64) -> PlotSeries {
        let intervals = || self.points.iter().map(|(load, runs)| (*load, Self::interval(runs, value)));
        if self.points.iter().any(|point| point.1.len() > 1) {
            PlotSeries::intervals(self.name, Style::Line, intervals())
        } else {
            PlotSeries::new(self.name, Style::Line, intervals().map(|(load, interval)| (load, interval.mean)))
        }
    }

    /// Returns goodputs at some loads as text.
    pub(super) fn goodputs(&self, loads: &[f64]) -> String {
        let each = |load: &f64| format!("{:.0} at {load:.0}", self.goodput(*load));
        loads.iter().map(each).collect::<Vec<_>>().join(", ")
    }

    /// Returns setup delays at some loads as text.
    pub(super) fn delays(&self, loads: &[f64]) -> String {
        let each = |load: &f64| match self.delay(*load) {
            delay if delay.is_finite() => format!("{delay:.0} at {load:.0}"),
            _ => format!("none at {load:.0}"),
        };
        loads.iter().map(each).collect::<Vec<_>>().join(", ")
    }
}
