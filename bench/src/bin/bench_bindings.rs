//! Measures the costs of a store of bindings: memory, disk, look-ups a second and restart time, embedded and with
//! Redis.

use anyhow::{Context, Result, ensure};
use base::{Rng, Transport, UnixTime};
use clap::{Parser, ValueEnum};
use location::{Aor, Binding, BindingsRecord, MemoryLimits, Replaced, Source, StoreReply, StoreRequest};
use rand::Rng as _;
use sarabande_bench::process::{Program, resident};
use sarabande_bench::report::table;
use sarabande_bench::scratch::Scratch;
use std::fs;
use std::hint::black_box;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};
use storage::{Embedded, Redis, RedisSettings};

/// The allocator of the measured program.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Measures a store with so many bindings, each of another user.
#[derive(Parser)]
struct Arguments {
    /// Bindings.
    #[arg(long, default_value_t = 1_000_000)]
    bindings: u64,
    /// Look-ups that are timed.
    #[arg(long, default_value_t = 500_000)]
    lookups: usize,
    /// Redis' program.
    #[arg(long, default_value = "redis-server")]
    redis: PathBuf,
    /// Runs only this step with `--file`, in a separate process.
    #[arg(long, requires = "file", hide = true)]
    step: Option<FileStep>,
    #[arg(long, hide = true)]
    file: Option<PathBuf>,
}

/// A step with a file.
#[derive(Clone, Copy, ValueEnum)]
enum FileStep {
    /// Fills it with bindings.
    Fill,
    /// Opens it and looks bindings up.
    Open,
}

const NOW: UnixTime = UnixTime::from_secs(1_800_000_000);
/// Concurrent replacements or look-ups.
const UNDER_WAY: u64 = 1_000;

fn aor(user: u64) -> Aor {
    Aor::of(format!("sip:+4930{user:09}@example.com").as_bytes()).expect("a URI")
}

/// A binding of a phone behind a NAT.
fn record(user: u64) -> BindingsRecord {
    let local = SocketAddr::from((Ipv4Addr::new(192, 0, 2, 1), 5060));
    let peer = SocketAddr::from((Ipv4Addr::from(0x0a00_0000 | user as u32), 40_000));
    let binding = Binding {
        uri: format!("sip:+4930{user:09}@{peer};ob").into_bytes().into(),
        params: format!(";+sip.instance=\"<urn:uuid:00000000-0000-1000-8000-{user:012x}>\"")
            .into_bytes()
            .into(),
        q: 1_000,
        updated: NOW,
        expires: 3_600,
        call_id: format!("{user:032x}").into_bytes().into(),
        cseq: 1,
        path: Box::default(),
        source: Some(Source { transport: Transport::Udp, peer, local, connection: None }),
    };
    BindingsRecord::of(&[binding]).expect("a record")
}

/// Calls `submit` for each of these users, with at most [`UNDER_WAY`] pending, and waits for all results.
fn all<T>(users: impl Iterator<Item = u64>, mut submit: impl FnMut(u64, Sender<T>)) -> Result<Vec<T>> {
    let (sender, done): (Sender<T>, Receiver<T>) = channel();
    let mut results = Vec::new();
    let mut under_way = 0;
    for user in users {
        if under_way == UNDER_WAY {
            results.push(done.recv()?);
            under_way -= 1;
        }
        submit(user, sender.clone());
        under_way += 1;
    }
    drop(sender);
    results.extend(done);
    Ok(results)
}

fn random_users(arguments: &Arguments) -> Vec<u64> {
    let mut rng = Rng::from_seed(1);
    (0..arguments.lookups).map(|_| rng.random_range(0..arguments.bindings)).collect()
}

fn open(path: &Path) -> Result<Embedded> {
    let limits = MemoryLimits { bindings: usize::MAX, bytes: usize::MAX };
    Embedded::open(path, limits, NOW).map_err(|error| anyhow::anyhow!("{error}"))
}

fn fill(arguments: &Arguments, path: &Path) -> Result<()> {
    let store = open(path)?;
    let start = Instant::now();
    let submit = |user, done: Sender<_>| {
        let reply = Box::new(move |replaced| drop(done.send(replaced)));
        store.submit(NOW, aor(user), None, Some(record(user)), reply);
    };
    let replaced = all(0..arguments.bindings, submit)?;
    ensure!(replaced.iter().all(|replaced| *replaced == Ok(Replaced::Done)), "a binding was not stored");
    println!(
        "registrations a second, {UNDER_WAY} at a time | {:.0}",
        rate(arguments.bindings as usize, start)
    );
    Ok(())
}

fn ask(arguments: &Arguments, path: &Path) -> Result<()> {
    let (before, start) = (resident()?, Instant::now());
    let store = open(path)?;
    ensure!(store.get(&aor(0)).is_some(), "a stored binding was not found");
    println!("restart: open and first look-up, s | {:.2}", start.elapsed().as_secs_f64());
    let bytes = (resident()? - before) as f64 / arguments.bindings as f64;
    println!("bytes of memory a binding | {bytes:.0}");
    let disk = fs::metadata(path)?.len() as f64 / arguments.bindings as f64;
    println!("bytes on disk a binding | {disk:.0}");
    let keys: Vec<Aor> = random_users(arguments).into_iter().map(aor).collect();
    let start = Instant::now();
    let found = keys.iter().filter(|key| black_box(store.get(key)).is_some()).count();
    println!("look-ups a second, random, one thread | {:.0}", rate(found, start));
    ensure!(found == keys.len(), "a stored binding was not found");
    Ok(())
}

fn rate(count: usize, start: Instant) -> f64 {
    count as f64 / start.elapsed().as_secs_f64()
}

/// Runs a step in a new process, so that its memory is not affected by earlier work. Returns its output.
fn step(arguments: &Arguments, step: &str, path: &Path) -> Result<String> {
    let output = Command::new(std::env::current_exe()?)
        .args(["--step", step, "--bindings", &arguments.bindings.to_string()])
        .args(["--lookups", &arguments.lookups.to_string(), "--file"])
        .arg(path)
        .stderr(Stdio::inherit())
        .output()?;
    ensure!(output.status.success(), "{step} has failed");
    Ok(String::from_utf8(output.stdout)?)
}

fn with_redis(arguments: &Arguments, scratch: &Path) -> Result<Vec<[String; 2]>> {
    let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port();
    let mut command = Command::new(&arguments.redis);
    command.args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", "", "--dir"]).arg(scratch);
    let server = Program::start(command.stdout(Stdio::null())).context("redis-server does not start")?;
    let redis = Redis::start(&RedisSettings::new(&format!("redis://127.0.0.1:{port}")))?;
    while !redis.status().is_up() {
        std::thread::sleep(Duration::from_millis(20));
    }
    let before = server.resident()?;
    let start = Instant::now();
    let replaced = all(0..arguments.bindings, |user, done| {
        let ask = StoreRequest::Replace { aor: aor(user), expected: None, new: Some(record(user)) };
        redis.submit(ask, Box::new(move |reply| drop(done.send(reply))));
    })?;
    let is_done = |reply: &StoreReply| matches!(reply, StoreReply::Replaced(Ok(Replaced::Done)));
    ensure!(replaced.iter().all(is_done), "a binding was not stored");
    let stored = rate(replaced.len(), start);
    let bytes = (server.resident()? - before) as f64 / arguments.bindings as f64;
    let users = random_users(arguments);
    let look_up = |users: &[u64], at_once: usize| -> Result<f64> {
        let start = Instant::now();
        for some in users.chunks(at_once) {
            let found = all(some.iter().copied(), |user, done| {
                redis.submit(StoreRequest::Read(aor(user)), Box::new(move |reply| drop(done.send(reply))));
            })?;
            ensure!(
                found.iter().all(|reply| matches!(reply, StoreReply::Read(Ok(Some(_))))),
                "a stored binding was not found"
            );
        }
        Ok(rate(users.len(), start))
    };
    let alone = look_up(&users[..users.len() / 20], 1)?;
    let together = look_up(&users, users.len())?;
    let row = |label: &str, value: f64| [label.to_owned(), format!("{value:.0}")];
    Ok(vec![
        row(&format!("registrations a second, {UNDER_WAY} at a time"), stored),
        row("bytes of memory a binding", bytes),
        row("look-ups a second, one after the other", alone),
        row(&format!("look-ups a second, {UNDER_WAY} at a time"), together),
    ])
}

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    if let (Some(step), Some(file)) = (arguments.step, &arguments.file) {
        return match step {
            FileStep::Fill => fill(&arguments, file),
            FileStep::Open => ask(&arguments, file),
        };
    }
    let scratch = Scratch::new("bindings")?;
    let file = scratch.path().join("bindings");
    let mut table = table(["store", "what", ""]);
    let printed = step(&arguments, "fill", &file)? + &step(&arguments, "open", &file)?;
    for (label, value) in printed.lines().filter_map(|line| line.split_once(" | ")) {
        table.add_row(["a file", label, value]);
    }
    let bytes = aor(0).key().len() + record(0).as_bytes().len();
    table.add_row(["both", "bytes of key and record", &bytes.to_string()]);
    for [label, value] in with_redis(&arguments, scratch.path())? {
        table.add_row(["Redis", &label, &value]);
    }
    println!("{table}");
    Ok(())
}
