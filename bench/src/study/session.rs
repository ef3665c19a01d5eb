//! A session: runs the missing runs of a study, one after the other.

use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use clap::Args;
use md5::{Digest as _, Md5};

use super::order::order;
use super::page::{Section, line};
use super::rows::Row;
use super::{Round, Rows, Study};
use crate::process::{Others, adopt_orphans, busiest_other, reap_orphans};
use crate::rig::ProgramPaths;

/// Highest usage of another process before a run, as a fraction of a processor.
const BUSY_MAX: f64 = 0.05;
/// Longest wait for that.
const CALM_WAIT: Duration = Duration::from_mins(2);

/// Options of every study.
#[derive(Args, Clone, Debug)]
pub(crate) struct StudyArguments {
    #[command(flatten)]
    pub(crate) programs: ProgramPaths,
    /// Number of rounds, each with all alternatives in random order. With 0 the existing rows are only printed.
    #[arg(long, default_value_t = 5)]
    rounds: u32,
    /// Seed of the order of runs and of the arrivals. Each round has its own arrivals.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Makes one round of short runs, on a machine that may be busy, to check that all programs run. Uses a separate
    /// folder.
    #[arg(long, conflicts_with_all = ["rounds", "record"])]
    pub(crate) quick: bool,
    /// Only cells whose name contains this text.
    #[arg(long, default_value = "")]
    cell: String,
    /// Only alternatives whose name contains this text.
    #[arg(long, default_value = "")]
    only: String,
    /// Folder of rows, pictures, and figures that are measured once. A session continues with existing rows. Move them
    /// away for a new session.
    #[arg(long, default_value = "target/study")]
    out: PathBuf,
    /// Copies rows, tables and pictures to the documentation.
    #[arg(long)]
    record: bool,
}

/// Numbers measured once a session, because loads are multiples of them.
pub(crate) struct Figures {
    file: PathBuf,
    known: Vec<(String, f64)>,
}

impl Figures {
    fn open(file: PathBuf) -> Self {
        let text = fs::read_to_string(&file).unwrap_or_default();
        let figure = |line: &str| {
            let (name, value) = line.rsplit_once(';')?;
            Some((name.to_owned(), value.parse().ok()?))
        };
        Self { file, known: text.lines().filter_map(figure).collect() }
    }

    /// Returns the number of this name, if it is known.
    pub(crate) fn get(&self, name: &str) -> Option<f64> {
        self.known.iter().find(|(known, _)| known == name).map(|(_, value)| *value)
    }

    /// Returns the number of this name, and measures it if it is not known.
    pub(crate) fn once(&mut self, name: &str, find: impl FnOnce() -> Result<f64>) -> Result<f64> {
        if let Some(value) = self.get(name) {
            return Ok(value);
        }
        let value = find().with_context(|| name.to_owned())?;
        eprintln!("{name}: {value:.1}");
        self.known.push((name.to_owned(), value));
        let lines: Vec<String> = self.known.iter().map(|(name, value)| format!("{name};{value}\n")).collect();
        fs::write(&self.file, lines.concat())?;
        Ok(value)
    }
}

/// The parts of one study, measured one after the other.
pub(crate) struct Session<'a> {
    arguments: &'a StudyArguments,
    out: PathBuf,
    /// Folder of the documentation for pictures and rows. Its page has the same name with `.md`.
    kept: PathBuf,
    figures: Figures,
}

/// Fails for rows of another program or seed, which must not be compared with those of this session.
fn check_session(file: &Path, arguments: &StudyArguments) -> Result<()> {
    let program = arguments.programs.sarabande()?;
    let content = fs::read(&program).with_context(|| program.display().to_string())?;
    let program = u128::from_be_bytes(Md5::digest(content).into());
    let session = format!("seed {}, program {program:032x}\n", arguments.seed);
    match fs::read_to_string(file) {
        Ok(known) if known != session => {
            bail!("{}: its rows are of another program or seed; move the folder away", file.display())
        }
        Ok(_) => Ok(()),
        Err(_) => fs::write(file, session).with_context(|| file.display().to_string()),
    }
}

impl<'a> Session<'a> {
    /// Opens the session of the study of this name.
    pub(crate) fn open(name: &str, arguments: &'a StudyArguments) -> Result<Self> {
        let folder = if arguments.quick { format!("{name}-quick") } else { name.to_owned() };
        let out = arguments.out.join(folder);
        fs::create_dir_all(&out).with_context(|| out.display().to_string())?;
        if arguments.rounds > 0 {
            check_session(&out.join("session.txt"), arguments)?;
        }
        adopt_orphans()?;
        let figures = Figures::open(out.join("figures.csv"));
        Ok(Self { arguments, kept: Path::new("docs/evidence").join(name), figures, out })
    }

    /// Makes the missing runs of a part, and prints the results of all rows.
    pub(crate) fn measure<S>(&mut self, study: &Study<'_, S>) -> Result<Rows> {
        let arguments = self.arguments;
        let file = self.out.join(format!("{}.csv", study.name));
        let columns: Vec<&str> = study.measures.iter().map(|measure| measure.column).collect();
        let mut rows = Rows::open(&file, &columns)?;
        let models = |cell: &super::Cell<'_, S>| cell.alternatives.iter().map(|it| it.is_model).collect();
        let models: Vec<Vec<bool>> = study.cells.iter().map(models).collect();
        let mut runs = order(&models, if arguments.quick { 1 } else { arguments.rounds }, arguments.seed);
        runs.retain(|run| {
            let cell = &study.cells[run.cell];
            let name = &cell.alternatives[run.alternative].name;
            let is_asked_for = cell.name.contains(&arguments.cell) && name.contains(&arguments.only);
            is_asked_for && !rows.has(&cell.name, name, run.round)
        });
        for (number, run) in (1..).zip(&runs) {
            let cell = &study.cells[run.cell];
            let alternative = &cell.alternatives[run.alternative];
            let label = format!("round {}, {}, {}", run.round + 1, cell.name, alternative.name);
            if !alternative.is_model && !arguments.quick {
                await_calm()?;
            }
            let (start, others) = (Instant::now(), Others::watch()?);
            let seed = arguments.seed + u64::from(run.round);
            let mut round =
                Round { number: run.round, seed, cell: &cell.name, rows: &rows, figures: &mut self.figures };
            let samples = (alternative.run)(&mut round).with_context(|| label.clone())?;
            if !alternative.is_model {
                reap_orphans();
            }
            let others = others.processors()?;
            let row = |(at, sample): &(f64, S)| Row {
                cell: cell.name.clone(),
                alternative: alternative.name.clone(),
                round: run.round,
                at: *at,
                others,
                values: study.measures.iter().map(|measure| (measure.of)(sample)).collect(),
            };
            let run_rows: Vec<Row> = samples.iter().map(row).collect();
            let last = run_rows.last().map(|row| line(study, &row.values)).unwrap_or_default();
            let (of, seconds) = (runs.len(), start.elapsed().as_secs_f64());
            eprintln!("{number} of {of}, {seconds:.0} s, others {others:.2}: {label}: {last}");
            rows.add(run_rows)?;
        }
        let rows = Rows::open(&file, &columns)?;
        let section = Section::of(study, &rows);
        // A picture's data may have the name of the study, as its rows do.
        let pictures = self.out.join("pictures");
        section.draw(&pictures)?;
        println!("## {}\n\n{}", study.title, section.markdown(""));
        if arguments.record {
            section.keep(&pictures, &file, &self.kept)?;
        }
        Ok(rows)
    }

    /// Returns true if results are to be kept.
    pub(crate) fn records(&self) -> bool {
        self.arguments.record
    }
}

/// Waits until no other process uses more than a twentieth of a processor.
fn await_calm() -> Result<()> {
    let start = Instant::now();
    loop {
        let (name, share) = busiest_other(Duration::from_secs(1))?;
        if share <= BUSY_MAX {
            return Ok(());
        }
        if start.elapsed() > CALM_WAIT {
            bail!(
                "{name} takes {:.0} % of a processor: end it, and start again; existing rows are kept",
                100.0 * share
            );
        }
        thread::sleep(Duration::from_secs(1));
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::super::{Alternative, Cell, Measure};
    use super::*;
    use crate::scratch::Scratch;

    fn arguments(out: &Path, rounds: u32) -> StudyArguments {
        StudyArguments {
            // Any file that does not change.
            programs: ProgramPaths { sarabande: Some("Cargo.toml".into()), ..ProgramPaths::default() },
            rounds,
            seed: 1,
            // No wait for an idle machine, and one round.
            quick: rounds == 1,
            cell: String::new(),
            only: String::new(),
            out: out.to_owned(),
            record: false,
        }
    }

    /// Runs two models, of which one may fail, and records how often each ran.
    fn measure(
        arguments: &StudyArguments,
        made: &RefCell<Vec<(&'static str, u32)>>,
        fails: bool,
    ) -> Result<Rows> {
        let alternative = |name: &'static str| {
            Alternative::model(name, move |round| {
                anyhow::ensure!(!fails || name != "b", "no");
                made.borrow_mut().push((name, round.number));
                Ok(vec![(0.0, round.figures.once("capacity", || Ok(2.5))?)])
            })
        };
        let study = Study {
            cells: vec![Cell::new("c", ["a", "b"].map(alternative).into())],
            measures: vec![Measure { column: "ms", digits: Some(0), of: |ms: &f64| *ms }],
            ..Study::new("part", "", "")
        };
        Session::open("some", arguments)?.measure(&study)
    }

    #[test]
    fn a_session_makes_only_the_missing_runs() {
        let scratch = Scratch::new("session").expect("a folder");
        let made = RefCell::new(Vec::new());
        assert!(measure(&arguments(scratch.path(), 2), &made, true).is_err());
        let rows = measure(&arguments(scratch.path(), 2), &made, false).expect("it goes on");
        made.borrow_mut().sort_unstable();
        assert_eq!(*made.borrow(), [("a", 0), ("a", 1), ("b", 0), ("b", 1)]);
        assert_eq!(rows.values("c", "a", None, "ms"), [(0, 2.5), (1, 2.5)]);

        // A session does not continue with rows of another seed.
        let other = StudyArguments { seed: 2, ..arguments(scratch.path(), 2) };
        assert!(
            measure(&other, &made, false).is_err_and(|error| error.to_string().contains("another program"))
        );

        // With zero rounds, rows are printed without a run. Quick runs have their own rows. Options select
        // alternatives.
        let printed = measure(&arguments(scratch.path(), 0), &made, true).expect("nothing to run");
        assert_eq!((printed, made.borrow().len()), (rows, 4));
        let few = StudyArguments { only: "a".to_owned(), ..arguments(scratch.path(), 1) };
        measure(&few, &made, true).expect("it leaves out what fails");
        assert_eq!(made.borrow().len(), 5);
        let figures = Figures::open(scratch.path().join("some").join("figures.csv"));
        assert_eq!((figures.get("capacity"), figures.get("other")), (Some(2.5), None));
    }
}
