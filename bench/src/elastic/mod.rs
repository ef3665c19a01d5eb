//! The Cloud paper's case, live: Kamailio as servers that share their processor with others, monitors beside them,
//! our queue and scaler before them.
//!
//! - [`cells`]: one or two of three lose their processor for a while, under many conditions and by several ways.
//! - [`contention`]: one of three servers loses most of its processor for a while.
//! - [`scaling`]: servers are started and stopped through a rise of calls and a crowd that comes at once.
//! - [`overhead`]: what a monitor costs the server that it stands beside.

pub mod cells;
pub mod contention;
pub mod overhead;
pub mod scaling;
mod seconds;

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::{Result, ensure};

use crate::driver::{Driver, RunPlan};
use crate::kamailio::kamailio;
use crate::process::{Program, processors, tie_to};
use crate::quota::Quota;
use crate::scratch::Scratch;

/// Kamailio as a proxy, with one next hop.
const KAMAILIO: &str = include_str!("../../kamailio/proxy.cfg");
/// The processor of the servers and of what disturbs them. Callers, balancer and next hops are on the last one.
const SERVERS: usize = 0;

/// What is measured: programs, and what each server may use.
pub struct Bench {
    /// The program under test.
    pub sarabande: PathBuf,
    /// Kamailio's program.
    pub kamailio: PathBuf,
    /// What each server may use of a processor.
    pub quota: f64,
}

/// The address of a server, from 0.
fn server(index: usize) -> SocketAddr {
    SocketAddr::new(IpAddr::V4(Ipv4Addr::new(127, 78, 0, index as u8 + 1)), 5060)
}

/// The balancer's address, at this port.
fn balancer(port: u16) -> SocketAddr {
    SocketAddr::new(IpAddr::V4(Ipv4Addr::new(127, 78, 0, 99)), port)
}

/// Starts a program on this processor; what it says goes to a file of this name.
fn start(scratch: &Scratch, log: &str, processor: usize, command: &mut Command) -> Result<Program> {
    tie_to(processor)?;
    let program = scratch.start(log, command);
    tie_to(processors() - 1)?;
    program
}

impl Bench {
    /// A control group for the server of this number.
    fn group(&self, index: usize) -> Result<Quota> {
        Quota::new(&format!("sarabande-elastic-{}-{index}", std::process::id()), self.quota)
    }

    /// The command of the server of this number, which sends all calls to `hop`.
    fn kamailio(&self, scratch: &Scratch, index: usize, hop: SocketAddr) -> Result<Command> {
        let mut kamailio =
            self.kamailio_at(scratch, &format!("kamailio-{index}"), KAMAILIO, server(index))?;
        kamailio.args(["-A", &format!("HOP=\"sip:{hop}\"")]);
        Ok(kamailio)
    }

    /// Kamailio with this configuration, at this address, with a folder of this name.
    fn kamailio_at(
        &self,
        scratch: &Scratch,
        name: &str,
        config: &str,
        address: SocketAddr,
    ) -> Result<Command> {
        kamailio(&self.kamailio, scratch, name, config, address, 512)
    }

    /// Starts the balancer before so many servers, with these further lines of its pool and these further tables.
    fn balance(&self, scratch: &Scratch, servers: usize, pool: &str, tables: &str) -> Result<Program> {
        let members: Vec<_> = (0..servers).map(|index| format!("\"{}\"", server(index))).collect();
        let text = format!(
            "[listen]\nudp = [\"{}\"]\nthreads = 1\nreceive_buffer = \"4MiB\"\n\n[pool.servers]\nmembers = [{}]\n\
             slow_start = \"0s\"\n{pool}\n\n{tables}\n\n[admin]\nlisten = \"{}\"\n\n[log]\nlevel = \"info\"\n",
            balancer(5060),
            members.join(", "),
            balancer(8060),
        );
        let file = scratch.write("sarabande.toml", &text)?;
        start(scratch, "balancer", processors() - 1, Command::new(&self.sarabande).arg("run").arg(file))
    }
}

/// Waits until calls to this address get through, each caller's own.
fn until_calls_pass(driver: &mut Driver, target: SocketAddr) -> Result<()> {
    let targets = vec![target; driver.callers().len()];
    for _ in 0..100 {
        let few = driver.run(&targets, &RunPlan::at(30.0, Duration::from_millis(200)))?;
        if few.completed == few.started {
            return Ok(());
        }
    }
    ensure!(false, "no calls get through to {target}");
    Ok(())
}
