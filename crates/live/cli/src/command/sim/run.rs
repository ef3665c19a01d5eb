//! Runs a scenario with typed messages and prints its results.

use super::arguments::Arguments;
use super::output::{bar, finish, prepare, terminal};
use super::vary;
use crate::print;
use anyhow::{Result, anyhow, bail};
use config::scenario;
use papers::survey::{figure, survey};
use std::path::Path;

pub(super) fn run(arguments: &Arguments) -> Result<()> {
    if scenario::is_configuration(&arguments.file) {
        let file = arguments.file.display();
        bail!("{file} is a configuration of the server: `sarabande run {file}` runs it");
    }
    if let Some(vary) = &arguments.vary {
        return vary::run(arguments, vary);
    }
    let scenario = scenario::load(&arguments.file)
        .map_err(|errors| anyhow!("{} has errors:\n{errors}", arguments.file.display()))?;
    prepare(arguments)?;
    let bar = bar(scenario.run.duration * scenario.run.replications.max(1))?;
    let (survey, runs) = survey(&scenario, |passed| bar.inc(passed.as_millis() as u64));
    bar.finish_and_clear();
    let write = |out: &Path| {
        let file = arguments.file.display().to_string();
        let figure = figure(&scenario, &survey, &runs[0], &arguments.name(), &file);
        Ok(papers::report::write(out, &[figure])?)
    };
    let print = || {
        if arguments.json {
            return print::line(serde_json::to_string_pretty(&survey)?);
        }
        print::line(survey.headline())?;
        survey.tables().iter().try_for_each(|table| print::line(terminal(table)))?;
        survey.remarks().iter().try_for_each(print::line)
    };
    finish(arguments, write, print)
}
