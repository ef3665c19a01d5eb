//! Goodput and delay against load: variants of a network that meet the same arrivals.

use super::topology::{at, hold, rise};
use super::{Options, Progress};
use crate::report::{ClaimVerdict, PlotSeries, ReportTable, Style};
use config::scenario::Scenario;
use core::time::Duration;
use sim::model;
use sim::stats::{Confidence, Interval, Moments, sweep};

/// Mean holding time in seconds. The paper has 100: what goes on once a load has settled does not depend on it, but
/// with a short one that is soon.
pub(super) const HOLDING: u64 = 10;
/// The assumption behind it.
pub(super) const HOLDING_ASSUMED: &str = "Calls last 10 s in the mean, not 100 as the paper has it: the goodput of a \
     load that lasts is the same, and is reached sooner.";
/// Calls a second at which every run begins, a load that all of the networks carry.
const BEGIN: f64 = 200.0;
/// Seconds in which a rising load doubles: 5 % a second at most, half of what the occupancy algorithm can follow.
const DOUBLING: f64 = 20.0;
/// The assumption behind it.
pub(super) const RISE_ASSUMED: &str = "Loads above 200 calls/s are reached from there, doubling every 20 s, so that \
                                       what is shown is the state that a lasting load leads to and not the shock of \
                                       its beginning.";
/// Below this many calls established a run has no delay to speak of.
const ENOUGH: u64 = 20;

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
}

/// All runs of one variant, by load.
#[derive(Clone, Debug)]
pub(super) struct Curve {
    name: &'static str,
    points: Vec<(f64, Vec<Shown>)>,
}

/// Seconds of a run once its load is reached.
#[derive(Clone, Copy)]
struct Length {
    /// To settle.
    settle: u64,
    /// That count.
    count: u64,
    /// In which a rising load doubles.
    doubling: f64,
}

/// One run of a network under a load.
fn simulate(variant: &Variant, load: f64, length: Length, seed: u64) -> Shown {
    let doublings = (load / BEGIN).log2().max(0.0);
    let rising = (doublings * length.doubling).ceil() as u64;
    let (from, to) = (rising + length.settle, rising + length.settle + length.count);
    let mut scenario = (variant.network)(to);
    hold(&mut scenario, HOLDING);
    rise(&mut scenario, load.min(BEGIN), load, length.doubling);
    scenario.run.warm_up = Duration::from_secs(from);
    // A rate is over whole bins, and a load seldom stops rising where a wide one ends.
    scenario.run.bin = Duration::from_secs(1);
    let results = model::run(&scenario, seed);
    let (_, goodput) = results.rates(at(from), at(to));
    let late = results.streams.iter().map(|stream| stream.late.rate(at(from), at(to))).sum();
    let count: u64 = results.streams.iter().map(|stream| stream.setup_delay.count()).sum();
    let total: f64 = results
        .streams
        .iter()
        .map(|stream| stream.setup_delay.mean().as_secs_f64() * stream.setup_delay.count() as f64)
        .sum();
    let delay = if count < ENOUGH { f64::NAN } else { 1e3 * total / count as f64 };
    Shown { goodput, late, delay }
}

/// Runs each variant under each load; replication i meets the same arrivals with every variant.
pub(super) fn curves(
    options: &Options,
    variants: &[Variant],
    loads: &[f64],
    progress: &dyn Fn(Progress<'_>),
) -> Vec<Curve> {
    let (replications, length) = extent(options);
    let cases: Vec<(usize, f64)> =
        (0..variants.len()).flat_map(|variant| loads.iter().map(move |&load| (variant, load))).collect();
    let of = cases.len() * replications;
    let done = |done| progress(Progress { done, of, what: "loads" });
    let one = |&(variant, load): &(usize, f64), seed| simulate(&variants[variant], load, length, seed);
    let shown = sweep::replicate(&cases, replications, options.seed, options.threads, one, done);
    let mut points = cases.iter().map(|case| case.1).zip(shown);
    let curve =
        |variant: &Variant| Curve { name: variant.name, points: points.by_ref().take(loads.len()).collect() };
    variants.iter().map(curve).collect()
}

/// How many runs a point has, and how long they are.
fn extent(options: &Options) -> (usize, Length) {
    options.scale(
        (3, Length { settle: 40, count: 60, doubling: DOUBLING }),
        (1, Length { settle: 30, count: 20, doubling: DOUBLING }),
        (1, Length { settle: 1, count: 2, doubling: 0.25 }),
    )
}

/// The same for a figure's notes.
pub(super) fn note(options: &Options) -> String {
    let (replications, Length { settle, count, .. }) = extent(options);
    let runs = if replications == 1 { "One run".to_owned() } else { format!("{replications} runs") };
    format!(
        "{runs} a point: {settle} s to settle once the load is reached, and {count} s that count. Run i meets the same \
         arrivals in every variant. A delay is drawn only where {ENOUGH} calls were set up in that time."
    )
}

/// Calls answered late, by load and variant: they are no goodput.
pub(super) fn late(curves: &[Curve]) -> ReportTable {
    let mut table = ReportTable::new(["answered late, calls/s"]);
    let loads: Vec<f64> = curves.first().map(|curve| curve.loads().collect()).unwrap_or_default();
    table.header.extend(loads.iter().map(|load| format!("{load:.0} offered")));
    for curve in curves {
        let rates = loads.iter().map(|&load| Curve::interval(curve.at(load), |run| run.late).mean);
        let rates = rates.map(|rate| format!("{rate:.1}"));
        table.rows.push([curve.name.to_owned()].into_iter().chain(rates).collect());
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
