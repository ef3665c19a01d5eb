//! `sarabande sim`: simulates scenarios and makes figures.

mod arguments;
mod figures;
mod output;
mod run;
mod values;
mod vary;

use anyhow::Result;

#[derive(clap::Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: SimCommand,
}

#[derive(clap::Subcommand)]
enum SimCommand {
    /// Runs a scenario and prints its results.
    Run(arguments::Arguments),
    /// Makes one figure: data, plots, and a report that compares them with the statements of its source.
    ///
    /// Statements that fail are printed, and the exit code is 4.
    Figure(figures::One),
    /// Makes all figures and one report.
    ///
    /// Statements that fail are printed, and the exit code is 4.
    Figures(figures::All),
    /// Lists the figures.
    List,
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    match &arguments.command {
        SimCommand::Figure(arguments) => figures::one(arguments),
        SimCommand::Figures(arguments) => figures::all(arguments),
        SimCommand::Run(arguments) => run::run(arguments),
        SimCommand::List => figures::list(),
    }
}
