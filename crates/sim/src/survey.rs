//! A scenario run as often as it asks for, and what all runs together show; once, or at several values of a key.

mod assumptions;
mod events;
mod page;
mod vary;

pub use page::figure;
pub use vary::{CARRIED, Point, Sweep, vary};

use crate::model::{self, Outcomes, Results};
use crate::stats::{BatchMeans, Confidence, Interval, Moments, Series, sweep};
use base::Instant;
use config::scenario::Scenario;
use serde::Serialize;
use std::num::NonZero;
use std::slice;

/// A mean over the replications; the half width is that of a 95 % interval, where there is one ([`Intervals`]).
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Mean {
    /// The mean.
    pub mean: f64,
    /// Half of the interval's width.
    pub half_width: Option<f64>,
}

/// Where half widths come from.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Intervals {
    /// Student's t over the means of the replications, of every figure.
    Replications,
    /// One run: batch means of the completed calls; no other figure has an interval.
    BatchMeans,
    /// One run in which something changes or fails, or that is too short: no figure has an interval.
    None,
}

/// How the calls that ended did so, as shares of them.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Shares {
    /// Answered, held, hung up.
    pub completed: Mean,
    /// Refused with 300 or more.
    pub refused: Mean,
    /// Given up by the caller.
    pub abandoned: Mean,
    /// No final response to the INVITE.
    pub invite_timeouts: Mean,
    /// No final response to the BYE, or one of 300 or more.
    pub bye_failures: Mean,
}

/// A stream of calls, after the warm-up.
#[derive(Clone, Debug, Serialize)]
pub struct StreamSurvey {
    /// Its name.
    pub name: String,
    /// Calls offered a second.
    pub offered: Mean,
    /// Calls completed a second.
    pub goodput: Mean,
    /// How calls ended.
    pub ended: Shares,
    /// Seconds from INVITE at the caller to ACK at the callee.
    pub setup_seconds: Mean,
    /// The same, of the slowest of a hundred.
    pub setup_p99_seconds: Mean,
}

/// A host, after the warm-up.
#[derive(Clone, Debug, Serialize)]
pub struct HostSurvey {
    /// Its name.
    pub name: String,
    /// Share of its processors' time in use.
    pub utilisation: Mean,
    /// Messages a second sent again by its timers.
    pub resends: Mean,
    /// Messages a second that met a full buffer.
    pub dropped: Mean,
    /// Calls a second that it rejected.
    pub rejected: Mean,
}

/// What all runs show.
#[derive(Clone, Debug, Serialize)]
pub struct Survey {
    /// The scenario's title.
    pub title: String,
    /// Its seed.
    pub seed: u64,
    /// Runs made.
    pub replications: u32,
    /// By stream.
    pub streams: Vec<StreamSurvey>,
    /// By host.
    pub hosts: Vec<HostSurvey>,
    /// Messages simulated, in all runs.
    pub messages: u64,
    /// Digests of the runs.
    pub traces: Vec<String>,
    /// Where half widths come from.
    pub intervals: Intervals,
    /// What has an interval that is wider than the scenario's precision allows.
    pub too_wide: Vec<TooWide>,
}

/// A figure that is not sure enough.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct TooWide {
    /// Of which stream.
    pub stream: String,
    /// Which figure.
    pub figure: Judged,
}

/// A figure whose interval is held against the scenario's precision.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Judged {
    /// Calls completed a second.
    Goodput,
    /// Mean time to set a call up. Not its percentile: that of a few runs is no mean of independent samples.
    SetupSeconds,
}

/// A single run is cut into this many batches at least, and not into twice as many. With fewer, Student's t is wide; with
/// more, batches are short and no longer independent.
const BATCHES_MIN: u64 = 10;

/// Runs a scenario with all its replications on all cores; `done` hears how many are over.
pub fn survey(scenario: &Scenario, done: impl Fn(usize) + Sync) -> (Survey, Vec<Results>) {
    surveys(slice::from_ref(scenario), done).pop().expect("there is one scenario")
}

/// The same for several scenarios, whose runs share the cores.
fn surveys(scenarios: &[Scenario], done: impl Fn(usize) + Sync) -> Vec<(Survey, Vec<Results>)> {
    let runs = |scenario: &Scenario| scenario.run.replications.max(1) as usize;
    let all: Vec<_> =
        scenarios.iter().flat_map(|scenario| (0..runs(scenario)).map(move |run| (scenario, run))).collect();
    let threads = sweep::all_cores().min(NonZero::new(all.len()).unwrap_or(NonZero::<usize>::MIN));
    let one = |at: usize| {
        let (scenario, run) = all[at];
        model::run(scenario, sweep::replication_seed(scenario.run.seed, run))
    };
    let mut results = sweep::sweep(all.len(), threads, one, done).into_iter();
    let surveyed = scenarios.iter().map(|scenario| {
        let runs: Vec<_> = results.by_ref().take(runs(scenario)).collect();
        (summarise(scenario, &runs), runs)
    });
    surveyed.collect()
}

fn mean(values: impl Iterator<Item = f64>) -> Mean {
    let moments: Moments = values.collect();
    let interval = (moments.count() > 1).then(|| Interval::of(&moments, Confidence::P95));
    Mean { mean: moments.mean(), half_width: interval.map(|interval| interval.half_width) }
}

/// Half width of the interval of a single run's mean rate; none where it has too few bins.
fn batched(series: &Series, from: Instant, to: Instant) -> Option<f64> {
    let warm_up = from.as_nanos().div_ceil(series.width().as_nanos() as u64);
    let bins = (rates(series, to).count() as u64).saturating_sub(warm_up);
    let length = bins / BATCHES_MIN;
    if length == 0 {
        return None;
    }
    // The rest that fills no batch is the earliest part, which may still show how the run began.
    let mut means = BatchMeans::new(warm_up + bins % length, length);
    rates(series, to).for_each(|(_, rate)| means.add(rate));
    Some(means.interval(Confidence::P95).half_width)
}

/// Start and rate a second of each bin that ends by `to`. A series itself ends with its last amount.
fn rates(series: &Series, to: Instant) -> impl Iterator<Item = (Instant, f64)> + '_ {
    let width = series.width();
    let bins = to.as_nanos() / width.as_nanos() as u64;
    let found = series.rates().map(|(_, rate)| rate).chain(std::iter::repeat(0.0));
    (0..bins as u32).zip(found).map(move |(bin, rate)| (Instant::ZERO + width * bin, rate))
}

fn shares(runs: &[Results], stream: usize) -> Shares {
    let share = |of: fn(&Outcomes) -> u64| {
        mean(runs.iter().map(|run| {
            let outcomes = &run.streams[stream].outcomes;
            let ended = outcomes.ended();
            if ended == 0 { 0.0 } else { of(outcomes) as f64 / ended as f64 }
        }))
    };
    Shares {
        completed: share(|outcomes| outcomes.completed),
        refused: share(|outcomes| outcomes.refused),
        abandoned: share(|outcomes| outcomes.abandoned),
        invite_timeouts: share(|outcomes| outcomes.invite_timeouts),
        bye_failures: share(|outcomes| outcomes.bye_failures),
    }
}

fn stream(scenario: &Scenario, runs: &[Results], at: usize) -> StreamSurvey {
    let (from, to) = span(scenario);
    let each = || runs.iter().map(move |run| &run.streams[at]);
    let mut goodput = mean(each().map(|stream| stream.completed.rate(from, to)));
    // Batch means are about a run that stays as it is.
    if let [run] = runs
        && !events::change_after_warm_up(scenario)
    {
        goodput.half_width = batched(&run.streams[at].completed, from, to);
    }
    StreamSurvey {
        name: scenario.streams[at].name.clone(),
        offered: mean(each().map(|stream| stream.offered.rate(from, to))),
        goodput,
        ended: shares(runs, at),
        setup_seconds: mean(each().map(|stream| stream.setup_delay.mean().as_secs_f64())),
        setup_p99_seconds: mean(each().map(|stream| stream.setup_delay.percentile(99.0).as_secs_f64())),
    }
}

fn host(scenario: &Scenario, runs: &[Results], at: usize) -> HostSurvey {
    let (from, to) = span(scenario);
    let each = || runs.iter().map(move |run| &run.hosts[at]);
    let busy = |bins: &[(Instant, f64)]| {
        bins.iter().filter(|(end, _)| *end > from).map(|bin| bin.1).collect::<Moments>().mean()
    };
    HostSurvey {
        name: runs[0].hosts[at].name.clone(),
        utilisation: mean(each().map(|host| busy(&host.utilisation))),
        resends: mean(each().map(|host| host.resends.rate(from, to))),
        dropped: mean(each().map(|host| host.dropped.rate(from, to))),
        rejected: mean(each().map(|host| host.rejected.rate(from, to))),
    }
}

/// From the end of the warm-up to the end.
fn span(scenario: &Scenario) -> (Instant, Instant) {
    (Instant::ZERO + scenario.run.warm_up, Instant::ZERO + scenario.run.duration)
}

fn too_wide(streams: &[StreamSurvey], precision: f64) -> Vec<TooWide> {
    let judged = streams.iter().flat_map(|stream| {
        [(Judged::Goodput, stream.goodput), (Judged::SetupSeconds, stream.setup_seconds)]
            .map(|(figure, mean)| (stream, figure, mean))
    });
    let wide = judged.filter(|(.., Mean { mean, half_width })| {
        half_width.is_some_and(|half_width| Interval { mean: *mean, half_width }.too_wide(precision))
    });
    wide.map(|(stream, figure, _)| TooWide { stream: stream.name.clone(), figure }).collect()
}

fn summarise(scenario: &Scenario, runs: &[Results]) -> Survey {
    let streams: Vec<_> = (0..scenario.streams.len()).map(|at| stream(scenario, runs, at)).collect();
    let intervals = match runs.len() {
        2.. => Intervals::Replications,
        _ if streams.iter().any(|stream| stream.goodput.half_width.is_some()) => Intervals::BatchMeans,
        _ => Intervals::None,
    };
    Survey {
        title: scenario.title.clone(),
        seed: scenario.run.seed,
        replications: runs.len() as u32,
        hosts: (0..runs[0].hosts.len()).map(|at| host(scenario, runs, at)).collect(),
        messages: runs.iter().map(|run| run.messages).sum(),
        traces: runs.iter().map(|run| format!("{:016x}", run.trace)).collect(),
        intervals,
        too_wide: too_wide(&streams, scenario.run.precision),
        streams,
    }
}
