//! Servers that are started and stopped as calls come and go, beside as many that always run.
//!
//! Kamailio, each held to a part of a processor, started and stopped by the balancer itself. Calls rise and fall,
//! then a crowd comes at once. A call that the fixed servers carry and these do not is lost by scaling.

use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use papers::report::{Axis, Plot, PlotSeries, ReportTable, Style};

use super::seconds::Second;
use super::{Bench, SERVERS, balancer, start, until_calls_pass};
use crate::caller::RunOutcome;
use crate::driver::{Driver, RunPlan};
use crate::process::{Program, ask};
use crate::quota::Quota;
use crate::scratch::Scratch;

/// Servers that there may be.
const COUNT: usize = 4;
/// Calls a second of a server, as it is configured.
const CAPACITY: f64 = 150.0;
/// Calls a second: at least, and at most.
const RATES: [f64; 2] = [60.0, 440.0];
/// How often the servers are counted.
const LOOK: Duration = Duration::from_millis(250);

/// What calls come, a rate a second.
struct Story {
    name: &'static str,
    rates: fn() -> Vec<f64>,
}

/// From little to much and back, evenly; and at once.
const STORIES: [Story; 2] =
    [Story { name: "rise and fall", rates: rise_and_fall }, Story { name: "a crowd at once", rates: crowd }];

fn steady(rate: f64, seconds: usize) -> impl Iterator<Item = f64> {
    core::iter::repeat_n(rate, seconds)
}

fn rise_and_fall() -> Vec<f64> {
    let [least, most] = RATES;
    let slope =
        |seconds: u32| (1..=seconds).map(move |at| f64::from(at) / f64::from(seconds) * (most - least));
    let rise = slope(30).map(|above| least + above);
    let fall = slope(20).map(|below| most - below);
    steady(least, 5).chain(rise).chain(steady(most, 10)).chain(fall).chain(steady(least, 10)).collect()
}

fn crowd() -> Vec<f64> {
    let [least, most] = RATES;
    steady(least, 8).chain(steady(most, 17)).chain(steady(least, 15)).collect()
}

/// What a way came to, with one story.
struct Told {
    story: &'static str,
    way: &'static str,
    seconds: Vec<Second>,
    /// Servers that took a processor's time, as they were counted: seconds since the start, and how many.
    servers: Vec<(f64, usize)>,
}

/// What the stories came to.
pub struct Scaling {
    told: Vec<Told>,
}

/// Plays each story with all servers and with those that are needed.
///
/// # Errors
/// What could not be started.
pub fn run(bench: &Bench, say: &dyn Fn(&str)) -> Result<Scaling> {
    let mut told = Vec::new();
    for story in &STORIES {
        for is_scaled in [false, true] {
            let way = if is_scaled { "scaled" } else { "fixed" };
            say(&format!("scaling: {}, {way}", story.name));
            let mut driver = Driver::new(COUNT)?;
            driver.keeps_setups = true;
            let cluster = Cluster::start(bench, is_scaled, &mut driver)?;
            let (outcome, servers) = play(&mut driver, &(story.rates)(), is_scaled)?;
            drop(cluster);
            told.push(Told { story: story.name, way, seconds: Second::all(&outcome), servers });
        }
    }
    Ok(Scaling { told })
}

/// The balancer, and the servers where nobody else starts them.
struct Cluster {
    // The groups go last: their processes have to have ended.
    _balancer: Program,
    _servers: Vec<Program>,
    _quotas: Vec<Quota>,
    _scratch: Scratch,
}

/// The table by which the balancer starts servers with this script. Times are shortened, as the stories are.
fn scale(script: &Path) -> String {
    format!(
        "[pool.servers.scale]\ndriver = \"local\"\nstart = [\"sh\", \"{}\", \"{{index}}\"]\ncapacity = {CAPACITY}\nleast = 1\n\
         spare = 1\nsmoothing = \"1s\"\ncalm = \"5s\"\ndrain_gap = \"2s\"\nidle = \"2s\"\nstart_time = \"2s\"\nstep = \"250ms\"",
        script.display()
    )
}

/// A line of a script that becomes this command, on the servers' processor, where its argument is `index`.
fn start_line(index: usize, command: &Command) -> String {
    let words = core::iter::once(command.get_program()).chain(command.get_args());
    let words: Vec<_> = words.map(|word| format!("'{}'", word.display())).collect();
    format!("[ \"$1\" != {index} ] || exec taskset -c {SERVERS} {}\n", words.join(" "))
}

impl Cluster {
    fn start(bench: &Bench, is_scaled: bool, driver: &mut Driver) -> Result<Self> {
        let scratch = Scratch::new("elastic")?;
        let (mut servers, mut quotas, mut script) = (Vec::new(), Vec::new(), String::new());
        for (index, hop) in driver.servers().into_iter().enumerate() {
            let quota = bench.group(index)?;
            let mut kamailio = quota.command(&bench.kamailio(&scratch, index, hop)?);
            if is_scaled {
                script += &start_line(index, &kamailio);
            } else {
                servers.push(start(&scratch, &format!("server-{index}"), SERVERS, &mut kamailio)?);
            }
            quotas.push(quota);
        }
        let script = scratch.write("start.sh", &script)?;
        let pool = format!(
            "forward = \"transaction\"\nprobe = {{ interval = \"250ms\", timeout = \"250ms\" }}\n\
             queue = {{ capacity = {CAPACITY}, source = \"fixed\", order = \"first\", wait = \"4s\", delay = \"4s\" }}"
        );
        let tables = if is_scaled { scale(&script) } else { String::new() };
        let balance = bench.balance(&scratch, COUNT, &pool, &tables)?;
        until_calls_pass(driver, balancer(5060))?;
        Ok(Self { _balancer: balance, _servers: servers, _quotas: quotas, _scratch: scratch })
    }
}

/// Makes the calls and counts the servers meanwhile.
fn play(driver: &mut Driver, rates: &[f64], is_scaled: bool) -> Result<(RunOutcome, Vec<(f64, usize)>)> {
    let is_over = AtomicBool::new(false);
    let begun = Instant::now();
    thread::scope(|scope| {
        let count = scope.spawn(|| {
            let mut servers = Vec::new();
            while !is_over.load(Ordering::Relaxed) {
                let count = if is_scaled { running().unwrap_or(0) } else { COUNT };
                servers.push((begun.elapsed().as_secs_f64(), count));
                thread::sleep(LOOK);
            }
            servers
        });
        let outcome =
            driver.follow(&[balancer(5060); COUNT], &RunPlan::at(0.0, Duration::from_secs(1)), rates);
        is_over.store(true, Ordering::Relaxed);
        let servers = count.join().expect("it does not panic");
        Ok((outcome?, servers))
    })
}

/// Servers that run, or are about to.
fn running() -> Result<usize> {
    let shown = ask(balancer(8060), "/api/scale/servers")?;
    let servers = shown["servers"].as_array().context("a list of servers")?;
    let states = servers.iter().filter_map(|server| server["state"].as_str());
    Ok(states.filter(|state| ["starting", "ready", "draining", "stopping"].contains(state)).count())
}

impl Told {
    /// Seconds of servers within the story.
    fn server_seconds(&self) -> f64 {
        let end = self.seconds.len() as f64;
        let ends = self.servers.iter().skip(1).map(|(at, _)| *at).chain([end]);
        self.servers
            .iter()
            .zip(ends)
            .map(|((at, count), until)| (until.min(end) - at).max(0.0) * *count as f64)
            .sum()
    }
}

impl Scaling {
    /// Of each story and way.
    pub fn table(&self) -> ReportTable {
        let mut table = ReportTable::new([
            "calls",
            "servers",
            "calls made",
            "lost",
            "p50 ms",
            "p95 ms",
            "longest ms",
            "server seconds",
        ]);
        for told in &self.told {
            let all = Second::together(&told.seconds);
            let [p50, p95, longest] = [50, 95, 100].map(|percent| format!("{:.1}", all.percentile(percent)));
            let counts = [all.started, all.lost()].map(|count| count.to_string());
            let [started, lost] = counts;
            let names = [told.story, told.way].map(str::to_owned);
            let seconds = format!("{:.0}", told.server_seconds());
            table.rows.push(names.into_iter().chain([started, lost, p50, p95, longest, seconds]).collect());
        }
        table
    }

    /// Calls, what is lost of them, and servers, of each story.
    pub fn plots(&self) -> Vec<Plot> {
        let of = |story: &Story| {
            let mut plot = Plot::new(
                format!("Servers: {}", story.name),
                Axis::linear("time (s)"),
                Axis::linear("servers, or hundred calls/s"),
            );
            let told = || self.told.iter().filter(|told| told.story == story.name);
            if let Some(told) = told().next() {
                let calls =
                    (0..).map(f64::from).zip(told.seconds.iter().map(|second| second.started as f64 / 100.0));
                plot.series(PlotSeries::new("calls", Style::Step, calls));
            }
            for told in told() {
                let counts = told.servers.iter().map(|(at, count)| (*at, *count as f64));
                plot.series(PlotSeries::new(format!("servers, {}", told.way), Style::Step, counts));
                let lost =
                    (0..).map(f64::from).zip(told.seconds.iter().map(|second| second.lost() as f64 / 100.0));
                plot.series(PlotSeries::new(format!("lost, {}", told.way), Style::Step, lost));
            }
            plot
        };
        STORIES.iter().map(of).collect()
    }

    /// All seconds.
    pub fn csv(&self) -> String {
        let mut csv = String::from("calls,servers,second,started,answered,p95_ms,running\n");
        for told in &self.told {
            for (at, second) in told.seconds.iter().enumerate() {
                let (started, answered, p95) = (second.started, second.setups.len(), second.percentile(95));
                let running = told
                    .servers
                    .iter()
                    .rfind(|(since, _)| *since <= at as f64 + 0.5)
                    .map_or(0, |(_, count)| *count);
                writeln!(csv, "{},{},{at},{started},{answered},{p95:.3},{running}", told.story, told.way)
                    .expect("memory takes all");
            }
        }
        csv
    }
}
