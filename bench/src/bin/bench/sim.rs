//! Speed of the simulator: events a second of an M/M/1 queue, and messages a second of a SIP proxy and of topology 3 of
//! the Overload paper.
//!
//! Rounds measure processor time, not wall time. For the queue, the two events of a job count (arrival, end of
//! service). For a model, each message that arrives at a host or an agent counts.

use anyhow::{Context, Result, ensure};
use base::{Instant, Rng};
use clap::Args;
use config::scenario::Scenario;
use core::time::Duration;
use rand_distr::{Distribution, Exp1};
use sarabande_bench::report::median;
use sarabande_bench::scenarios::{proxy, topology_3};
use sim::engine::{Cpu, CpuConfig, EventQueue, Finish, Priority, Ticket, TimeSpread, Trace};
use sim::stats::Moments;

#[derive(Args)]
#[command(
    about = "Measures the simulator on an M/M/1 queue, a SIP proxy and topology 3 of the Overload paper"
)]
pub(crate) struct Arguments {
    /// Jobs of a round of the queue.
    #[arg(long, default_value_t = 10_000_000, value_parser = clap::value_parser!(u64).range(1_000..))]
    jobs: u64,
    /// Load of the queue, above 0 and below 1.
    #[arg(long, default_value_t = 0.8)]
    load: f64,
    /// Simulated seconds of the models.
    #[arg(long, default_value_t = 1_000, value_parser = clap::value_parser!(u64).range(10..))]
    seconds: u64,
    /// Calls a second that topology 3 is offered.
    #[arg(long, default_value_t = 200.0)]
    rate: f64,
    /// Only the models, without the queue.
    #[arg(long)]
    models: bool,
    /// Rounds; the median counts.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..))]
    rounds: u64,
}

/// Result of a round.
struct Round {
    /// Events or messages a second.
    speed: f64,
    /// Mean wait, or set-up delay in seconds. Equal models have equal values.
    mean: f64,
}

#[derive(Clone, Copy)]
enum Event {
    Arrival,
    End(Ticket),
}

/// The queue on the engine, with everything that a model uses: priorities, statistics, and the trace.
fn engine(jobs: u64, load: f64, seed: u64) -> Result<Round> {
    let root = Rng::from_seed(seed);
    let mut arrivals = root.fork("arrivals");
    let config = CpuConfig { buffer: usize::MAX, spread: TimeSpread::Exponential, ..CpuConfig::default() };
    let mut cpu = Cpu::new(config, root.fork("service"));
    let (mut queue, mut trace, mut came) = (EventQueue::default(), Trace::default(), 0);
    let mut waits = Moments::default();
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
            waits.add(due.wait.as_secs_f64());
            queue.at(due.at, Event::End(due.ticket));
        }
    }
    let seconds = processor_time()?.saturating_sub(start).as_secs_f64();
    println!("engine: trace {trace}");
    Ok(Round { speed: 2.0 * jobs as f64 / seconds, mean: waits.mean() })
}

/// A scenario on typed messages.
fn model(scenario: &Scenario, seed: u64) -> Result<Round> {
    let start = processor_time()?;
    let results = sim::model::run(scenario, seed);
    let seconds = processor_time()?.saturating_sub(start).as_secs_f64();
    println!("model: {} messages, trace {:016x}", results.messages, results.trace);
    let mean = results.streams[0].setup_delay.mean().as_secs_f64();
    Ok(Round { speed: results.messages as f64 / seconds, mean })
}

/// Returns the processor time of this process so far.
fn processor_time() -> Result<Duration> {
    // The first number is the time on a processor in nanoseconds; there is one thread.
    let text = std::fs::read_to_string("/proc/self/schedstat").context("processor time needs Linux")?;
    let nanos = text.split(' ').next().context("/proc/self/schedstat is empty")?.parse()?;
    Ok(Duration::from_nanos(nanos))
}

/// Prints the median of the rounds' speeds.
fn report(name: &str, unit: &str, rounds: u64, round: impl Fn(u64) -> Result<Round>) -> Result<()> {
    let rounds = (0..rounds).map(round).collect::<Result<Vec<_>>>()?;
    let speeds: Vec<f64> = rounds.iter().map(|round| round.speed).collect();
    let mean = rounds.iter().map(|round| round.mean).sum::<f64>() / rounds.len() as f64;
    println!("{name:20} {:>12.0} {unit}/s, mean {mean:.6}", median(&speeds));
    Ok(())
}

pub(crate) fn run(args: &Arguments) -> Result<()> {
    let Arguments { jobs, load, seconds, rate, rounds, .. } = *args;
    ensure!(load > 0.0 && load < 1.0, "--load {load} is not between 0 and 1");
    if !args.models {
        // Pollaczek-Khinchine formula for exponential services of mean 1.
        println!("M/M/1 at load {load}: the exact mean wait is {:.3}", load / (1.0 - load));
        report("queue", "events", rounds, |seed| engine(jobs, load, seed))?;
    }
    let (one, three) = (proxy(seconds), topology_3(seconds, rate));
    report("proxy", "messages", rounds, |seed| model(&one, seed))?;
    report("topology 3", "messages", rounds, |seed| model(&three, seed))
}
