//! State distribution, live: how many calls a second pass proxies in series, each held to the same part of a processor.
//!
//! One proxy alone, with transactions and without, gives the prices; from these the linear program says what a series can carry.
//! Then the series: all with transactions; the first with and the others without; and shared out by themselves.

use std::fs;
use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use clap::Parser;
use plan::Node;
use sarabande_bench::caller::RunOutcome;
use sarabande_bench::driver::{Driver, RunPlan};
use sarabande_bench::process::{Program, processors, tie_to};
use sarabande_bench::quota::Quota;
use sarabande_bench::report::median;
use serde_json::Value;

/// Measures the goodput of proxies in series, which share out who keeps the transactions of a call.
#[derive(Parser)]
struct Arguments {
    /// The program under test; by default the one beside this benchmark.
    #[arg(long)]
    sarabande: Option<PathBuf>,
    /// What each proxy may use, in percent of a processor; at least 10, a millisecond of each period.
    #[arg(long, default_value_t = 12.0)]
    quota: f64,
    /// Proxies in series.
    #[arg(long, value_delimiter = ',', default_values_t = [2, 3])]
    lengths: Vec<usize>,
    /// Seconds measured at each rate.
    #[arg(long, default_value_t = 6)]
    seconds: u64,
    /// Seconds at each rate before that: the shares settle.
    #[arg(long, default_value_t = 6)]
    settle: u64,
    /// Rates tried for each arrangement; each halves what is not known of it.
    #[arg(long, default_value_t = 7)]
    steps: usize,
    /// Times that all is repeated.
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// Further lines of `[distribution]`, such as `state_cost = "40%"`.
    #[arg(long, default_value = "")]
    keys: String,
}

/// How a proxy forwards.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Way {
    Stateful,
    Stateless,
    Distributed,
}

impl Way {
    fn name(self) -> &'static str {
        match self {
            Self::Stateful => "transaction",
            Self::Stateless => "stateless",
            Self::Distributed => "distributed",
        }
    }
}

/// Most calls that may fail at a rate that counts as carried.
const LOST_MAX: f64 = 0.01;

/// Proxies in series, on addresses of their own: who sends from there is trusted.
struct Series {
    proxies: Vec<(Program, Quota)>,
    admin: Vec<SocketAddr>,
    first: SocketAddr,
    scratch: PathBuf,
}

fn address(index: usize, port: u16) -> SocketAddr {
    SocketAddr::new(IpAddr::V4(Ipv4Addr::new(127, 77, 0, index as u8 + 1)), port)
}

/// The file of one proxy.
fn file(index: usize, way: Way, next: SocketAddr, keys: &str) -> String {
    // Who passes all that comes to somebody who shares nothing must not invite others to leave calls to him.
    let sharing = match way {
        Way::Distributed => format!("[distribution]\nneighbours = [\"127.77.0.0/24\"]\n{keys}"),
        Way::Stateful | Way::Stateless => String::new(),
    };
    format!(
        "[listen]\nudp = [\"{}\"]\nthreads = 1\nreceive_buffer = \"512KiB\"\n\n\
         [proxy]\nnext = [\"{next}\"]\nforward = \"{}\"\n\n\
         {sharing}\n\n\
         [token]\nkey = \"{:032x}\"\n\n[admin]\nlisten = \"{}\"\n\n[log]\nlevel = \"warn\"\n",
        address(index, 5060),
        way.name(),
        index + 1,
        address(index, 8060),
    )
}

impl Series {
    fn start(arguments: &Arguments, ways: &[Way], driver: &mut Driver) -> Result<Self> {
        let scratch = std::env::temp_dir().join(format!("sarabande-series-{}", std::process::id()));
        let beside = || std::env::current_exe().map(|program| program.with_file_name("sarabande"));
        let program = arguments.sarabande.clone().map_or_else(beside, Ok)?;
        let mut series = Self { proxies: Vec::new(), admin: Vec::new(), first: address(0, 5060), scratch };
        // The kernel hands a quota out to processors in pieces; where a thread has moved away, what is left of one is lost.
        tie_to(0)?;
        for (index, &way) in ways.iter().enumerate() {
            let next = if index + 1 < ways.len() { address(index + 1, 5060) } else { driver.servers()[0] };
            let folder = series.scratch.join(index.to_string());
            fs::create_dir_all(&folder)?;
            fs::write(folder.join("sarabande.toml"), file(index, way, next, &arguments.keys))?;
            series.proxies.push(start(&program, &folder, index, arguments.quota / 100.0)?);
            series.admin.push(address(index, 8060));
        }
        tie_to(processors() - 1)?;
        for _ in 0..100 {
            let one = RunPlan { duration: Duration::from_millis(100), ..plan(10.0, 0) };
            if driver.run(&[series.first], &one)?.completed > 0 {
                return Ok(series);
            }
        }
        ensure!(false, "no call got through");
        Ok(series)
    }

    /// What `GET /api/proxy` of each says of the distribution.
    fn shares(&self) -> Vec<Value> {
        let share =
            |&admin: &SocketAddr| figures(admin).map_or(Value::Null, |mut all| all["distribution"].take());
        self.admin.iter().map(share).collect()
    }
}

impl Drop for Series {
    fn drop(&mut self) {
        // Left behind, it would do no harm.
        let _ = fs::remove_dir_all(&self.scratch);
    }
}

fn start(program: &Path, folder: &Path, index: usize, processors: f64) -> Result<(Program, Quota)> {
    let quota = Quota::new(&format!("sarabande-series-{}-{index}", std::process::id()), processors)?;
    let mut run = Command::new(program);
    run.arg("run").arg(folder.join("sarabande.toml"));
    let mut command = quota.command(&run);
    let log = fs::File::create(folder.join("log"))?;
    command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
    let program = Program::start(&mut command).with_context(|| format!("cannot start {command:?}"))?;
    Ok((program, quota))
}

fn figures(admin: SocketAddr) -> Result<Value> {
    let mut stream = TcpStream::connect(admin)?;
    write!(stream, "GET /api/proxy HTTP/1.1\r\nHost: {admin}\r\nConnection: close\r\n\r\n")?;
    let mut reply = String::new();
    stream.read_to_string(&mut reply)?;
    let (_, body) = reply.split_once("\r\n\r\n").context("no body")?;
    Ok(serde_json::from_str(body)?)
}

fn plan(rate: f64, seconds: u64) -> RunPlan {
    RunPlan {
        rate,
        duration: Duration::from_secs(seconds),
        hold: Duration::ZERO,
        burst: Duration::from_millis(1),
        spin: false,
    }
}

/// Most calls a second that pass with hardly a loss, from `guess` on; and who kept how many of them in the last run.
fn goodput(
    arguments: &Arguments,
    ways: &[Way],
    guess: f64,
    driver: &mut Driver,
) -> Result<(f64, Vec<Value>)> {
    let series = Series::start(arguments, ways, driver)?;
    let is_carried = |driver: &mut Driver, rate: f64| -> Result<bool> {
        // In one go: with a pause between, the shares would settle for nothing.
        let (all, settle) = (arguments.settle + arguments.seconds, Duration::from_secs(arguments.settle));
        let outcome: RunOutcome = driver.run_settled(&[series.first], &plan(rate, all), settle)?;
        let is_carried = outcome.failed() as f64 <= LOST_MAX * outcome.started as f64;
        eprintln!(
            "  {rate:7.0} calls/s: {} of {} lost, {:.0} ms late",
            outcome.failed(),
            outcome.started,
            outcome.late_ns_max as f64 / 1e6
        );
        // What waits in buffers and quotas is not the next rate's.
        sleep(Duration::from_secs(2));
        Ok(is_carried)
    };
    let (mut low, mut high) = (guess * 0.5, guess * 1.5);
    while is_carried(driver, high)? {
        (low, high) = (high, high * 1.5);
    }
    for _ in 0..arguments.steps {
        let middle = f64::midpoint(low, high);
        if is_carried(driver, middle)? {
            low = middle;
        } else {
            high = middle;
        }
    }
    Ok((low, series.shares()))
}

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    let mut driver = Driver::new(1)?;
    // Calls a second of a whole processor, roughly.
    let guess = arguments.quota * 100.0;
    let mut all: Vec<(String, Vec<f64>)> = Vec::new();
    let mut note = |name: String, value: f64| {
        println!("{name:32} {value:8.3}");
        match all.iter_mut().find(|(other, _)| *other == name) {
            Some((_, values)) => values.push(value),
            None => all.push((name, vec![value])),
        }
    };
    for round in 1..=arguments.rounds {
        println!("round {round}");
        let (stateful, _) = goodput(&arguments, &[Way::Stateful], guess, &mut driver)?;
        let (stateless, _) = goodput(&arguments, &[Way::Stateless], stateful, &mut driver)?;
        note("one, with transactions, calls/s".to_owned(), stateful);
        note("one, without, as part".to_owned(), stateless / stateful);
        for &length in &arguments.lengths {
            let nodes = vec![Node::new("", stateless, stateful); length];
            let planned = plan::series(&nodes).context("a series has a plan")?;
            let mut fixed = vec![Way::Stateless; length];
            fixed[0] = Way::Stateful;
            let (every, _) = goodput(&arguments, &vec![Way::Stateful; length], stateful, &mut driver)?;
            let (halves, _) = goodput(&arguments, &fixed, stateful, &mut driver)?;
            let (shared, shares) =
                goodput(&arguments, &vec![Way::Distributed; length], stateful, &mut driver)?;
            note(format!("{length}: plan, of one"), planned / stateful);
            note(format!("{length}: all with, of one"), every / stateful);
            note(format!("{length}: first with, of one"), halves / stateful);
            note(format!("{length}: shared out, of one"), shared / stateful);
            note(format!("{length}: shared out, of plan"), shared / planned);
            note(format!("{length}: shared out, of first with"), shared / halves);
            println!("  {}", serde_json::to_string(&shares)?);
        }
    }
    println!("medians of {}", arguments.rounds);
    for (name, values) in &all {
        println!("{name:32} {:8.3}", median(values));
    }
    Ok(())
}
