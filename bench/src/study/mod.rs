//! Studies compare alternatives on running processes, and draw conclusions from their rows.
//!
//! - [`Study`]: cells, which are conditions, each with the compared [`Alternative`]s. A run of an alternative plays its
//!   loads and returns samples. Each [`Measure`] is a number of a sample, and a column of the file.
//! - [`order`]: the order of runs, round by round, random within a round and cell.
//! - [`rows`]: the file of all rows, from which an interrupted session continues.
//! - [`verdict`]: comparison of values within a round, so that a slow hour of the machine affects both sides.
//! - [`page`]: tables and pictures, made from the rows alone.
//! - [`session`]: makes the runs that are not in the file yet, on an otherwise idle machine.
//!
//! Each study brings its own programs, control groups, configurations and questions: [`crate::cluster`],
//! [`crate::elastic`], [`crate::overload`], [`crate::distribution`].

pub(crate) mod order;
pub(crate) mod page;
pub(crate) mod rows;
pub(crate) mod session;
pub(crate) mod verdict;

use anyhow::Result;

pub(crate) use page::{Over, Picture};
pub(crate) use rows::Rows;
pub(crate) use session::{Figures, Session, StudyArguments};
pub(crate) use verdict::{Bound, Question, Values};

/// Measurements with one file of rows and one section of a page. `S` is a sample.
pub(crate) struct Study<'a, S> {
    /// Name of its files and its section.
    pub(crate) name: String,
    /// One line.
    pub(crate) title: String,
    /// A sentence or two above the tables.
    pub(crate) head: String,
    /// Meaning of a sample's place in its run, such as a load; empty if a run has one sample.
    pub(crate) at: &'static str,
    /// Events, if places are times. Tables then have a line for the time up to each mark.
    pub(crate) marks: Vec<(String, f64)>,
    pub(crate) layout: Layout,
    pub(crate) cells: Vec<Cell<'a, S>>,
    pub(crate) measures: Vec<Measure<S>>,
    pub(crate) questions: Vec<Question>,
    pub(crate) pictures: Vec<Picture>,
}

impl<S> Study<'_, S> {
    /// A study without cells and measures. Its runs have one sample each, and there are no questions and pictures.
    pub(crate) fn new(name: impl Into<String>, title: impl Into<String>, head: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            title: title.into(),
            head: head.into(),
            at: "",
            marks: Vec::new(),
            layout: Layout::LineForEachPlace,
            cells: Vec::new(),
            measures: Vec::new(),
            questions: Vec::new(),
            pictures: Vec::new(),
        }
    }
}

/// Form of the table of values.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Layout {
    /// A column for each measure.
    LineForEachPlace,
    /// A column for each place.
    LineForEachMeasure,
}

/// Conditions under which alternatives are compared.
pub(crate) struct Cell<'a, S> {
    pub(crate) name: String,
    /// Its x in pictures over cells; NaN if it is in none.
    pub(crate) x: f64,
    pub(crate) alternatives: Vec<Alternative<'a, S>>,
}

impl<'a, S> Cell<'a, S> {
    /// A cell in no picture over cells.
    pub(crate) fn new(name: impl Into<String>, alternatives: Vec<Alternative<'a, S>>) -> Self {
        Self { name: name.into(), x: f64::NAN, alternatives }
    }
}

/// Samples of a run, each with its place, in order.
pub(crate) type Samples<S> = Vec<(f64, S)>;

/// Starts the programs, plays the loads, ends the programs.
type Run<'a, S> = dyn Fn(&mut Round<'_>) -> Result<Samples<S>> + 'a;

/// One of the compared alternatives.
pub(crate) struct Alternative<'a, S> {
    pub(crate) name: String,
    /// A model runs after all others of its round, whose rows it may read, and needs no idle machine.
    pub(crate) is_model: bool,
    pub(crate) run: Box<Run<'a, S>>,
}

impl<'a, S> Alternative<'a, S> {
    /// An alternative on running processes.
    pub(crate) fn new(
        name: impl Into<String>,
        run: impl Fn(&mut Round<'_>) -> Result<Samples<S>> + 'a,
    ) -> Self {
        Self { name: name.into(), is_model: false, run: Box::new(run) }
    }

    /// An alternative in the simulator.
    pub(crate) fn model(
        name: impl Into<String>,
        run: impl Fn(&mut Round<'_>) -> Result<Samples<S>> + 'a,
    ) -> Self {
        Self { is_model: true, ..Self::new(name, run) }
    }
}

/// A number of each sample.
pub(crate) struct Measure<S> {
    /// Name, ending with the unit.
    pub(crate) column: &'static str,
    /// Decimal places in tables; `None`: only in the file.
    pub(crate) digits: Option<usize>,
    pub(crate) of: fn(&S) -> f64,
}

/// Context of a run in its session.
pub(crate) struct Round<'a> {
    /// Number of the round, from 0.
    pub(crate) number: u32,
    /// Seed of the arrivals, the same for all alternatives of a round.
    pub(crate) seed: u64,
    pub(crate) cell: &'a str,
    pub(crate) rows: &'a Rows,
    pub(crate) figures: &'a mut Figures,
}
