//! Events a second of the simulator's engine and of SimPy, on the same M/M/1 queue.
//!
//! `bench_sim --python PYTHON` wants an interpreter that has the package of `bench/simpy/requirements.txt`. Rounds
//! alternate; each counts the two events of a job (arrival, end of service) and processor time, not wall time.

use anyhow::{Context, Result, ensure};
use base::{Instant, Rng};
use clap::Parser;
use core::time::Duration;
use rand_distr::{Distribution, Exp1};
use serde_json::Value;
use sim::engine::{Cpu, CpuConfig, EventQueue, Finish, Priority, Spread, Ticket, Trace};
use std::path::PathBuf;
use std::process::Command;

#[derive(Parser)]
#[command(about = "Measures the simulator's engine against SimPy on one M/M/1 queue")]
struct Args {
    /// Python interpreter with SimPy; without, only the engine is measured.
    #[arg(long)]
    python: Option<PathBuf>,
    /// Jobs of a round of the engine; SimPy gets a twentieth, at least 1000.
    #[arg(long, default_value_t = 10_000_000, value_parser = clap::value_parser!(u64).range(1_000..))]
    jobs: u64,
    /// Load of the queue, above 0 and below 1.
    #[arg(long, default_value_t = 0.8)]
    load: f64,
    /// Rounds; the median counts.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..))]
    rounds: u64,
}

/// What one round has shown.
struct Round {
    events_per_second: f64,
    mean_wait: f64,
}

#[derive(Clone, Copy)]
enum Event {
    Arrival,
    End(Ticket),
}

/// The queue on the engine, with all that a model would do: priorities, statistics, and the trace always on.
fn engine(jobs: u64, load: f64, seed: u64) -> Result<Round> {
    let root = Rng::from_seed(seed);
    let mut arrivals = root.fork("arrivals");
    let config = CpuConfig { buffer: usize::MAX, spread: Spread::Exponential, ..CpuConfig::default() };
    let mut cpu = Cpu::new(config, root.fork("service"));
    let (mut queue, mut trace, mut came) = (EventQueue::default(), Trace::default(), 0);
    let start = processor_time()?;
    queue.at(Instant::ZERO, Event::Arrival);
    while let Some((now, event)) = queue.pop() {
        match event {
            Event::Arrival => {
                trace.event(now, 0, came as u32);
                cpu.enqueue(now, Priority::P2, came);
                came += 1;
                if came < jobs {
                    let unit: f64 = Exp1.sample(&mut arrivals);
                    queue.after(Duration::from_nanos((1e9 / load * unit) as u64), Event::Arrival);
                }
            }
            Event::End(ticket) => {
                if let Finish::Done(served) = cpu.finish(now, ticket) {
                    trace.event(now, 1, served.job as u32);
                }
            }
        }
        while let Some(due) = cpu.start(now, |_| Duration::from_secs(1)) {
            queue.at(due.at, Event::End(due.ticket));
        }
    }
    let seconds = (processor_time()? - start).as_secs_f64();
    println!("engine: trace {trace}");
    let mean_wait = cpu.stats(Priority::P2).wait.mean();
    Ok(Round { events_per_second: 2.0 * jobs as f64 / seconds, mean_wait })
}

fn simpy(python: &PathBuf, jobs: u64, load: f64, seed: u64) -> Result<Round> {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/simpy/mm1.py");
    let output = Command::new(python)
        .arg(script)
        .args([jobs.to_string(), load.to_string(), seed.to_string()])
        .output()
        .with_context(|| format!("{} cannot be run", python.display()))?;
    ensure!(output.status.success(), "{script}: {}", String::from_utf8_lossy(&output.stderr));
    let printed: Value = serde_json::from_slice(&output.stdout)?;
    let number = |key: &str| printed[key].as_f64().with_context(|| format!("{script} printed no {key}"));
    Ok(Round { events_per_second: number("events")? / number("seconds")?, mean_wait: number("mean_wait")? })
}

/// Processor time of this process so far.
fn processor_time() -> Result<Duration> {
    // The first number is the time on a processor in nanoseconds; there is one thread.
    let text = std::fs::read_to_string("/proc/self/schedstat").context("processor time needs Linux")?;
    let nanos = text.split(' ').next().context("/proc/self/schedstat is empty")?.parse()?;
    Ok(Duration::from_nanos(nanos))
}

/// The median of the rounds' speeds.
fn report(name: &str, rounds: &[Round], exact_wait: f64) -> f64 {
    let mut speeds: Vec<f64> = rounds.iter().map(|round| round.events_per_second).collect();
    speeds.sort_by(f64::total_cmp);
    let median = speeds[speeds.len() / 2];
    let wait = rounds.iter().map(|round| round.mean_wait).sum::<f64>() / rounds.len() as f64;
    println!("{name:7} {median:>12.0} events/s, mean wait {wait:.3} (exact {exact_wait:.3})");
    median
}

fn main() -> Result<()> {
    let args = Args::parse();
    ensure!(args.load > 0.0 && args.load < 1.0, "--load {} is not between 0 and 1", args.load);
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for seed in 0..args.rounds {
        ours.push(engine(args.jobs, args.load, seed)?);
        if let Some(python) = &args.python {
            theirs.push(simpy(python, (args.jobs / 20).max(1_000), args.load, seed)?);
        }
    }
    // Pollaczek and Khinchine for exponential services of mean 1.
    let exact = args.load / (1.0 - args.load);
    let engine = report("engine", &ours, exact);
    if !theirs.is_empty() {
        println!("ratio   {:>12.1}", engine / report("simpy", &theirs, exact));
    }
    Ok(())
}
