//! Programs of a run. Measured programs share the first processor, each limited by its control group. Callers,
//! answerers and unlimited programs use the last one.

use std::fs;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use clap::Args;

use crate::generator::LoadGenerator;
use crate::kamailio::kamailio;
use crate::log::CallLog;
use crate::process::{Program, processors, tie_to};
use crate::quota::Quota;
use crate::scratch::Scratch;

/// Processor of the measured programs.
pub(crate) const MEASURED: usize = 0;
/// Number of the balancer. Numbers of servers begin with 1.
pub(crate) const BALANCER: u8 = 99;
/// Network of all programs' addresses.
pub(crate) const NETWORK: &str = "127.78.0.0/24";

/// Returns the address of the program of this number.
pub(crate) fn address(number: u8) -> SocketAddr {
    SocketAddr::new(IpAddr::V4(Ipv4Addr::new(127, 78, 0, number)), 5060)
}

/// Returns the address of a server, counted from 0.
pub(crate) fn server(index: usize) -> SocketAddr {
    address(index as u8 + 1)
}

/// Returns the same address with another port: 8060 is the admin interface.
pub(crate) fn at_port(address: SocketAddr, port: u16) -> SocketAddr {
    SocketAddr::new(address.ip(), port)
}

/// Returns the table of a pool with these members and further lines.
pub(crate) fn pool(members: &[SocketAddr], lines: &str) -> String {
    let members: Vec<String> = members.iter().map(|member| format!("\"{member}\"")).collect();
    format!("[pool.servers]\nmembers = [{}]\nslow_start = \"0s\"\n{lines}\n", members.join(", "))
}

/// Paths of programs, as options.
#[derive(Args, Clone, Default, Debug)]
pub(crate) struct ProgramPaths {
    /// The program under test; by default the one beside this benchmark.
    #[arg(long)]
    pub(crate) sarabande: Option<PathBuf>,
    /// Kamailio's program.
    #[arg(long, default_value = "/usr/sbin/kamailio")]
    pub(crate) kamailio: PathBuf,
}

impl ProgramPaths {
    /// Returns the path of the program under test.
    pub(crate) fn sarabande(&self) -> Result<PathBuf> {
        Ok(self.sarabande.clone().map_or_else(|| crate::process::beside("sarabande"), Ok)?)
    }
}

/// Running programs, ended on drop.
pub(crate) struct Rig {
    pub(crate) paths: ProgramPaths,
    pub(crate) scratch: Scratch,
    programs: Vec<Option<Program>>,
    // Dropped after the programs, which must have ended.
    groups: Vec<Quota>,
}

impl Rig {
    /// Creates a rig without programs.
    pub(crate) fn new(paths: &ProgramPaths) -> Result<Self> {
        let (paths, scratch) = (paths.clone(), Scratch::new("rig")?);
        Ok(Self { paths, scratch, programs: Vec::new(), groups: Vec::new() })
    }

    /// Creates a control group with this fraction of a processor, and returns its number.
    pub(crate) fn group(&mut self, processors: f64) -> Result<usize> {
        let number = self.groups.len();
        self.groups.push(Quota::new(&format!("sarabande-rig-{}-{number}", std::process::id()), processors)?);
        Ok(number)
    }

    /// Changes a group's fraction of a processor.
    pub(crate) fn limit(&self, group: usize, processors: f64) -> Result<()> {
        self.groups[group].limit(processors)
    }

    /// Starts a program in a group, and returns its number. Its output goes to the file `log`.
    pub(crate) fn start_in(&mut self, group: usize, log: &str, command: &Command) -> Result<usize> {
        let mut command = self.groups[group].command(command);
        self.launch(MEASURED, log, &mut command)
    }

    /// Starts a program in a group of its own.
    pub(crate) fn start(&mut self, processors: f64, log: &str, command: &Command) -> Result<usize> {
        let group = self.group(processors)?;
        self.start_in(group, log, command)
    }

    /// Starts a program on the processor of the measured programs, without a group.
    pub(crate) fn start_free(&mut self, log: &str, command: &mut Command) -> Result<usize> {
        self.launch(MEASURED, log, command)
    }

    /// Starts a program on the processor of the callers.
    pub(crate) fn start_beside(&mut self, log: &str, command: &mut Command) -> Result<usize> {
        self.launch(processors() - 1, log, command)
    }

    fn launch(&mut self, processor: usize, log: &str, command: &mut Command) -> Result<usize> {
        // The kernel gives out a quota in slices a processor. When a thread moves away, the rest of a slice is lost.
        tie_to(processor)?;
        let program = self.scratch.start(&format!("{log}.log"), command);
        tie_to(processors() - 1)?;
        self.programs.push(Some(program?));
        Ok(self.programs.len() - 1)
    }

    pub(crate) fn program(&self, number: usize) -> Result<&Program> {
        self.programs[number].as_ref().context("the program was ended")
    }

    /// Kills a program.
    pub(crate) fn kill(&mut self, number: usize) -> Result<()> {
        self.programs[number].take().context("the program was ended")?.kill();
        Ok(())
    }

    /// Returns the command in a group, for a caller that starts it elsewhere.
    pub(crate) fn within(&self, group: usize, command: &Command) -> Command {
        self.groups[group].command(command)
    }

    /// Returns the processor time used by these programs, in seconds.
    pub(crate) fn used(&self, programs: &[usize]) -> Result<f64> {
        programs.iter().map(|number| Ok(self.program(*number)?.usage()?.total_ns as f64 / 1e9)).sum()
    }

    /// Returns the logs of all programs.
    pub(crate) fn logs(&self) -> String {
        let files = fs::read_dir(self.scratch.path()).into_iter().flatten().filter_map(Result::ok);
        let logs =
            files.map(|file| file.path()).filter(|path| path.extension().is_some_and(|it| it == "log"));
        logs.filter_map(|path| fs::read_to_string(path).ok()).collect()
    }

    /// Returns the command of `sarabande run` at this address with these `[listen]` lines and tables.
    pub(crate) fn sarabande(&self, at: SocketAddr, listen: &str, tables: &str) -> Result<Command> {
        let file = format!("{}/sarabande.toml", at.ip());
        let file = self.scratch.write(&file, &configuration(at, listen, tables))?;
        let mut command = Command::new(self.paths.sarabande()?);
        command.arg("run").arg(file);
        Ok(command)
    }

    /// Returns the command of Kamailio with this configuration at this address.
    pub(crate) fn kamailio(&self, at: SocketAddr, config: &str, megabytes: u32) -> Result<Command> {
        let name = format!("kamailio-{}", at.ip());
        kamailio(&self.paths.kamailio, &self.scratch, &name, config, at, (1, megabytes))
    }

    /// Waits until calls to these targets get through.
    pub(crate) fn await_calls(&self, generator: &mut LoadGenerator, targets: &[SocketAddr]) -> Result<()> {
        generator.await_calls(targets).with_context(|| format!("output of the programs:\n{}", self.logs()))
    }
}

impl Drop for Rig {
    /// Kills all programs: on SIGTERM a server would wait for calls that never end.
    fn drop(&mut self) {
        self.programs.drain(..).flatten().for_each(Program::kill);
    }
}

/// Returns the configuration file of `sarabande run`.
pub(crate) fn configuration(at: SocketAddr, listen: &str, tables: &str) -> String {
    format!(
        "[listen]\nudp = [\"{at}\"]\n{listen}\n\n{tables}\n\n[admin]\nlisten = \"{}\"\n\n[log]\nlevel = \"warn\"\n",
        at_port(at, 8060)
    )
}

/// Plays calls and calls `act` at each of these times, in seconds since the start. Returns the log and the results of
/// `act`.
pub(crate) fn beside<T: Send>(
    times: &[f64],
    mut act: impl FnMut(usize) -> Result<T> + Send,
    play: impl FnOnce() -> Result<CallLog>,
) -> Result<(CallLog, Vec<T>)> {
    let epoch = Instant::now();
    thread::scope(|scope| {
        let acts = scope.spawn(move || {
            let at = |(number, seconds): (usize, &f64)| {
                thread::sleep(Duration::from_secs_f64(*seconds).saturating_sub(epoch.elapsed()));
                act(number)
            };
            times.iter().enumerate().map(at).collect::<Result<Vec<T>>>()
        });
        let log = play();
        let acts = acts.join().expect("it returns its errors");
        Ok((log?, acts?))
    })
}
