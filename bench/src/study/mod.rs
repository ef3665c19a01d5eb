//! Studies: alternatives side by side on running processes, and what follows from their rows.
//!
//! - [`Study`]: cells, which are conditions, and in each cell the [`Alternative`]s that are compared. A run of one plays
//!   its loads and returns samples; each [`Measure`] is a number of a sample, a column of the file.
//! - [`order`]: which runs there are, round by round, in random order within a round and cell.
//! - [`rows`]: the file of all rows, from which a session goes on that was ended.
//! - [`verdict`]: values of the same round are compared, so that a slow hour of the machine is on both sides.
//! - [`page`]: tables and pictures, made of the rows alone.
//! - [`session`]: makes the runs that are not in the file yet, on a machine that does nothing else.
//!
//! Programs, control groups, configurations and questions are those of the studies: [`crate::cluster`],
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

/// What is measured together: one file of rows and one section of a page. `S` is a sample.
pub(crate) struct Study<'a, S> {
    /// Of its files and its section.
    pub(crate) name: String,
    /// One line.
    pub(crate) title: String,
    /// A sentence or two above the tables.
    pub(crate) head: String,
    /// What the place of a sample within its run is, such as a load; empty where a run has one sample.
    pub(crate) at: &'static str,
    /// Where places are times: what happens, and when. Tables then have a line for the time up to each mark.
    pub(crate) marks: Vec<(String, f64)>,
    pub(crate) cells: Vec<Cell<'a, S>>,
    pub(crate) measures: Vec<Measure<S>>,
    pub(crate) questions: Vec<Question>,
    pub(crate) pictures: Vec<Picture>,
}

impl<S> Study<'_, S> {
    /// Without cells and measures; its runs have one sample each, and nothing is asked of them or drawn.
    pub(crate) fn new(name: impl Into<String>, title: impl Into<String>, head: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            title: title.into(),
            head: head.into(),
            at: "",
            marks: Vec::new(),
            cells: Vec::new(),
            measures: Vec::new(),
            questions: Vec::new(),
            pictures: Vec::new(),
        }
    }
}

/// Conditions, under which alternatives are compared.
pub(crate) struct Cell<'a, S> {
    pub(crate) name: String,
    /// Where pictures over cells have it; NaN where they do not.
    pub(crate) x: f64,
    pub(crate) alternatives: Vec<Alternative<'a, S>>,
}

impl<'a, S> Cell<'a, S> {
    /// In no picture over cells.
    pub(crate) fn new(name: impl Into<String>, alternatives: Vec<Alternative<'a, S>>) -> Self {
        Self { name: name.into(), x: f64::NAN, alternatives }
    }
}

/// Samples of a run, each with its place, in order.
pub(crate) type Samples<S> = Vec<(f64, S)>;

/// Starts the programs, plays the loads, ends the programs.
type Run<'a, S> = dyn Fn(&mut Round<'_>) -> Result<Samples<S>> + 'a;

/// One way to do it.
pub(crate) struct Alternative<'a, S> {
    pub(crate) name: String,
    /// Runs after all others of its round, of which it may read the rows, and needs no idle machine.
    pub(crate) is_model: bool,
    pub(crate) run: Box<Run<'a, S>>,
}

impl<'a, S> Alternative<'a, S> {
    /// Running processes.
    pub(crate) fn new(
        name: impl Into<String>,
        run: impl Fn(&mut Round<'_>) -> Result<Samples<S>> + 'a,
    ) -> Self {
        Self { name: name.into(), is_model: false, run: Box::new(run) }
    }

    /// The simulator.
    pub(crate) fn model(
        name: impl Into<String>,
        run: impl Fn(&mut Round<'_>) -> Result<Samples<S>> + 'a,
    ) -> Self {
        Self { is_model: true, ..Self::new(name, run) }
    }
}

/// A number of each sample.
pub(crate) struct Measure<S> {
    /// With its unit last.
    pub(crate) column: &'static str,
    /// Digits after the point, in tables. `None`: it is in the file alone.
    pub(crate) digits: Option<usize>,
    pub(crate) of: fn(&S) -> f64,
}

/// What a run knows of the session that it is part of.
pub(crate) struct Round<'a> {
    /// From 0.
    pub(crate) number: u32,
    /// Of the arrivals: the same for all alternatives of a round.
    pub(crate) seed: u64,
    pub(crate) cell: &'a str,
    pub(crate) rows: &'a Rows,
    pub(crate) figures: &'a mut Figures,
}
