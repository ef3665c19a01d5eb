//! `sarabande demo`: the same calls with one policy after the other, and a server that crashes.

mod act;
mod cast;
mod scene;
mod summary;
mod view;

use super::stage::{self, Screen};
use crate::print;
use act::Printed;
use anyhow::{Result, bail};
use scene::{Act, Outcome, Plot, calls_lost};
use tokio::signal::unix::SignalKind;

#[derive(clap::Args)]
pub(crate) struct PolicyArguments {
    /// Time in which calls are made with each policy.
    #[arg(long, default_value_t = 7.0, value_parser = super::seconds)]
    seconds: f64,
    /// Show this policy only; may be given several times. Default: five policies and a crash.
    #[arg(long, value_name = "NAME", value_parser = clap::builder::PossibleValuesParser::new(KNOWN))]
    policy: Vec<String>,
    /// Two policies for 1.5 s each and a crash: about ten seconds in all.
    #[arg(long, conflicts_with = "seconds")]
    quick: bool,
}

/// Values of `--policy`.
const KNOWN: [&str; 8] = ["round-robin", "hash", "fnv-hash", "cjsq", "tjsq", "tlwl", "tlwl-2", "rwma"];
/// Default policies, from the paper's worst to its best.
const POLICIES: [&str; 5] = ["round-robin", "hash", "cjsq", "tjsq", "tlwl"];
const QUICK_POLICIES: [&str; 2] = ["round-robin", "tlwl"];
const QUICK_SECONDS: f64 = 1.5;

/// Calls of a comparison, as a share of the capacity of all servers. A slow server with as many calls as a fast one is
/// then close to its limit.
const LOAD: f64 = 0.7;
/// Calls of the act with the crash, as such a share. The remaining servers can serve all of them.
const CRASH_LOAD: f64 = 0.5;

pub(super) fn run(arguments: &PolicyArguments) -> Result<()> {
    let (outcomes, quit) = stage::play(play(arguments))?;
    print::line(summary::text(&outcomes))?;
    if let Some(quit) = quit {
        print_line!("\n{quit}")?;
    }
    verdict(&outcomes)
}

/// Plays the acts. If the user quits, it returns a text that says which acts are missing.
async fn play(arguments: &PolicyArguments) -> Result<(Vec<Outcome>, Option<String>)> {
    let mut screen = Screen::<Printed>::open(&[SignalKind::interrupt()])?;
    let acts = acts(arguments);
    let mut outcomes = Vec::new();
    for (index, act) in acts.iter().enumerate() {
        let number = format!("{}/{}", index + 1, acts.len());
        let played = act::play(act, &number, &mut screen, &outcomes).await?;
        let Some(outcome) = played else {
            let quit =
                format!("Interrupted in act {number}: this act and the following ones are not counted here.");
            return Ok((outcomes, Some(quit)));
        };
        outcomes.push(outcome);
    }
    Ok((outcomes, None))
}

fn acts(arguments: &PolicyArguments) -> Vec<Act> {
    let seconds = if arguments.quick { QUICK_SECONDS } else { arguments.seconds };
    let chosen: Vec<_> = arguments.policy.iter().map(String::as_str).collect();
    let policies: &[&str] = match (&*chosen, arguments.quick) {
        ([], false) => &POLICIES,
        ([], true) => &QUICK_POLICIES,
        (chosen, _) => chosen,
    };
    let compare =
        |policy: &&str| Act { plot: Plot::Compare, policy: (*policy).to_owned(), load: LOAD, seconds };
    let mut acts: Vec<_> = policies.iter().map(compare).collect();
    if chosen.is_empty() {
        let policy = "tlwl".to_owned();
        acts.push(Act { plot: Plot::Crash, policy, load: CRASH_LOAD, seconds: 2.0 * seconds });
    }
    acts
}

/// Returns an error if new calls were lost or went to a wrong server, which is a fault on any machine.
fn verdict(outcomes: &[Outcome]) -> Result<()> {
    let wrong: u64 = outcomes.iter().map(|outcome| outcome.results.wrong_server).sum();
    let lost: u64 = outcomes.iter().map(|outcome| calls_lost(&outcome.results)).sum();
    match (lost, wrong) {
        (0, 0) => Ok(()),
        _ => bail!("{lost} new calls lost, {wrong} messages at a wrong server"),
    }
}
