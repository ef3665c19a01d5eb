//! Runs random plans on the whole node, and says which seeds fail: `cargo run --release -p swarm -- --seeds 500`.

#![forbid(unsafe_code)]

use anyhow::{Result, bail};
use clap::Parser;
use sim::stats::sweep::{all_cores, sweep};
use std::io::{IsTerminal as _, Write as _, stderr, stdout};
use std::num::NonZero;
use swarm::SeedVerdict;

/// Puts the whole node through random faults, and checks from outside that no rule is broken.
///
/// Each seed draws balancers, servers, callers, and what goes wrong: lost messages, partitions, restarts, deaths,
/// drains, reloads. A seed that fails is printed and can be replayed.
#[derive(Parser)]
struct Arguments {
    /// How many seeds to run.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seeds: u64,
    /// The first of them.
    #[arg(long, value_name = "S", default_value_t = 1)]
    seed: u64,
    /// Seeds that run at a time; as many as there are cores unless set.
    #[arg(long, value_name = "J")]
    jobs: Option<NonZero<usize>>,
    /// Shows the plan and the last messages of the first seed, and runs no other.
    #[arg(long)]
    verbose: bool,
}

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    if arguments.verbose { replay(arguments.seed) } else { many(&arguments) }
}

fn replay(seed: u64) -> Result<()> {
    let replay = swarm::replay(seed);
    let mut out = stdout().lock();
    writeln!(out, "{}\n", replay.plan)?;
    for line in &replay.log {
        writeln!(out, "{line}")?;
    }
    match replay.verdict.outcome {
        Err(broken) => bail!("seed {seed}: {broken}"),
        Ok(summary) => {
            writeln!(out, "\nseed {seed} holds: {}; trace {}", summary.callers.progress(), summary.trace)?;
            Ok(())
        }
    }
}

fn many(arguments: &Arguments) -> Result<()> {
    let count = arguments.seeds as usize;
    let one = |index: usize| swarm::run(arguments.seed + index as u64);
    let is_watched = stderr().is_terminal();
    let progress = |over: usize| {
        if is_watched {
            eprint!("\r{over} of {count} seeds{}", if over == count { "\n" } else { "" });
        }
    };
    let verdicts = sweep(count, arguments.jobs.unwrap_or_else(all_cores), one, progress);
    let mut out = stdout().lock();
    let mut failed = 0;
    for SeedVerdict { seed, outcome } in &verdicts {
        if let Err(broken) = outcome {
            failed += 1;
            writeln!(out, "seed {seed}: {broken} (show it with --seed {seed} --verbose)")?;
        }
    }
    let total = swarm::total(&verdicts);
    writeln!(
        out,
        "{count} seeds: {} calls, {} datagrams, {} changes and failures",
        total.calls, total.datagrams, total.actions
    )?;
    if failed > 0 {
        bail!("{failed} of {count} seeds fail");
    }
    Ok(())
}
