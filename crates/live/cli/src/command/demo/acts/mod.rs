//! `sarabande demo`: five [acts](act), in which the same calls meet a feature and the plain alternative at once.

mod act;
mod balancer;
mod cast;
mod measured;
mod play;
mod side;
mod summary;
mod view;

use super::stage::{self, Screen};
use crate::print;
use act::Event;
use anyhow::{Result, bail};
use clap::builder::PossibleValuesParser;
use tokio::signal::unix::SignalKind;

#[derive(clap::Args)]
pub(crate) struct ActArguments {
    /// Play this act only. 1: policies, 2: a server dies, 3: a server becomes slow, 4: too many calls, 5: a restart.
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u8).range(1..=5))]
    act: Option<u8>,
    /// Time in which calls are made in act 1.
    #[arg(long, default_value_t = 16.0, value_parser = super::seconds)]
    seconds: f64,
    /// Play act 1 only, with this policy; may be given several times.
    #[arg(long, value_name = "NAME", conflicts_with = "act", value_parser = PossibleValuesParser::new(KNOWN))]
    policy: Vec<String>,
    /// Only two policies in act 1, for 3 s.
    #[arg(long, conflicts_with_all = ["seconds", "policy"])]
    quick: bool,
}

/// Values of `--policy`.
const KNOWN: [&str; 8] = ["round-robin", "hash", "fnv-hash", "cjsq", "tjsq", "tlwl", "tlwl-2", "rwma"];
/// Default policies, from the paper's worst to its best.
const POLICIES: [&str; 5] = ["round-robin", "hash", "cjsq", "tjsq", "tlwl"];
const QUICK_POLICIES: [&str; 2] = ["round-robin", "tlwl"];
const QUICK_SECONDS: f64 = 3.0;

/// Results of the acts that were played to their ends.
#[derive(Default)]
struct Played {
    /// Numbers of the acts, and sentences about what was measured.
    verdicts: Vec<(usize, String)>,
    /// New calls lost, and messages at a wrong server, where neither may happen on any machine.
    lost: u64,
    wrong: u64,
    /// Act in which the user quit.
    quit: Option<usize>,
}

pub(super) fn run(arguments: &ActArguments) -> Result<()> {
    let played = stage::play(play(arguments))?;
    print::line(summary::text(&played))?;
    match (played.lost, played.wrong) {
        (0, 0) => Ok(()),
        (lost, wrong) => bail!("{lost} new calls lost, {wrong} messages at a wrong server"),
    }
}

async fn play(arguments: &ActArguments) -> Result<Played> {
    // All signals that end this process are handled, because the balancers should end with it.
    let ends = [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup()];
    let mut screen = Screen::<String>::open(&ends)?;
    let chosen: Vec<_> = arguments.policy.iter().map(String::as_str).collect();
    let (policies, seconds) = match (&*chosen, arguments.quick) {
        (_, true) => (&QUICK_POLICIES[..], QUICK_SECONDS),
        ([], false) => (&POLICIES[..], arguments.seconds),
        (chosen, false) => (chosen, arguments.seconds),
    };
    let only = if chosen.is_empty() { arguments.act.map(usize::from) } else { Some(1) };
    let acts = act::acts(policies, seconds);
    let mut played = Played::default();
    for number in (1..=acts.len()).filter(|number| only.is_none_or(|only| only == *number)) {
        let act = &acts[number - 1];
        let Some(sides) = play::play(&acts, number, &mut screen, &played.verdicts).await? else {
            played.quit = Some(number);
            break;
        };
        played.verdicts.push((number, act.verdict(&sides)));
        // Each policy has to serve all calls, and so does the side with a feature.
        for side in &sides[usize::from(act.event != Event::None)..] {
            played.lost += if act.event == Event::Overload { 0 } else { side.lost() };
            played.wrong += side.end.wrong_server;
        }
    }
    Ok(played)
}
