//! `sarabande demo elastic`: servers that are started and stopped as the load changes, and a server with a busy
//! neighbour.

mod cluster;
mod news;
mod output;
mod play;
mod scene;
mod story;
mod summary;
mod tracks;
mod view;

use super::stage;
use crate::print;
use anyhow::{Result, bail};
use scene::Outcome;
use story::Story;

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Time in which calls are made, in all phases together.
    #[arg(long, default_value_t = story::SECONDS, value_parser = seconds)]
    seconds: f64,
    /// The whole demo in 50 s, with servers that start and stop faster.
    #[arg(long, conflicts_with = "seconds")]
    quick: bool,
}

pub(super) fn run(arguments: &Arguments) -> Result<()> {
    let story = if arguments.quick { Story::quick() } else { Story::of(arguments.seconds) };
    let outcome = stage::play(play::play(&story))?;
    print::line(summary::text(&outcome))?;
    verdict(&outcome)
}

/// Returns an error if calls were lost or went to a wrong server, which is a fault on any machine.
fn verdict(outcome: &Outcome) -> Result<()> {
    match (outcome.calls.calls_failed(), outcome.calls.wrong_server) {
        (0, 0) => Ok(()),
        (lost, wrong) => bail!("{lost} calls lost, {wrong} messages at a wrong server"),
    }
}

fn seconds(text: &str) -> Result<f64, String> {
    let seconds = text.parse().ok().filter(|seconds| (60.0..=3600.0).contains(seconds));
    seconds.ok_or_else(|| "write a number of seconds, 60 to 3600; --quick takes 50".to_owned())
}
