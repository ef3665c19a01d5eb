//! The balancing papers' experiments with third-party servers: costs of INVITE and BYE, and the effect of the
//! distribution of calls on callers.
//!
//! - [`Product`]: the servers. `Way`: balancer and policy.
//! - `costs`: processor time of each kind of transaction, by least squares.
//! - `sweep`: rising loads in front of a cluster, by one way, on processes and in the simulator.
//!
//! Callers retransmit INVITE and BYE (RFC 3261 §17.1), arrive at random, and hold calls for normally distributed times.

mod costs;
mod fit;
mod pauses;
mod servers;
mod sweep;
mod ways;

use std::cell::RefCell;
use std::path::PathBuf;

use anyhow::Result;
use clap::{Args, ValueEnum};

use crate::report::name;
use crate::rig::ProgramPaths;
use crate::study::{Session, StudyArguments};

pub use servers::Product;
pub(crate) use ways::Way;

/// Sockets of the callers.
const CALLERS: usize = 4;
/// The papers' number of servers.
const NODES: usize = 8;

/// Measures clusters of servers with every way to distribute calls, and the costs of transactions at the servers.
/// Needs root, for control groups, and for Java a JDK and Maven.
#[derive(Args)]
pub struct Arguments {
    #[command(flatten)]
    study: StudyArguments,
    /// Folder of the server in Java.
    #[arg(long, default_value = "bench/jain")]
    java: PathBuf,
    /// Parts to measure.
    #[arg(long, value_delimiter = ',', default_values = ["costs", "response", "nodes", "unequal"])]
    parts: Vec<Part>,
    /// Servers of the clusters.
    #[arg(long, value_delimiter = ',', default_values = ["java"])]
    servers: Vec<Product>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Part {
    /// Processor time of INVITE, BYE and REGISTER, of all servers.
    Costs,
    /// Response times and peaks of eight servers, by every way (figures 2, 3 and 4).
    Response,
    /// Peaks of 1, 2, 4, 8 and 10 servers (figure 5).
    Nodes,
    /// Peaks of eight servers of which half have half the speed (figure 6).
    Unequal,
}

/// The measurement set-up.
pub(crate) struct ClusterBench {
    paths: ProgramPaths,
    /// Folder of the server in Java, with its `target`.
    java: PathBuf,
    quick: bool,
    /// Running servers, reused by consecutive ways.
    running: RefCell<Option<sweep::Cluster>>,
}

/// Measures the requested parts.
pub fn run(arguments: &Arguments) -> Result<()> {
    let bench = ClusterBench {
        paths: arguments.study.programs.clone(),
        java: arguments.java.clone(),
        quick: arguments.study.quick,
        running: RefCell::new(None),
    };
    let mut session = Session::open("cluster", &arguments.study)?;
    if arguments.parts.contains(&Part::Costs) {
        session.measure(&bench.costs(&arguments.servers))?;
    }
    for product in &arguments.servers {
        for part in &arguments.parts {
            match part {
                Part::Costs => {}
                Part::Response => drop(session.measure(&bench.response(*product))?),
                Part::Nodes => drop(session.measure(&bench.nodes(*product))?),
                Part::Unequal => drop(session.measure(&bench.unequal(*product))?),
            }
        }
    }
    Ok(())
}

/// Returns the name of a cost among the figures of a session.
fn figure(product: Product, label: &str) -> String {
    format!("{label} of {}", name(&product))
}
