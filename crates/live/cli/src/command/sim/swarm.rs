//! Runs random plans on the whole node, and says which seeds fail.

use crate::print;
use anyhow::{Result, bail};
use indicatif::{ProgressBar, ProgressStyle};
use sim::stats::sweep::{all_cores, sweep};
use std::num::NonZero;
use swarm::SeedVerdict;

#[derive(clap::Args)]
pub(super) struct Arguments {
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

pub(super) fn run(arguments: &Arguments) -> Result<()> {
    if arguments.verbose { replay(arguments.seed) } else { many(arguments) }
}

fn replay(seed: u64) -> Result<()> {
    let replay = swarm::replay(seed);
    print_line!("{}\n", replay.plan)?;
    for line in &replay.log {
        print::line(line)?;
    }
    match replay.verdict.outcome {
        Err(broken) => bail!("seed {seed}: {broken}"),
        Ok(summary) => {
            print_line!("\nseed {seed} holds: {}; trace {}", summary.callers.progress(), summary.trace)?;
            Ok(())
        }
    }
}

fn many(arguments: &Arguments) -> Result<()> {
    let style = ProgressStyle::with_template("{prefix} {bar:32} {pos}/{len} {elapsed}")
        .expect("the template is well formed");
    // Drawn on standard error, and only if that is a terminal.
    let bar = ProgressBar::new(arguments.seeds).with_style(style).with_prefix("swarm");
    let one = |index: usize| swarm::run(arguments.seed + index as u64);
    let threads = arguments.jobs.unwrap_or_else(all_cores);
    let verdicts = sweep(arguments.seeds as usize, threads, one, |over| bar.set_position(over as u64));
    bar.finish_and_clear();
    let mut failed = 0;
    for SeedVerdict { seed, outcome } in &verdicts {
        if let Err(broken) = outcome {
            failed += 1;
            print_line!("seed {seed}: {broken} (sarabande sim swarm --seed {seed} --verbose)")?;
        }
    }
    let total = swarm::total(&verdicts);
    print_line!(
        "{} seeds: {} calls, {} datagrams, {} changes and failures",
        verdicts.len(),
        total.calls,
        total.datagrams,
        total.actions
    )?;
    if failed > 0 {
        bail!("{failed} of {} seeds fail", verdicts.len());
    }
    Ok(())
}
