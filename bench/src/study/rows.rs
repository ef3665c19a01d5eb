//! Rows of all runs, and their file: `cell;alternative;round;at;rows;others` and a column for each measure.
//!
//! A run has a row for each of its samples. They are written at once when the run has ended, each with their number. An
//! incomplete run is thus recognized, and repeated.

use std::fmt::Write as _;
use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

/// A sample of a run.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Row {
    pub(crate) cell: String,
    pub(crate) alternative: String,
    /// Number of the round, from 0.
    pub(crate) round: u32,
    /// Place of the sample in its run.
    pub(crate) at: f64,
    /// Processors used by other work during the run.
    pub(crate) others: f64,
    /// Values in the order of the columns.
    pub(crate) values: Vec<f64>,
}

impl Row {
    fn is_of(&self, cell: &str, alternative: &str) -> bool {
        self.cell == cell && self.alternative == alternative
    }
}

/// Rows with the same columns.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Rows {
    columns: Vec<String>,
    pub(crate) all: Vec<Row>,
    file: PathBuf,
}

/// Columns before those of the measures.
const FIXED: [&str; 6] = ["cell", "alternative", "round", "at", "rows", "others"];

impl Rows {
    /// Reads the complete runs of the file, or none if there is no file.
    ///
    /// # Errors
    /// Fails if the file has other columns, or an invalid line.
    pub(crate) fn open(file: &Path, columns: &[&str]) -> Result<Self> {
        let columns = columns.iter().map(|column| (*column).to_owned()).collect();
        let mut rows = Self { columns, all: Vec::new(), file: file.to_owned() };
        if let Ok(text) = fs::read_to_string(file) {
            rows.all = rows.parse(&text).with_context(|| file.display().to_string())?;
        }
        // Incomplete runs are removed.
        let text: String = rows.runs().map(lines).collect();
        fs::write(file, rows.header() + &text).with_context(|| file.display().to_string())?;
        Ok(rows)
    }

    fn header(&self) -> String {
        let columns = FIXED.iter().copied().chain(self.columns.iter().map(String::as_str));
        columns.collect::<Vec<_>>().join(";") + "\n"
    }

    fn parse(&self, text: &str) -> Result<Vec<Row>> {
        let whole = text.rfind('\n').map_or("", |end| &text[..=end]);
        let Some(rest) = whole.strip_prefix(&self.header()) else {
            ensure!(whole.is_empty(), "the file has other columns: move it away for a new session");
            return Ok(Vec::new());
        };
        let read = rest.lines().map(|line| self.row(line).with_context(|| line.to_owned()));
        let read = read.collect::<Result<Vec<(Row, usize)>>>()?;
        let runs = read.chunk_by(|(a, _), (b, _)| a.is_of(&b.cell, &b.alternative) && a.round == b.round);
        let whole = runs.filter(|run| run.len() == run[0].1);
        Ok(whole.flatten().map(|(row, _)| row.clone()).collect())
    }

    /// Parses a row, and the number of rows of its run.
    fn row(&self, line: &str) -> Result<(Row, usize)> {
        let fields: Vec<&str> = line.split(';').collect();
        ensure!(fields.len() == FIXED.len() + self.columns.len(), "{} fields", fields.len());
        let values = fields[FIXED.len()..].iter().map(|field| field.parse()).collect::<Result<_, _>>()?;
        let [cell, alternative] = [fields[0], fields[1]].map(str::to_owned);
        let (round, at, others) = (fields[2].parse()?, fields[3].parse()?, fields[5].parse()?);
        Ok((Row { cell, alternative, round, at, others, values }, fields[4].parse()?))
    }

    /// Returns the rows of each run.
    fn runs(&self) -> impl Iterator<Item = &[Row]> {
        self.all.chunk_by(|a, b| a.is_of(&b.cell, &b.alternative) && a.round == b.round)
    }

    /// Returns true if this run is complete.
    pub(crate) fn has(&self, cell: &str, alternative: &str, round: u32) -> bool {
        self.all.iter().any(|row| row.is_of(cell, alternative) && row.round == round)
    }

    /// Adds the rows of a run, to the file too.
    pub(crate) fn add(&mut self, run: Vec<Row>) -> Result<()> {
        let mut file = OpenOptions::new().append(true).open(&self.file)?;
        file.write_all(lines(&run).as_bytes())?;
        self.all.extend(run);
        Ok(())
    }

    fn column(&self, name: &str) -> usize {
        let at = self.columns.iter().position(|column| column == name);
        at.expect("measures, questions and pictures of a study name the same columns")
    }

    /// Returns the values of an alternative by round, in order. Without a place, those of the first sample.
    pub(crate) fn values(
        &self,
        cell: &str,
        alternative: &str,
        at: Option<f64>,
        column: &str,
    ) -> Vec<(u32, f64)> {
        let index = self.column(column);
        let is_there = |row: &&Row| at.is_none_or(|at| (row.at - at).abs() < 1e-9);
        let mut found: Vec<(u32, f64)> = Vec::new();
        for row in self.all.iter().filter(|row| row.is_of(cell, alternative)).filter(is_there) {
            if found.iter().all(|(round, _)| *round != row.round) {
                found.push((row.round, row.values[index]));
            }
        }
        found.sort_by_key(|(round, _)| *round);
        found
    }

    /// Returns the places of an alternative's samples, in order.
    pub(crate) fn places(&self, cell: &str, alternative: &str) -> Vec<f64> {
        let mut places: Vec<f64> =
            self.all.iter().filter(|row| row.is_of(cell, alternative)).map(|row| row.at).collect();
        places.sort_by(f64::total_cmp);
        places.dedup();
        places
    }
}

/// Returns the lines of a run.
fn lines(run: &[Row]) -> String {
    let mut text = String::new();
    for Row { cell, alternative, round, at, others, values } in run {
        let rows = run.len();
        write!(text, "{cell};{alternative};{round};{at};{rows};{others:.3}")
            .expect("writing to memory cannot fail");
        for value in values {
            write!(text, ";{value:.6}").expect("writing to memory cannot fail");
        }
        text.push('\n');
    }
    text
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::scratch::Scratch;

    /// Makes a run with a sample for each of these values, at places 0, 1 and so on.
    pub(crate) fn run(cell: &str, alternative: &str, round: u32, values: &[f64]) -> Vec<Row> {
        let [cell, alternative] = [cell, alternative].map(str::to_owned);
        let row = |(at, value): (u32, &f64)| Row {
            cell: cell.clone(),
            alternative: alternative.clone(),
            round,
            at: f64::from(at),
            others: 0.25,
            values: vec![*value],
        };
        (0..).zip(values).map(row).collect()
    }

    /// Makes rows without a file, with a column `ms`.
    pub(crate) fn rows(runs: &[Vec<Row>]) -> Rows {
        Rows { columns: vec!["ms".to_owned()], all: runs.concat(), file: PathBuf::new() }
    }

    #[test]
    fn a_session_goes_on_without_the_run_in_which_it_was_ended() {
        let scratch = Scratch::new("rows").expect("a folder");
        let file = scratch.path().join("rows.csv");
        let mut rows = Rows::open(&file, &["ms"]).expect("a new one");
        rows.add(run("some, load", "a", 0, &[1.5, f64::INFINITY])).expect("written");
        rows.add(run("some, load", "b", 0, &[2.5, 3.5])).expect("written");
        assert_eq!(Rows::open(&file, &["ms"]).expect("the same"), rows);

        let text = fs::read_to_string(&file).expect("there");
        // In the middle of a line, and between two rows of a run.
        for cut in [5, text.len() - text.trim_end().rfind('\n').expect("lines") - 1] {
            fs::write(&file, &text[..text.len() - cut]).expect("written");
            let cut = Rows::open(&file, &["ms"]).expect("the same");
            assert_eq!(["a", "b"].map(|name| cut.has("some, load", name, 0)), [true, false]);
        }
        let mut rows = Rows::open(&file, &["ms"]).expect("the same");
        rows.add(run("some, load", "b", 0, &[2.5, 3.5])).expect("written");
        assert_eq!(fs::read_to_string(&file).expect("there"), text);

        assert!(Rows::open(&file, &["s"]).is_err(), "other columns are another session");
        assert!(rows.parse(&text.replace("1.5", "x")).is_err());
    }

    #[test]
    fn values_of_a_place_are_in_the_order_of_rounds() {
        let rows = rows(&[
            run("c", "a", 1, &[10.0, 11.0]),
            run("c", "a", 0, &[20.0, 21.0]),
            run("c", "b", 0, &[0.0]),
        ]);
        assert_eq!(rows.values("c", "a", Some(1.0), "ms"), [(0, 21.0), (1, 11.0)]);
        assert_eq!(rows.values("c", "a", None, "ms"), [(0, 20.0), (1, 10.0)]);
        assert_eq!(rows.values("other", "a", None, "ms"), []);
        assert_eq!(rows.places("c", "a"), [0.0, 1.0]);
    }
}
