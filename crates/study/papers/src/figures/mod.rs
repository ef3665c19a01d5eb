//! The figures that can be made, one file a subject: scenarios, sweeps, and the paper's statements as checks.

/// What papers state, a table: where, what, the numbers that were measured, and whether they agree; then which plot
/// it is about, if not the first, and why it differs. `=>` stands before a claim that is made elsewhere.
macro_rules! claims {
    ($(
        $($source:expr, $statement:expr, [$($measured:tt)*], $holds:expr $(, $more:ident($argument:expr))*)?
        $(=> $claim:expr)?;
    )*) => {
        vec![$(
            $($crate::report::Claim::check($source, $statement, format!($($measured)*), $holds)$(.$more($argument))*)?
            $($claim)?
        ),*]
    };
}

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
use sim::cloud::{CloudPlan, CloudResults};
use sim::stats::sweep;

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

/// A figure that is being made: under which options, and who is told of every run that ends, on the calling thread.
#[derive(Clone, Copy)]
pub struct Work<'a> {
    options: Options,
    progress: &'a (dyn Fn(Progress<'_>) + Sync),
}

impl core::ops::Deref for Work<'_> {
    type Target = Options;

    fn deref(&self) -> &Options {
        &self.options
    }
}

impl Work<'_> {
    /// Makes runs 0 to `of` - 1.
    fn sweep<T: Send>(&self, what: &str, of: usize, run: impl Fn(usize) -> T + Sync) -> Vec<T> {
        sweep::sweep(of, self.threads, run, |done| (self.progress)(Progress { done, of, what }))
    }

    /// Makes so many runs of each case: their results, by case.
    fn replicate<C: Sync, T: Send>(
        &self,
        what: &str,
        cases: &[C],
        runs: usize,
        run: impl Fn(&C, u64) -> T + Sync,
    ) -> Vec<Vec<T>> {
        let done = |done| (self.progress)(Progress { done, of: runs * cases.len(), what });
        sweep::replicate(cases, runs, self.seed, self.threads, run, done)
    }

    /// Runs these clusters.
    fn clouds(&self, what: &str, plans: &[CloudPlan]) -> Vec<CloudResults> {
        self.sweep(what, plans.len(), |index| sim::cloud::run(&plans[index], self.seed))
    }

    /// Makes one run of each case.
    fn each<C: Sync, T: Send>(&self, what: &str, cases: &[C], run: impl Fn(&C, u64) -> T + Sync) -> Vec<T> {
        self.replicate(what, cases, 1, run).into_iter().flatten().collect()
    }
}

/// A figure that can be made.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// Name on the command line.
    pub name: &'static str,
    /// One line.
    pub title: &'static str,
    /// Where it comes from.
    pub source: &'static str,
    run: fn(&Work<'_>) -> Figure,
}

impl Entry {
    /// Makes it. The callback is told of every run that ends, on the calling thread.
    pub fn make(&self, options: &Options, progress: &(dyn Fn(Progress<'_>) + Sync)) -> Figure {
        (self.run)(&Work { options: *options, progress })
    }
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
        servartuka::ORDER,
        smace::LATENCY,
        smace::CONTENTION,
        smace::ESTIMATION,
        smace::GOODPUT,
        smace::RINGING,
        smace::DATABASE,
        smace::CARD,
        scale::DAY,
        scale::FLASH,
    ]
}

/// A figure by name.
pub fn find(name: &str) -> Option<&'static Entry> {
    all().iter().find(|entry| entry.name == name)
}
