//! State distribution on running proxies, each held to a part of a processor (SERvartuka paper, figures 1, 2 and 4).
//!
//! - `arrangement`: networks of proxies, who keeps what of a call in them, and what the linear program makes of it.
//! - `chain`: these proxies, started. `watch`: loads through them, and what each used and said meanwhile.
//! - `prices`: what a call costs one proxy by what it keeps, and what the proxies of a series carry.
//! - `goodput`: networks of proxies below, at and past what the program says, and in the simulator.
//!
//! Callers and answerers repeat what is lost (RFC 3261 §13.3.1.4, §17.1) and keep to a refusal.

mod arrangement;
mod chain;
mod goodput;
mod prices;
mod watch;

use anyhow::Result;
use clap::{Args, ValueEnum};

use crate::credentials::BenchUser;
use crate::rig::ProgramPaths;
use crate::study::{Session, StudyArguments};
use arrangement::{Kept, Shape};
use goodput::Case;

/// Sockets of the callers.
const CALLERS: usize = 4;
/// Calls in progress while a capacity is measured: a proxy has always something to do, and nobody waits so long as to
/// repeat anything.
const IN_PROGRESS: usize = 120;
/// Who calls where a password is asked for. Kamailio's configuration has the same one.
const USER: BenchUser = BenchUser { name: "caller", password: "password" };
/// What each proxy may use of a processor: at least a tenth, a millisecond of each period.
const QUOTA: f64 = 0.12;

/// Measures what state costs a proxy, how its utilisation follows the load, and the goodput of networks of proxies
/// that share state out, beside splits by hand and Kamailio. Needs root, for control groups.
#[derive(Args)]
pub struct Arguments {
    #[command(flatten)]
    study: StudyArguments,
    /// What is measured.
    #[arg(long, value_delimiter = ',', default_values = ["prices", "ramp", "transactions", "dialogs", "authentication", "three", "fork", "edges"])]
    parts: Vec<Part>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Part {
    /// What a call costs one proxy, by what it keeps.
    Prices,
    /// Utilisation against load.
    Ramp,
    /// Two in series.
    Transactions,
    /// Two in series that share out dialogs with records, too.
    Dialogs,
    /// Two in series that share out authentication as well.
    Authentication,
    /// Three in series.
    Three,
    /// One before two.
    Fork,
    /// Two edges that call each other through a core.
    Edges,
}

impl Part {
    fn case(self) -> Option<Case> {
        let case = |name, title, shape, kept| Some(Case { name, title, shape, kept });
        let (two, transactions) = (Shape::Series(2), Kept::Transactions);
        match self {
            Self::Prices | Self::Ramp => None,
            Self::Transactions => case("transactions", "Two in series, transactions", two, transactions),
            Self::Dialogs => case("dialogs", "Two in series, dialogs with records", two, Kept::Dialogs),
            Self::Authentication => {
                let title = "Two in series, dialogs with records and authentication";
                case("authentication", title, two, Kept::Authenticated)
            }
            Self::Three => case("three", "Three in series, transactions", Shape::Series(3), transactions),
            Self::Fork => case("fork", "One before two, transactions", Shape::Fork, transactions),
            Self::Edges => case("edges", "Edge, core, edge, transactions", Shape::Edges, transactions),
        }
    }
}

/// What is measured with.
#[derive(Clone, Debug)]
pub(crate) struct DistributionBench {
    paths: ProgramPaths,
    quick: bool,
}

impl DistributionBench {
    /// Seconds before the first load of a run counts, of each load that do not count, and that do.
    fn seconds(&self) -> [f64; 3] {
        if self.quick { [1.0, 0.5, 1.5] } else { [5.0, 3.0, 4.0] }
    }
}

/// Measures the parts that are asked for.
pub fn run(arguments: &Arguments) -> Result<()> {
    let bench = DistributionBench { paths: arguments.study.programs.clone(), quick: arguments.study.quick };
    let mut session = Session::open("distribution", &arguments.study)?;
    for part in &arguments.parts {
        match (part.case(), part) {
            (Some(case), _) => drop(session.measure(&bench.case(&case))?),
            (None, Part::Prices) => drop(session.measure(&bench.prices())?),
            (None, _) => drop(session.measure(&bench.ramp())?),
        }
    }
    Ok(())
}
