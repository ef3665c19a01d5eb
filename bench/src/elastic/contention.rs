//! Three servers, one of which has to share its processor for a while.
//!
//! Three Kamailio, each held to a part of a processor, behind a balancer of each kind; calls at a constant rate. A
//! busy loop in the control group of the first one takes half of its part, and goes away again. What callers notice
//! of it, second by second.

use std::fmt::Write as _;
use std::process::Command;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};
use papers::report::{Axis, Plot, PlotSeries, ReportTable, Style};

use super::seconds::Second;
use super::{Bench, SERVERS, balancer, server, start, until_calls_pass};
use crate::caller::RunOutcome;
use crate::driver::{Driver, RunPlan};
use crate::process::{Program, tie_to};
use crate::quota::Quota;
use crate::scratch::Scratch;

/// Servers.
const COUNT: usize = 3;
/// Calls a second.
const RATE: f64 = 400.0;
/// Seconds before the busy loop, beside it, and after it.
const SECONDS: [usize; 3] = [12, 15, 20];
/// What a server can take at most, by the monitors beside it.
const MAXIMUM: &str = "300";
/// What 95 % of the calls may take.
const THRESHOLD: &str = "10ms";
const THRESHOLD_MS: f64 = 10.0;

/// A way to balance.
pub struct Way {
    name: &'static str,
    /// Lines of the pool.
    pool: &'static str,
    /// Whether a monitor stands beside each server.
    has_monitors: bool,
}

/// The ways that are compared.
pub const WAYS: [Way; 5] = [
    Way { name: "round robin", pool: "policy = \"round-robin\"", has_monitors: false },
    Way { name: "tlwl", pool: "policy = \"tlwl\"", has_monitors: false },
    Way {
        name: "queue, most room",
        pool: "queue = { capacity = 300, source = \"responses\", threshold = \"10ms\", order = \"most-room\" }",
        has_monitors: false,
    },
    Way { name: "queue", pool: "queue = { capacity = 300, threshold = \"10ms\" }", has_monitors: false },
    Way {
        name: "queue and monitors",
        pool: "queue = { capacity = 300, source = \"monitor\" }",
        has_monitors: true,
    },
];

/// The servers, and what stands before and beside them.
struct Cluster {
    // The groups go last: their processes have to have ended.
    _monitors: Vec<Program>,
    _balancer: Program,
    _servers: Vec<Program>,
    quotas: Vec<Quota>,
    _scratch: Scratch,
}

impl Cluster {
    fn start(bench: &Bench, way: &Way, driver: &mut Driver) -> Result<Self> {
        let scratch = Scratch::new("elastic")?;
        let (mut servers, mut quotas, mut monitors) = (Vec::new(), Vec::new(), Vec::new());
        for (index, hop) in driver.servers().into_iter().enumerate() {
            let quota = bench.group(index)?;
            let kamailio = bench.kamailio(&scratch, index, hop)?;
            servers.push(start(
                &scratch,
                &format!("server-{index}"),
                SERVERS,
                &mut quota.command(&kamailio),
            )?);
            quotas.push(quota);
        }
        // Not by way of the balancer: a call that a server did not answer yet would be load of it for 32 s.
        for index in 0..COUNT {
            until_calls_pass(driver, server(index))?;
        }
        let key = scratch.write("capacity.key", "000102030405060708090a0b0c0d0e0f")?;
        let tables = format!("[capacity]\nlisten = \"{}\"\nkey_file = \"{}\"", balancer(8061), key.display());
        let tables = if way.has_monitors { &tables } else { "" };
        let balance = bench.balance(
            &scratch,
            COUNT,
            &format!("{}\nforward = \"stateless\"\nprobe = {{ enabled = false }}", way.pool),
            tables,
        )?;
        for (index, quota) in quotas.iter().enumerate().filter(|_| way.has_monitors) {
            let mut monitor = Command::new(&bench.sarabande);
            monitor.args([
                "monitor",
                "--interface",
                "lo",
                "--threshold",
                THRESHOLD,
                "--maximum",
                MAXIMUM,
                "--json",
            ]);
            monitor.args(["--server", &server(index).to_string(), "--report", &balancer(8061).to_string()]);
            monitor.arg("--key-file").arg(&key);
            // Where the server is, at its cost.
            let monitor = start(&scratch, &format!("monitor-{index}"), SERVERS, &mut quota.command(&monitor));
            monitors.push(monitor?);
        }
        until_calls_pass(driver, balancer(5060))?;
        Ok(Self { _monitors: monitors, _balancer: balance, _servers: servers, quotas, _scratch: scratch })
    }

    /// Plays the calls; a busy loop comes and goes meanwhile.
    fn play(&self, driver: &mut Driver) -> Result<RunOutcome> {
        let [before, beside, after] = SECONDS.map(|seconds| Duration::from_secs(seconds as u64));
        let mut busy = Command::new("sh");
        busy.args(["-c", "while :; do :; done"]);
        thread::scope(|scope| {
            let competitor = scope.spawn(move || -> Result<()> {
                thread::sleep(before);
                tie_to(SERVERS)?;
                let busy = Program::start(&mut self.quotas[0].command(&busy)).context("cannot start sh")?;
                thread::sleep(beside);
                drop(busy);
                Ok(())
            });
            let outcome =
                driver.run(&[balancer(5060); COUNT], &RunPlan::at(RATE, before + beside + after))?;
            competitor.join().expect("it does not panic")?;
            Ok(outcome)
        })
    }
}

/// What the ways came to.
pub struct Contention {
    ways: Vec<(&'static str, Vec<Second>)>,
}

/// Plays the calls by each way.
///
/// # Errors
/// What could not be started.
pub fn run(bench: &Bench, say: &dyn Fn(&str)) -> Result<Contention> {
    let mut ways = Vec::new();
    for way in &WAYS {
        say(&format!("contention: {}", way.name));
        let mut driver = Driver::new(COUNT)?;
        driver.keeps_setups = true;
        let cluster = Cluster::start(bench, way, &mut driver)?;
        ways.push((way.name, Second::all(&cluster.play(&mut driver)?)));
    }
    Ok(Contention { ways })
}

impl Contention {
    /// Parts of the time: the first seconds are left out, in which the queues find out what servers can take.
    fn parts() -> [(&'static str, core::ops::Range<usize>); 5] {
        let [before, beside, after] = SECONDS;
        let gone = before + beside;
        [
            ("before", 2..before),
            ("at once", before..before + 5),
            ("later", before + 5..gone),
            ("relieved", gone..gone + 5),
            ("after", gone + 5..gone + after),
        ]
    }

    /// Of each way and part of the time.
    pub fn table(&self) -> ReportTable {
        let mut table = ReportTable::new([
            "balancer",
            "when",
            "calls",
            "lost",
            "p50 ms",
            "p95 ms",
            "over 10 ms",
            "of the first server",
        ]);
        for (name, seconds) in &self.ways {
            for (when, range) in Self::parts() {
                let part = Second::together(seconds.get(range).unwrap_or_default());
                let [p50, p95] = [50, 95].map(|percent| format!("{:.1}", part.percentile(percent)));
                let (calls, lost) = (part.started.to_string(), part.lost().to_string());
                table.rows.push(vec![
                    (*name).to_owned(),
                    when.to_owned(),
                    calls,
                    lost,
                    p50,
                    p95,
                    format!("{:.1} %", part.later_than(THRESHOLD_MS)),
                    format!("{:.0} %", part.share(0)),
                ]);
            }
        }
        table
    }

    /// The time to ring, and the part of the disturbed server.
    pub fn plots(&self) -> Vec<Plot> {
        let curves = |title: &str, axis: Axis, of: fn(&Second) -> f64| {
            let mut plot = Plot::new(title, Axis::linear("time (s)"), axis);
            plot.mark("a busy loop beside a server", SECONDS[0] as f64);
            plot.mark("and gone", (SECONDS[0] + SECONDS[1]) as f64);
            for (name, seconds) in &self.ways {
                // Of the last three seconds: single ones hide the curve.
                let points = (0..seconds.len()).map(|at| {
                    let near = Second::together(&seconds[at.saturating_sub(2)..=at]);
                    (at as f64, of(&near))
                });
                plot.series(PlotSeries::new(*name, Style::Line, points));
            }
            plot
        };
        vec![
            curves("Time to ring", Axis::log("95th percentile (ms)"), |second| second.percentile(95)),
            curves(
                "Calls of the disturbed server",
                Axis::linear("part of the calls (%)").from_to(0.0, 50.0),
                |second| second.share(0),
            ),
        ]
    }

    /// All seconds.
    pub fn csv(&self) -> String {
        let mut csv = String::from("with,second,calls,answered,p50_ms,p95_ms,percent_of_first\n");
        for (name, seconds) in &self.ways {
            for (at, second) in seconds.iter().enumerate() {
                let [p50, p95] = [50, 95].map(|percent| second.percentile(percent));
                let (calls, answered, share) = (second.started, second.setups.len(), second.share(0));
                writeln!(csv, "{name},{at},{calls},{answered},{p50:.3},{p95:.3},{share:.1}")
                    .expect("memory takes all");
            }
        }
        csv
    }
}
