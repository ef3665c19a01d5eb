//! The Cloud paper's case, live: Kamailio as servers that share their processor with others, monitors beside them, our queue
//! and scaler before them.
//!
//! - [`contention`]: one of three servers loses most of its processor for a while.
//! - [`scaling`]: servers are started and stopped through a rise of calls and a crowd that comes at once.
//! - [`overhead`]: what a monitor costs the server that it stands beside.

pub mod contention;
pub mod overhead;
pub mod scaling;
mod seconds;

use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::driver::{Driver, RunPlan};
use crate::process::{Program, processors, tie_to};
use crate::quota::Quota;

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

/// Calls at this rate, which leave once a millisecond.
fn plan(rate: f64, duration: Duration) -> RunPlan {
    RunPlan { rate, duration, hold: Duration::ZERO, burst: Duration::from_millis(1), spin: false }
}

/// A folder for the files of what runs, which goes with this value.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> Result<Self> {
        let folder = std::env::temp_dir().join(format!("sarabande-elastic-{}", std::process::id()));
        fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
        Ok(Self(folder))
    }

    fn write(&self, name: &str, text: &str) -> Result<PathBuf> {
        let file = self.0.join(name);
        fs::write(&file, text).with_context(|| file.display().to_string())?;
        Ok(file)
    }

    /// Starts a program on this processor; what it says goes to a file of this name.
    fn run(&self, log: &str, processor: usize, command: &mut Command) -> Result<Program> {
        let log = File::create(self.0.join(log))?;
        command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        tie_to(processor)?;
        let program = Program::start(command).with_context(|| format!("cannot start {command:?}"));
        tie_to(processors() - 1)?;
        program
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // Left behind, it would do no harm.
        let _ = fs::remove_dir_all(&self.0);
    }
}

impl Bench {
    /// A control group for the server of this number.
    fn group(&self, index: usize) -> Result<Quota> {
        Quota::new(&format!("sarabande-elastic-{}-{index}", std::process::id()), self.quota)
    }

    /// The command of the server of this number, which sends all calls to `hop`.
    fn kamailio(&self, scratch: &Scratch, index: usize, hop: SocketAddr) -> Result<Command> {
        let folder = scratch.0.join(format!("kamailio-{index}"));
        fs::create_dir_all(&folder)?;
        let config = scratch.write(&format!("kamailio-{index}/kamailio.cfg"), KAMAILIO)?;
        let mut kamailio = Command::new(&self.kamailio);
        kamailio.args(["-DD", "-E", "-x", "fm", "-m", "256", "-M", "16", "-n", "1"]);
        kamailio.arg("-f").arg(config).arg("-Y").arg(folder);
        kamailio.arg("-l").arg(format!("udp:{}", server(index)));
        kamailio.arg("-A").arg(format!("HOP=\"sip:{hop}\""));
        Ok(kamailio)
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
        scratch.run("balancer", processors() - 1, Command::new(&self.sarabande).arg("run").arg(file))
    }
}

/// Waits until calls to this address get through, each caller's own.
fn until_calls_pass(driver: &mut Driver, target: SocketAddr) -> Result<()> {
    let targets = vec![target; driver.callers().len()];
    for _ in 0..100 {
        let few = driver.run(&targets, &plan(30.0, Duration::from_millis(200)))?;
        if few.completed == few.started {
            return Ok(());
        }
    }
    ensure!(false, "no calls get through to {target}");
    Ok(())
}

/// What the balancer's admin interface says at `path`.
fn ask(path: &str) -> Result<Value> {
    let mut stream = TcpStream::connect_timeout(&balancer(8060), Duration::from_secs(1))?;
    stream.set_read_timeout(Some(Duration::from_secs(1)))?;
    write!(stream, "GET {path} HTTP/1.0\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let (_, body) = answer.split_once("\r\n\r\n").context("no body")?;
    Ok(serde_json::from_str(body)?)
}
