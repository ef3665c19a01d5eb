//! Overload control on running processes that may use a small part of a processor each: callers that repeat what is
//! not answered offer them up to ten times what they can take (Overload paper, sections IV to VII).
//!
//! - [`members`]: servers that know nothing of overload, behind a balancer that limits what it sends them.
//! - [`chain`]: a balancer whose neighbours hold back what it asks them to.
//! - [`local`]: a balancer that protects itself.
//! - [`kamailio`]: Kamailio as it comes, with its own modules, and behind a balancer.
//! - [`registrations`]: telephones that all register after an outage, beside calls.
//!
//! Capacity is measured first, in each part, with the same programs: by a number of calls that is always in progress.
//! Offered load is given as a multiple of it.

pub(crate) mod callers;
pub mod chain;
mod cluster;
pub mod kamailio;
pub(crate) mod load;
pub mod local;
pub mod log;
pub mod members;
pub mod registrations;
pub mod result;
mod simulated;

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use anyhow::{Result, ensure};
use load::{Level, LoadGenerator, OfferedLoad};
use log::{CallLog, WindowResult};

/// The processor of all programs. Callers and answerers are on the last one.
const PROGRAMS: usize = 0;
/// Sockets of the callers.
const CALLERS: usize = 4;
/// Calls in progress while capacity is measured: enough for a period of the quota, and no queue that anybody repeats
/// a request for.
const IN_PROGRESS: usize = 40;

/// What is measured, and for how long.
pub struct OverloadBench {
    /// The program under test.
    pub sarabande: PathBuf,
    /// Kamailio's program.
    pub kamailio: PathBuf,
    /// SIPp's program.
    pub sipp: PathBuf,
    /// What each limited program may use of a processor.
    pub quota: f64,
    /// Seconds of each load that do not count.
    pub settle: f64,
    /// Seconds of each load that count.
    pub counted: f64,
    /// Loads above this multiple of the capacity are left out.
    pub load_max: f64,
}

/// The address of the program of this number, from 1.
fn address(number: u8) -> SocketAddr {
    SocketAddr::new(IpAddr::V4(Ipv4Addr::new(127, 79, 0, number)), 5060)
}

impl OverloadBench {
    /// Calls a second that these can take.
    fn capacity(&self, generator: &mut LoadGenerator, targets: &[SocketAddr]) -> Result<f64> {
        generator.await_calls(targets)?;
        let seconds = self.settle + self.counted;
        let load = OfferedLoad::Closed { calls: IN_PROGRESS, seconds };
        let found = generator.play(targets, load)?.window(self.settle..seconds).goodput;
        ensure!(found > 10.0, "{targets:?} takes {found} calls/s, which is no capacity to measure with");
        Ok(found)
    }

    /// Offers these loads, multiples of the capacity, one after the other; what each came to.
    fn sweep(
        &self,
        generator: &mut LoadGenerator,
        targets: &[SocketAddr],
        capacity: f64,
        loads: &[f64],
    ) -> Result<Vec<(f64, WindowResult)>> {
        generator.await_calls(targets)?;
        let loads: Vec<f64> = loads.iter().copied().filter(|load| *load <= self.load_max).collect();
        let seconds = self.settle + self.counted;
        let levels = loads.iter().map(|load| Level { rate: load * capacity, seconds }).collect();
        let log = generator.play(targets, OfferedLoad::Open(levels))?;
        let window = |index: usize| {
            let from = index as f64 * seconds;
            log.window(from + self.settle..from + seconds)
        };
        let points: Vec<_> = loads.iter().enumerate().map(|(index, load)| (*load, window(index))).collect();
        for (load, seen) in &points {
            let late_ms = log.late_ns_max / 1_000_000;
            eprintln!("  {load:4} times: {}; callers late by {late_ms} ms at most", seen.line());
        }
        Ok(points)
    }
}

/// Offers these multiples of the capacity, each for so many seconds.
fn steps(
    generator: &mut LoadGenerator,
    targets: &[SocketAddr],
    capacity: f64,
    loads: &[(f64, f64)],
) -> Result<CallLog> {
    let levels = loads.iter().map(|(load, seconds)| Level { rate: load * capacity, seconds: *seconds });
    generator.play(targets, OfferedLoad::Open(levels.collect()))
}
