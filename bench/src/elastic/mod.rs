//! The Cloud paper's case, live: servers that share their processor with others, monitors beside them, our queue and
//! scaler before them.
//!
//! - `cells`: one or two of three lose their processor, database or network card for a while, under many conditions and
//!   by several ways; and one of these conditions second by second.
//! - `scaling`: servers are started and stopped through a rise of calls and a crowd that comes at once.
//! - `overhead`: what a monitor costs the server that it stands beside.

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
/// What each server may use of a processor.
const QUOTA: f64 = 0.15;
/// Sockets of the callers.
const CALLERS: usize = 4;
/// Lines of the balancer's `[listen]`.
const LISTEN: &str = "threads = 1";

/// Measures servers behind a queue: beside busy neighbours, started and stopped by the scaler, and beside their
/// monitors. Needs root, for control groups and packets.
#[derive(Args)]
pub struct Arguments {
    #[command(flatten)]
    study: StudyArguments,
    /// What is measured.
    #[arg(long, value_delimiter = ',', default_values = ["cells", "contention", "scaling", "overhead"])]
    parts: Vec<Part>,
    /// Programs of the servers of cells.
    #[arg(long, value_delimiter = ',', default_values = ["kamailio", "python"])]
    servers: Vec<ServerKind>,
}

#[derive(Clone, Copy, ValueEnum)]
enum Part {
    /// Busy neighbours under many conditions, by all ways to share calls out, with verdicts about the queue.
    Cells,
    /// A busy neighbour, second by second.
    Contention,
    /// Servers that are started and stopped.
    Scaling,
    /// A server with its monitor and without.
    Overhead,
}

/// What is measured with.
pub(crate) struct ElasticBench {
    paths: ProgramPaths,
    quick: bool,
}

/// Measures the parts that are asked for.
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

/// The command of Kamailio as the server of this number, which sends all calls to `hop`.
fn kamailio(rig: &Rig, index: usize, hop: SocketAddr) -> Result<Command> {
    let mut kamailio = rig.kamailio(server(index), KAMAILIO, 512)?;
    kamailio.args(["-A", &format!("HOP=\"sip:{hop}\"")]);
    Ok(kamailio)
}
