//! Goodput and delay against load: variants of a network that meet the same arrivals.

use super::topology::{at, hold, rise};
use super::{Options, Work};
use crate::report::{Axis, ClaimVerdict, Plot, PlotSeries, ReportTable, Style};
use base::Instant;
use config::scenario::Scenario;
use core::time::Duration;
use sim::model::{self, BinRates, NetworkState, StreamResults};
use sim::stats::{Confidence, Interval, Moments, Series, Settling};

/// Mean holding time in seconds: the paper's in full runs. What goes on once a load has settled does not depend on
/// it, but with a short one that is soon.
fn holding(options: &Options) -> u64 {
    options.scale(100, 10, 10)
}

/// The assumption behind it.
pub(super) fn holding_assumed(options: &Options) -> String {
    let holding = holding(options);
    format!(
        "Calls last {holding} s in the mean (section IV-B: 100 s, as in full runs): the goodput of a load that lasts is the \
         same, and is reached sooner with a short time."
    )
}
/// Calls a second at which every run begins, a load that all of the networks carry.
const BEGIN: f64 = 200.0;
/// Seconds in which a rising load doubles: 5 % a second at most, half of what the occupancy algorithm can follow.
const DOUBLING: f64 = 20.0;
/// The assumption behind it.
pub(super) const RISE_ASSUMED: &str = "Loads above 200 calls/s are reached from there, doubling every 20 s, so that \
                                       what is shown is the state that a lasting load leads to and not the shock of \
                                       its beginning.";
/// Below this many calls established a run has no delay to speak of.
const ENOUGH: f64 = 20.0;

/// A line of a plot: how its network is made, for a run of so many seconds.
#[derive(Clone, Copy)]
pub(super) struct Variant {
    pub(super) name: &'static str,
    pub(super) network: fn(u64) -> Scenario,
}

/// What one run of one variant under one load shows once it has settled.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shown {
    /// Calls completed a second.
    pub(super) goodput: f64,
    /// Calls a second that were answered after their callers had given up.
    pub(super) late: f64,
    /// Mean setup delay in milliseconds; not a number when hardly a call is set up.
    pub(super) delay: f64,
    /// Whether the goodput was stationary in the time that counts.
    pub(super) is_stationary: bool,
}

/// All runs of one variant, by load.
#[derive(Clone, Debug)]
pub(super) struct Curve {
    name: &'static str,
    points: Vec<(f64, Vec<Shown>)>,
}

/// Difference of goodputs, in calls a second, that does not matter: half a percent of what topology 3 carries.
const MATTERS: f64 = 1.5;

/// Seconds of a run once its load is reached.
#[derive(Clone, Copy)]
struct Length {
    /// Until the goodput is first tested for being stationary.
    least: usize,
    /// Until it is no longer waited for.
    most: usize,
    /// In which a rising load doubles.
    doubling: f64,
    /// Mean holding time.
    holding: u64,
}

/// One run of a network under a load.
fn simulate(variant: &Variant, load: f64, length: Length, seed: u64) -> Shown {
    let doublings = (load / BEGIN).log2().max(0.0);
    let rising = (doublings * length.doubling).ceil() as u64;
    let mut scenario = (variant.network)(rising + length.most as u64);
    hold(&mut scenario, length.holding);
    rise(&mut scenario, load.min(BEGIN), load, length.doubling);
    scenario.run.warm_up = Duration::from_secs(rising);
    // A rate is over whole bins, and a load seldom stops rising where a wide one ends.
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

/// Runs each variant under each load; replication i meets the same arrivals with every variant.
pub(super) fn curves(work: &Work<'_>, variants: &[Variant], loads: &[f64]) -> Vec<Curve> {
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

/// How many runs a point has, and how long they are.
fn extent(options: &Options) -> (usize, Length) {
    options.scale(
        (3, Length { least: 400, most: 6_400, doubling: DOUBLING, holding: holding(options) }),
        (1, Length { least: 40, most: 320, doubling: DOUBLING, holding: holding(options) }),
        (1, Length { least: 4, most: 4, doubling: 0.25, holding: holding(options) }),
    )
}

/// The same for a figure's notes, with the points that never settled.
pub(super) fn note(options: &Options, curves: &[Curve]) -> String {
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

/// Goodput against load.
pub(super) fn goodputs(title: &str, curves: &[Curve]) -> Plot {
    let axes = ["offered load (calls/s)", "goodput (calls/s)"].map(Axis::linear);
    let [x, y] = axes;
    Plot::of(title, x, y, curves.iter().map(Curve::goodput_line))
}

/// Calls answered late, by load and variant: they are no goodput. It says also which points never became stationary.
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

    /// Points of which a run was not stationary in the end, as text.
    fn unsettled(&self) -> impl Iterator<Item = String> {
        let points = self.points.iter().filter(|(_, runs)| !runs.iter().all(|run| run.is_stationary));
        points.map(|(load, _)| format!("{} at {load:.0}", self.name))
    }

    /// Mean goodput under this load, calls a second.
    pub(super) fn goodput(&self, load: f64) -> f64 {
        Self::interval(self.at(load), |run| run.goodput).mean.max(0.0)
    }

    /// Whether goodput under this load is surely above a level, as far as several runs can tell.
    pub(super) fn is_above(&self, load: f64, level: f64) -> ClaimVerdict {
        let Interval { mean, half_width } = Self::interval(self.at(load), |run| run.goodput);
        ClaimVerdict::above_zero(Interval { mean: mean - level, half_width })
    }

    /// Whether goodput under this load is surely above another curve's, as far as several runs can tell: both met the
    /// same arrivals.
    pub(super) fn is_above_curve(&self, other: &Self, load: f64) -> ClaimVerdict {
        let pairs = self.at(load).iter().zip(other.at(load));
        let differences: Moments = pairs.map(|(one, two)| one.goodput - two.goodput).collect();
        let half_width = if differences.count() < 2 {
            0.0
        } else {
            Interval::of(&differences, Confidence::P95).half_width
        };
        ClaimVerdict::above_zero(Interval { mean: differences.mean(), half_width })
    }

    /// Mean setup delay under this load in milliseconds; not a number when hardly a call is set up.
    pub(super) fn delay(&self, load: f64) -> f64 {
        Self::interval(self.at(load), |run| run.delay).mean
    }

    /// Loads, in order.
    pub(super) fn loads(&self) -> impl Iterator<Item = f64> {
        self.points.iter().map(|point| point.0)
    }

    /// Most calls completed a second under any load, and that load.
    pub(super) fn peak(&self) -> (f64, f64) {
        let goodputs = self.loads().map(|load| (self.goodput(load), load));
        goodputs.fold((0.0, 0.0), |best, each| if each.0 > best.0 { each } else { best })
    }

    /// The goodput as a line.
    pub(super) fn goodput_line(&self) -> PlotSeries {
        self.line(|run| run.goodput)
    }

    /// The setup delay as a line.
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

    /// Goodputs at some loads, as text.
    pub(super) fn goodputs(&self, loads: &[f64]) -> String {
        let each = |load: &f64| format!("{:.0} at {load:.0}", self.goodput(*load));
        loads.iter().map(each).collect::<Vec<_>>().join(", ")
    }

    /// Setup delays at some loads, as text.
    pub(super) fn delays(&self, loads: &[f64]) -> String {
        let each = |load: &f64| match self.delay(*load) {
            delay if delay.is_finite() => format!("{delay:.0} at {load:.0}"),
            _ => format!("none at {load:.0}"),
        };
        loads.iter().map(each).collect::<Vec<_>>().join(", ")
    }
}
