//! `--vary`: a scenario at several values of one key, as one table.

use super::arguments::Arguments;
use super::output::{bar, finish, prepare, terminal};
use super::values::Vary;
use crate::print;
use anyhow::{Result, anyhow};
use config::scenario;
use papers::survey::Sweep;
use std::path::Path;

/// Surveys the scenario at each value, and prints a table.
pub(super) fn run(arguments: &Arguments, vary: &Vary) -> Result<()> {
    let sweep = survey(arguments, vary)?;
    let write = |out: &Path| {
        let figure = sweep.figure(&arguments.name(), &arguments.file.display().to_string(), &vary.written);
        let report = papers::report::write(out, &[figure])?;
        std::fs::write(out.join(format!("{}.csv", arguments.name())), sweep.csv())?;
        Ok(report)
    };
    let print = || {
        if arguments.json { print::line(serde_json::to_string_pretty(&sweep.points)?) } else { print(&sweep) }
    };
    finish(arguments, write, print)
}

fn survey(arguments: &Arguments, Vary { key, values, .. }: &Vary) -> Result<Sweep> {
    let file = arguments.file.display().to_string();
    let text = config::text(&arguments.file).map_err(|errors| anyhow!("{errors}"))?;
    let mut varied = Vec::new();
    for value in values {
        let scenario = scenario::parse_with(&text, &file, key, value)
            .map_err(|errors| anyhow!("{file} with {key} = {} has errors:\n{errors}", value.toml()))?;
        varied.push((value.clone(), scenario));
    }
    prepare(arguments)?;
    let bar = bar(varied
        .iter()
        .map(|(_, scenario)| scenario.run.duration * scenario.run.replications.max(1))
        .sum())?;
    let sweep = papers::survey::vary(key, varied, |passed| bar.inc(passed.as_millis() as u64));
    bar.finish_and_clear();
    Ok(sweep)
}

fn print(sweep: &Sweep) -> Result<()> {
    print::line(sweep.headline())?;
    print::line(terminal(&sweep.table()))?;
    print::line(sweep.verdict())?;
    sweep.remarks().iter().try_for_each(print::line)
}
