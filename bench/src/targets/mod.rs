//! The measured programs, and how each is started in front of the driver's servers.

pub mod call;
pub mod latency;

use std::fs;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use clap::{Args, ValueEnum};

use crate::generator::{LoadGenerator, RunPlan};
use crate::kamailio::{dispatch, kamailio};
use crate::log::CallLog;
use crate::process::{self, Program, Usage, beside, tie_to};
use crate::rig::ProgramPaths;
use crate::scratch::Scratch;
use crate::study::StudyArguments;

/// Callers and servers of every measurement.
pub const SERVERS: usize = 4;

/// Longest time of a target from its start to the first call through it.
const PATIENCE: Duration = Duration::from_secs(20);

/// Configurations of Kamailio, apart from the command line.
const KAMAILIO_CONFIG: &str = include_str!("../../kamailio/kamailio.cfg");
const KAMAILIO_PROXY_CONFIG: &str = include_str!("../../kamailio/proxy.cfg");

/// Log file of a target, in its directory.
const LOG: &str = "log";

/// A measured target.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum TargetKind {
    /// The blind relay: the floor.
    Relay,
    /// Sarabande, policy tlwl, tokens on.
    Sarabande,
    /// Kamailio, dispatcher with call load, record-routed, relayed with state.
    Kamailio,
    /// Sarabande as a proxy, with one next hop.
    Proxy,
    /// Kamailio as a proxy, with one next hop: `t_relay`.
    KamailioTm,
}

/// Targets and programs of a measurement.
#[derive(Args, Clone, Debug)]
pub struct BenchSetup {
    /// The targets.
    #[command(flatten)]
    pub targets: TargetOptions,
    /// The programs.
    #[command(flatten)]
    pub programs: Programs,
}

/// Targets and their settings.
#[derive(Args, Clone, Debug)]
pub struct TargetOptions {
    /// Targets to measure.
    #[arg(long = "targets", value_delimiter = ',', default_values = ["relay", "sarabande", "kamailio"])]
    pub kinds: Vec<TargetKind>,
    /// Further keys of the pool or of `[proxy]`, such as `max_sessions = 100000`.
    #[arg(long, default_value = "")]
    keys: String,
}

/// Paths of the programs, and their processors.
#[derive(Args, Clone, Debug)]
pub struct Programs {
    #[command(flatten)]
    paths: ProgramPaths,
    #[command(flatten)]
    tied: TiedThreads,
}

/// Processors of target and driver.
#[derive(Args, Clone, Debug)]
struct TiedThreads {
    /// Threads, or receiving processes, of each target. With one, target and driver are tied to a processor each.
    #[arg(long, default_value_t = 1)]
    threads: usize,
    /// Ties the target to processor 1 and the driver to processor 0, instead of the reverse: one may be less disturbed.
    #[arg(long)]
    swap: bool,
}

/// Options of the studies of targets.
#[derive(Args, Clone, Debug)]
pub(crate) struct TargetArguments {
    #[command(flatten)]
    study: StudyArguments,
    #[command(flatten)]
    targets: TargetOptions,
    #[command(flatten)]
    tied: TiedThreads,
}

impl TargetArguments {
    fn setup(&self) -> BenchSetup {
        let (paths, tied) = (self.study.programs.clone(), self.tied.clone());
        BenchSetup { targets: self.targets.clone(), programs: Programs { paths, tied } }
    }
}

/// A running target.
pub struct BenchTarget {
    program: Program,
    address: SocketAddr,
    /// Directory of its configuration and log.
    scratch: Scratch,
}

/// A run through a target.
pub struct MeasuredRun {
    /// Results of the calls.
    pub outcome: CallLog,
    /// Processor time of the target.
    pub usage: Usage,
}

impl BenchSetup {
    /// Starts `kind` in front of the driver's servers and waits until a call gets through.
    pub fn start(&self, kind: TargetKind, driver: &mut LoadGenerator) -> Result<BenchTarget> {
        let Self { programs, targets: TargetOptions { keys, .. } } = self;
        let (address, scratch) = (free_port()?, Scratch::new("bench")?);
        let mut command = match kind {
            TargetKind::Relay => programs.relay(address, driver)?,
            TargetKind::Sarabande => programs.sarabande(address, &(pool(driver) + keys), &scratch)?,
            TargetKind::Kamailio => programs.balancer(address, driver, &scratch)?,
            TargetKind::Proxy => programs.sarabande(address, &(proxy(driver) + keys), &scratch)?,
            TargetKind::KamailioTm => {
                let hop = [hop(driver)];
                programs.kamailio(address, KAMAILIO_PROXY_CONFIG, &hop, &scratch)?
            }
        };
        let mut target = programs.launch(&mut command, address, scratch)?;
        target.await_calls(driver)?;
        Ok(target)
    }
}

/// Returns the first of the driver's servers, as Kamailio's configurations name it.
pub(crate) fn hop(driver: &LoadGenerator) -> String {
    format!("HOP=\"sip:{}\"", driver.answerers()[0])
}

impl Programs {
    /// Starts a target that listens on `address`, on a processor of its own if there is one.
    pub(crate) fn launch(
        &self,
        command: &mut Command,
        address: SocketAddr,
        scratch: Scratch,
    ) -> Result<BenchTarget> {
        let tied = self.processors();
        if let Some([of_target, _]) = tied {
            tie_to(of_target)?;
        }
        let program = scratch.start(LOG, command)?;
        if let Some([_, of_driver]) = tied {
            tie_to(of_driver)?;
        }
        Ok(BenchTarget { program, address, scratch })
    }

    /// Returns the processors that target and driver are tied to, if there are enough.
    pub fn processors(&self) -> Option<[usize; 2]> {
        let TiedThreads { threads, swap } = self.tied;
        let processors = if swap { [1, 0] } else { [0, 1] };
        (threads == 1 && process::processors() > 1).then_some(processors)
    }

    fn relay(&self, address: SocketAddr, driver: &LoadGenerator) -> Result<Command> {
        let mut command = Command::new(beside("relay")?);
        command.args(["--listen", &address.to_string(), "--threads", &self.tied.threads.to_string()]);
        for (caller, server) in driver.callers().iter().zip(driver.answerers()) {
            command.args(["--pair", &format!("{caller}={server}")]);
        }
        Ok(command)
    }

    /// Returns the command of `sarabande run` with these tables.
    pub(crate) fn sarabande(&self, address: SocketAddr, role: &str, scratch: &Scratch) -> Result<Command> {
        let text = format!(
            "[listen]\nudp = [\"{address}\"]\nthreads = {}\n\n\
             {role}\n\n\
             [token]\nkey = \"000102030405060708090a0b0c0d0e0f\"\n\n\
             [admin]\nlisten = \"\"\n\n[log]\nlevel = \"warn\"\n",
            self.tied.threads,
        );
        let config = scratch.write("sarabande.toml", &text)?;
        let mut command = Command::new(self.paths.sarabande()?);
        command.arg("run").arg(config);
        Ok(command)
    }

    fn balancer(&self, address: SocketAddr, driver: &LoadGenerator, scratch: &Scratch) -> Result<Command> {
        let mut command = self.kamailio(address, KAMAILIO_CONFIG, &[], scratch)?;
        dispatch(&mut command, scratch, driver.answerers())?;
        Ok(command)
    }

    /// Returns the command of Kamailio with this configuration and these definitions.
    pub(crate) fn kamailio(
        &self,
        address: SocketAddr,
        config: &str,
        defines: &[String],
        scratch: &Scratch,
    ) -> Result<Command> {
        // 2 GiB hold the transactions that tm keeps for five seconds, at any rate.
        let size = (self.tied.threads, 2_048);
        let mut command = kamailio(&self.paths.kamailio, scratch, "kamailio", config, address, size)?;
        for define in defines {
            command.arg("-A").arg(define);
        }
        Ok(command)
    }
}

impl BenchTarget {
    /// Returns the target of each caller.
    pub fn addresses(&self) -> [SocketAddr; SERVERS] {
        [self.address; SERVERS]
    }

    /// Returns its resident memory in bytes.
    pub fn resident(&self) -> Result<u64> {
        Ok(self.program.resident()?)
    }

    /// Plays `plan`, after a warm-up of a second.
    pub fn measure(&self, driver: &mut LoadGenerator, plan: &RunPlan) -> Result<MeasuredRun> {
        driver.run(&self.addresses(), &RunPlan { duration: Duration::from_secs(1), ..*plan })?;
        let before = self.program.usage()?;
        let outcome = driver.run(&self.addresses(), plan)?;
        Ok(MeasuredRun { outcome, usage: self.program.usage()?.since(before) })
    }

    /// Returns its log so far.
    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.scratch.path().join(LOG)).unwrap_or_default()
    }

    /// Waits until a call gets through.
    pub(crate) fn await_calls(&mut self, driver: &mut LoadGenerator) -> Result<()> {
        self.await_call(driver).with_context(|| format!("output of the target: {}", self.log()))
    }

    fn await_call(&mut self, driver: &mut LoadGenerator) -> Result<()> {
        let one = RunPlan { burst: Duration::ZERO, ..RunPlan::at(10.0, Duration::from_millis(100)) };
        let start = Instant::now();
        while driver.run(&self.addresses(), &one)?.completed() == 0 {
            ensure!(!self.program.ended()?, "ended before any call got through");
            if start.elapsed() > PATIENCE {
                bail!("no call got through within {} s", PATIENCE.as_secs());
            }
        }
        Ok(())
    }
}

/// Returns the table of a balancer in front of all servers.
fn pool(driver: &LoadGenerator) -> String {
    let members: Vec<String> = driver.answerers().iter().map(|server| format!("\"{server}\"")).collect();
    format!(
        "[pool.servers]\npolicy = \"tlwl\"\nforward = \"stateless\"\nmembers = [{}]\n",
        members.join(", ")
    )
}

/// Returns the table of a proxy in front of the first server.
fn proxy(driver: &LoadGenerator) -> String {
    format!("[proxy]\nnext = [\"{}\"]\n", driver.answerers()[0])
}

/// Returns a loopback address whose port is free now.
pub(crate) fn free_port() -> Result<SocketAddr> {
    Ok(UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?)
}
