//! Runs a scenario on real bytes: the whole node, watched by checkers.

use crate::command::load::table::table;
use crate::print;
use anyhow::{Result, anyhow, bail};
use config::scenario::Scenario;
use load::CallResults;
use std::path::Path;
use swarm::{Honest, Summary, World};

/// Runs it and prints what the agents saw, as tables or as JSON.
pub(super) fn run(scenario: &Scenario, file: &Path, json: bool) -> Result<()> {
    let plan = swarm::scenario::plan(scenario).map_err(|refused| anyhow!(refused))?;
    let left_out = swarm::scenario::left_out(scenario);
    if !left_out.is_empty() {
        print_note!("Proxies take no time on bytes. Left out: {}", left_out.join("; "));
    }
    let summary = match World::new(plan, Honest).run() {
        Ok(summary) => summary,
        Err(broken) => bail!("{}: {broken}", file.display()),
    };
    if json {
        let Summary { callers, answerers, .. } = &summary;
        let results = serde_json::json!({
            "title": scenario.title,
            "seed": scenario.run.seed,
            "trace": summary.trace.to_string(),
            "callers": callers,
            "answerers": answerers,
        });
        print_line!("{results:#}")?;
    } else {
        print(&scenario.title, &summary)?;
    }
    Ok(())
}

fn print(title: &str, Summary { counts, trace, callers, .. }: &Summary) -> Result<()> {
    print_line!("{title}: {} calls, {} datagrams, trace {trace}", counts.calls, counts.datagrams)?;
    print::line(callers.progress())?;
    let mut servers = table(&["server", "calls"]);
    let CallResults { calls_by_server, .. } = callers;
    for (name, calls) in calls_by_server {
        servers.add_row([name.clone(), calls.to_string()]);
    }
    print::line(&servers)
}
