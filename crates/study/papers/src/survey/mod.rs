//! Runs a scenario with all its replications, once or at several values of a key, and summarises the results.

mod assumptions;
mod events;
mod lifetime;
mod page;
mod tables;
mod vary;

pub use lifetime::Unfinished;
pub use page::figure;
pub use vary::{CARRIED, Sweep, SweepPoint, vary};

use base::Instant;
use config::scenario::Scenario;
use core::time::Duration;
use serde::Serialize;
use sim::model::{self, Outcomes, RunResults, StreamResults};
use sim::stats::{Confidence, Delays, Interval, Moments, Series, batch_means, sweep};
use std::num::NonZero;
use std::slice;

/// A mean over the replications, with the half width of its 95 % interval if there is one ([`Intervals`]).
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Mean {
    /// The mean.
    pub mean: f64,
    /// Half width of the interval.
    pub half_width: Option<f64>,
}

/// Origin of the half widths.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Intervals {
    /// Student's t over the means of the replications, for every figure.
    Replications,
    /// One run: batch means of the completed calls, the response time and the setup time. Other figures have no
    /// interval.
    BatchMeans,
    /// One run with changes or faults, or too short a run: no figure has an interval.
    None,
}

/// Shares of the ended calls by outcome.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Shares {
    /// Answered before the caller gave up, held, hung up.
    pub completed: Mean,
    /// Refused with 300 or more.
    pub refused: Mean,
    /// Given up by the caller.
    pub abandoned: Mean,
    /// Answered after the caller had given up.
    pub answered_late: Mean,
    /// No final response to the INVITE.
    pub invite_timeouts: Mean,
    /// No final response to the BYE, or one of 300 or more.
    pub bye_failures: Mean,
}

/// Results of a stream of calls, after the warm-up.
#[derive(Clone, Debug, Serialize)]
pub struct StreamSurvey {
    /// Name of the stream.
    pub name: String,
    /// Calls offered per second.
    pub offered: Mean,
    /// Calls set up per second: answered, and the ACK has arrived.
    pub set_up: Mean,
    /// Calls completed per second, without calls answered late.
    pub goodput: Mean,
    /// Outcomes of calls; `None` if no call ended.
    pub ended: Option<Shares>,
    /// Seconds from INVITE to its 2xx at the caller; `None` if no call was answered.
    pub response_seconds: Option<Mean>,
    /// 99th percentile of the same time.
    pub response_p99_seconds: Option<Mean>,
    /// Seconds from INVITE at the caller to ACK at the callee; `None` if no call was set up.
    pub setup_seconds: Option<Mean>,
    /// 99th percentile of the same time.
    pub setup_p99_seconds: Option<Mean>,
}

/// Results of a host, after the warm-up.
#[derive(Clone, Debug, Serialize)]
pub struct HostSurvey {
    /// Name of the host.
    pub name: String,
    /// Utilisation of its processors.
    pub utilisation: Mean,
    /// Retransmissions per second by its timers.
    pub resends: Mean,
    /// Messages per second dropped by a full buffer, or a full queue of the network card.
    pub dropped: Mean,
    /// Calls rejected per second.
    pub rejected: Mean,
}

/// Summary of all runs.
#[derive(Clone, Debug, Serialize)]
pub struct Survey {
    /// The scenario's title.
    pub title: String,
    /// The scenario's seed.
    pub seed: u64,
    /// Number of runs.
    pub replications: u32,
    /// By stream.
    pub streams: Vec<StreamSurvey>,
    /// By host.
    pub hosts: Vec<HostSurvey>,
    /// Number of simulated messages, in all runs.
    pub messages: u64,
    /// Digests of the runs.
    pub traces: Vec<String>,
    /// Origin of the half widths.
    pub intervals: Intervals,
    /// Figures whose interval is wider than the scenario's precision.
    pub too_wide: Vec<TooWide>,
    /// Streams whose calls last too long for the run to complete them.
    pub unfinished: Vec<Unfinished>,
}

/// A figure with too wide an interval.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct TooWide {
    /// Name of the stream.
    pub stream: String,
    /// The figure.
    pub figure: Judged,
}

/// A figure whose interval is compared with the scenario's precision.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Judged {
    /// Calls completed per second.
    Goodput,
    /// Mean setup time. Its percentile is not checked, because it is no mean of independent samples.
    SetupSeconds,
}

/// Runs a scenario with all its replications on all cores. `passed` gets the simulated time that has passed in one of
/// the runs, on any thread.
pub fn survey(scenario: &Scenario, passed: impl Fn(Duration) + Sync) -> (Survey, Vec<RunResults>) {
    surveys(slice::from_ref(scenario), &passed).pop().expect("there is one scenario")
}

/// Runs several scenarios, which share the cores.
fn surveys(scenarios: &[Scenario], passed: &(impl Fn(Duration) + Sync)) -> Vec<(Survey, Vec<RunResults>)> {
    let runs = |scenario: &Scenario| scenario.run.replications.max(1) as usize;
    let all: Vec<_> =
        scenarios.iter().flat_map(|scenario| (0..runs(scenario)).map(move |run| (scenario, run))).collect();
    let threads = sweep::all_cores().min(NonZero::new(all.len()).unwrap_or(NonZero::<usize>::MIN));
    let one = |at: usize| {
        let (scenario, run) = all[at];
        model::run_watched(scenario, sweep::replication_seed(scenario.run.seed, run), passed)
    };
    let mut results = sweep::sweep(all.len(), threads, one, |_| ()).into_iter();
    let surveyed = scenarios.iter().map(|scenario| {
        let runs: Vec<_> = results.by_ref().take(runs(scenario)).collect();
        (summarise(scenario, &runs), runs)
    });
    surveyed.collect()
}

fn mean(values: impl Iterator<Item = f64>) -> Mean {
    mean_of_moments(&values.collect())
}

fn mean_of_moments(moments: &Moments) -> Mean {
    let interval = (moments.count() > 1).then(|| Interval::of(moments, Confidence::P95));
    Mean { mean: moments.mean(), half_width: interval.map(|interval| interval.half_width) }
}

/// Mean over the runs that have a value. A run without samples does not count.
fn mean_of_any(values: impl Iterator<Item = Option<f64>>) -> Option<Mean> {
    let moments: Moments = values.flatten().collect();
    (moments.count() > 0).then(|| mean_of_moments(&moments))
}

/// Sums of the whole bins between two instants.
fn whole_bins(series: &Series, (from, to): (Instant, Instant)) -> Vec<f64> {
    let seconds = series.width().as_secs_f64();
    rates(series, to).filter(|(start, _)| *start >= from).map(|(_, rate)| rate * seconds).collect()
}

/// Start and rate per second of each bin that ends by `to`. A series itself ends with its last amount.
fn rates(series: &Series, to: Instant) -> impl Iterator<Item = (Instant, f64)> + '_ {
    let width = series.width();
    let bins = to.as_nanos() / width.as_nanos() as u64;
    let found = series.rates().map(|(_, rate)| rate).chain(std::iter::repeat(0.0));
    (0..bins as u32).zip(found).map(move |(bin, rate)| (Instant::ZERO + width * bin, rate))
}

fn shares(runs: &[RunResults], stream: usize) -> Option<Shares> {
    let share = |of: fn(&Outcomes) -> u64| {
        mean_of_any(runs.iter().map(|run| {
            let outcomes = &run.streams[stream].outcomes;
            (outcomes.ended() > 0).then(|| of(outcomes) as f64 / outcomes.ended() as f64)
        }))
    };
    Some(Shares {
        completed: share(|outcomes| outcomes.completed)?,
        refused: share(|outcomes| outcomes.refused)?,
        abandoned: share(|outcomes| outcomes.abandoned)?,
        answered_late: share(|outcomes| outcomes.answered_late)?,
        invite_timeouts: share(|outcomes| outcomes.invite_timeouts)?,
        bye_failures: share(|outcomes| outcomes.bye_failures)?,
    })
}

fn stream(scenario: &Scenario, runs: &[RunResults], at: usize) -> StreamSurvey {
    let (from, to) = span(scenario);
    let each = || runs.iter().map(move |run| &run.streams[at]);
    let delay = |which: fn(&StreamResults) -> &Delays, of: fn(&Delays) -> Duration| {
        mean_of_any(each().map(|stream| {
            let delays = which(stream);
            (delays.count() > 0).then(|| of(delays).as_secs_f64())
        }))
    };
    let [response, setup]: [fn(&StreamResults) -> &Delays; 2] =
        [|stream| &stream.answer_delay, |stream| &stream.setup_delay];
    let p99 = |delays: &Delays| delays.percentile(99.0);
    let mut goodput = mean(each().map(|stream| stream.completed.rate(from, to)));
    let mut response_seconds = delay(response, Delays::mean);
    let mut setup_seconds = delay(setup, Delays::mean);
    // Batch means need a run whose conditions do not change.
    if let [run] = runs
        && !events::change_after_warm_up(scenario)
    {
        let StreamResults { completed, answered, established, .. } = &run.streams[at];
        let whole = |series| whole_bins(series, (from, to));
        let batched =
            |total: &[f64], number: &[f64]| Some(batch_means(total, number, Confidence::P95)?.half_width);
        let completed_in = whole(completed);
        let bin = [scenario.run.bin.as_secs_f64()].repeat(completed_in.len());
        goodput.half_width = batched(&completed_in, &bin);
        for (mean, [number, seconds]) in
            [(&mut response_seconds, answered), (&mut setup_seconds, established)]
        {
            if let Some(mean) = mean {
                mean.half_width = batched(&whole(seconds), &whole(number));
            }
        }
    }
    StreamSurvey {
        name: scenario.streams[at].name.clone(),
        offered: mean(each().map(|stream| stream.offered.rate(from, to))),
        set_up: mean(each().map(|stream| stream.established[0].rate(from, to))),
        goodput,
        ended: shares(runs, at),
        response_seconds,
        response_p99_seconds: delay(response, p99),
        setup_seconds,
        setup_p99_seconds: delay(setup, p99),
    }
}

fn host(scenario: &Scenario, runs: &[RunResults], at: usize) -> HostSurvey {
    let (from, to) = span(scenario);
    let each = || runs.iter().map(move |run| &run.hosts[at]);
    // Bins are listed with their ends; a bin that started in the warm-up does not count.
    let busy = |bins: &[(Instant, f64)]| {
        let after = bins.iter().filter(|(end, _)| *end >= from + scenario.run.bin);
        after.map(|bin| bin.1).collect::<Moments>().mean()
    };
    HostSurvey {
        name: runs[0].hosts[at].name.clone(),
        utilisation: mean(each().map(|host| busy(&host.utilisation))),
        resends: mean(each().map(|host| host.resends.rate(from, to))),
        dropped: mean(each().map(|host| host.dropped.rate(from, to))),
        rejected: mean(each().map(|host| host.rejected.rate(from, to))),
    }
}

/// From the end of the warm-up to the end of the run.
fn span(scenario: &Scenario) -> (Instant, Instant) {
    (Instant::ZERO + scenario.run.warm_up, Instant::ZERO + scenario.run.duration)
}

fn too_wide(streams: &[StreamSurvey], precision: f64) -> Vec<TooWide> {
    let judged = streams.iter().flat_map(|stream| {
        [(Judged::Goodput, Some(stream.goodput)), (Judged::SetupSeconds, stream.setup_seconds)]
            .map(|(figure, mean)| (stream, figure, mean))
    });
    let known = judged.filter_map(|(stream, figure, mean)| Some((stream, figure, mean?)));
    let wide = known.filter(|(.., Mean { mean, half_width })| {
        half_width.is_some_and(|half_width| Interval { mean: *mean, half_width }.too_wide(precision))
    });
    wide.map(|(stream, figure, _)| TooWide { stream: stream.name.clone(), figure }).collect()
}

fn summarise(scenario: &Scenario, runs: &[RunResults]) -> Survey {
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
        unfinished: lifetime::unfinished(scenario),
        streams,
    }
}
