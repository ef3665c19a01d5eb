//! Cost of a monitor to its server: goodput and set-up time with it and without (figures 7 and 8).
//!
//! One Kamailio, limited to a fraction of a processor, at rates up to more than it carries. The monitor is in its
//! control group, so its processor time is taken from the server.

use std::fmt::Write as _;
use std::fs;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use papers::report::Axis;

use super::{ElasticBench, QUOTA, kamailio};
use crate::generator::{LoadGenerator, RunPlan};
use crate::log::percentile_ms;
use crate::rig::{Rig, server};
use crate::study::{Alternative, Cell, Measure, Over, Picture, Rows, Study};

/// Calls a second: the rates of the paper, and beyond the 1,150 to 1,500 that a Kamailio with 15 % of a processor
/// carries.
const RATES: [u32; 11] = [100, 300, 500, 600, 700, 800, 900, 1_100, 1_300, 1_500, 1_800];
/// The server alone, and with its monitor.
const ALTERNATIVES: [(&str, bool); 2] = [("alone", false), ("with a monitor", true)];
/// Data of the figures `smace-7` and `smace-8`.
const FILE: &str = "crates/study/papers/src/figures/smace/overhead.csv";

/// Result of a rate.
pub(super) struct Overhead {
    /// Calls a second that ended while calls were offered. Calls still in a queue at the end do not count.
    goodput: f64,
    /// Time to ring of the calls that rang, milliseconds.
    p50_ms: f64,
    p95_ms: f64,
    /// Fraction of a processor that the monitor used.
    monitor: f64,
}

fn cell(rate: u32) -> String {
    format!("{rate} calls/s")
}

impl ElasticBench {
    fn watched(&self, rate: u32, is_monitored: bool) -> Result<Overhead> {
        let mut generator = LoadGenerator::new(1, 1)?;
        let mut rig = Rig::new(&self.paths)?;
        let (group, kamailio) = (rig.group(QUOTA)?, kamailio(&rig, 0, generator.answerers()[0])?);
        rig.start_in(group, "server", &kamailio)?;
        let mut monitor = Command::new(self.paths.sarabande()?);
        monitor.args(["monitor", "--interface", "lo", "--json", "--server", &server(0).to_string()]);
        let monitor = is_monitored.then(|| rig.start_in(group, "monitor", &monitor)).transpose()?;
        let monitor: Vec<usize> = monitor.into_iter().collect();
        rig.await_calls(&mut generator, &[server(0)])?;
        let length = Duration::from_secs(if self.quick { 1 } else { 4 });
        let (before, begin) = (rig.used(&monitor)?, Instant::now());
        let log = generator.run(&[server(0)], &RunPlan::at(f64::from(rate), length))?;
        let (used, took) = (rig.used(&monitor)? - before, begin.elapsed());
        ensure!(!is_monitored || used > 0.0, "the monitor does not run");
        let ended = log.calls.iter().filter_map(|call| Some(call.hung_up_ns? + call.ended_ns?));
        let in_time = ended.filter(|end_ns| u128::from(*end_ns) <= length.as_nanos()).count();
        let mut rang: Vec<u64> =
            log.calls.iter().filter_map(|call| call.rang_ns.or(call.set_up_ns)).collect();
        rang.sort_unstable();
        Ok(Overhead {
            goodput: in_time as f64 / length.as_secs_f64(),
            p50_ms: percentile_ms(&rang, 50),
            p95_ms: percentile_ms(&rang, 95),
            monitor: used / took.as_secs_f64(),
        })
    }

    /// Each rate with the monitor and without.
    pub(super) fn overhead(&self) -> Study<'_, Overhead> {
        let rates: &[u32] = if self.quick { &RATES[..2] } else { &RATES };
        let cell = |rate: &u32| {
            let rate = *rate;
            let alternatives = ALTERNATIVES.map(|(name, is_monitored)| {
                Alternative::new(name, move |_| Ok(vec![(0.0, self.watched(rate, is_monitored)?)]))
            });
            Cell { name: cell(rate), x: f64::from(rate), alternatives: alternatives.into() }
        };
        let measure = |column, digits, of| Measure { column, digits: Some(digits), of };
        let picture =
            |title, column, y| Picture { title, column, over: Over::Cells("offered load (calls/s)"), y };
        Study {
            cells: rates.iter().map(cell).collect(),
            measures: vec![
                measure("goodput", 1, |it: &Overhead| it.goodput),
                measure("p50_ms", 2, |it| it.p50_ms),
                measure("p95_ms", 2, |it| it.p95_ms),
                measure("monitor_share", 4, |it| it.monitor),
            ],
            pictures: vec![
                picture("Goodput", "goodput", Axis::linear("calls/s that end in time")),
                picture("Time to ring", "p95_ms", Axis::log("95th percentile (ms)")),
            ],
            ..Study::new(
                "overhead",
                "Cost of a monitor to its server",
                "A Kamailio with 15 % of a processor, of which its monitor takes a part.",
            )
        }
    }
}

/// Writes the data of the paper's figures.
pub(super) fn write(rows: &Rows) -> Result<()> {
    let mut text = String::from("round;rate;monitored;goodput;p50_ms;p95_ms;monitor_share\n");
    for row in &rows.all {
        let (rate, _) = row.cell.split_once(' ').context("a cell is a rate")?;
        let is_monitored = ALTERNATIVES.iter().any(|(name, is_it)| *is_it && row.alternative == *name);
        let [goodput, p50_ms, p95_ms, monitor] = row.values[..] else { continue };
        let (round, with) = (row.round, u8::from(is_monitored));
        writeln!(text, "{round};{rate};{with};{goodput:.2};{p50_ms:.3};{p95_ms:.3};{monitor:.4}")?;
    }
    fs::write(FILE, text).context(FILE)
}
