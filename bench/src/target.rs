//! What is measured: how each of the balancers is started in front of the driver's servers.

use std::fs::{self, File};
use std::io;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use clap::{Args, ValueEnum};

use crate::driver::{Driver, RunPlan};
use crate::process::{self, Program, Usage, tie_to};

/// Callers and servers of every measurement.
pub const SERVERS: usize = 4;

/// How long a balancer may take until the first call passes through it.
const PATIENCE: Duration = Duration::from_secs(20);

/// What the command line does not say about Kamailio.
const KAMAILIO_CONFIG: &str = include_str!("../kamailio/kamailio.cfg");
const KAMAILIO_PROXY_CONFIG: &str = include_str!("../kamailio/proxy.cfg");

/// What stands between callers and servers.
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

impl TargetKind {
    /// As printed.
    pub fn name(self) -> &'static str {
        match self {
            Self::Relay => "relay",
            Self::Sarabande => "sarabande",
            Self::Kamailio => "kamailio",
            Self::Proxy => "proxy",
            Self::KamailioTm => "kamailio-tm",
        }
    }
}

/// Where the programs are and how they run.
#[derive(Args, Clone, Debug)]
pub struct BenchSetup {
    /// What to measure, in turn.
    #[arg(long = "targets", value_delimiter = ',', default_values = ["relay", "sarabande", "kamailio"])]
    pub kinds: Vec<TargetKind>,
    /// The program under test; by default, as the relay, the one beside this benchmark.
    #[arg(long)]
    pub sarabande: Option<PathBuf>,
    /// Kamailio's program.
    #[arg(long, default_value = "/usr/sbin/kamailio")]
    pub kamailio: PathBuf,
    /// Threads, or receiving processes, of each target. With one, target and driver are tied to a processor each.
    #[arg(long, default_value_t = 1)]
    pub threads: usize,
    /// Ties the target to processor 1 and the driver to 0, in place of the other way round: one may be quieter.
    #[arg(long)]
    pub swap: bool,
    /// Further keys of the pool or of [proxy], such as `max_sessions = 100000`.
    #[arg(long, default_value = "")]
    pub keys: String,
}

/// A balancer that calls pass through.
pub struct BenchTarget {
    program: Program,
    address: SocketAddr,
    /// Its configuration and its log.
    scratch: PathBuf,
}

impl Drop for BenchTarget {
    fn drop(&mut self) {
        // Left behind, it would do no harm.
        let _ = fs::remove_dir_all(&self.scratch);
    }
}

impl BenchSetup {
    /// Starts `kind` in front of the driver's servers and waits until a call gets through.
    pub fn start(&self, kind: TargetKind, driver: &mut Driver) -> Result<BenchTarget> {
        let address = free_port()?;
        let scratch = std::env::temp_dir().join(format!("sarabande-bench-{}", std::process::id()));
        fs::create_dir_all(&scratch)?;
        let mut command = match kind {
            TargetKind::Relay => self.relay(address, driver)?,
            TargetKind::Sarabande => self.sarabande(address, &(pool(driver) + &self.keys), &scratch)?,
            TargetKind::Kamailio => self.kamailio(address, driver, &scratch)?,
            TargetKind::Proxy => self.sarabande(address, &(proxy(driver) + &self.keys), &scratch)?,
            TargetKind::KamailioTm => self.kamailio_tm(address, driver, &scratch)?,
        };
        let log = scratch.join(format!("{}.log", kind.name()));
        let output = File::create(&log)?;
        command.stdin(Stdio::null()).stdout(output.try_clone()?).stderr(output);
        let tied = self.processors();
        if let Some([of_target, _]) = tied {
            tie_to(of_target)?;
        }
        let program = Program::start(&mut command).with_context(|| format!("cannot start {command:?}"))?;
        if let Some([_, of_driver]) = tied {
            tie_to(of_driver)?;
        }
        let mut target = BenchTarget { program, address, scratch };
        let said = || fs::read_to_string(&log).unwrap_or_default();
        target.await_calls(driver).with_context(|| format!("{} said: {}", kind.name(), said()))?;
        Ok(target)
    }

    /// The processors that target and driver are tied to, where there is one for each.
    pub fn processors(&self) -> Option<[usize; 2]> {
        let processors = if self.swap { [1, 0] } else { [0, 1] };
        (self.threads == 1 && process::processors() > 1).then_some(processors)
    }

    fn relay(&self, address: SocketAddr, driver: &Driver) -> Result<Command> {
        let mut command = Command::new(beside("relay")?);
        command.args(["--listen", &address.to_string(), "--threads", &self.threads.to_string()]);
        for (caller, server) in driver.callers().iter().zip(driver.servers()) {
            command.args(["--pair", &format!("{caller}={server}")]);
        }
        Ok(command)
    }

    fn sarabande(&self, address: SocketAddr, role: &str, scratch: &Path) -> Result<Command> {
        let config = scratch.join("sarabande.toml");
        let text = format!(
            "[listen]\nudp = [\"{address}\"]\nthreads = {}\n\n\
             {role}\n\n\
             [token]\nkey = \"000102030405060708090a0b0c0d0e0f\"\n\n\
             [admin]\nlisten = \"\"\n\n[log]\nlevel = \"warn\"\n",
            self.threads,
        );
        fs::write(&config, text)?;
        let program = self.sarabande.clone().map_or_else(|| beside("sarabande"), Ok)?;
        let mut command = Command::new(program);
        command.arg("run").arg(config);
        Ok(command)
    }

    fn kamailio(&self, address: SocketAddr, driver: &Driver, scratch: &Path) -> Result<Command> {
        let (config, list) = (scratch.join("kamailio.cfg"), scratch.join("dispatcher.list"));
        fs::write(&config, KAMAILIO_CONFIG)?;
        let servers = driver.servers();
        // Set, address, flags, priority, attributes: call load needs a unique id a server.
        let lines = servers.iter().enumerate().map(|(i, server)| format!("1 sip:{server} 0 0 duid=s{i}\n"));
        fs::write(&list, lines.collect::<String>())?;
        Ok(self.kamailio_with(address, &config, scratch, &format!("LIST=\"{}\"", list.display())))
    }

    fn kamailio_tm(&self, address: SocketAddr, driver: &Driver, scratch: &Path) -> Result<Command> {
        let config = scratch.join("kamailio.cfg");
        fs::write(&config, KAMAILIO_PROXY_CONFIG)?;
        Ok(self.kamailio_with(address, &config, scratch, &format!("HOP=\"sip:{}\"", driver.servers()[0])))
    }

    fn kamailio_with(&self, address: SocketAddr, config: &Path, scratch: &Path, define: &str) -> Command {
        let mut command = Command::new(&self.kamailio);
        // -DD: children, but no daemon; 2 GiB hold the transactions of five seconds, which tm keeps, at any rate.
        command.args(["-DD", "-E", "-x", "fm", "-m", "2048", "-M", "16", "-n", &self.threads.to_string()]);
        command.arg("-f").arg(config).arg("-Y").arg(scratch);
        command.arg("-l").arg(format!("udp:{address}")).arg("-A").arg(define);
        command
    }
}

impl BenchTarget {
    /// Where each caller sends.
    pub fn addresses(&self) -> [SocketAddr; SERVERS] {
        [self.address; SERVERS]
    }

    /// Memory that it has now, in bytes.
    pub fn resident(&self) -> Result<u64> {
        Ok(self.program.resident()?)
    }

    /// Processor time used so far.
    pub fn usage(&self) -> Result<Usage> {
        Ok(self.program.usage()?)
    }

    fn await_calls(&mut self, driver: &mut Driver) -> Result<()> {
        let (duration, hold) = (Duration::from_millis(100), Duration::ZERO);
        let one = RunPlan { rate: 10.0, duration, hold, burst: Duration::ZERO, spin: false };
        let start = Instant::now();
        while driver.run(&self.addresses(), &one)?.completed == 0 {
            ensure!(!self.program.ended()?, "ended before any call got through");
            if start.elapsed() > PATIENCE {
                bail!("no call got through within {} s", PATIENCE.as_secs());
            }
        }
        Ok(())
    }
}

/// The table of a balancer in front of all servers.
fn pool(driver: &Driver) -> String {
    let members: Vec<String> = driver.servers().iter().map(|server| format!("\"{server}\"")).collect();
    format!("[pool.servers]\npolicy = \"tlwl\"\nmembers = [{}]\n", members.join(", "))
}

/// The table of a proxy in front of the first server.
fn proxy(driver: &Driver) -> String {
    format!("[proxy]\nnext = [\"{}\"]\n", driver.servers()[0])
}

/// The program of this `name` in the directory of the one that runs.
fn beside(name: &str) -> io::Result<PathBuf> {
    Ok(std::env::current_exe()?.with_file_name(name))
}

/// A loopback address whose port is free now.
fn free_port() -> Result<SocketAddr> {
    Ok(UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?)
}
