//! Goodput and delay against load: variants of a network that meet the same arrivals.

use super::topology::{at, hold, offer};
use super::{Options, Progress};
use crate::model;
use crate::report::{Series, Style};
use crate::stats::{Confidence, Interval, Moments, sweep};
use config::scenario::Scenario;
use core::time::Duration;

/// Mean holding time in seconds. The paper has 100: what goes on once a load has settled does not depend on it, but with
/// a short one that is soon.
pub(super) const HOLDING: u64 = 10;
/// The assumption behind it.
pub(super) const HOLDING_ASSUMED: &str = "Calls last 10 s in the mean, not 100 as the paper has it: the goodput of a \
     load that lasts is the same, and is reached sooner.";
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
    /// Mean setup delay in milliseconds; not a number when hardly a call is set up.
    pub(super) delay: f64,
}

/// All runs of one variant, by load.
#[derive(Clone, Debug)]
pub(super) struct Curve {
    name: &'static str,
    points: Vec<(f64, Vec<Shown>)>,
}

/// One run of a network under a load: half of its seconds to settle, and half that count.
pub(super) fn simulate(variant: &Variant, load: f64, seconds: u64, seed: u64) -> Shown {
    let mut scenario = (variant.network)(seconds);
    hold(&mut scenario, HOLDING);
    offer(&mut scenario, load);
    scenario.run.warm_up = Duration::from_secs(seconds / 2);
    let results = model::run(&scenario, seed);
    let (_, goodput) = results.rates(at(seconds / 2), at(seconds));
    let count: u64 = results.streams.iter().map(|stream| stream.setup_delay.count()).sum();
    let total: f64 = results
        .streams
        .iter()
        .map(|stream| stream.setup_delay.mean().as_secs_f64() * stream.setup_delay.count() as f64)
        .sum();
    let delay = if count < ENOUGH { f64::NAN } else { 1e3 * total / count as f64 };
    Shown { goodput, delay }
}

/// Runs each variant under each load; replication i meets the same arrivals with every variant.
pub(super) fn curves(
    options: &Options,
    variants: &[Variant],
    loads: &[f64],
    progress: &dyn Fn(Progress<'_>),
) -> Vec<Curve> {
    let (replications, seconds) = options.pick((3, 160), (1, 80));
    let cases: Vec<(usize, f64)> =
        (0..variants.len()).flat_map(|variant| loads.iter().map(move |&load| (variant, load))).collect();
    let of = cases.len() * replications;
    let done = |done| progress(Progress { done, of, what: "loads" });
    let one = |&(variant, load): &(usize, f64), seed| simulate(&variants[variant], load, seconds, seed);
    let shown = sweep::replicate(&cases, replications, options.seed, options.threads, one, done);
    let mut points = cases.iter().map(|case| case.1).zip(shown);
    let curve =
        |variant: &Variant| Curve { name: variant.name, points: points.by_ref().take(loads.len()).collect() };
    variants.iter().map(curve).collect()
}

/// How long runs are, and how many, for a figure's notes.
pub(super) fn note(options: &Options) -> String {
    let (replications, seconds) = options.pick((3, 160), (1, 80));
    format!(
        "{replications} runs of {seconds} s a point, of which the second half counts. Run i meets the same arrivals in \
         every variant. A delay is drawn only where {ENOUGH} calls were set up in that time."
    )
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
    pub(super) fn goodput_line(&self) -> Series {
        self.line(|run| run.goodput)
    }

    /// The setup delay as a line.
    pub(super) fn delay_line(&self) -> Series {
        self.line(|run| run.delay)
    }

    fn line(&self, value: fn(&Shown) -> f64) -> Series {
        let intervals = || self.points.iter().map(|(load, runs)| (*load, Self::interval(runs, value)));
        if self.points.iter().any(|point| point.1.len() > 1) {
            Series::intervals(self.name, Style::Line, intervals())
        } else {
            Series::new(self.name, Style::Line, intervals().map(|(load, interval)| (load, interval.mean)))
        }
    }

    /// Goodputs at some loads, as text.
    pub(super) fn goodputs(&self, loads: &[f64]) -> String {
        let each = |load: &f64| format!("{:.0} at {load:.0}", self.goodput(*load));
        loads.iter().map(each).collect::<Vec<_>>().join(", ")
    }

    /// Setup delays at some loads, as text.
    pub(super) fn delays(&self, loads: &[f64]) -> String {
        let each = |load: &f64| format!("{:.0} at {load:.0}", self.delay(*load));
        loads.iter().map(each).collect::<Vec<_>>().join(", ")
    }
}
