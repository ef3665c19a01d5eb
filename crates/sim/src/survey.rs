//! A scenario run as often as it asks for, and what all runs together show.

use crate::model::{self, Results};
use crate::report::{Axis, Figure, Plot, Series, Style};
use crate::stats::{Confidence, Interval, Moments, sweep};
use base::Instant;
use config::scenario::Scenario;
use serde::Serialize;
use std::num::NonZero;

/// A mean over the replications; the half width is that of a 95 % interval, and absent of a single run.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Mean {
    /// The mean.
    pub mean: f64,
    /// Half of the interval's width.
    pub half_width: Option<f64>,
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
    /// Share of the calls that ended which were completed.
    pub completed_share: Mean,
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
    /// Goodputs whose interval is wider than the scenario's precision allows.
    pub too_wide: Vec<String>,
}

/// Runs a scenario with all its replications on all cores; `done` hears how many are over.
pub fn survey(scenario: &Scenario, done: impl Fn(usize) + Sync) -> (Survey, Vec<Results>) {
    let count = scenario.run.replications.max(1);
    let threads = sweep::all_cores().min(NonZero::new(count as usize).unwrap_or(NonZero::<usize>::MIN));
    let seed = |run: usize| sweep::replication_seed(scenario.run.seed, run);
    let runs = sweep::sweep(count as usize, threads, |run| model::run(scenario, seed(run)), done);
    (summarise(scenario, &runs), runs)
}

fn mean(values: impl Iterator<Item = f64>) -> Mean {
    let moments: Moments = values.collect();
    let interval = (moments.count() > 1).then(|| Interval::of(&moments, Confidence::P95));
    Mean { mean: moments.mean(), half_width: interval.map(|interval| interval.half_width) }
}

fn summarise(scenario: &Scenario, runs: &[Results]) -> Survey {
    let from = Instant::ZERO + scenario.run.warm_up;
    let to = Instant::ZERO + scenario.run.duration;
    let streams: Vec<StreamSurvey> = (0..scenario.streams.len())
        .map(|at| {
            let each = || runs.iter().map(move |run| &run.streams[at]);
            StreamSurvey {
                name: scenario.streams[at].name.clone(),
                offered: mean(each().map(|stream| stream.offered.rate(from, to))),
                goodput: mean(each().map(|stream| stream.completed.rate(from, to))),
                completed_share: mean(each().map(|stream| {
                    let ended = stream.outcomes.ended();
                    if ended == 0 { 0.0 } else { stream.outcomes.completed as f64 / ended as f64 }
                })),
                setup_seconds: mean(each().map(|stream| stream.setup_delay.mean().as_secs_f64())),
                setup_p99_seconds: mean(
                    each().map(|stream| stream.setup_delay.percentile(99.0).as_secs_f64()),
                ),
            }
        })
        .collect();
    let hosts = runs[0].hosts.iter().enumerate().map(|(at, host)| {
        let each = || runs.iter().map(move |run| &run.hosts[at]);
        let busy = |bins: &[(Instant, f64)]| {
            bins.iter().filter(|(end, _)| *end > from).map(|bin| bin.1).collect::<Moments>().mean()
        };
        HostSurvey {
            name: host.name.clone(),
            utilisation: mean(each().map(|host| busy(&host.utilisation))),
            resends: mean(each().map(|host| host.resends.rate(from, to))),
            dropped: mean(each().map(|host| host.dropped.rate(from, to))),
            rejected: mean(each().map(|host| host.rejected.rate(from, to))),
        }
    });
    let precision = scenario.run.precision;
    let wide = |stream: &&StreamSurvey| {
        stream.goodput.half_width.is_some_and(|half| half > precision * stream.goodput.mean)
    };
    Survey {
        title: scenario.title.clone(),
        seed: scenario.run.seed,
        replications: runs.len() as u32,
        hosts: hosts.collect(),
        messages: runs.iter().map(|run| run.messages).sum(),
        traces: runs.iter().map(|run| format!("{:016x}", run.trace)).collect(),
        too_wide: streams.iter().filter(wide).map(|stream| stream.name.clone()).collect(),
        streams,
    }
}

/// One run as plots: calls offered and completed, how busy the hosts were, and what waited there.
pub fn figure(scenario: &Scenario, run: &Results, name: &str, file: &str) -> Figure {
    let seconds = |at: Instant| (at - Instant::ZERO).as_secs_f64();
    let time = || Axis::linear("time (s)");
    let mut calls = Plot::new("Calls offered and completed", time(), Axis::linear("calls/s"));
    for stream in &run.streams {
        for (what, series) in [("offered", &stream.offered), ("completed", &stream.completed)] {
            let points = series.rates().map(|(at, rate)| (seconds(at), rate));
            calls.series(Series::new(format!("{} {what}", stream.name), Style::Step, points));
        }
    }
    let busy_axis = Axis::linear("utilisation").from_to(0.0, 1.0);
    let mut busy = Plot::new("Utilisation of the hosts", time(), busy_axis);
    let mut queues = Plot::new("Messages that wait", time(), Axis::linear("messages"));
    for host in &run.hosts {
        let points = |bins: &[(Instant, f64)]| -> Vec<_> {
            bins.iter().map(|&(at, value)| (seconds(at), value)).collect()
        };
        busy.series(Series::new(&host.name, Style::Line, points(&host.utilisation)));
        queues.series(Series::new(&host.name, Style::Line, points(&host.queue)));
    }
    Figure {
        name: name.to_owned(),
        title: scenario.title.clone(),
        source: "scenario".to_owned(),
        plots: vec![calls, busy, queues],
        claims: Vec::new(),
        assumptions: Vec::new(),
        notes: Vec::new(),
        command: format!("sarabande sim run {file} --out DIR"),
        seed: scenario.run.seed,
        quick: false,
    }
}
