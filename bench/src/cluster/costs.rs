//! What an INVITE, a BYE and a REGISTER cost a server: processor time, the kernel's included, by least squares over
//! runs with unlike mixes.
//!
//! Each round has, at two loads: nothing; registrations; calls that end at once; calls that begin and none that ends;
//! and calls that end and none that begins. Of each of these `used = idle * seconds + sum of cost * number`. An ACK is
//! part of its INVITE.

use std::collections::VecDeque;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use base::Rng;
use rand_distr::{Distribution as _, Exp1};
use sim::stats::Interval;

use super::{CALLERS, ClusterBench, Product, Servers, fit, server};
use crate::overload::callers::HoldingTime;
use crate::overload::load::{LoadGenerator, OfferedLoad};
use crate::overload::log::CallLog;

/// What the server may use of a processor: enough that it is never held up for long.
const QUOTA: f64 = 0.5;
/// Loads, in parts of what it carries so, and the most calls a second.
const LOADS: [f64; 2] = [0.25, 0.5];
const RATE_MAX: f64 = 2_000.0;
/// Seconds of a run, and of the silence after it in which late work is done.
const SECONDS: f64 = 4.0;
const SILENCE: f64 = 0.3;

/// One run, or half of one.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct CostRun {
    /// How long.
    pub seconds: f64,
    /// INVITE transactions, BYE transactions, REGISTER transactions.
    pub numbers: [f64; 3],
    /// Processor time, in seconds.
    pub used: f64,
}

/// What a server takes.
#[derive(Clone, PartialEq, Debug)]
pub struct Costs {
    /// Processors while it has nothing to do.
    pub idle: Interval,
    /// Microseconds of an INVITE, its ACK included.
    pub invite_us: Interval,
    /// Of a BYE.
    pub bye_us: Interval,
    /// Of a REGISTER, where it answers those.
    pub register_us: Option<Interval>,
    /// Memory of a call while it lasts, KiB: a least value where memory that was free before is used again.
    pub call_kib: f64,
    /// All runs.
    pub runs: Vec<CostRun>,
}

impl Costs {
    /// From the runs. `None`: they do not tell the kinds apart.
    pub fn of(runs: Vec<CostRun>, call_kib: f64) -> Option<Self> {
        let registers = runs.iter().any(|run| run.numbers[2] > 0.0);
        let columns = if registers { 3 } else { 2 };
        let row = |run: &CostRun| {
            let mut x = vec![run.seconds];
            x.extend(&run.numbers[..columns]);
            (x, run.used)
        };
        let found = fit(&runs.iter().map(row).collect::<Vec<_>>())?;
        let us = |it: Interval| Interval { mean: 1e6 * it.mean, half_width: 1e6 * it.half_width };
        Some(Self {
            idle: found[0],
            invite_us: us(found[1]),
            bye_us: us(found[2]),
            register_us: found.get(3).copied().map(us),
            call_kib,
            runs,
        })
    }

    /// What an INVITE costs in BYEs, as a policy weighs it. The interval is that of two values without correlation.
    pub fn ratio(&self) -> Interval {
        let Self { invite_us, bye_us, .. } = self;
        let mean = invite_us.mean / bye_us.mean;
        let relative = |of: &Interval| of.half_width / of.mean;
        Interval { mean, half_width: mean * relative(invite_us).hypot(relative(bye_us)) }
    }
}

/// Random times at this rate, in seconds.
fn times(rate: f64, seed: u64) -> Vec<f64> {
    let (mut rng, mut at) = (Rng::from_seed(seed), 0.0);
    let next = || {
        let gap: f64 = Exp1.sample(&mut rng);
        at += gap / rate;
        (at < SECONDS).then_some(at)
    };
    std::iter::from_fn(next).collect()
}

/// What the server has used since the start of a run.
#[derive(Clone, Copy)]
struct Look {
    at: f64,
    used: f64,
    resident: f64,
}

impl Look {
    fn run(self, numbers: [f64; 3]) -> CostRun {
        CostRun { seconds: self.at, numbers, used: self.used }
    }
}

/// What is measured with.
struct Meter {
    generator: LoadGenerator,
    servers: Servers,
}

impl Meter {
    /// Plays calls that start at these times and last so long, and registrations. Returns what was seen in the middle,
    /// if it is to be looked at then, and at the end.
    fn play(
        &mut self,
        calls: &[f64],
        holds: f64,
        registrations: &[f64],
        middle: Option<f64>,
    ) -> Result<(CallLog, Vec<Look>)> {
        self.generator.holding = HoldingTime { mean: holds, deviation: 0.0 };
        let due: VecDeque<u64> = calls.iter().map(|at| (at * 1e9) as u64).collect();
        let (epoch, before) = (Instant::now(), self.servers.used()?);
        let look = |servers: &Servers| {
            let (at, used) = (epoch.elapsed().as_secs_f64(), servers.used()? - before);
            anyhow::Ok(Look { at, used, resident: servers.resident()? as f64 })
        };
        let (log, mut looks) = thread::scope(|scope| {
            let servers = &self.servers;
            let watch = middle.map(|at| {
                scope.spawn(move || {
                    thread::sleep(Duration::from_secs_f64(at));
                    look(servers)
                })
            });
            let log = self.generator.play_with(&[server(0)], OfferedLoad::Given(due), registrations)?;
            let looks = watch.map(|watch| watch.join().expect("it does not panic")).into_iter();
            anyhow::Ok((log, looks.collect::<Result<Vec<Look>>>()?))
        })?;
        thread::sleep(Duration::from_secs_f64(SILENCE));
        looks.push(look(&self.servers)?);
        let repeated = log.repetitions_ns.len();
        ensure!(repeated * 50 < log.calls.len(), "{repeated} requests were repeated: the load is too high");
        Ok((log, looks))
    }

    /// All runs at this rate, and the memory of a call, in bytes.
    fn runs(&mut self, rate: f64, registers: bool, seed: u64) -> Result<(Vec<CostRun>, f64)> {
        let mut runs = Vec::new();
        let (at, before) = (Instant::now(), self.servers.used()?);
        thread::sleep(Duration::from_secs_f64(SECONDS / 2.0));
        let used = self.servers.used()? - before;
        runs.push(CostRun { seconds: at.elapsed().as_secs_f64(), numbers: [0.0; 3], used });
        if registers {
            let (log, looks) = self.play(&[], 0.0, &times(rate, seed), None)?;
            let answered = log.calls.iter().filter(|call| call.set_up_ns.is_some()).count();
            ensure!(answered == log.calls.len(), "{answered} of {} REGISTERs were answered", log.calls.len());
            runs.push(looks[0].run([0.0, 0.0, answered as f64]));
        }
        let both = |log: &CallLog| {
            let ended = log.calls.iter().filter(|call| call.ended_ns.is_some()).count();
            ensure!(ended == log.calls.len(), "{ended} of {} calls came to their end", log.calls.len());
            Ok(ended as f64)
        };
        let (log, looks) = self.play(&times(rate, seed + 1), 0.0, &[], None)?;
        let calls = both(&log)?;
        runs.push(looks[0].run([calls, calls, 0.0]));
        let before = looks[0];
        // All of them last until the first of them ends, after the last has begun.
        let holds = SECONDS + 2.0 * SILENCE;
        let (log, looks) = self.play(&times(rate, seed + 2), holds, &[], Some(SECONDS + SILENCE))?;
        let calls = both(&log)?;
        let [middle, end] = looks[..] else { unreachable!("two looks were asked for") };
        runs.push(middle.run([calls, 0.0, 0.0]));
        let rest = Look { at: end.at - middle.at, used: end.used - middle.used, ..end };
        runs.push(rest.run([0.0, calls, 0.0]));
        Ok((runs, (middle.resident - before.resident).max(0.0) / calls))
    }
}

impl ClusterBench {
    /// What transactions cost this server, from so many rounds.
    ///
    /// # Errors
    /// What could not be started, or did not answer.
    pub fn costs(&self, product: Product, rounds: u32) -> Result<Costs> {
        let mut generator = LoadGenerator::new(CALLERS, 0)?;
        let servers = Servers::start(self, product, vec![QUOTA], &mut generator)?;
        let closed = OfferedLoad::Closed { calls: 30, seconds: SECONDS };
        let capacity = generator.play(&[server(0)], closed)?.window(1.0..SECONDS).set_up;
        ensure!(capacity > 10.0, "{product:?} carries {capacity} calls/s, which is nothing to measure");
        let mut meter = Meter { generator, servers };
        let (mut runs, mut memory) = (Vec::new(), 0.0_f64);
        for round in 0..rounds {
            for (index, load) in LOADS.iter().enumerate() {
                let rate = (load * capacity).min(RATE_MAX * 2.0 * load);
                let seed = self.seed + 100 * u64::from(round) + 10 * index as u64;
                let (some, bytes) = meter
                    .runs(rate, product.registers(), seed)
                    .with_context(|| format!("{product:?} at {rate:.0} a second"))?;
                runs.extend(some);
                memory = memory.max(bytes);
            }
        }
        Costs::of(runs, memory / 1024.0).context("the runs do not tell INVITE and BYE apart")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn runs(registers: f64) -> Vec<CostRun> {
        let run = |at: u32| {
            let mixes =
                [[0.0; 3], [0.0, 0.0, 900.0], [800.0, 800.0, 0.0], [700.0, 0.0, 0.0], [0.0, 600.0, 0.0]];
            let mut numbers = mixes[at as usize % 5].map(|number| number * f64::from(at + 1));
            numbers[2] *= registers;
            let [invites, byes, registers] = numbers;
            let used = 0.04 + 350e-6 * invites + 200e-6 * byes + 120e-6 * registers;
            CostRun { seconds: 4.0, numbers, used }
        };
        (0..10).map(run).collect()
    }

    #[test]
    fn costs_that_were_put_in_come_out() {
        let costs = Costs::of(runs(1.0), 1.0).expect("mixes that differ");
        let register = costs.register_us.expect("there were some");
        for (found, put) in [(costs.invite_us, 350.0), (costs.bye_us, 200.0), (register, 120.0)] {
            assert!((found.mean - put).abs() < 1e-3, "{found} in place of {put}");
        }
        assert!((costs.idle.mean - 0.01).abs() < 1e-6 && (costs.ratio().mean - 1.75).abs() < 1e-6);
    }

    #[test]
    fn a_server_without_registrations_has_a_cost_of_calls() {
        let costs = Costs::of(runs(0.0), 1.0).expect("mixes that differ");
        assert!(costs.register_us.is_none() && (costs.invite_us.mean - 350.0).abs() < 1e-3);
        let same = vec![CostRun { seconds: 1.0, numbers: [5.0, 5.0, 0.0], used: 1.0 }; 4];
        assert!(Costs::of(same, 1.0).is_none(), "calls of one kind do not tell INVITE from BYE");
    }
}
