//! Runs a scenario with typed messages and prints what came of it.

use super::vary::{self, Vary};
use crate::command::load::table::table;
use crate::print;
use anyhow::{Context, Result, anyhow, bail};
use config::scenario;
use indicatif::{ProgressBar, ProgressStyle};
use sim::survey::{
    HostSurvey, Intervals, Judged, Mean, Shares, StreamSurvey, Survey, TooWide, figure, survey,
};
use std::path::PathBuf;

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
    /// service times, or an `invite_work` other than 1.75. Proxies and balancers take no time: what they cost is left
    /// out.
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
    let bar = bar(scenario.run.replications.max(1).into())?;
    let (survey, runs) = survey(&scenario, |done| bar.set_position(done as u64));
    bar.finish_and_clear();
    // First: who reads the table may be gone.
    if let Some(out) = &arguments.out {
        let file = arguments.file.display().to_string();
        let figure = figure(&scenario, &runs[0], &arguments.name(), &file);
        let report = sim::report::write(out, &[figure])
            .with_context(|| format!("{} can't be written", out.display()))?;
        print_note!("report: {}", report.display());
    }
    if arguments.json { print::line(serde_json::to_string_pretty(&survey)?) } else { print(&survey) }
}

/// A progress bar over so many runs.
pub(super) fn bar(runs: u64) -> Result<ProgressBar> {
    let bar = ProgressBar::new(runs);
    bar.set_style(ProgressStyle::with_template("{bar:30} {pos}/{len} runs, {elapsed}")?);
    Ok(bar)
}

fn print(survey: &Survey) -> Result<()> {
    let runs = if survey.replications == 1 { "run" } else { "runs" };
    print_line!("{}: {} {runs}, {} messages", survey.title, survey.replications, survey.messages)?;
    let mut streams = table(&["calls", "offered/s", "completed/s", "setup", "setup p99"]);
    let mut endings =
        table(&["ended", "completed", "refused", "abandoned", "INVITE unanswered", "BYE failed"]);
    for StreamSurvey { name, offered, goodput, ended, setup_seconds, setup_p99_seconds } in &survey.streams {
        streams.add_row([
            name.clone(),
            show(offered, 1.0, 1),
            show(goodput, 1.0, 1),
            show_any(setup_seconds.as_ref(), 1e3, 1, "ms"),
            show_any(setup_p99_seconds.as_ref(), 1e3, 1, "ms"),
        ]);
        let shares = ended.as_ref().map(|ended| {
            let Shares { completed, refused, abandoned, invite_timeouts, bye_failures } = ended;
            [completed, refused, abandoned, invite_timeouts, bye_failures]
        });
        let shares = (0..5).map(|at| show_any(shares.map(|shares| shares[at]), 100.0, 2, "%"));
        endings.add_row([name.clone()].into_iter().chain(shares));
    }
    print::line(&streams)?;
    print::line(&endings)?;
    let mut hosts = table(&["host", "utilisation", "sent again/s", "dropped/s", "rejected/s"]);
    for HostSurvey { name, utilisation, resends, dropped, rejected } in &survey.hosts {
        hosts.add_row([
            name.clone(),
            format!("{} %", show(utilisation, 100.0, 1)),
            show(resends, 1.0, 1),
            show(dropped, 1.0, 1),
            show(rejected, 1.0, 1),
        ]);
    }
    print::line(&hosts)?;
    print::line(interval_remark(survey.intervals))?;
    too_wide(survey, "")
}

/// Says what is not sure enough; `at` says of which survey.
pub(super) fn too_wide(survey: &Survey, at: &str) -> Result<()> {
    for TooWide { stream, figure } in &survey.too_wide {
        let figure = match figure {
            Judged::Goodput => "completed calls",
            Judged::SetupSeconds => "setup time",
        };
        print_line!("{at}{stream}: the interval of the {figure} is too wide; run longer or more often")?;
    }
    Ok(())
}

pub(super) fn interval_remark(intervals: Intervals) -> &'static str {
    match intervals {
        Intervals::Replications => "± is half of a 95 % interval, over the runs",
        Intervals::BatchMeans => {
            "one run: ± is half of a 95 % interval by batch means; set run.replications for the other figures"
        }
        Intervals::None => "one run: no intervals; set run.replications",
    }
}

/// With its unit; a dash where there is nothing to take a mean of.
pub(super) fn show_any(value: Option<&Mean>, factor: f64, digits: usize, unit: &str) -> String {
    value.map_or_else(|| "-".to_owned(), |value| format!("{} {unit}", show(value, factor, digits)))
}

/// A mean, with the half width of its interval if there is one.
pub(super) fn show(value: &Mean, factor: f64, digits: usize) -> String {
    let mean = format!("{:.digits$}", value.mean * factor);
    match value.half_width {
        Some(half) => format!("{mean} ± {:.digits$}", half * factor),
        None => mean,
    }
}
