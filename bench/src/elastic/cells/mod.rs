//! Where a queue in front of the servers is worth having: three servers, of which one or two lose a part of their
//! processor, of their database or of their network card for a while, by every way to share calls out, at several loads.
//!
//! - [`Cell`]: the conditions of a run. [`schedule`]: all runs in their order.
//! - [`CellBench`]: measures what the servers carry, and makes a run.
//! - [`RunResult`]: what callers noticed of it, and its line in a file.
//! - [`Runs`]: all of them, and what follows for a queue.
//!
//! Callers repeat INVITE and BYE, answerers their 200, as RFC 3261 has it (§13.3.1.4, §17.1).

mod card;
mod cluster;
mod plan;
mod result;
mod verdict;

use std::collections::VecDeque;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use super::{Bench, SERVERS, balancer};
use crate::overload::load::{LoadGenerator, OfferedLoad};
use crate::overload::log::CallLog;
use crate::process::{Others, Stolen, processors};
use cluster::Cluster;

pub use plan::{Arrivals, Cell, Run, ServerKind, Way, schedule};
pub use result::{HEADER, NEVER_MS, RunResult, Timeline, line, parse};
pub use verdict::{Runs, Statement};

/// Servers.
const COUNT: usize = 3;
/// Sockets of the callers.
const CALLERS: usize = 4;
/// Calls in progress while the capacity is measured: a server has always something to do, and nobody waits so long as
/// to repeat anything.
const IN_PROGRESS: usize = 40 * COUNT;
/// Seconds of each step of the preparation that do not count, and that do.
const PREPARED: [f64; 2] = [2.0, 6.0];
/// The threshold of the queue is twice what 95 % of the calls take at this part of the capacity, undisturbed, as an
/// operator sets it by a usual day; and at least its default.
const USUAL: f64 = 0.7;
const THRESHOLD_MIN_MS: f64 = 10.0;

/// What was found out about the servers before the first run.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct ServerFigures {
    /// Calls a second that all of them carry.
    pub capacity: f64,
    /// The threshold of the queue, milliseconds.
    pub threshold_ms: f64,
}

/// What is measured, and how.
pub struct CellBench {
    /// Programs, and what each server may use.
    pub bench: Bench,
    /// The parts of a run.
    pub times: Timeline,
    /// When calls come.
    pub arrivals: Arrivals,
    /// Of the arrivals; each round has the next one.
    pub seed: u64,
}

/// Callers' sockets, and an answerer behind each server.
fn generator() -> Result<LoadGenerator> {
    Ok(LoadGenerator::repeating(CALLERS, COUNT)?)
}

impl CellBench {
    /// Measures what three of these servers carry, and how long 95 % of the calls take then.
    ///
    /// # Errors
    /// What could not be started.
    pub fn prepare(&self, server: ServerKind) -> Result<ServerFigures> {
        let mut generator = generator()?;
        let nothing = ServerFigures { capacity: f64::NAN, threshold_ms: f64::NAN };
        let cell = Cell { neighbours: 0, ..Cell::middle(server) };
        let cluster = Cluster::start(&self.bench, &cell, Way::Tlwl, &nothing, &mut generator)?;
        let [settle, counted] = PREPARED;
        let seconds = settle + counted;
        let closed = OfferedLoad::Closed { calls: IN_PROGRESS, seconds };
        let capacity = generator.play(&[balancer(5060)], closed)?.window(settle..seconds).goodput;
        ensure!(capacity > 10.0, "the servers take {capacity} calls/s, which is no capacity to measure with");
        let usual = self.load(USUAL * capacity, seconds, self.seed);
        let log = generator.play(&[balancer(5060)], usual)?;
        drop(cluster);
        let idle = Timeline { settle, before: 0.0, after: counted };
        let p95_ms = RunResult::of(&log, &Cell { seconds: 0, ..cell }, &idle).p95_ms;
        Ok(ServerFigures { capacity, threshold_ms: (2.0 * p95_ms).ceil().max(THRESHOLD_MIN_MS) })
    }

    fn load(&self, rate: f64, seconds: f64, seed: u64) -> OfferedLoad {
        OfferedLoad::Given(VecDeque::from(self.arrivals.times_ns(rate, seconds, seed)))
    }

    /// Starts all programs, plays the calls beside the contention, and says what came of them.
    ///
    /// # Errors
    /// What could not be started.
    pub fn run(&self, run: &Run, figures: &ServerFigures) -> Result<RunResult> {
        let Run { cell, round, way } = run;
        let mut generator = generator()?;
        let cluster = Cluster::start(&self.bench, cell, *way, figures, &mut generator)?;
        let rate = f64::from(cell.load) / 100.0 * figures.capacity;
        let contention = self.times.contention(cell);
        let (others, used) = (Others::watch()?, cluster.usage()?);
        let stolen = Stolen::watch([SERVERS, processors() - 1])?;
        let load = self.load(rate, self.times.total(cell), self.seed + u64::from(*round));
        let log = thread::scope(|scope| -> Result<CallLog> {
            let disturb = scope.spawn(|| -> Result<()> {
                thread::sleep(Duration::from_secs_f64(contention.start));
                cluster.disturb(true)?;
                thread::sleep(Duration::from_secs_f64(contention.end - contention.start));
                cluster.disturb(false)
            });
            let log = generator.play(&[balancer(5060)], load);
            disturb.join().expect("it does not panic").context("cannot disturb")?;
            log
        })?;
        let others = others.processors(cluster.usage()?.since(used))? + stolen.shares()?.iter().sum::<f64>();
        Ok(RunResult { others, ..RunResult::of(&log, cell, &self.times) })
    }
}
