//! The Cloud paper's case, live: three servers of which one has to share its processor for a while.
//!
//! Three Kamailio, each held to a part of a processor, behind a balancer of each kind; calls at a constant rate. A busy loop in the
//! control group of the first one takes half of its part, and goes away again. What callers notice of it, second by second.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use clap::Parser;
use sarabande_bench::caller::{CallSetup, RunOutcome};
use sarabande_bench::driver::{Driver, RunPlan};
use sarabande_bench::process::{Program, processors, tie_to};
use sarabande_bench::quota::Quota;

/// Measures what callers notice of a server whose processor somebody else takes.
#[derive(Parser)]
struct Arguments {
    /// The program under test; by default the one beside this benchmark.
    #[arg(long)]
    sarabande: Option<PathBuf>,
    /// Kamailio's program.
    #[arg(long, default_value = "/usr/sbin/kamailio")]
    kamailio: PathBuf,
    /// What each server may use, in percent of a processor.
    #[arg(long, default_value_t = 15.0)]
    quota: f64,
    /// Calls a second.
    #[arg(long, default_value_t = 400.0)]
    rate: f64,
    /// Seconds before the competitor comes, while it is there, and after it has gone.
    #[arg(long, value_delimiter = ',', default_values_t = [15, 20, 25])]
    seconds: Vec<u64>,
    /// Busy loops beside the first server.
    #[arg(long, default_value_t = 1)]
    competitors: usize,
    /// How the balancer chooses: lines of its pool, with a name each, such as `tlwl=policy = "tlwl"`.
    #[arg(long = "with", default_values = [
        "round-robin=policy = \"round-robin\"",
        "tlwl=policy = \"tlwl\"",
        "queue=queue = { capacity = 300, threshold = \"10ms\" }",
    ])]
    ways: Vec<String>,
    /// Writes the seconds to this file.
    #[arg(long)]
    csv: Option<PathBuf>,
}

/// Kamailio as a proxy, with one next hop.
const KAMAILIO: &str = include_str!("../../kamailio/proxy.cfg");
const SERVERS: usize = 3;

fn address(host: usize) -> SocketAddr {
    SocketAddr::new(IpAddr::V4(Ipv4Addr::new(127, 78, 0, host as u8)), 5060)
}

/// The servers and the balancer before them.
struct Cluster {
    // The groups go last: their processes have to have ended.
    _balancer: Program,
    _servers: Vec<Program>,
    quotas: Vec<Quota>,
    scratch: PathBuf,
}

impl Drop for Cluster {
    fn drop(&mut self) {
        // Left behind, it would do no harm.
        let _ = fs::remove_dir_all(&self.scratch);
    }
}

fn run(command: &mut Command, log: &Path) -> Result<Program> {
    let log = File::create(log)?;
    command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
    Program::start(command).with_context(|| format!("cannot start {command:?}"))
}

impl Cluster {
    fn start(arguments: &Arguments, pool: &str, driver: &mut Driver) -> Result<Self> {
        let scratch = std::env::temp_dir().join(format!("sarabande-contention-{}", std::process::id()));
        let (mut servers, mut quotas) = (Vec::new(), Vec::new());
        tie_to(0)?;
        for (index, hop) in driver.servers().into_iter().enumerate() {
            let folder = scratch.join(index.to_string());
            fs::create_dir_all(&folder)?;
            let config = folder.join("kamailio.cfg");
            fs::write(&config, KAMAILIO)?;
            let name = format!("sarabande-contention-{}-{index}", std::process::id());
            let quota = Quota::new(&name, arguments.quota / 100.0)?;
            let mut kamailio = Command::new(&arguments.kamailio);
            kamailio.args(["-DD", "-E", "-x", "fm", "-m", "256", "-M", "16", "-n", "1"]);
            kamailio.arg("-f").arg(config).arg("-Y").arg(&folder);
            kamailio.arg("-l").arg(format!("udp:{}", address(index + 1)));
            kamailio.arg("-A").arg(format!("HOP=\"sip:{hop}\""));
            servers.push(run(&mut quota.command(&kamailio), &folder.join("log"))?);
            quotas.push(quota);
        }
        let members: Vec<_> = (1..=SERVERS).map(|host| format!("\"{}\"", address(host))).collect();
        let file = scratch.join("sarabande.toml");
        let text = format!(
            "[listen]\nudp = [\"{}\"]\nthreads = 1\n\n[pool.servers]\nmembers = [{}]\n{pool}\n\
             probe = {{ enabled = false }}\nslow_start = \"0s\"\n\n[admin]\nlisten = \"\"\n\n[log]\nlevel = \"warn\"\n",
            address(9),
            members.join(", "),
        );
        fs::write(&file, text)?;
        let beside = || std::env::current_exe().map(|program| program.with_file_name("sarabande"));
        let program = arguments.sarabande.clone().map_or_else(beside, Ok)?;
        tie_to(processors() - 1)?;
        let balancer = run(Command::new(program).arg("run").arg(file), &scratch.join("log"))?;
        let cluster = Self { _balancer: balancer, _servers: servers, quotas, scratch };
        for _ in 0..100 {
            if driver.run(&[address(9); SERVERS], &plan(30.0, Duration::from_millis(200)))?.completed >= 6 {
                return Ok(cluster);
            }
        }
        ensure!(false, "no call got through");
        Ok(cluster)
    }

    /// Plays the calls; a competitor comes and goes meanwhile.
    fn play(&self, arguments: &Arguments, driver: &mut Driver) -> Result<RunOutcome> {
        let [before, during, after] = arguments.seconds[..] else {
            anyhow::bail!("expected three numbers of seconds: before, with and after the competitor");
        };
        let mut busy = Command::new("sh");
        busy.args(["-c", "while :; do :; done"]);
        thread::scope(|scope| {
            let competitor = scope.spawn(move || -> Result<()> {
                thread::sleep(Duration::from_secs(before));
                tie_to(0)?;
                let start = |_| Ok(Program::start(&mut self.quotas[0].command(&busy))?);
                let busy = (0..arguments.competitors).map(start).collect::<Result<Vec<_>>>()?;
                thread::sleep(Duration::from_secs(during));
                drop(busy);
                Ok(())
            });
            let whole = Duration::from_secs(before + during + after);
            let outcome = driver.run(&[address(9); SERVERS], &plan(arguments.rate, whole))?;
            competitor.join().expect("it does not panic")?;
            Ok(outcome)
        })
    }
}

fn plan(rate: f64, duration: Duration) -> RunPlan {
    RunPlan { rate, duration, hold: Duration::ZERO, burst: Duration::from_millis(1), spin: false }
}

/// What the calls that were due in a second came to.
#[derive(Default)]
struct Second {
    started: usize,
    setups: Vec<CallSetup>,
}

impl Second {
    fn percentile(&self, share: usize) -> Option<f64> {
        let mut took: Vec<u64> = self.setups.iter().map(|setup| setup.took_ns).collect();
        took.sort_unstable();
        let at = (took.len() * share).div_ceil(100).checked_sub(1)?;
        took.get(at).map(|took| *took as f64 / 1e6)
    }

    /// Part of the answered calls that the first server had.
    fn share(&self) -> f64 {
        let of_first = self.setups.iter().filter(|setup| setup.server == 0).count();
        of_first as f64 / self.setups.len().max(1) as f64
    }
}

/// The calls by the second in which they were due.
fn seconds(outcome: &RunOutcome, rate: f64, count: u64) -> Vec<Second> {
    let mut seconds: Vec<Second> = (0..count).map(|_| Second::default()).collect();
    let last = seconds.len() - 1;
    let of = |call: usize| ((call as f64 / rate) as usize).min(last);
    for call in 0..outcome.started as usize {
        seconds[of(call)].started += 1;
    }
    for setup in &outcome.setups {
        seconds[of(setup.call)].setups.push(*setup);
    }
    seconds
}

/// All of these as one.
fn together<'a>(seconds: impl Iterator<Item = &'a Second>) -> Second {
    seconds.fold(Second::default(), |mut sum, second| {
        sum.started += second.started;
        sum.setups.extend(&second.setups);
        sum
    })
}

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    let whole: u64 = arguments.seconds.iter().sum();
    let mut csv = String::from("with,second,calls,answered,p50_ms,p95_ms,share_of_first\n");
    println!(
        "{:14} {:10} {:>7} {:>7} {:>9} {:>9} {:>7}",
        "with", "when", "calls", "lost", "p50 ms", "p95 ms", "first"
    );
    for way in &arguments.ways {
        let (name, pool) = way.split_once('=').context("expected NAME=LINE of the pool")?;
        let mut driver = Driver::new(SERVERS)?;
        driver.keeps_setups = true;
        let cluster = Cluster::start(&arguments, pool, &mut driver)?;
        let outcome = cluster.play(&arguments, &mut driver)?;
        drop(cluster);
        let seconds = seconds(&outcome, arguments.rate, whole);
        for (second, at) in seconds.iter().enumerate() {
            let [p50, p95] = [50, 95].map(|share| at.percentile(share).unwrap_or(f64::NAN));
            let (calls, answered) = (at.started, at.setups.len());
            let share = at.share();
            writeln!(csv, "{name},{second},{calls},{answered},{p50:.3},{p95:.3},{share:.3}")?;
        }
        let [before, during, _] = [0, 1, 2].map(|part| arguments.seconds[part] as usize);
        let parts = [
            ("before", 2..before),
            ("at once", before..before + 5),
            ("later", before + 5..before + during),
            ("relieved", before + during..before + during + 5),
            ("after", before + during + 5..whole as usize),
        ];
        for (when, range) in parts {
            let part = together(seconds[range].iter());
            let [p50, p95] = [50, 95].map(|share| part.percentile(share).unwrap_or(f64::NAN));
            let lost = part.started - part.setups.len();
            let share = part.share() * 100.0;
            println!("{name:14} {when:10} {:7} {lost:7} {p50:9.2} {p95:9.2} {share:6.1}%", part.started);
        }
    }
    if let Some(file) = &arguments.csv {
        fs::write(file, csv).with_context(|| file.display().to_string())?;
    }
    Ok(())
}
