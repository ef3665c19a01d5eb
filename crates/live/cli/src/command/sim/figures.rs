//! Makes figures, with a progress bar, and sums up their verdicts.

use crate::admin::Exit;
use crate::command::load::table::table;
use crate::print;
use anyhow::{Context, Result, anyhow};
use comfy_table::{ContentArrangement, Table};
use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use papers::figures::{Effort, Entry, Options, Progress};
use papers::report::{Claim, ClaimVerdict, Figure, VerdictTally};
use sim::stats::sweep::{all_cores, sweep};
use std::io::IsTerminal as _;
use std::num::NonZero;
use std::path::PathBuf;

#[derive(clap::Args)]
pub(super) struct One {
    /// Its name; `sarabande sim list` lists them.
    name: String,
    #[command(flatten)]
    common: Common,
}

#[derive(clap::Args)]
pub(super) struct All {
    #[command(flatten)]
    common: Common,
}

#[derive(clap::Args)]
struct Common {
    /// Folder for the report, tables and plots; made if need be.
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// Shorter and fewer runs: wider intervals.
    #[arg(long)]
    quick: bool,
    /// Decides all that is random.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

pub(super) fn one(arguments: &One) -> Result<()> {
    let entry = papers::figures::find(&arguments.name).ok_or_else(|| {
        let names: Vec<_> = papers::figures::all().iter().map(|entry| entry.name).collect();
        anyhow!("there is no figure `{}`; there are: {}", arguments.name, names.join(", "))
    })?;
    make(&[*entry], &arguments.common)
}

pub(super) fn all(arguments: &All) -> Result<()> {
    make(papers::figures::all(), &arguments.common)
}

pub(super) fn list() -> Result<()> {
    let mut table = folded(&["figure", "what", "source"]);
    for entry in papers::figures::all() {
        table.add_row([entry.name, entry.title, entry.source]);
    }
    print::line(&table)
}

fn make(entries: &[Entry], common: &Common) -> Result<()> {
    let unwritable = || super::output::unwritable(&common.out);
    papers::report::prepare(&common.out).with_context(unwritable)?;
    let effort = if common.quick { Effort::Quick } else { Effort::Full };
    let options = Options { seed: common.seed, effort, threads: all_cores() };
    let (bars, count) = (MultiProgress::new(), entries.len());
    let one = |left: usize| {
        let at = count - 1 - left;
        made(&entries[at], &format!("{}/{count}", at + 1), &options, &bars)
    };
    // A sweep begins with its last.
    let mut figures = sweep(count, TOGETHER, one, |_| ());
    figures.reverse();
    let page = papers::report::write(&common.out, &figures).with_context(unwritable)?;
    // All statements of all figures are too many to read here.
    let all = figures.len() == 1;
    let shown = figures.iter().flat_map(|figure| figure.claims.iter().map(move |claim| (figure, claim)));
    let shown: Vec<_> = shown.filter(|(_, claim)| all || claim.verdict != ClaimVerdict::Holds).collect();
    if !shown.is_empty() {
        print_line!("{}\n", claims(&shown))?;
    }
    print_line!("{}\n{}", summary(&figures.iter().collect::<Vec<_>>()), page.display())?;
    judge(&figures)
}

/// The answer is no where a statement fails.
fn judge(figures: &[Figure]) -> Result<()> {
    let fails: usize = figures.iter().map(|figure| figure.tally().fails).sum();
    if fails == 0 { Ok(()) } else { Err(Exit::no(format!("statements that fail: {fails}"))) }
}

/// Figures made at a time: one may consist of a single run, or wait for its last one, and leave processors idle.
const TOGETHER: NonZero<usize> = NonZero::new(2).expect("it is not zero");

/// Makes a figure; `place` says which of all it is.
fn made(entry: &Entry, place: &str, options: &Options, bars: &MultiProgress) -> Figure {
    let style = ProgressStyle::with_template("{prefix:22} {bar:32} {pos}/{len} {msg} {elapsed}")
        .expect("the template is well formed");
    // Drawn on standard error, and only if that is a terminal.
    let bar = ProgressBar::no_length().with_style(style).with_prefix(format!("{place:>5} {}", entry.name));
    let bar = bars.add(bar);
    let figure = entry.make(options, &|Progress { done, of, what }| {
        bar.set_length(of as u64);
        bar.set_message(what.to_owned());
        bar.set_position(done as u64);
    });
    let name = bar.prefix();
    bar.println(format!("{name:22} {} ({:.0} s)", summary(&[&figure]), bar.elapsed().as_secs_f64()));
    bar.finish_and_clear();
    figure
}

/// A table of sentences: long ones are folded to the terminal's width; without one, to a readable width.
fn folded(columns: &[&str]) -> Table {
    let mut table = table(columns);
    for column in table.column_iter_mut() {
        column.set_cell_alignment(comfy_table::CellAlignment::Left);
    }
    let width =
        if std::io::stdout().is_terminal() { ratatui::crossterm::terminal::size().ok() } else { None };
    let width = width.map_or(WIDTH, |(columns, _)| columns);
    table.set_content_arrangement(ContentArrangement::Dynamic).set_width(width);
    table
}

/// One row a statement.
fn claims(claims: &[(&Figure, &Claim)]) -> Table {
    let mut table = folded(&["figure", "verdict", "statement", "measured"]);
    for (figure, claim) in claims {
        let verdict = match &claim.verdict {
            ClaimVerdict::Holds => "holds",
            ClaimVerdict::Fails => "FAILS",
            ClaimVerdict::Open => "open",
            ClaimVerdict::OutOfReach(_) => "out of reach",
        };
        let measured = [Some(claim.measured.as_str()), claim.why()].into_iter().flatten();
        let measured = measured.collect::<Vec<_>>().join("\nWhy: ");
        table.add_row([&figure.name, verdict, &claim.statement, &measured]);
    }
    table
}

/// Columns of a table that no terminal shows.
const WIDTH: u16 = 120;

/// All verdicts in one line, those that there are.
fn summary(figures: &[&Figure]) -> String {
    let mut all = VerdictTally::default();
    for figure in figures {
        all += figure.tally();
    }
    let counts = [
        (all.holds, "hold"),
        (all.fails, "fail"),
        (all.open, "open"),
        (all.out_of_reach, "out of reach of the model"),
    ];
    let counts = counts.into_iter().filter(|(count, _)| *count > 0);
    let counts: Vec<String> = counts.map(|(count, verdict)| format!("{count} {verdict}")).collect();
    format!("statements: {}", counts.join(", "))
}
