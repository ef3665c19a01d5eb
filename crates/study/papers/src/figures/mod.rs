//! All figures, one file per subject: scenarios, sweeps, and the papers' statements as checks.

/// Makes a list of claims from a table: source, statement, measured numbers, and whether both agree. Optional further
/// columns are the plot, if it is not the first, and the cause of a difference. `=>` precedes a claim that is made
/// elsewhere.
macro_rules! claims {
    ($(
        $($source:expr, $statement:expr, [$($measured:tt)*], $holds:expr $(, $more:ident($argument:expr))*)?
        $(=> $claim:expr)?;
    )*) => {
        vec![$(
            $($crate::report::Statement::check($source, $statement, format!($($measured)*), $holds)$(.$more($argument))*)?
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
use std::sync::OnceLock;

/// Number and length of the runs for a figure.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Effort {
    /// Long enough for reliable statements.
    Full,
    /// Shorter and fewer runs: wider intervals, the same statements.
    Quick,
    /// Runs of seconds, too short for statements but enough to detect a change.
    Least,
}

/// Options of making a figure.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FigureOptions {
    /// Seed of all random numbers.
    pub seed: u64,
    /// Number and length of the runs.
    pub effort: Effort,
    /// Number of runs at the same time.
    pub threads: NonZero<usize>,
}

impl FigureOptions {
    /// Selects one of three values by effort.
    pub fn scale<T>(&self, full: T, quick: T, least: T) -> T {
        match self.effort {
            Effort::Full => full,
            Effort::Quick => quick,
            Effort::Least => least,
        }
    }
}

/// Progress of a figure.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Progress<'a> {
    /// Number of completed runs.
    pub done: usize,
    /// Total number of runs.
    pub of: usize,
    /// Short description of the runs.
    pub what: &'a str,
}

/// Runs that several figures use, with one seed and effort. The first of these figures makes them, and the others wait.
#[derive(Default, Debug)]
pub struct Shared {
    tlwl: OnceLock<tlwl::Runs>,
    local_control: OnceLock<Vec<sweeps::Curve>>,
}

/// A figure in progress: its options, and the callback for each completed run, which runs on the calling thread.
#[derive(Clone, Copy)]
pub struct FigureRun<'a> {
    entry: &'a Entry,
    options: FigureOptions,
    shared: &'a Shared,
    progress: &'a (dyn Fn(Progress<'_>) + Sync),
}

impl core::ops::Deref for FigureRun<'_> {
    type Target = FigureOptions;

    fn deref(&self) -> &FigureOptions {
        &self.options
    }
}

impl FigureRun<'_> {
    /// Returns the figure without tables, claims and notes.
    fn figure(&self, plots: Vec<Plot>) -> Figure {
        let Entry { name, title, source, .. } = *self.entry;
        let quick = if self.effort == Effort::Full { "" } else { " --quick" };
        Figure {
            command: format!("sarabande sim figure {name} --out DIR --seed {}{quick}", self.seed),
            name: name.to_owned(),
            title: title.to_owned(),
            source: source.to_owned(),
            tables: Vec::new(),
            plots,
            claims: Vec::new(),
            assumptions: Vec::new(),
            notes: Vec::new(),
            seed: self.seed,
            quick: self.effort != Effort::Full,
        }
    }

    /// Makes runs 0 to `of` - 1.
    fn sweep<T: Send>(&self, what: &str, of: usize, run: impl Fn(usize) -> T + Sync) -> Vec<T> {
        sweep::sweep(of, self.threads, run, |done| (self.progress)(Progress { done, of, what }))
    }

    /// Makes this number of runs of each case. Returns the results by case.
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
    /// Title of one line.
    pub title: &'static str,
    /// Paper and figure, or other source.
    pub source: &'static str,
    /// Approximate processor seconds of a quick run.
    pub seconds: u32,
    run: fn(&FigureRun<'_>) -> Figure,
}

impl Entry {
    /// Makes the figure. The callback gets each completed run, on the calling thread.
    pub fn make(
        &self,
        options: &FigureOptions,
        shared: &Shared,
        progress: &(dyn Fn(Progress<'_>) + Sync),
    ) -> Figure {
        (self.run)(&FigureRun { entry: self, options: *options, shared, progress })
    }
}

/// Returns all figures, in the order of the report.
pub fn all() -> &'static [Entry] {
    ALL
}

static ALL: &[Entry] = &[
    Entry {
        name: "mm1",
        title: "Mean waiting time of queues with an exact solution",
        source: "Queueing theory: Pollaczek and Khinchine; Cobham (Operations Research 2, 1954)",
        seconds: 1,
        run: queueing::mm1,
    },
    Entry {
        name: "overload-7",
        title: "Congestion collapse of one server, and no recovery from it",
        source: "Overload paper, section V-A, figure 7",
        seconds: 3,
        run: overload_7::run,
    },
    Entry {
        name: "overload-8",
        title: "Congestion collapse that spreads to other servers",
        source: "Overload paper, section V-B, figure 8",
        seconds: 11,
        run: overload_8::run,
    },
    Entry {
        name: "overload-9",
        title: "Overload control by 503 with Retry-After",
        source: "Overload paper, section V-C, figure 9",
        seconds: 4,
        run: overload_9::run,
    },
    Entry {
        name: "overload-10",
        title: "Goodput with different transports",
        source: "Overload paper, section V-D, figure 10",
        seconds: 45,
        run: overload_10::run,
    },
    Entry {
        name: "overload-11",
        title: "Goodput with local overload control",
        source: "Overload paper, section VI-C, figure 11",
        seconds: 60,
        run: overload_11::goodput,
    },
    Entry {
        name: "overload-12",
        title: "Setup delay with local overload control",
        source: "Overload paper, section VI-C, figure 12",
        seconds: 0,
        run: overload_11::delay,
    },
    Entry {
        name: "overload-14",
        title: "Goodput with local and distributed overload control",
        source: "Overload paper, section VII-B, figure 14",
        seconds: 14,
        run: overload_14::run,
    },
    Entry {
        name: "overload-control",
        title: "Overload controllers compared, beyond the paper",
        source: "the Overload paper's server (section IV-A), under the controllers of section VI and VII, RFC 6357, RFC \
                 7339, RFC 7415 and our own",
        seconds: 20,
        run: overload_control::run,
    },
    Entry {
        name: "tlwl-2",
        title: "Mean response time of INVITE against load, 8 servers, every policy",
        source: "TLWL paper, figure 2; TLWL digest, section VI a",
        seconds: 75,
        run: tlwl::response::invite,
    },
    Entry {
        name: "tlwl-3",
        title: "Mean response time of BYE against load, 8 servers, every policy",
        source: "TLWL paper, figure 3",
        seconds: 0,
        run: tlwl::response::bye,
    },
    Entry {
        name: "tlwl-4",
        title: "Peak throughput of every policy with 8 servers",
        source: "TLWL paper, figure 4; TLWL digest, figure 5",
        seconds: 39,
        run: tlwl::peak::peaks,
    },
    Entry {
        name: "tlwl-5",
        title: "Peak throughput against the number of servers",
        source: "TLWL paper, figure 5",
        seconds: 28,
        run: tlwl::peak::scaling,
    },
    Entry {
        name: "tlwl-occupancy",
        title: "Transactions that an arriving one meets at its server, every policy",
        source: "TLWL paper, sections I and V; TLWL digest, section VI c",
        seconds: 0,
        run: tlwl::occupancy::occupancy,
    },
    Entry {
        name: "tlwl-unequal",
        title: "Peak throughput of two servers, one of which loses half its CPU",
        source: "TLWL paper, sections III and V; TLWL digest, section VI d and figure 6",
        seconds: 3,
        run: tlwl::unequal::unequal,
    },
    Entry {
        name: "policy-failing",
        title: "One of four servers answers calls with 500, with and without outlier detection",
        source: failing::SOURCE,
        seconds: 7,
        run: failing::failing,
    },
    Entry {
        name: "servartuka-1",
        title: "Cost of a call in each mode of a proxy, by part",
        source: "SERvartuka paper, section 2.1, figure 1",
        seconds: 0,
        run: servartuka::costs::run,
    },
    Entry {
        name: "servartuka-2",
        title: "Utilisation of a server against load, with and without state",
        source: "SERvartuka paper, section 2.2, figure 2",
        seconds: 4,
        run: servartuka::utilisation::run,
    },
    Entry {
        name: "servartuka-3",
        title: "Capacity of networks of proxies, with static and with dynamic state",
        source: "SERvartuka paper, section 2.3.1, figure 3, and networks that the paper leaves open (section 5)",
        seconds: 95,
        run: servartuka::capacity::run,
    },
    Entry {
        name: "servartuka-4",
        title: "Goodput of two proxies in series, with static and with dynamic state",
        source: "SERvartuka paper, section 4, figure 4",
        seconds: 21,
        run: servartuka::goodput::run,
    },
    Entry {
        name: "servartuka-order",
        title: "Set-up times with state at the first servers of a series and at the last",
        source: "SERvartuka paper, section 3 (\"a state delegation order\")",
        seconds: 7,
        run: servartuka::order::run,
    },
    Entry {
        name: "smace-3",
        title: "Latency of a server against its load: minimum, 95th percentile, maximum",
        source: "Cloud paper, section IV-B, figure 3",
        seconds: 1,
        run: smace::latency::run,
    },
    Entry {
        name: "smace-5",
        title: "95th percentile of latency at 300 calls/s, alone and with neighbours",
        source: "Cloud paper, section VI-B, figure 5",
        seconds: 2,
        run: smace::contention::run,
    },
    Entry {
        name: "smace-6",
        title: "A server's load follows its latency, with the paper's law and with ours",
        source: "Cloud paper, section VI-C, figure 6",
        seconds: 6,
        run: smace::estimation::run,
    },
    Entry {
        name: "smace-7",
        title: "Goodput of a server with a monitor beside it and without",
        source: "Cloud paper, section VI-D, figure 7",
        seconds: 0,
        run: smace::overhead::goodput,
    },
    Entry {
        name: "smace-8",
        title: "Time to ring with a monitor beside the server and without",
        source: "Cloud paper, section VI-D, figure 8",
        seconds: 0,
        run: smace::overhead::ringing,
    },
    Entry {
        name: "smace-database",
        title: "Contention behind the servers: a database that is slow",
        source: "Cloud paper, section IV-A",
        seconds: 5,
        run: smace::database::run,
    },
    Entry {
        name: "smace-card",
        title: "Contention for the network card, as callers see it and as a monitor on the server does",
        source: "Cloud paper, section VI-B",
        seconds: 7,
        run: smace::card::run,
    },
    Entry {
        name: "scale-day",
        title: "A day of calls: lost ones and server hours, by scaling rule",
        source: "Ours, after the Cloud paper, section IV-D",
        seconds: 38,
        run: scale::day::run,
    },
    Entry {
        name: "scale-flash",
        title: "A flash crowd: lost calls and server hours, by scaling rule",
        source: "Ours, after the Cloud paper, sections I and IV-D",
        seconds: 1,
        run: scale::flash::run,
    },
];

/// A figure by name.
pub fn find(name: &str) -> Option<&'static Entry> {
    all().iter().find(|entry| entry.name == name)
}
