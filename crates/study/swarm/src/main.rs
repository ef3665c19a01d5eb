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

/// Runs whole nodes under random faults, and checks from outside that no rule is broken.
///
/// Each seed draws balancers, servers, callers and faults: lost messages, partitions, restarts, crashes, drains,
/// reloads. A seed that fails is printed and can be replayed.
#[derive(Parser)]
struct Arguments {
    /// Number of seeds to run.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seeds: u64,
    /// First seed.
    #[arg(long, value_name = "S", default_value_t = 1)]
    seed: u64,
    /// Number of seeds that run at the same time. The default is the number of cores.
    #[arg(long, value_name = "J")]
    jobs: Option<NonZero<usize>>,
    /// Runs only the first seed, and shows its plan and its last messages.
    #[arg(long)]
    verbose: bool,
    /// Runs a scenario of `sarabande sim run` instead of seeds, and prints the results of its callers and servers.
    ///
    /// These parts of a scenario are refused: TCP, hosts that slow down, calls that start at a server, calls with
    /// different ringing times, and background jobs of balancers and servers. These are refused too: servers with
    /// several workers, a table of service times, an `invite_work` other than 1.75, a `repeat_work` other than 0, and
    /// `ties` that are drawn. Proxies and balancers take no time: their costs are left out.
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
