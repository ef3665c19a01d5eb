//! Runs a scenario and prints what the agents saw.

use crate::command::load::table::table;
use anyhow::{Result, anyhow, bail};
use config::scenario;
use load::Results;
use sim::wire::{Honest, Summary, World};
use std::path::PathBuf;

#[derive(clap::Args)]
pub(super) struct Arguments {
    /// The scenario; `sarabande check` says what is wrong with one.
    file: PathBuf,
    /// On real bytes: the whole node and every datagram, watched by checkers. For scenarios of one balancer before servers.
    #[arg(long, required = true)]
    wire: bool,
    /// Prints all results as JSON.
    #[arg(long)]
    json: bool,
}

pub(super) fn run(arguments: &Arguments) -> Result<()> {
    let scenario = scenario::load(&arguments.file)
        .map_err(|errors| anyhow!("{} is not fine:\n{errors}", arguments.file.display()))?;
    let plan = sim::wire::scenario::plan(&scenario).map_err(|refused| anyhow!(refused))?;
    let summary = match World::new(plan, Honest).run() {
        Ok(summary) => summary,
        Err(broken) => bail!("{}: {broken}", arguments.file.display()),
    };
    if arguments.json {
        let Summary { callers, answerers, .. } = &summary;
        let results = serde_json::json!({ "callers": callers, "answerers": answerers });
        println!("{results:#}");
    } else {
        print(&scenario.title, &summary);
    }
    Ok(())
}

fn print(title: &str, Summary { counts, trace, callers, .. }: &Summary) {
    println!("{title}: {} calls, {} datagrams, trace {trace}", counts.calls, counts.datagrams);
    println!("{}", callers.progress());
    let mut servers = table(&["server", "calls"]);
    let Results { calls_by_server, .. } = callers;
    for (name, calls) in calls_by_server {
        servers.add_row([name.clone(), calls.to_string()]);
    }
    println!("{servers}");
}
