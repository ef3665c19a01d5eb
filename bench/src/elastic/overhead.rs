//! What a monitor costs the server that it stands beside: goodput and time to ring with it and without (figures 7 and
//! 8).
//!
//! One Kamailio, held to a part of a processor, at rates up to more than it carries. The monitor is in its control
//! group, so what it takes the server does not have. All rates are measured in each of several rounds, with the
//! monitor and without right after each other: so what changes on the machine meanwhile changes both.

use std::fmt::Write as _;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use papers::report::ReportTable;

use super::seconds::Second;
use super::{Bench, SERVERS, server, start, until_calls_pass};
use crate::driver::{Driver, RunPlan};
use crate::process::{Program, Usage};
use crate::quota::Quota;
use crate::scratch::Scratch;

/// Calls a second: those of the paper, and past the 1,150 to 1,500 that a Kamailio with 15 % of a processor carries.
const RATES: [u32; 11] = [100, 300, 500, 600, 700, 800, 900, 1_100, 1_300, 1_500, 1_800];

/// How much is measured.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Extent {
    /// How often each rate is measured.
    pub rounds: u32,
    /// For how long each time.
    pub length: Duration,
}

/// What came of a rate.
#[derive(Clone, Copy)]
struct Step {
    round: u32,
    rate: u32,
    is_monitored: bool,
    /// Calls a second that came to their end while calls were offered: what is in a queue at the end does not count.
    goodput: f64,
    /// Time to ring of the calls that did, milliseconds.
    p50_ms: f64,
    p95_ms: f64,
    /// What the monitor took of a processor.
    monitor: f64,
}

/// What the rates came to.
pub struct Overhead {
    steps: Vec<Step>,
}

/// A server alone, or with its monitor.
struct Host {
    // The group goes last: its processes have to have ended.
    monitor: Option<Program>,
    _server: Program,
    _quota: Quota,
    _scratch: Scratch,
}

impl Host {
    fn start(bench: &Bench, is_monitored: bool, driver: &mut Driver) -> Result<Self> {
        let scratch = Scratch::new("elastic")?;
        let quota = bench.group(0)?;
        let kamailio = bench.kamailio(&scratch, 0, driver.servers()[0])?;
        let kamailio = start(&scratch, "server", SERVERS, &mut quota.command(&kamailio))?;
        let mut monitor = Command::new(&bench.sarabande);
        monitor.args(["monitor", "--interface", "lo", "--json", "--server", &server(0).to_string()]);
        let monitor = is_monitored.then(|| start(&scratch, "monitor", SERVERS, &mut quota.command(&monitor)));
        let monitor = monitor.transpose()?;
        until_calls_pass(driver, server(0))?;
        Ok(Self { monitor, _server: kamailio, _quota: quota, _scratch: scratch })
    }

    fn monitor_usage(&self) -> Result<Usage> {
        Ok(self.monitor.as_ref().map_or(Ok(Usage::default()), Program::usage)?)
    }
}

/// Whether a server has its monitor, in the order of this round: what is measured later is not always the same.
fn order(round: u32) -> [bool; 2] {
    let is_last = round.is_multiple_of(2);
    [!is_last, is_last]
}

impl Step {
    fn measure(
        bench: &Bench,
        (round, rate, is_monitored): (u32, u32, bool),
        length: Duration,
    ) -> Result<Self> {
        let mut driver = Driver::new(1)?;
        driver.keeps_setups = true;
        let host = Host::start(bench, is_monitored, &mut driver)?;
        let (before, begin) = (host.monitor_usage()?, Instant::now());
        let outcome = driver.run(&[server(0)], &RunPlan::at(f64::from(rate), length))?;
        let (used, took) = (host.monitor_usage()?.since(before), begin.elapsed());
        ensure!(!is_monitored || used.total_ns > 0, "the monitor does not run");
        let in_time = outcome.completed_ns.partition_point(|end_ns| u128::from(*end_ns) <= length.as_nanos());
        let all = Second::together(&Second::all(&outcome));
        Ok(Self {
            round,
            rate,
            is_monitored,
            goodput: in_time as f64 / length.as_secs_f64(),
            p50_ms: all.percentile(50),
            p95_ms: all.percentile(95),
            monitor: used.total_ns as f64 / 1e9 / took.as_secs_f64(),
        })
    }
}

/// Plays each rate with the monitor and without, in turns, in each round.
///
/// # Errors
/// What could not be started.
pub fn run(bench: &Bench, extent: Extent, say: &dyn Fn(&str)) -> Result<Overhead> {
    let mut steps = Vec::new();
    for round in 0..extent.rounds {
        for (rate, is_monitored) in RATES.into_iter().flat_map(|rate| order(round).map(|with| (rate, with))) {
            let monitor = if is_monitored { " with a monitor" } else { "" };
            say(&format!("overhead: round {}, {rate} calls/s{monitor}", round + 1));
            steps.push(Step::measure(bench, (round, rate, is_monitored), extent.length)?);
        }
    }
    Ok(Overhead { steps })
}

impl Overhead {
    /// Of each round and rate, with and without.
    pub fn table(&self) -> ReportTable {
        let mut table = ReportTable::new([
            "round",
            "calls/s",
            "monitor",
            "goodput calls/s",
            "p50 ms",
            "p95 ms",
            "monitor's part of a processor",
        ]);
        for step in &self.steps {
            let with = if step.is_monitored { "yes" } else { "no" };
            let [goodput, p50, p95] =
                [step.goodput, step.p50_ms, step.p95_ms].map(|number| format!("{number:.1}"));
            let part = format!("{:.2} %", 100.0 * step.monitor);
            let [round, rate] = [step.round + 1, step.rate].map(|number| number.to_string());
            table.rows.push(vec![round, rate, with.to_owned(), goodput, p50, p95, part]);
        }
        table
    }

    /// As the figures `smace-7` and `smace-8` read it.
    pub fn csv(&self) -> String {
        let mut csv = String::from("round;rate;monitored;goodput;p50_ms;p95_ms;monitor_share\n");
        for Step { round, rate, is_monitored, goodput, p50_ms, p95_ms, monitor } in self.steps.iter().copied()
        {
            let with = u8::from(is_monitored);
            writeln!(csv, "{round};{rate};{with};{goodput:.2};{p50_ms:.3};{p95_ms:.3};{monitor:.4}")
                .expect("memory takes all");
        }
        csv
    }
}
