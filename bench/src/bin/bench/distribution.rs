//! State distribution, live: how many calls a second pass proxies in series, each held to the same part of a
//! processor.
//!
//! All with transactions; one of them with and the others without, which gives the prices, from which the linear
//! program says what the series can carry; and shared out by themselves.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::process::Command;
use std::thread::sleep;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use clap::Args;
use plan::Node;
use sarabande_bench::driver::{Driver, RunPlan};
use sarabande_bench::process::{Program, ask, beside, processors, tie_to};
use sarabande_bench::quota::Quota;
use sarabande_bench::report::median;
use sarabande_bench::scratch::Scratch;
use serde_json::Value;

/// Measures the goodput of proxies in series, which share out who keeps the transactions of a call.
#[derive(Args)]
pub(crate) struct Arguments {
    /// The program under test; by default the one beside this benchmark.
    #[arg(long)]
    sarabande: Option<PathBuf>,
    /// What each proxy may use, in percent of a processor; at least 10, a millisecond of each period.
    #[arg(long, default_value_t = 12.0)]
    quota: f64,
    /// Proxies in series.
    #[arg(long, value_delimiter = ',', default_values_t = [2, 3])]
    lengths: Vec<usize>,
    /// Seconds at each rate.
    #[arg(long, default_value_t = 4)]
    seconds: u64,
    /// By how much the rate rises each time, in percent.
    #[arg(long, default_value_t = 2.0)]
    rise: f64,
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
const FAILED_MAX: f64 = 0.01;

/// Part of its goodput at which the prices of an arrangement are taken: with less to do, a call costs more, since
/// fewer messages are read at once.
const CLOSE: f64 = 0.95;

/// Proxies in series, on addresses of their own: who sends from there is trusted.
struct Series {
    proxies: Vec<(Program, Quota)>,
    admin: Vec<SocketAddr>,
    first: SocketAddr,
    _scratch: Scratch,
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
        "[listen]\nudp = [\"{}\"]\nthreads = 1\nreceive_buffer = \"4MiB\"\n\n\
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
        let scratch = Scratch::new("series")?;
        let program = arguments.sarabande.clone().map_or_else(|| beside("sarabande"), Ok)?;
        let (mut proxies, mut admin) = (Vec::new(), Vec::new());
        // The kernel hands a quota out to processors in pieces; where a thread has moved away, what is left of one is
        // lost.
        tie_to(0)?;
        for (index, &way) in ways.iter().enumerate() {
            let next = if index + 1 < ways.len() { address(index + 1, 5060) } else { driver.servers()[0] };
            let name = format!("{index}/sarabande.toml");
            let file = scratch.write(&name, &file(index, way, next, &arguments.keys))?;
            let group = format!("sarabande-series-{}-{index}", std::process::id());
            let quota = Quota::new(&group, arguments.quota / 100.0)?;
            let command = quota.command(Command::new(&program).arg("run").arg(file));
            proxies.push((scratch.start(&format!("{index}/log"), &mut { command })?, quota));
            admin.push(address(index, 8060));
        }
        tie_to(processors() - 1)?;
        let series = Self { proxies, admin, first: address(0, 5060), _scratch: scratch };
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
        let share = |&admin: &SocketAddr| {
            ask(admin, "/api/proxy").map_or(Value::Null, |mut all| all["distribution"].take())
        };
        self.admin.iter().map(share).collect()
    }
}

fn plan(rate: f64, seconds: u64) -> RunPlan {
    // Whoever sends to a thread that sleeps on another processor pays for waking it, the more the less there is to
    // do: utilisation would say nothing of how much more a proxy can carry.
    RunPlan { spin: true, ..RunPlan::at(rate, Duration::from_secs(seconds)) }
}

/// What an arrangement does.
struct Measured {
    /// Most calls a second that pass with hardly a loss.
    goodput: f64,
    /// Processor time a call of each proxy, close to that rate.
    prices: Vec<Duration>,
    /// Who has kept how many of them.
    shares: Vec<Value>,
}

/// Lets the rate rise step by step through these multiples of `guess`.
fn measure(
    arguments: &Arguments,
    ways: &[Way],
    (guess, least, most): (f64, f64, f64),
    driver: &mut Driver,
) -> Result<Measured> {
    let series = Series::start(arguments, ways, driver)?;
    let rise = 1.0 + arguments.rise / 100.0;
    let rates = std::iter::successors(Some(guess * least), |rate| Some(rate * rise));
    let rates: Vec<f64> = rates.take_while(|rate| *rate <= guess * most).collect();
    let failed = driver.climb(&[series.first], &plan(0.0, arguments.seconds), &rates, FAILED_MAX)?;
    let too_much = failed.windows(2).position(|two| two.iter().all(|failed| *failed > FAILED_MAX));
    let carried =
        too_much.context("no rate was too much")?.checked_sub(1).context("every rate was too much")?;
    let goodput = rates[carried];
    let parts: Vec<String> = failed.iter().map(|failed| format!("{:.1}", failed * 100.0)).collect();
    eprintln!("  {ways:?}: {goodput:.0} calls/s; % failed from {:.0} on: {}", rates[0], parts.join(" "));
    let shares = series.shares();
    // What was lost is repeated for a while.
    sleep(Duration::from_secs(10));
    let used = || series.proxies.iter().map(|(program, _)| program.usage()).collect::<io::Result<Vec<_>>>();
    let before = used()?;
    let outcome = driver.run(&[series.first], &plan(goodput * CLOSE, arguments.seconds))?;
    let calls = u32::try_from(outcome.started).context("too many calls")?;
    let prices = used()?
        .into_iter()
        .zip(before)
        .map(|(after, before)| Duration::from_nanos(after.since(before).total_ns) / calls)
        .collect();
    eprintln!("    {prices:?} a call, {} of {calls} failed", outcome.failed());
    Ok(Measured { goodput, prices, shares })
}

/// What the linear program carries: each proxy has its prices from where it stands in the series. `with[i]` is the
/// arrangement where proxy i alone keeps transactions.
fn planned(arguments: &Arguments, with: &[Measured]) -> Result<f64> {
    let rate = |price: Duration| arguments.quota / 100.0 / price.as_secs_f64();
    let node = |place: usize| {
        let others = with.iter().enumerate().filter(|(other, _)| *other != place);
        let without: Vec<f64> = others.map(|(_, other)| rate(other.prices[place])).collect();
        let stateless = without.iter().sum::<f64>() / without.len() as f64;
        Node::new("", stateless, rate(with[place].prices[place]).min(stateless))
    };
    let nodes: Vec<Node> = (0..with.len()).map(node).collect();
    plan::series(&nodes).context("a series has a plan")
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
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
        let one = measure(arguments, &[Way::Stateful], (guess, 0.6, 4.0), &mut driver)?.goodput;
        note("one, with transactions, calls/s".to_owned(), one);
        for &length in &arguments.lengths {
            ensure!(length > 1, "a series has two proxies at least");
            let mut measure = |ways: &[Way]| measure(arguments, ways, (one, 0.6, 4.0), &mut driver);
            let every = measure(&vec![Way::Stateful; length])?.goodput;
            let one_with = |place: usize| {
                let mut ways = vec![Way::Stateless; length];
                ways[place] = Way::Stateful;
                measure(&ways)
            };
            let with = (0..length).map(one_with).collect::<Result<Vec<_>>>()?;
            let by_hand = with.iter().map(|it| it.goodput).fold(0.0, f64::max);
            let planned = planned(arguments, &with)?;
            let Measured { goodput: shared, shares, .. } = measure(&vec![Way::Distributed; length])?;
            note(format!("{length}: plan, of one"), planned / one);
            note(format!("{length}: all with, of one"), every / one);
            for (place, it) in (1..).zip(&with) {
                note(format!("{length}: number {place} with, of one"), it.goodput / one);
            }
            note(format!("{length}: shared out, of one"), shared / one);
            note(format!("{length}: shared out, of plan"), shared / planned);
            note(format!("{length}: shared out, of all with"), shared / every);
            note(format!("{length}: shared out, of the best by hand"), shared / by_hand);
            println!("  {}", serde_json::to_string(&shares)?);
        }
    }
    println!("medians of {}", arguments.rounds);
    for (name, values) in &all {
        println!("{name:32} {:8.3}", median(values));
    }
    Ok(())
}
