//! `sarabande sim`: simulates.

mod figures;
mod run;
mod swarm;
mod vary;
mod wire;

use anyhow::Result;

#[derive(clap::Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    what: What,
}

#[derive(clap::Subcommand)]
enum What {
    /// Runs a scenario and prints what came of it.
    Run(run::Arguments),
    /// Makes one figure: data, plots, and a report that puts them beside what its source states.
    ///
    /// Statements that fail are printed; they are results, and do not change the exit code.
    Figure(figures::One),
    /// Makes all figures and one report.
    ///
    /// Statements that fail are printed; they are results, and do not change the exit code.
    Figures(figures::All),
    /// Lists the figures.
    List,
    /// Puts the whole node through random faults, and checks from outside that no rule is broken.
    ///
    /// Each seed draws balancers, servers, callers, and what goes wrong: lost messages, partitions, restarts, deaths,
    /// drains, reloads. A seed that fails is printed and can be replayed.
    Swarm(swarm::Arguments),
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    match &arguments.what {
        What::Figure(arguments) => figures::one(arguments),
        What::Figures(arguments) => figures::all(arguments),
        What::Run(arguments) => run::run(arguments),
        What::Swarm(arguments) => swarm::run(arguments),
        What::List => figures::list(),
    }
}
