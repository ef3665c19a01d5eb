//! The programs of one measurement, on one processor, each within its control group or free.

use std::net::SocketAddr;
use std::process::Command;

use anyhow::Result;

use super::{OverloadBench, PROGRAMS};
use crate::process::{Program, processors, tie_to};
use crate::quota::Quota;
use crate::scratch::Scratch;

/// Running programs, ended with this value.
pub(super) struct Cluster<'a> {
    pub(super) bench: &'a OverloadBench,
    // The groups go after the programs, which have to have ended.
    programs: Vec<Program>,
    quotas: Vec<Quota>,
    pub(super) scratch: Scratch,
}

impl<'a> Cluster<'a> {
    /// Nothing runs yet.
    pub(super) fn new(bench: &'a OverloadBench) -> Result<Self> {
        let scratch = Scratch::new("overload")?;
        Ok(Self { bench, programs: Vec::new(), quotas: Vec::new(), scratch })
    }

    /// Starts a program that may use all of the processor.
    pub(super) fn start(&mut self, log: &str, command: &Command) -> Result<()> {
        let program = self.launch_within(log, command, 1.0)?;
        self.programs.push(program);
        Ok(())
    }

    /// Starts a program that may use a part of the processor.
    pub(super) fn start_limited(&mut self, log: &str, command: &Command) -> Result<()> {
        let program = self.launch_limited(log, command)?;
        self.programs.push(program);
        Ok(())
    }

    /// The same, for a caller who ends it: before this value ends.
    pub(super) fn launch_limited(&mut self, log: &str, command: &Command) -> Result<Program> {
        self.launch_within(log, command, self.bench.quota)
    }

    /// Starts a program in a control group of its own.
    fn launch_within(&mut self, log: &str, command: &Command, processors: f64) -> Result<Program> {
        let name = format!("sarabande-overload-{}-{}", std::process::id(), self.quotas.len());
        let quota = Quota::new(&name, processors)?;
        let program = self.launch(log, &mut quota.command(command));
        self.quotas.push(quota);
        program
    }

    fn launch(&self, log: &str, command: &mut Command) -> Result<Program> {
        tie_to(PROGRAMS)?;
        let program = self.scratch.start(&format!("{log}.log"), command);
        tie_to(processors() - 1)?;
        program
    }

    /// `sarabande run` on this address, with one thread and these tables.
    pub(super) fn sarabande(&self, listen: SocketAddr, tables: &str) -> Result<Command> {
        let text = format!(
            "[listen]\nudp = [\"{listen}\"]\nthreads = 1\n\n{tables}\n\n[admin]\nlisten = \"\"\n\n\
             [log]\nlevel = \"warn\"\n"
        );
        let file = self.scratch.write(&format!("sarabande-{}.toml", listen.ip()), &text)?;
        let mut command = Command::new(&self.bench.sarabande);
        command.arg("run").arg(file);
        Ok(command)
    }

    /// SIPp as a server, as it comes.
    pub(super) fn sipp(&self, listen: SocketAddr) -> Command {
        let mut command = Command::new(&self.bench.sipp);
        command.args(["-sn", "uas", "-nostdin", "-i", &listen.ip().to_string()]);
        command.args(["-p", &listen.port().to_string()]);
        command
    }
}

impl Drop for Cluster<'_> {
    /// Ends all programs at once: a server with calls that never end would wait for them.
    fn drop(&mut self) {
        for quota in &self.quotas {
            // What lives on gets SIGTERM below.
            let _ = quota.kill();
        }
        for program in self.programs.drain(..) {
            let _ = program.kill();
        }
    }
}

/// A pool of these members, with these further lines.
pub(super) fn pool(members: &[SocketAddr], lines: &str) -> String {
    let members: Vec<String> = members.iter().map(|member| format!("\"{member}\"")).collect();
    format!(
        "[pool.servers]\nforward = \"stateless\"\nmembers = [{}]\nslow_start = \"0s\"\n{lines}\n",
        members.join(", ")
    )
}
