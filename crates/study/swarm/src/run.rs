//! Many runs of plans that are drawn from seeds.
//!
//! The seed decides everything: hosts, faults, network. A failing seed can be replayed.

use crate::{Counts, Honest, Plan, ProcessRule, RunRule, Summary, World, Wrapper, draw};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Result of a seed.
#[derive(Clone, Debug)]
pub struct SeedVerdict {
    /// The seed.
    pub seed: u64,
    /// Statistics of the run, or the broken rule.
    pub outcome: Result<Summary, String>,
}

/// A run with its plan and log.
#[derive(Clone, Debug)]
pub struct Replay {
    /// The plan.
    pub plan: Plan,
    /// The last messages and actions, oldest first.
    pub log: Vec<String>,
    /// The result.
    pub verdict: SeedVerdict,
}

/// Runs a seed.
pub fn run(seed: u64) -> SeedVerdict {
    run_with(draw(seed), Honest)
}

/// Runs a plan with a wrapper around the processes, which may falsify their messages.
pub fn run_with(plan: Plan, wrapper: impl Wrapper) -> SeedVerdict {
    let seed = plan.seed;
    let mut world = World::new(plan, wrapper);
    SeedVerdict { seed, outcome: caught(&mut world) }
}

/// Runs a seed, and keeps its plan and log for a person to read.
pub fn replay(seed: u64) -> Replay {
    let plan = draw(seed);
    let mut world = World::new(plan.clone(), Honest);
    world.keep_log();
    let outcome = caught(&mut world);
    Replay { plan, log: world.log().map(str::to_owned).collect(), verdict: SeedVerdict { seed, outcome } }
}

/// Runs the world. A panic of the code under test becomes an error, like a broken rule.
fn caught<W: Wrapper>(world: &mut World<W>) -> Result<Summary, String> {
    // After a panic the world is only read.
    catch_unwind(AssertUnwindSafe(|| world.run())).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
        let text = text.unwrap_or("without a text");
        let is_rule = ProcessRule::ALL.iter().any(|rule| text.starts_with(rule.text()));
        Err(if is_rule { text.to_owned() } else { RunRule::Panic.broken(format_args!("{text}")) })
    })
}

/// Sums the counts of all seeds.
pub fn total<'a>(verdicts: impl IntoIterator<Item = &'a SeedVerdict>) -> Counts {
    let mut total = Counts::default();
    for Summary { counts, .. } in verdicts.into_iter().filter_map(|verdict| verdict.outcome.as_ref().ok()) {
        total.datagrams += counts.datagrams;
        total.calls += counts.calls;
        total.actions += counts.actions;
        total.servers_started += counts.servers_started;
        total.servers_stopped += counts.servers_stopped;
    }
    total
}
