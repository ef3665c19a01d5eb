//! Rising loads before a cluster, by one way: how long INVITE and BYE take at each of them, and whether all are
//! answered.

use std::ops::Range;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use sim::stats::Moments;

use super::runs::Run;
use super::{CALLERS, ClusterBench, Pause, Product, Servers, Way, balancer};
use crate::overload::callers::HoldingTime;
use crate::overload::load::{Level, LoadGenerator, OfferedLoad};
use crate::overload::log::{CallLog, CallRecord};
use crate::process::{Program, ask, own_ns};
use crate::scratch::Scratch;

/// A request that is answered later than this is not done, in nanoseconds: three times it was sent in vain. It is
/// waited for as long.
const DONE_NS: u64 = 4_000_000_000;
/// Calls in progress for each server while the capacity is measured, and seconds that count. As many do not as servers keep
/// what they have answered, and two more: they have to carry that, too.
const IN_PROGRESS: usize = 20;
const CAPACITY_S: f64 = 10.0;
/// Servers are at rest when they use less than this part of their quotas: what was too much before is over. It is waited
/// for so many seconds at most.
const AT_REST: f64 = 0.1;
const REST_S: u32 = 60;
/// Seconds from one question for weights to the next.
const ASK_S: f64 = 10.0;
/// Steps of the ramp up to the first load, and seconds of each.
const RAMP: (u32, f64) = (4, 0.5);

/// Loads and times.
#[derive(Clone, PartialEq, Debug)]
pub struct SweepPlan {
    /// In parts of what the cluster carries, rising.
    pub loads: Vec<f64>,
    /// Seconds at each load that do not count, and that do.
    pub settle: f64,
    /// Likewise.
    pub counted: f64,
    /// Mean and deviation of how long calls last, in seconds.
    pub holding: [f64; 2],
}

impl SweepPlan {
    fn levels(&self, capacity: f64) -> Vec<Level> {
        let (steps, seconds) = RAMP;
        let first = self.loads.first().copied().unwrap_or(0.0) * capacity;
        let ramp =
            (1..=steps).map(|step| Level { rate: first * f64::from(step) / f64::from(steps + 1), seconds });
        let seconds = self.settle + self.counted;
        let loads = self.loads.iter().map(|load| Level { rate: load * capacity, seconds });
        ramp.chain(loads).collect()
    }

    /// The time in which a load counts.
    fn window(&self, index: usize) -> Range<f64> {
        let ramp = f64::from(RAMP.0) * RAMP.1;
        let from = ramp + index as f64 * (self.settle + self.counted) + self.settle;
        from..from + self.counted
    }

    /// How many calls are kept that ended at most so many seconds ago, in the mean over the time in which a load counts: in
    /// parts of the calls that the cluster carries in a second.
    pub fn kept(&self, index: usize, seconds: f64) -> f64 {
        let (window, holding) = (self.window(index), self.holding[0]);
        let levels = self.levels(1.0);
        let ended = |from: f64, to: f64| {
            let mut at = 0.0;
            let part = |level: &Level| {
                let begun = at;
                at += level.seconds;
                level.rate * (at.min(to) - begun.max(from)).max(0.0)
            };
            levels.iter().map(part).sum::<f64>()
        };
        let steps = 20;
        let step = |n: u32| {
            let now = window.start + self.counted * (f64::from(n) + 0.5) / f64::from(steps) - holding;
            ended(now - seconds, now)
        };
        (0..steps).map(step).sum::<f64>() / f64::from(steps)
    }
}

/// Times from a request to its 2xx, in milliseconds.
#[derive(Clone, Copy, PartialEq, Default, Debug)]
pub struct Times {
    /// In the mean.
    pub mean: f64,
    /// By percentile.
    pub p50: f64,
    /// Likewise.
    pub p95: f64,
    /// Likewise.
    pub p99: f64,
}

impl Times {
    fn of(mut taken_ns: Vec<u64>) -> Self {
        taken_ns.sort_unstable();
        let count = taken_ns.len();
        let at = |percent: usize| {
            let index = (count * percent).div_ceil(100).checked_sub(1);
            index.map_or(f64::NAN, |index| taken_ns[index] as f64 / 1e6)
        };
        let mean = taken_ns.iter().map(|ns| *ns as f64).sum::<f64>() / count as f64 / 1e6;
        Self { mean, p50: at(50), p95: at(95), p99: at(99) }
    }
}

/// What came of a load. Response times are those of requests that were answered.
#[derive(Clone, Copy, PartialEq, Default, Debug)]
pub struct LevelResult {
    /// Calls a second that were offered.
    pub rate: f64,
    /// Of INVITE.
    pub invite: Times,
    /// Of BYE.
    pub bye: Times,
    /// Part of the INVITEs and BYEs that were answered within four seconds by a 2xx.
    pub done: f64,
    /// Requests that were sent again, a second.
    pub repeated: f64,
    /// Processor time of the servers, as part of their quotas.
    pub servers: f64,
    /// Processors that the balancer took.
    pub balancer: f64,
    /// Processors that the callers took.
    pub callers: f64,
    /// Part of the time that a server stood still to collect garbage, in the mean over the servers.
    pub paused: f64,
    /// Such pauses a second, of each server.
    pub pauses: f64,
    /// The longest one, in milliseconds.
    pub pause_ms: f64,
    /// How much their lengths deviate from their mean, in milliseconds.
    pub pause_deviation_ms: f64,
    /// Longest that a call of the whole run left after it was due, in milliseconds.
    pub late_ms: f64,
}

/// What was seen at one time.
struct Look {
    servers: f64,
    balancer: f64,
    callers: f64,
}

/// Servers that are ready, and callers.
pub struct Cluster<'a> {
    bench: &'a ClusterBench,
    generator: LoadGenerator,
    servers: Servers,
}

impl<'a> Cluster<'a> {
    /// Starts servers with these parts of a processor.
    ///
    /// # Errors
    /// What could not be started.
    pub fn start(bench: &'a ClusterBench, product: Product, quotas: Vec<f64>) -> Result<Self> {
        let mut generator = LoadGenerator::new(CALLERS, 0)?;
        let servers = Servers::start(bench, product, quotas, &mut generator)?;
        Ok(Self { bench, generator, servers })
    }

    /// What a way needs to know of the servers: their capacities beside that of the fastest, or that all are equal.
    fn capacities(&self, are_told: bool) -> Vec<f64> {
        let most = self.servers.quotas.iter().copied().fold(0.0, f64::max);
        self.servers.quotas.iter().map(|quota| if are_told { quota / most } else { 1.0 }).collect()
    }

    fn balance(&mut self, way: Way, are_told: bool, keys: &str) -> Result<(Program, Scratch)> {
        let scratch = Scratch::new("cluster-balancer")?;
        let program = way.start(self.bench, &scratch, (&self.capacities(are_told), keys))?;
        let log = scratch.path().join("balancer");
        self.generator
            .await_calls(&[balancer(5060)])
            .with_context(|| format!("{way} said: {}", std::fs::read_to_string(log).unwrap_or_default()))?;
        Ok((program, scratch))
    }

    /// Calls a second that the servers carry, which least work left shares out.
    ///
    /// # Errors
    /// The balancer could not be started.
    pub fn capacity(&mut self) -> Result<f64> {
        let _balancer = self.balance(Way::Tlwl, true, "")?;
        let settle = self.servers.product.keeps() + 2.0;
        let seconds = settle + CAPACITY_S;
        self.generator.holding = HoldingTime::default();
        let calls = IN_PROGRESS * self.servers.quotas.len();
        let log = self.generator.play(&[balancer(5060)], OfferedLoad::Closed { calls, seconds })?;
        let capacity = log.window(settle..seconds).set_up;
        ensure!(capacity > 10.0, "the servers carry {capacity} calls/s, which is nothing to measure");
        Ok(capacity)
    }

    /// Waits until the servers have nothing to do: after a load that was too high they have for half a minute.
    fn await_rest(&self) -> Result<()> {
        let quota: f64 = self.servers.quotas.iter().sum();
        for _ in 0..REST_S {
            let before = self.servers.used()?;
            thread::sleep(Duration::from_secs(1));
            if self.servers.used()? - before < AT_REST * quota {
                return Ok(());
            }
        }
        bail!("the servers are still busy {REST_S} s after the last load: what follows would be of both")
    }

    /// What an INVITE weighs as is estimated in so many seconds at so many calls a second: seconds and weight, as often as it
    /// is asked for.
    ///
    /// # Errors
    /// The balancer could not be started, or does not say.
    pub fn estimated_weights(&mut self, rate: f64, seconds: f64) -> Result<Vec<(f64, f64)>> {
        let (_program, _scratch) = self.balance(Way::Tlwl, false, "weights = \"adaptive\"")?;
        self.generator.seed = Some(self.bench.seed);
        self.generator.holding = HoldingTime { mean: 2.0, deviation: 1.0 };
        let epoch = Instant::now();
        let generator = &mut self.generator;
        thread::scope(|scope| {
            let watch = scope.spawn(|| {
                let times = (1..).map(|time| f64::from(time) * ASK_S).take_while(|at| *at <= seconds);
                let weight = |at: f64| {
                    thread::sleep(Duration::from_secs_f64(at).saturating_sub(epoch.elapsed()));
                    let members = ask(balancer(8060), "/api/members")?;
                    let weight = members["members"][0]["weights"]["INVITE"].as_f64();
                    Ok((at, weight.context("the balancer says no weight")?))
                };
                times.map(weight).collect::<Result<Vec<_>>>()
            });
            generator.play(&[balancer(5060)], OfferedLoad::Open(vec![Level { rate, seconds }]))?;
            watch.join().expect("it does not panic")
        })
    }

    /// Plays all loads of a run.
    ///
    /// # Errors
    /// What could not be started, or has ended.
    pub fn sweep(&mut self, run: &Run, capacity: f64, plan: &SweepPlan) -> Result<Vec<LevelResult>> {
        self.await_rest()?;
        self.servers.collect()?;
        let (program, _scratch) = self.balance(run.way, run.are_told, "")?;
        // The same arrivals for all ways of a round.
        self.generator.seed = Some(self.bench.seed + u64::from(run.round));
        let [mean, deviation] = plan.holding;
        self.generator.holding = HoldingTime { mean, deviation };
        self.generator.patience_ns = DONE_NS;
        let load = OfferedLoad::Open(plan.levels(capacity));
        let (epoch, servers) = (Instant::now(), &self.servers);
        let look = |program: &Program| {
            let balancer = program.usage()?.total_ns as f64 / 1e9;
            anyhow::Ok(Look { servers: servers.used()?, balancer, callers: own_ns() as f64 / 1e9 })
        };
        let generator = &mut self.generator;
        let (log, looks) = thread::scope(|scope| {
            let watch = scope.spawn(|| {
                let windows = (0..plan.loads.len()).map(|index| plan.window(index));
                let at = |seconds: f64| {
                    thread::sleep(Duration::from_secs_f64(seconds).saturating_sub(epoch.elapsed()));
                    look(&program)
                };
                windows.map(|window| Ok([at(window.start)?, at(window.end)?])).collect::<Result<Vec<_>>>()
            });
            let log = generator.play(&[balancer(5060)], load)?;
            anyhow::Ok((log, watch.join().expect("it does not panic")?))
        })?;
        let pauses = self.servers.pauses(epoch);
        let quota: f64 = self.servers.quotas.iter().sum();
        let result = |(index, [before, after]): (usize, &[Look; 2])| {
            let part = |used: fn(&Look) -> f64| (used(after) - used(before)) / plan.counted;
            LevelResult {
                servers: part(|look| look.servers) / quota,
                balancer: part(|look| look.balancer),
                callers: part(|look| look.callers),
                ..LevelResult::of(&log, &pauses, plan.window(index))
            }
        };
        Ok(looks.iter().enumerate().map(result).collect())
    }
}

impl LevelResult {
    /// Of the INVITEs that were due in this time, and the BYEs that were sent in it.
    fn of(log: &CallLog, pauses: &[Vec<Pause>], seconds: Range<f64>) -> Self {
        let length = seconds.end - seconds.start;
        let is_within = |ns: u64| seconds.contains(&(ns as f64 / 1e9));
        let begun = || log.calls.iter().filter(|call| is_within(call.due_ns));
        let ended = || log.calls.iter().filter(|call| call.hung_up_ns.is_some_and(is_within));
        let taken = |calls: &mut dyn Iterator<Item = &CallRecord>, time: fn(&CallRecord) -> Option<u64>| {
            let all: Vec<Option<u64>> = calls.map(time).collect();
            let done = all.iter().flatten().filter(|ns| **ns <= DONE_NS).count();
            (all.len(), done, Times::of(all.into_iter().flatten().collect()))
        };
        let (invites, answered, invite) = taken(&mut begun(), |call| call.set_up_ns);
        let (byes, over, bye) = taken(&mut ended(), |call| call.ended_ns);
        let within =
            || pauses.iter().flatten().filter(|pause| seconds.contains(&pause.at)).map(|pause| pause.ms);
        let longest = within().fold(0.0, f64::max);
        let stood: Moments = within().collect();
        let server_seconds = length * pauses.len() as f64;
        let repeated = log.repetitions_ns.iter().filter(|ns| is_within(**ns)).count();
        Self {
            rate: invites as f64 / length,
            invite,
            bye,
            done: (answered + over) as f64 / (invites + byes) as f64,
            repeated: repeated as f64 / length,
            paused: stood.mean() * stood.count() as f64 / 1e3 / server_seconds,
            pauses: stood.count() as f64 / server_seconds,
            pause_ms: longest,
            pause_deviation_ms: stood.deviation(),
            late_ms: log.late_ns_max as f64 / 1e6,
            ..Self::default()
        }
    }

    /// Its numbers, in the order of [`COLUMNS`].
    pub fn numbers(&self) -> Vec<f64> {
        let times = |of: &Times| [of.mean, of.p50, of.p95, of.p99];
        let mut all = vec![self.rate];
        all.extend(times(&self.invite));
        all.extend(times(&self.bye));
        all.extend([self.done, self.repeated, self.servers, self.balancer, self.callers]);
        all.extend([self.paused, self.pauses, self.pause_ms, self.pause_deviation_ms, self.late_ms]);
        all
    }

    /// From those numbers; `None` if there are more or less.
    pub fn from_numbers(numbers: &[f64]) -> Option<Self> {
        let (rate, rest) = numbers.split_first()?;
        let (of_invite, rest) = rest.split_first_chunk()?;
        let (of_bye, rest) = rest.split_first_chunk()?;
        let times = |[mean, p50, p95, p99]: [f64; 4]| Times { mean, p50, p95, p99 };
        let [
            done,
            repeated,
            servers,
            balancer,
            callers,
            paused,
            pauses,
            pause_ms,
            pause_deviation_ms,
            late_ms,
        ] = *rest
        else {
            return None;
        };
        let (invite, bye) = (times(*of_invite), times(*of_bye));
        Some(Self {
            rate: *rate,
            invite,
            bye,
            done,
            repeated,
            servers,
            balancer,
            callers,
            paused,
            pauses,
            pause_ms,
            pause_deviation_ms,
            late_ms,
        })
    }
}

/// Names of the numbers of a [`LevelResult`].
pub const COLUMNS: &str = "rate,invite_mean_ms,invite_p50_ms,invite_p95_ms,invite_p99_ms,bye_mean_ms,bye_p50_ms,\
    bye_p95_ms,bye_p99_ms,done,repeated,servers,balancer,callers,paused,pauses,pause_ms,pause_deviation_ms,late_ms";

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn windows_follow_the_ramp_and_each_other() {
        let plan = SweepPlan { loads: vec![0.5, 1.0], settle: 1.0, counted: 4.0, holding: [2.0, 1.0] };
        assert_eq!([plan.window(0), plan.window(1)], [3.0..7.0, 8.0..12.0]);
        let levels = plan.levels(100.0);
        let rates: Vec<f64> = levels.iter().map(|level| level.rate).collect();
        assert_eq!(rates, [10.0, 20.0, 30.0, 40.0, 50.0, 100.0]);
        let until: f64 = levels[..5].iter().map(|level| level.seconds).sum();
        assert!((until - plan.window(0).end).abs() < 1e-9);
    }

    #[test]
    fn calls_are_kept_for_a_time_after_their_end() {
        let plan = SweepPlan { loads: vec![0.5, 1.0], settle: 10.0, counted: 4.0, holding: [2.0, 1.0] };
        // All of the last five seconds, at half of the capacity.
        assert!((plan.kept(0, 5.0) - 2.5).abs() < 1e-9, "{}", plan.kept(0, 5.0));
        // The ramp, half of the capacity for 14 s, and all of it for 10 s on.
        let all = plan.kept(1, 100.0);
        assert!((all - (0.5 + 7.0 + 10.0)).abs() < 1e-6, "{all}");
    }

    #[test]
    fn each_request_counts_where_it_was_sent() {
        let call = |due: u64, set_up: Option<u64>, bye: Option<(u64, Option<u64>)>| CallRecord {
            set_up_ns: set_up.map(|ms| ms * MS),
            hung_up_ns: bye.map(|(at, _)| at * MS),
            ended_ns: bye.and_then(|(_, took)| took.map(|ms| ms * MS)),
            ..CallRecord::new(false, due * MS)
        };
        let calls = vec![
            call(500, Some(1), Some((1_500, Some(3)))),
            call(1_000, Some(10), Some((2_500, Some(1)))),
            call(1_100, Some(4_100), None),
            call(1_200, None, None),
            call(1_300, Some(20), Some((1_700, None))),
        ];
        let log = CallLog { calls, repetitions_ns: vec![900 * MS, 1_500 * MS], late_ns_max: 0 };
        let pauses = [vec![Pause { at: 1.5, ms: 30.0 }, Pause { at: 2.5, ms: 50.0 }], vec![]];
        let level = LevelResult::of(&log, &pauses, 1.0..2.0);
        // Four INVITEs of which two are done, one is late and one is lost; two BYEs of which one is done.
        assert!((level.done - 0.5).abs() < 1e-9 && (level.rate - 4.0).abs() < 1e-9);
        assert_eq!([level.invite.p50, level.invite.p99, level.bye.p99].map(|ms| ms as u64), [20, 4_100, 3]);
        assert!((level.paused - 0.015).abs() < 1e-9 && (level.pause_ms - 30.0).abs() < 1e-9);
        assert!((level.pauses - 0.5).abs() < 1e-9 && level.pause_deviation_ms.abs() < 1e-9);
        assert!((level.repeated - 1.0).abs() < 1e-9);
        assert_eq!(LevelResult::from_numbers(&level.numbers()), Some(level));
        assert_eq!(COLUMNS.split(',').count(), level.numbers().len());
    }
}
