//! `sarabande demo proxy`: phones that register and call each other through three proxies in a row, which divide the
//! state of the calls.

mod chain;
mod output;
mod phases;
mod phones;
mod play;
mod registration;
mod scene;
mod summary;
mod view;

use super::stage;
use crate::print;
use anyhow::{Result, bail};
use phases::{PHASES, Phase, QUICK, QUICK_SECONDS};
use scene::Outcome;

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Length of each phase.
    #[arg(long, default_value_t = 10.0, value_parser = super::seconds)]
    seconds: f64,
    /// Three phases of 5 s: about fifteen seconds in all.
    #[arg(long, conflicts_with = "seconds")]
    quick: bool,
}

impl Arguments {
    fn phases(&self) -> (Vec<Phase>, f64) {
        if self.quick {
            (QUICK.map(|index| PHASES[index]).into(), QUICK_SECONDS)
        } else {
            (PHASES.into(), self.seconds)
        }
    }
}

pub(super) fn run(arguments: &Arguments) -> Result<()> {
    let (phases, seconds) = arguments.phases();
    let outcome = stage::play(play::play(&phases, seconds))?;
    print::line(summary::text(&outcome))?;
    verdict(&outcome)
}

/// Returns an error if calls or registrations failed, which is a fault on any machine.
fn verdict(outcome: &Outcome) -> Result<()> {
    match (outcome.lost(), outcome.calls.wrong_server, outcome.registrations.failed) {
        (0, 0, 0) => Ok(()),
        (lost, wrong, failed) => {
            bail!("{lost} calls failed, {wrong} messages at a wrong phone, {failed} registrations failed")
        }
    }
}
