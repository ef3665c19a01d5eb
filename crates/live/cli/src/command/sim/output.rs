//! Output of scenarios: progress, then tables on the terminal and a report.

use super::arguments::Arguments;
use crate::command::load::table::table;
use anyhow::{Context, Result};
use indicatif::{ProgressBar, ProgressStyle};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Writes the report, if requested, and prints the results. Both are tried: the disk may be full, or the reader may
/// have gone away.
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

/// Creates the directory of the results before the run.
pub(super) fn prepare(arguments: &Arguments) -> Result<()> {
    arguments
        .out
        .as_deref()
        .map_or(Ok(()), |out| papers::report::prepare(out).with_context(|| unwritable(out)))
}

pub(super) fn unwritable(out: &Path) -> String {
    format!("--out {}: cannot be written", out.display())
}

/// A table for the terminal.
pub(super) fn terminal(
    papers::report::ReportTable { header, rows }: &papers::report::ReportTable,
) -> comfy_table::Table {
    let mut shown = table(&header.iter().map(String::as_str).collect::<Vec<_>>());
    shown.add_rows(rows);
    shown
}

/// A progress bar over this much simulated time, on standard error if that is a terminal.
pub(super) fn bar(simulated: Duration) -> Result<ProgressBar> {
    let bar = ProgressBar::new(simulated.as_millis() as u64);
    bar.set_style(ProgressStyle::with_template("{bar:30} {percent:>3} % simulated, {elapsed}, {eta} to go")?);
    Ok(bar)
}
