//! `sarabande demo`: the server, the servers behind it and their callers, all on loopback, policy by policy. Other demos:
//! [`proxy`], [`elastic`].

mod act;
mod elastic;
mod plain;
mod proxy;
mod screen;
mod stage;
mod summary;
mod view;

use crate::print;
use act::{Act, Outcome, Plot};
use anyhow::{Result, bail};
use plain::Lines;
use screen::Screen;

#[derive(clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    other: Option<Other>,
    /// How long calls are made with each policy.
    #[arg(long, default_value_t = 7.0, value_parser = seconds)]
    seconds: f64,
    /// Show this policy only; may be given several times. By default five of them, and a crash.
    #[arg(long, value_name = "NAME", value_parser = clap::builder::PossibleValuesParser::new(KNOWN))]
    policy: Vec<String>,
    /// Decides when calls come and how long they last, alike for every policy.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Two policies for 1.5 s each and a crash: some ten seconds in all.
    #[arg(long, conflicts_with = "seconds")]
    quick: bool,
    /// Print lines instead of the live view; so it is whenever the output is no terminal.
    #[arg(long)]
    no_tui: bool,
}

/// What else can be shown than the balancer's policies.
#[derive(clap::Subcommand)]
enum Other {
    /// Shows phones that register and call each other through three proxies in a row, which find by themselves who of them
    /// keeps the state of how many calls, as load rises and falls.
    Proxy(proxy::Arguments),
    /// Shows servers that are started and stopped as callers come and go, and what becomes of the calls when one of them has a
    /// busy neighbour.
    Elastic(elastic::Arguments),
}

/// All that can be asked for.
const KNOWN: [&str; 8] = ["round-robin", "hash", "fnv-hash", "cjsq", "tjsq", "tlwl", "tlwl-2", "rwma"];
/// From the paper's worst to its best.
const POLICIES: [&str; 5] = ["round-robin", "hash", "cjsq", "tjsq", "tlwl"];
const QUICK_POLICIES: [&str; 2] = ["round-robin", "tlwl"];
const QUICK_SECONDS: f64 = 1.5;

/// Share of all servers' capacity that the calls of a comparison take. A server that gets its share by number and not
/// by speed is close to its limit then.
const LOAD: f64 = 0.7;
/// The same in the act with the crash: the rest of the servers can bear it.
const CRASH_LOAD: f64 = 0.5;

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    match &arguments.other {
        Some(Other::Proxy(arguments)) => return proxy::run(arguments),
        Some(Other::Elastic(arguments)) => return elastic::run(arguments),
        None => {}
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let mut screen = Screen::open(arguments.no_tui, Lines::new())?;
    // A server stays on the thread that it was started on.
    let outcomes = tokio::task::LocalSet::new().block_on(&runtime, play(arguments, &mut screen));
    drop(screen);
    let (outcomes, quit) = outcomes?;
    print::line(summary::text(&outcomes))?;
    if let Some(quit) = quit {
        print_line!("\n{quit}")?;
    }
    verdict(&outcomes)
}

/// Plays the acts; fewer when somebody has seen enough, and then says what is missing.
async fn play(arguments: &Arguments, screen: &mut Screen<Lines>) -> Result<(Vec<Outcome>, Option<String>)> {
    let acts = acts(arguments);
    let mut outcomes = Vec::new();
    for (index, act) in acts.iter().enumerate() {
        let number = format!("{}/{}", index + 1, acts.len());
        let played = act::play(act, &number, arguments.seed, screen, &outcomes).await?;
        let Some(outcome) = played else {
            let quit = format!("Left in act {number}: neither that nor what comes after it is counted here.");
            return Ok((outcomes, Some(quit)));
        };
        outcomes.push(outcome);
    }
    Ok((outcomes, None))
}

fn acts(arguments: &Arguments) -> Vec<Act> {
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

/// What must not happen, whatever the machine.
fn verdict(outcomes: &[Outcome]) -> Result<()> {
    let wrong: u64 = outcomes.iter().map(|outcome| outcome.results.wrong_server).sum();
    let lost: u64 = outcomes.iter().map(Outcome::calls_lost).sum();
    match (lost, wrong) {
        (0, 0) => Ok(()),
        _ => bail!("{lost} new calls lost, {wrong} messages met a wrong server"),
    }
}

fn seconds(text: &str) -> Result<f64, String> {
    let seconds = text.parse().ok().filter(|seconds| (1.0..=3600.0).contains(seconds));
    seconds.ok_or_else(|| "write a number of seconds, 1 to 3600".to_owned())
}
