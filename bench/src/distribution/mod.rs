//! Measurements of state distribution on running proxies, each limited to a fraction of a processor (SERvartuka paper,
//! figures 1, 2 and 4).
//!
//! - `arrangement`: networks of proxies, the state that each proxy keeps, and the result of the linear program.
//! - `chain`: running proxies.
//! - `watch`: loads through the running proxies, with the processor time and the reports of each proxy.
//! - `prices`: cost of a call at one proxy by the state kept, and the capacities of the proxies of a series.
//! - `goodput`: networks of proxies at loads below, at and above the capacity that the linear program gives, and the
//!   same loads in the simulator.
//!
//! Callers and answerers retransmit (RFC 3261 §13.3.1.4, §17.1), and do not retry after a refusal.

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

/// Number of sockets of the callers.
const CALLERS: usize = 4;
/// Calls in progress while a capacity is measured: a proxy always has work, and no caller waits long enough to
/// retransmit.
const IN_PROGRESS: usize = 120;
/// User name and password of all callers where authentication is required. Kamailio's configuration contains the same
/// user.
const USER: BenchUser = BenchUser { name: "caller", password: "password" };
/// Quota of each proxy as a fraction of a processor. It must be at least a tenth: one millisecond of each period.
const QUOTA: f64 = 0.12;

/// Measures the cost of state at a proxy, the utilisation of a proxy by load, and the goodput of networks of proxies
/// that share out state. Compares this goodput with fixed splits and with Kamailio. Needs root, for control groups.
#[derive(Args)]
pub struct Arguments {
    #[command(flatten)]
    study: StudyArguments,
    /// Parts to measure.
    #[arg(long, value_delimiter = ',', default_values = ["prices", "ramp", "transactions", "dialogs", "authentication", "three", "fork", "edges"])]
    parts: Vec<Part>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Part {
    /// Cost of a call at one proxy, by the state kept.
    Prices,
    /// Utilisation against load.
    Ramp,
    /// Two proxies in series.
    Transactions,
    /// Two proxies in series that also share out dialogs with records.
    Dialogs,
    /// Two proxies in series that also share out dialogs with records, and authentication.
    Authentication,
    /// Three proxies in series.
    Three,
    /// One proxy in front of two.
    Fork,
    /// Two edge proxies whose callers call each other through a core proxy.
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

/// Paths of the measured programs, and whether the session is a quick one. All parts need both.
#[derive(Clone, Debug)]
pub(crate) struct DistributionBench {
    paths: ProgramPaths,
    quick: bool,
}

impl DistributionBench {
    /// Returns three times in seconds: before the first load of a run, at the start of each load without measurement,
    /// and of the measurement of each load.
    fn seconds(&self) -> [f64; 3] {
        if self.quick { [1.0, 0.5, 1.5] } else { [5.0, 3.0, 4.0] }
    }
}

/// Measures the requested parts.
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
