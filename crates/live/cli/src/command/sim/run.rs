//! Runs a scenario with typed messages and prints what came of it.

use super::vary::{self, Vary};
use crate::command::load::table::table;
use crate::print;
use anyhow::{Context, Result, anyhow, bail};
use config::scenario;
use indicatif::{ProgressBar, ProgressStyle};
use papers::survey::{figure, survey};
use std::path::{Path, PathBuf};
use std::time::Duration;

#[derive(clap::Args)]
pub(super) struct Arguments {
    /// The scenario; `sarabande check` says what is wrong with one.
    pub(super) file: PathBuf,
    /// Runs it at each of several values of a key, and prints a row for each.
    ///
    /// KEY is as `sarabande check` names it, such as `calls.main.rate` or `link[0].loss`, and need not be
    /// in the file. VALUES are a list or a range with both ends, or both: 100,200,300 or 100..500/50. Words and numbers
    /// with units need no quotes: none,delay or 1%..5%/1%. The same seeds serve at every value.
    #[arg(long, value_name = "KEY=VALUES", conflicts_with = "wire")]
    vary: Option<Vary>,
    /// On real bytes: the whole node and every datagram, watched by checkers; one run.
    ///
    /// Not for scenarios with TCP, hosts that slow down, calls that begin at a server or that ring for different times,
    /// a background job of balancers and servers, nor for servers with several workers, a table of
    /// service times, an `invite_work` other than 1.75, a `repeat_work` other than 0, or `ties` that are drawn. Proxies and
    /// balancers take no time: what they cost is left out.
    #[arg(long, conflicts_with = "out")]
    wire: bool,
    /// Prints all results as JSON.
    #[arg(long)]
    pub(super) json: bool,
    /// Writes data, plots (of the first run, or against what is varied) and a report into this directory.
    #[arg(long, value_name = "DIR")]
    pub(super) out: Option<PathBuf>,
}

impl Arguments {
    /// What files of results are called.
    pub(super) fn name(&self) -> String {
        self.file.file_stem().unwrap_or_default().to_string_lossy().into_owned()
    }
}

pub(super) fn run(arguments: &Arguments) -> Result<()> {
    if scenario::is_configuration(&arguments.file) {
        let file = arguments.file.display();
        bail!("{file} is a configuration of the server: `sarabande run {file}` runs it");
    }
    if let Some(vary) = &arguments.vary {
        return vary::run(arguments, vary);
    }
    let scenario = scenario::load(&arguments.file)
        .map_err(|errors| anyhow!("{} is not fine:\n{errors}", arguments.file.display()))?;
    if arguments.wire {
        return super::wire::run(&scenario, &arguments.file, arguments.json);
    }
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

/// Writes the report where one is wanted, and prints the results, whatever becomes of the other: a disk may be full, and
/// who reads may be gone.
pub(super) fn finish(
    arguments: &Arguments,
    write: impl FnOnce(&Path) -> Result<PathBuf>,
    print: impl FnOnce() -> Result<()>,
) -> Result<()> {
    let written = arguments.out.as_deref().map(|out| write(out).with_context(|| unwritable(out)));
    let printed = print();
    if let Some(report) = written.transpose()? {
        print_note!("report: {}", report.display());
    }
    printed
}

/// Sees to the directory for the results before the run.
pub(super) fn prepare(arguments: &Arguments) -> Result<()> {
    arguments
        .out
        .as_deref()
        .map_or(Ok(()), |out| papers::report::prepare(out).with_context(|| unwritable(out)))
}

pub(super) fn unwritable(out: &Path) -> String {
    format!("--out {}: cannot be written", out.display())
}

/// For the terminal.
pub(super) fn terminal(
    papers::report::ReportTable { header, rows }: &papers::report::ReportTable,
) -> comfy_table::Table {
    let mut shown = table(&header.iter().map(String::as_str).collect::<Vec<_>>());
    shown.add_rows(rows);
    shown
}

/// A progress bar over so much simulated time, drawn on standard error if that is a terminal.
pub(super) fn bar(simulated: Duration) -> Result<ProgressBar> {
    let bar = ProgressBar::new(simulated.as_millis() as u64);
    bar.set_style(ProgressStyle::with_template("{bar:30} {percent:>3} % simulated, {elapsed}, {eta} to go")?);
    Ok(bar)
}
