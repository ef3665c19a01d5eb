//! The Cloud paper's case on running programs. Servers share their processors with neighbours, and have monitors beside
//! them. The queue and the scaler of Sarabande are in front.
//!
//! - `cells`: one or two of three servers lose a part of their processor, database or network card for a while, under
//!   many conditions and by several ways. One of these conditions is also shown second by second.
//! - `scaling`: servers are started and stopped during a rise of calls and a sudden crowd.
//! - `overhead`: cost of a monitor to its server.

mod card;
mod cells;
mod cluster;
mod overhead;
mod scaling;

use std::net::SocketAddr;
use std::process::Command;

use anyhow::Result;
use clap::{Args, ValueEnum};

use crate::rig::{ProgramPaths, Rig, server};
use crate::study::{Session, StudyArguments};
use cells::ServerKind;

/// Kamailio as a proxy, with one next hop.
const KAMAILIO: &str = include_str!("../../kamailio/proxy.cfg");
/// Quota of each server, as a fraction of a processor.
const QUOTA: f64 = 0.15;
/// Sockets of the callers.
const CALLERS: usize = 4;
/// Lines of the balancer's `[listen]`.
const LISTEN: &str = "threads = 1";

/// Measures servers behind a queue: with busy neighbours, with scaling, and with monitors. Needs root, for control
/// groups and packets.
#[derive(Args)]
pub struct Arguments {
    #[command(flatten)]
    study: StudyArguments,
    /// Parts to measure.
    #[arg(long, value_delimiter = ',', default_values = ["cells", "contention", "scaling", "overhead"])]
    parts: Vec<Part>,
    /// Programs of the servers of cells.
    #[arg(long, value_delimiter = ',', default_values = ["kamailio", "python"])]
    servers: Vec<ServerKind>,
}

#[derive(Clone, Copy, ValueEnum)]
enum Part {
    /// Busy neighbours under many conditions, with all ways to distribute calls, and verdicts about the queue.
    Cells,
    /// A busy neighbour, second by second.
    Contention,
    /// Servers that are started and stopped.
    Scaling,
    /// A server with and without its monitor.
    Overhead,
}

/// The measurement set-up.
pub(crate) struct ElasticBench {
    paths: ProgramPaths,
    quick: bool,
}

/// Measures the requested parts.
pub fn run(arguments: &Arguments) -> Result<()> {
    let bench = ElasticBench { paths: arguments.study.programs.clone(), quick: arguments.study.quick };
    let mut session = Session::open("elastic", &arguments.study)?;
    for part in &arguments.parts {
        match part {
            Part::Cells => drop(session.measure(&bench.cells(&arguments.servers))?),
            Part::Contention => drop(session.measure(&bench.contention())?),
            Part::Scaling => drop(session.measure(&bench.scaling())?),
            Part::Overhead => {
                let rows = session.measure(&bench.overhead())?;
                if session.records() {
                    overhead::write(&rows)?;
                }
            }
        }
    }
    Ok(())
}

/// Returns the command of Kamailio as the server of this number, which sends all calls to `hop`.
fn kamailio(rig: &Rig, index: usize, hop: SocketAddr) -> Result<Command> {
    let mut kamailio = rig.kamailio(server(index), KAMAILIO, 512)?;
    kamailio.args(["-A", &format!("HOP=\"sip:{hop}\"")]);
    Ok(kamailio)
}
