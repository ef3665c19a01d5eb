//! Makes figures, with a progress bar, and sums up their verdicts.

use crate::admin::Exit;
use crate::command::load::table::table;
use crate::print;
use anyhow::{Context, Result, anyhow};
use comfy_table::{ContentArrangement, Table};
use indicatif::{ProgressBar, ProgressStyle};
use papers::figures::{Effort, Entry, FigureOptions, Progress, Shared};
use papers::report::{Figure, Statement, StatementVerdict};
use sim::stats::sweep::{all_cores, sweep};
use std::io::IsTerminal as _;
use std::num::NonZero;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard};
use std::time::Instant;

#[derive(clap::Args)]
pub(super) struct One {
    /// Name of the figure; `sarabande sim list` lists them.
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
    /// Directory for the report, tables and plots; it is created if necessary.
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// Make shorter and fewer runs, with wider confidence intervals.
    #[arg(long)]
    quick: bool,
    /// Seed of all random numbers.
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
    let options = FigureOptions { seed: common.seed, effort, threads: all_cores() };
    // A sweep starts with its last element. So the longest figure starts first, and the last ones are short.
    let mut entries = entries.to_vec();
    entries.sort_by_key(|entry| entry.seconds);
    let (progress, shared) = (FiguresProgress::new(&entries, &options), Shared::default());
    let one = |at: usize| progress.make(&entries[at], &options, &shared);
    let mut figures = sweep(entries.len(), TOGETHER, one, |_| ());
    progress.bar.finish_and_clear();
    figures.sort_by_key(|figure| papers::figures::all().iter().position(|entry| entry.name == figure.name));
    let page = papers::report::write(&common.out, &figures).with_context(unwritable)?;
    // The statements of all figures are too many for a terminal.
    let all = figures.len() == 1;
    let shown = figures.iter().flat_map(|figure| figure.claims.iter().map(move |claim| (figure, claim)));
    let shown: Vec<_> = shown.filter(|(_, claim)| all || claim.verdict != StatementVerdict::Holds).collect();
    if !shown.is_empty() {
        print_line!("{}\n", claims(&shown))?;
    }
    print_line!("{}\n{}", summary(&figures), page.display())?;
    judge(&figures)
}

/// Returns an error if a statement fails.
fn judge(figures: &[Figure]) -> Result<()> {
    let [_, fails, ..] = Figure::tally(figures);
    if fails == 0 { Ok(()) } else { Err(Exit::no(format!("statements that fail: {fails}"))) }
}

/// Number of figures made at a time. A single figure may leave processors idle, if it has one run or waits for its last
/// run.
const TOGETHER: NonZero<usize> = NonZero::new(2).expect("2 is not zero");

/// Progress of the figures in work, and the estimated time left. On a terminal one line is updated; otherwise each
/// finished figure has a line.
struct FiguresProgress {
    /// Hidden if standard error is no terminal.
    bar: ProgressBar,
    count: usize,
    /// Seconds that a quick run takes on all processors.
    quick: Option<f64>,
    reached: Mutex<Reached>,
}

/// Number of finished figures, and processor seconds of quick runs of finished and of unfinished figures.
#[derive(Default)]
struct Reached {
    finished: usize,
    done: u32,
    started: u32,
}

impl FiguresProgress {
    fn new(entries: &[Entry], options: &FigureOptions) -> Self {
        let (count, seconds) = (entries.len(), entries.iter().map(|entry| entry.seconds).sum::<u32>());
        let style = ProgressStyle::with_template("{bar:24} {msg}").expect("the template is valid");
        let threads = options.threads.get() as f64;
        let quick = (options.effort == Effort::Quick).then_some(f64::from(seconds) / threads);
        let bar = ProgressBar::new(seconds.into()).with_style(style);
        let progress = Self { bar, count, quick, reached: Mutex::default() };
        if count > 1 {
            print_note!("{count} figures, the longest first{}", progress.left(&Reached::default()));
        }
        progress
    }

    /// Makes a figure.
    fn make(&self, entry: &Entry, options: &FigureOptions, shared: &Shared) -> Figure {
        let start = Instant::now();
        self.reached().started += entry.seconds;
        let figure = entry.make(options, shared, &|Progress { done, of, what }| {
            let left = self.left(&self.reached());
            if self.count == 1 {
                self.bar.set_length(of as u64);
                self.bar.set_position(done as u64);
            }
            self.bar.set_message(format!("{}: {what}, {done} of {of}{left}", entry.name));
        });
        let mut reached = self.reached();
        reached.finished += 1;
        reached.done += entry.seconds;
        reached.started -= entry.seconds;
        if self.count > 1 {
            self.bar.set_position(reached.done.into());
            let (place, took) = (format!("{}/{}", reached.finished, self.count), start.elapsed().as_secs());
            let (name, summary, left) = (entry.name, summary([&figure]), self.left(&reached));
            self.bar.suspend(|| print_note!("{place:>5} {name:16} {summary} ({took} s){left}"));
        }
        figure
    }

    fn reached(&self) -> MutexGuard<'_, Reached> {
        self.reached.lock().expect("no thread panics while it holds the lock")
    }

    /// Text about the time left of several figures, at the pace so far. Before the first figure is finished, the time
    /// of quick runs counts.
    fn left(&self, reached: &Reached) -> String {
        if self.count == 1 {
            return String::new();
        }
        let all = self.bar.length().unwrap_or_default() as f64;
        // Figures in work count as half finished.
        let done = f64::from(reached.done) + f64::from(reached.started) / 2.0;
        let elapsed = self.bar.elapsed().as_secs_f64();
        let left = match self.quick {
            _ if reached.done > 0 => elapsed * (all - done) / done,
            Some(quick) => quick - elapsed,
            None => return String::new(),
        };
        let left = left.max(0.0) as u64;
        format!("; about {}:{:02} left", left / 60, left % 60)
    }
}

/// A table of sentences. Long ones are folded to the terminal's width, or to a readable width without a terminal.
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

/// A table with a row for each statement.
fn claims(claims: &[(&Figure, &Statement)]) -> Table {
    let mut table = folded(&["figure", "verdict", "statement", "measured"]);
    for (figure, claim) in claims {
        let verdict = ["holds", "FAILS", "open", "out of reach"][claim.verdict.place()];
        let measured = [Some(claim.measured.as_str()), claim.why()].into_iter().flatten();
        let measured = measured.collect::<Vec<_>>().join("\nWhy: ");
        table.add_row([&figure.name, verdict, &claim.statement, &measured]);
    }
    table
}

/// Columns of a table without a terminal.
const WIDTH: u16 = 120;

/// Counts of all verdicts in one line.
fn summary<'a>(figures: impl IntoIterator<Item = &'a Figure>) -> String {
    let words = ["hold", "fail", "open", "out of reach of the model"];
    let counts = Figure::tally(figures).into_iter().zip(words).filter(|(count, _)| *count > 0);
    let counts: Vec<String> = counts.map(|(count, verdict)| format!("{count} {verdict}")).collect();
    format!("statements: {}", counts.join(", "))
}
