//! What a monitor costs the server that it stands beside: goodput and time to ring with it and without (figures 7 and
//! 8).
//!
//! One Kamailio, held to a part of a processor, at rising rates. The monitor is in its control group, so what it
//! takes the server does not have.

use std::fmt::Write as _;
use std::process::Command;
use std::time::Duration;

use anyhow::Result;
use papers::report::ReportTable;

use super::{Bench, SERVERS, server, start, until_calls_pass};
use crate::driver::{Driver, RunPlan};
use crate::process::{Program, Usage};
use crate::quota::Quota;
use crate::scratch::Scratch;

/// Calls a second.
const RATES: [u32; 9] = [100, 200, 300, 400, 500, 600, 700, 800, 900];
/// At each of them.
const LENGTH: Duration = Duration::from_secs(4);

/// What came of a rate.
#[derive(Clone, Copy)]
struct Step {
    rate: u32,
    is_monitored: bool,
    /// Calls a second that were carried to their end.
    goodput: f64,
    /// Time to ring, milliseconds.
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

/// Plays each rate with the monitor and without, in turns.
///
/// # Errors
/// What could not be started.
pub fn run(bench: &Bench, say: &dyn Fn(&str)) -> Result<Overhead> {
    let mut steps = Vec::new();
    for rate in RATES {
        for is_monitored in [false, true] {
            say(&format!("overhead: {rate} calls/s{}", if is_monitored { " with a monitor" } else { "" }));
            let mut driver = Driver::new(1)?;
            driver.keeps_setups = true;
            let host = Host::start(bench, is_monitored, &mut driver)?;
            let before = host.monitor_usage()?;
            let outcome = driver.run(&[server(0)], &RunPlan::at(f64::from(rate), LENGTH))?;
            let used = host.monitor_usage()?.since(before);
            let all = super::seconds::Second::together(&super::seconds::Second::all(&outcome));
            steps.push(Step {
                rate,
                is_monitored,
                goodput: outcome.completed as f64 / LENGTH.as_secs_f64(),
                p50_ms: all.percentile(50),
                p95_ms: all.percentile(95),
                monitor: used.total_ns as f64 / 1e9 / LENGTH.as_secs_f64(),
            });
        }
    }
    Ok(Overhead { steps })
}

impl Overhead {
    /// Of each rate, with and without.
    pub fn table(&self) -> ReportTable {
        let mut table = ReportTable::new([
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
            table.rows.push(vec![step.rate.to_string(), with.to_owned(), goodput, p50, p95, part]);
        }
        table
    }

    /// As the figures `smace-7` and `smace-8` read it.
    pub fn csv(&self) -> String {
        let mut csv = String::from("rate;monitored;goodput;p50_ms;p95_ms;monitor_share\n");
        for Step { rate, is_monitored, goodput, p50_ms, p95_ms, monitor } in self.steps.iter().copied() {
            let with = u8::from(is_monitored);
            writeln!(csv, "{rate};{with};{goodput:.2};{p50_ms:.3};{p95_ms:.3};{monitor:.4}")
                .expect("memory takes all");
        }
        csv
    }
}
