//! Cells: which are measured, and the file of all runs, from which a session that was ended goes on.

use std::fs::{self, File, OpenOptions};
use std::io::Write as _;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use clap::{Args, ValueEnum};
use sarabande_bench::elastic::Bench;
use sarabande_bench::elastic::cells::{
    Arrivals, Cell, CellBench, HEADER, Run, Runs, ServerFigures, ServerKind, Timeline, Way, line, parse,
    schedule,
};
use sarabande_bench::elastic::overhead::Extent;
use sarabande_bench::report::name;

use super::tables;
use crate::files::Files;

/// Of `--parts cells`.
#[derive(Args)]
#[command(next_help_heading = "Cells")]
pub(super) struct CellArguments {
    /// Runs of each cell and way, every second time in reverse order: 3. Also of each rate of the part overhead: 5.
    #[arg(long)]
    rounds: Option<u32>,
    /// Two cells of the first server, one round and short runs, to see whether all runs. The part overhead has two
    /// rounds of a second each.
    #[arg(long, conflicts_with_all = ["all", "rounds", "record"])]
    quick: bool,
    /// Every combination of the factors, not only each of them around the middle.
    #[arg(long)]
    all: bool,
    /// Goes on with a session that was ended: what is in its file is not measured again.
    #[arg(long)]
    resume: bool,
    /// Ways to share calls out.
    #[arg(long, value_delimiter = ',', default_values = ["round-robin", "kamailio", "tlwl", "tlwl-outlier", "queue", "queue-responses", "queue-monitors"])]
    ways: Vec<Way>,
    /// Programs of the servers; cells of others are left out.
    #[arg(long, value_delimiter = ',', default_values = ["kamailio", "python"])]
    servers: Vec<ServerKind>,
    /// When calls come.
    #[arg(long, value_enum, default_value = "poisson")]
    arrivals: Arrivals,
    /// Of the arrivals in the first round; each round has the next one.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// Parts of a run, and of one that is quick.
const TIMES: Timeline = Timeline { settle: 8.0, before: 4.0, after: 11.0 };
const QUICK: Timeline = Timeline { settle: 9.0, before: 1.0, after: 10.5 };

impl CellArguments {
    fn cells(&self) -> Vec<Cell> {
        let mut cells = if self.quick {
            self.servers.first().map_or_else(Vec::new, |server| Cell::few(*server))
        } else if self.all {
            Cell::all()
        } else {
            Cell::around_middle()
        };
        cells.retain(|cell| self.servers.contains(&cell.server));
        cells
    }

    /// How much the part overhead measures.
    pub(super) fn overhead(&self) -> Extent {
        let (rounds, seconds) = if self.quick { (2, 1) } else { (self.rounds.unwrap_or(5), 4) };
        Extent { rounds, length: Duration::from_secs(seconds) }
    }

    fn times(&self) -> Timeline {
        if self.quick { QUICK } else { TIMES }
    }
}

/// Lines of `text` up to the last that was written to its end.
fn whole_lines(text: &str) -> impl Iterator<Item = &str> {
    text.rsplit_once('\n').map_or("", |(whole, _)| whole).lines()
}

/// What there is of a session: a file with a line a run, and one with what the servers carry.
struct Session {
    runs_file: PathBuf,
    figures_file: PathBuf,
    runs: Runs,
    figures: Vec<(ServerKind, ServerFigures)>,
}

impl Session {
    /// A new one, or the one in `out`. A new one keeps the file of the one before under another name.
    fn open(out: &std::path::Path, resume: bool) -> Result<Self> {
        let [runs_file, figures_file] = ["runs.csv", "servers.csv"].map(|name| out.join(name));
        let mut session = Self { runs_file, figures_file, runs: Runs::default(), figures: Vec::new() };
        if resume {
            session.read()?;
        } else if session.runs_file.exists() {
            fs::rename(&session.runs_file, out.join("runs-before.csv"))?;
        }
        // What was read, without a line that was not written to its end.
        let lines: Vec<String> =
            session.runs.0.iter().map(|(run, result)| line(run, result) + "\n").collect();
        fs::write(&session.runs_file, format!("{HEADER}\n{}", lines.concat()))?;
        Ok(session)
    }

    fn read(&mut self) -> Result<()> {
        let name = |file: &PathBuf| file.display().to_string();
        let text = fs::read_to_string(&self.runs_file).with_context(|| name(&self.runs_file))?;
        let mut lines = whole_lines(&text);
        ensure!(lines.next() == Some(HEADER), "{} has other columns", name(&self.runs_file));
        self.runs.0 = lines.map(parse).collect::<Result<_>>()?;
        // Without it the session was ended before the first run.
        let text = fs::read_to_string(&self.figures_file).unwrap_or_default();
        self.figures = whole_lines(&text).map(read_figures).collect::<Result<_>>()?;
        Ok(())
    }

    fn add(&mut self, run: Run, result: sarabande_bench::elastic::cells::RunResult) -> Result<()> {
        let mut file: File = OpenOptions::new().append(true).open(&self.runs_file)?;
        file.write_all((line(&run, &result) + "\n").as_bytes())?;
        self.runs.0.push((run, result));
        Ok(())
    }

    /// What these servers carry: measured once a session, since loads are parts of it.
    fn figures(&mut self, bench: &CellBench, server: ServerKind) -> Result<ServerFigures> {
        if let Some((_, figures)) = self.figures.iter().find(|(known, _)| *known == server) {
            return Ok(*figures);
        }
        let figures = bench.prepare(server)?;
        eprintln!(
            "{server:?}: three carry {:.0} calls/s; threshold {} ms",
            figures.capacity, figures.threshold_ms
        );
        self.figures.push((server, figures));
        let lines: Vec<String> = self.figures.iter().map(figures_line).collect();
        fs::write(&self.figures_file, lines.concat())?;
        Ok(figures)
    }
}

fn figures_line((server, figures): &(ServerKind, ServerFigures)) -> String {
    format!("{},{:.1},{}\n", name(server), figures.capacity, figures.threshold_ms)
}

fn read_figures(line: &str) -> Result<(ServerKind, ServerFigures)> {
    let mut fields = line.split(',');
    let mut next = || fields.next().with_context(|| format!("what servers carry: {line}"));
    let server = ServerKind::from_str(next()?, false).map_err(anyhow::Error::msg)?;
    Ok((server, ServerFigures { capacity: next()?.parse()?, threshold_ms: next()?.parse()? }))
}

/// Measures what is not there yet, and writes all tables.
pub(super) fn run(
    bench: Bench,
    arguments: &CellArguments,
    out: &std::path::Path,
    record: bool,
) -> Result<()> {
    let out = out.join(if arguments.quick { "cells-quick" } else { "cells" });
    let files = Files::new("cells", &out, super::PICTURES)?;
    let mut session = Session::open(&out, arguments.resume)?;
    let times = arguments.times();
    let bench = CellBench { bench, times, arrivals: arguments.arrivals, seed: arguments.seed };
    let rounds = if arguments.quick { 1 } else { arguments.rounds.unwrap_or(3) };
    let mut runs = schedule(&arguments.cells(), &arguments.ways, rounds);
    runs.retain(|run| !session.runs.has(run));
    let seconds: f64 = runs.iter().map(|run| times.total(&run.cell)).sum();
    eprintln!("{} runs, {:.0} minutes and the starts of programs", runs.len(), seconds / 60.0);
    let since = Instant::now();
    for run in &runs {
        let figures = session.figures(&bench, run.cell.server)?;
        let what = || format!("round {}, {}, {}", run.round + 1, run.cell, run.way);
        let result = bench.run(run, &figures).with_context(what)?;
        session.add(*run, result)?;
        eprintln!(
            "{:5.0} s: {}: p50 {:.1}, p95 {:.1}, p99 {:.1} ms, shares {:.2?}, down {:.1} s, back {:.1} s, repeated {}, \
             refused {}, lost {} of {}; late {:.0} ms, others {:.2}",
            since.elapsed().as_secs_f64(),
            what(),
            result.p50_ms,
            result.p95_ms,
            result.p99_ms,
            result.shares,
            result.down_s,
            result.back_s,
            result.repeated,
            result.refused,
            result.lost,
            result.calls,
            result.late_ms,
            result.others
        );
        // After each run: a later one that fails takes nothing away.
        files.write(&[tables::part(&session.runs, &session.figures)], false)?;
    }
    files.write(&[tables::part(&session.runs, &session.figures)], record)?;
    println!("{}", files.page()?);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use sarabande_bench::elastic::cells::RunResult;
    use sarabande_bench::scratch::Scratch;

    #[test]
    fn a_session_goes_on_without_the_line_in_which_it_was_ended() {
        let scratch = Scratch::new("cells-session").expect("a folder");
        let out = scratch.path();
        let run = |round| Run { cell: Cell::middle(ServerKind::Kamailio), round, way: Way::Queue };
        let mut session = Session::open(out, false).expect("a new one");
        for round in 0..2 {
            session.add(run(round), RunResult { calls: 7.0, ..RunResult::default() }).expect("written");
        }
        let figures = ServerFigures { capacity: 1_234.5, threshold_ms: 12.0 };
        let line = figures_line(&(ServerKind::Kamailio, figures));
        fs::write(out.join("servers.csv"), &line).expect("written");
        let text = fs::read_to_string(out.join("runs.csv")).expect("there");
        fs::write(out.join("runs.csv"), &text[..text.len() - 9]).expect("written");

        let mut session = Session::open(out, true).expect("the same");
        assert_eq!(session.figures, [(ServerKind::Kamailio, figures)]);
        assert_eq!([0, 1].map(|round| session.runs.has(&run(round))), [true, false]);
        session.add(run(1), RunResult::default()).expect("written");
        let session = Session::open(out, true).expect("the same");
        assert_eq!([0, 1, 2].map(|round| session.runs.has(&run(round))), [true, true, false]);

        let session = Session::open(out, false).expect("a new one");
        assert!(session.runs.0.is_empty() && out.join("runs-before.csv").exists());
    }

    #[test]
    fn quick_is_the_middle_and_no_contention_and_a_server_is_left_out_where_asked() {
        use clap::Parser;
        // All arguments of the part: one of the others is named by those of cells.
        #[derive(Parser)]
        struct Only {
            #[command(flatten)]
            all: super::super::Arguments,
        }
        let of =
            |arguments: &[&str]| Only::try_parse_from([&[""], arguments].concat()).map(|only| only.all.cells);
        let quick = of(&["--quick"]).expect("good");
        assert_eq!(quick.cells(), Cell::few(ServerKind::Kamailio));
        // With two seconds for the start of each, and the preparation.
        let seconds: f64 = schedule(&quick.cells(), &quick.ways, 1)
            .iter()
            .map(|run| quick.times().total(&run.cell) + 2.0)
            .sum();
        assert!(seconds < 345.0, "{seconds}");
        for other in ["--all", "--rounds=2", "--record"] {
            assert!(of(&["--quick", other]).is_err(), "{other}");
        }
        // Contention elsewhere than at the servers' processors is measured where it is asked for.
        let usual = |cell: &Cell| matches!(cell.server, ServerKind::Kamailio | ServerKind::Python);
        let all: Vec<Cell> = Cell::all().into_iter().filter(usual).collect();
        assert_eq!(of(&["--all"]).expect("good").cells(), all);
        let extent = |arguments: &[&str]| {
            let Extent { rounds, length } = of(arguments).expect("good").overhead();
            (rounds, length.as_secs())
        };
        assert_eq!([extent(&[]), extent(&["--rounds=7"]), extent(&["--quick"])], [(5, 4), (7, 4), (2, 1)]);
        let python = of(&["--servers", "python"]).expect("good");
        assert_eq!(python.cells(), [Cell::middle(ServerKind::Python)]);
    }
}
