//! The figures that can be made, one file a subject: scenarios, sweeps, and the paper's statements as checks.

mod failing;
mod overload_10;
mod overload_11;
mod overload_14;
mod overload_7;
mod overload_8;
mod overload_9;
mod overload_control;
mod queueing;
mod scale;
mod series;
mod servartuka;
mod smace;
mod sweeps;
mod tlwl;
mod topology;

use crate::report::{Figure, Plot};
use core::num::NonZero;

/// How much is run for a figure.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Effort {
    /// As much as it takes to say something.
    Full,
    /// Shorter and fewer runs: wider intervals, the same statements.
    Quick,
    /// Seconds, too few to judge by: enough to see that something changed.
    Least,
}

/// How to make a figure.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Options {
    /// Decides all that is random.
    pub seed: u64,
    /// How much is run.
    pub effort: Effort,
    /// Runs at a time.
    pub threads: NonZero<usize>,
}

impl Options {
    /// A figure made under these options, to be filled.
    pub fn figure(&self, entry: &Entry, plots: Vec<Plot>) -> Figure {
        let quick = if self.effort == Effort::Full { "" } else { " --quick" };
        Figure {
            command: format!("sarabande sim figure {} --out DIR --seed {}{quick}", entry.name, self.seed),
            name: entry.name.to_owned(),
            title: entry.title.to_owned(),
            source: entry.source.to_owned(),
            tables: Vec::new(),
            plots,
            claims: Vec::new(),
            assumptions: Vec::new(),
            notes: Vec::new(),
            seed: self.seed,
            quick: self.effort != Effort::Full,
        }
    }

    /// One of two values: that of a full run, or that of a shorter one.
    pub fn pick<T>(&self, full: T, quick: T) -> T {
        if self.effort == Effort::Full { full } else { quick }
    }

    /// One of three values, by effort.
    pub fn scale<T>(&self, full: T, quick: T, least: T) -> T {
        match self.effort {
            Effort::Full => full,
            Effort::Quick => quick,
            Effort::Least => least,
        }
    }
}

/// How far a figure is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Progress<'a> {
    /// Runs that are over.
    pub done: usize,
    /// Of so many.
    pub of: usize,
    /// What is being run, in a few words.
    pub what: &'a str,
}

/// Makes a figure. The callback is told of every run that ends, on the calling thread.
pub type MakeFigure = fn(&Options, &dyn Fn(Progress<'_>)) -> Figure;

/// A figure that can be made.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// Name on the command line.
    pub name: &'static str,
    /// One line.
    pub title: &'static str,
    /// Where it comes from.
    pub source: &'static str,
    /// Makes it.
    pub run: MakeFigure,
}

/// All figures, in the order of the report.
pub fn all() -> &'static [Entry] {
    &[
        queueing::MM1,
        overload_7::OVERLOAD_7,
        overload_8::OVERLOAD_8,
        overload_9::OVERLOAD_9,
        overload_10::OVERLOAD_10,
        overload_11::OVERLOAD_11,
        overload_11::OVERLOAD_12,
        overload_14::OVERLOAD_14,
        overload_control::OVERLOAD_CONTROL,
        tlwl::INVITE,
        tlwl::BYE,
        tlwl::PEAK,
        tlwl::SCALING,
        tlwl::OCCUPANCY,
        tlwl::UNEQUAL,
        failing::FAILING,
        servartuka::COSTS,
        servartuka::UTILISATION,
        servartuka::CAPACITY,
        servartuka::GOODPUT,
        smace::LATENCY,
        smace::CONTENTION,
        smace::ESTIMATION,
        smace::GOODPUT,
        smace::RINGING,
        scale::DAY,
        scale::FLASH,
        scale::PAUSES,
    ]
}

/// A figure by name.
pub fn find(name: &str) -> Option<&'static Entry> {
    all().iter().find(|entry| entry.name == name)
}
