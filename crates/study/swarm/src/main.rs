//! Runs random plans on whole nodes and prints the seeds that fail: `cargo run --release -p swarm -- --seeds 500`. Also
//! runs scenarios: `cargo run --release -p swarm -- --scenario SCENARIO.toml`.

#![forbid(unsafe_code)]

use anyhow::{Result, anyhow, bail};
use clap::Parser;
use sim::stats::sweep::{all_cores, sweep};
use std::io::{IsTerminal as _, Write as _, stderr, stdout};
use std::num::NonZero;
use std::path::{Path, PathBuf};
use swarm::{Honest, SeedVerdict, World};

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
    /// Runs a scenario of `sarabande sim run` in place of seeds, and prints what its callers and servers counted.
    ///
    /// Not for scenarios with TCP, hosts that slow down, calls that begin at a server or that ring for different
    /// times, a background job of balancers and servers, nor for servers with several workers, a table of service
    /// times, an `invite_work` other than 1.75, a `repeat_work` other than 0, or `ties` that are drawn. Proxies and
    /// balancers take no time: what they cost is left out.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["seeds", "seed", "jobs", "verbose"])]
    scenario: Option<PathBuf>,
}

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    match &arguments.scenario {
        Some(file) => on_bytes(file),
        None if arguments.verbose => replay(arguments.seed),
        None => many(&arguments),
    }
}

fn on_bytes(file: &Path) -> Result<()> {
    let scenario = config::scenario::load(file).map_err(|errors| anyhow!("{errors}"))?;
    let plan = swarm::scenario::plan(&scenario).map_err(|refused| anyhow!(refused))?;
    let left_out = swarm::scenario::left_out(&scenario);
    if !left_out.is_empty() {
        eprintln!("Proxies take no time on bytes. Left out: {}", left_out.join("; "));
    }
    let summary = World::new(plan, Honest).run().map_err(|broken| anyhow!("{}: {broken}", file.display()))?;
    let results = serde_json::json!({
        "title": scenario.title,
        "seed": scenario.run.seed,
        "trace": summary.trace.to_string(),
        "callers": summary.callers,
        "answerers": summary.answerers,
    });
    Ok(writeln!(stdout(), "{results:#}")?)
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
