//! Many runs of plans that are drawn from seeds.
//!
//! The seed decides everything: who there is, what goes wrong, what the network does. A seed that fails replays.

use crate::{Counts, Honest, Plan, ProcessRule, RunRule, Summary, World, Wrapper, draw};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// What a seed has shown.
#[derive(Clone, Debug)]
pub struct SeedVerdict {
    /// Which.
    pub seed: u64,
    /// What came of it, or what is broken.
    pub outcome: Result<Summary, String>,
}

/// A run that is shown.
#[derive(Clone, Debug)]
pub struct Replay {
    /// The plan.
    pub plan: Plan,
    /// The last messages and what was done to hosts, oldest first.
    pub log: Vec<String>,
    /// What came of it.
    pub verdict: SeedVerdict,
}

/// Runs a seed.
pub fn run(seed: u64) -> SeedVerdict {
    run_with(draw(seed), Honest)
}

/// Runs a plan with something between the balancers and the network that may break what they do.
pub fn run_with(plan: Plan, wrapper: impl Wrapper) -> SeedVerdict {
    let seed = plan.seed;
    let mut world = World::new(plan, wrapper);
    SeedVerdict { seed, outcome: caught(&mut world) }
}

/// Runs a seed and keeps what a person wants to see.
pub fn replay(seed: u64) -> Replay {
    let plan = draw(seed);
    let mut world = World::new(plan.clone(), Honest);
    world.keep_log();
    let outcome = caught(&mut world);
    Replay { plan, log: world.log().map(str::to_owned).collect(), verdict: SeedVerdict { seed, outcome } }
}

/// A panic of the code under test is as much of a finding as a broken rule.
fn caught<W: Wrapper>(world: &mut World<W>) -> Result<Summary, String> {
    // A world that panicked is only looked at after that.
    catch_unwind(AssertUnwindSafe(|| world.run())).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
        let text = text.unwrap_or("without a text");
        let is_rule = ProcessRule::ALL.iter().any(|rule| text.starts_with(rule.text()));
        Err(if is_rule { text.to_owned() } else { RunRule::Panic.broken(format_args!("{text}")) })
    })
}

/// The counts of all seeds together.
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
