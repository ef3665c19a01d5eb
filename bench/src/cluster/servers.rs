//! The servers: started, warmed up, limited to fractions of a processor.

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use clap::ValueEnum;

use super::ClusterBench;
use super::pauses::{Pause, pauses};
use crate::generator::{Level, LoadGenerator, OfferedLoad};
use crate::rig::{Rig, server};

/// A server that answers calls by itself, with transactions and dialogs.
const ANSWER: &str = include_str!("../../kamailio/answer.cfg");
/// Options of the Java virtual machine. A small young generation makes it collect about every second, with one thread
/// while all others stand still. There is no second compiler, which would work for minutes.
const JAVA: [&str; 5] = [
    "-Djava.net.preferIPv4Stack=true",
    "-Xmn24m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-Xlog:disable",
];
/// Heap in MiB for a whole processor, and the minimum. It does not fill in a usual session. A full
/// collection takes half a second or more on 9 % of a processor, every few minutes. It would affect a random run.
const HEAP: (f64, f64) = (3_000.0, 1_024.0);
/// Objects of 1 KiB that each call holds, like the call data of an application.
const OBJECTS: u32 = 4;
/// Rate and length of the warm-up of a server.
const WARM_UP: Level = Level { rate: 400.0, seconds: 5.0 };

/// Program of the servers.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, ValueEnum)]
pub enum Product {
    /// On the SIP stack of JAIN, in Java: `bench/jain`.
    Java,
    /// Kamailio with transactions and dialogs.
    Kamailio,
    /// `SIPp`, which keeps a scenario a call and no timers of transactions.
    Sipp,
    /// `sarabande load answer`.
    Sarabande,
}

impl Product {
    /// Returns the fraction of a processor for each of many servers. It is small enough that callers and balancer, on
    /// the other processor, are never the limit.
    pub fn quota(self) -> f64 {
        match self {
            Self::Java => 0.09,
            Self::Kamailio | Self::Sipp | Self::Sarabande => 0.04,
        }
    }

    /// Returns the seconds for which it keeps an answered request other than INVITE: timer J (RFC 3261 §17.2.2),
    /// `wt_timer` of Kamailio's module tm, or 0 without transactions.
    pub fn keeps(self) -> f64 {
        match self {
            Self::Java | Self::Sarabande => 32.0,
            Self::Kamailio => 5.0,
            Self::Sipp => 0.0,
        }
    }

    /// Returns true if it answers REGISTER.
    pub fn registers(self) -> bool {
        self != Self::Sipp
    }
}

/// Returns the command of the server of this number.
fn command(bench: &ClusterBench, rig: &Rig, product: Product, index: usize, quota: f64) -> Result<Command> {
    let address = server(index);
    Ok(match product {
        Product::Java => {
            let target = bench.java.join("target");
            let (classes, project) = (target.join("classes"), bench.java.join("pom.xml"));
            ensure!(
                classes.is_dir(),
                "{} does not exist, build it with: mvn -q -f {} package",
                classes.display(),
                project.display()
            );
            let mut java = Command::new("java");
            let (whole, least) = HEAP;
            let heap = (whole * quota).max(least);
            java.args(JAVA).args(["s", "x"].map(|end| format!("-Xm{end}{heap:.0}m")));
            java.arg(format!("-Xlog:gc:file={}:uptime", gc_log(rig, index).display()));
            java.arg("-cp").arg(format!("{}:{}/lib/*", classes.display(), target.display()));
            java.args(["sarabande.Answerer", &address.ip().to_string(), &address.port().to_string()]);
            java.args([index.to_string(), OBJECTS.to_string()]);
            java
        }
        Product::Kamailio => {
            let mut kamailio = rig.kamailio(address, ANSWER, 256)?;
            let contact = format!("CONTACT=\"Contact: <sip:s{index}@{address}>\\r\\n\"");
            kamailio.args(["-A", &contact]);
            kamailio
        }
        Product::Sipp => {
            let mut sipp = Command::new("sipp");
            sipp.args(["-sn", "uas", "-i", &address.ip().to_string(), "-p", &address.port().to_string()]);
            sipp.arg("-nostdin");
            sipp
        }
        Product::Sarabande => {
            let mut answer = Command::new(bench.paths.sarabande()?);
            answer.args(["load", "answer", "--trying", "--listen", &address.to_string()]);
            answer
        }
    })
}

fn gc_log(rig: &Rig, index: usize) -> PathBuf {
    rig.scratch.path().join(format!("gc-{index}"))
}

/// Servers of one product, ready for calls.
pub(super) struct Servers {
    pub(super) product: Product,
    /// Fraction of a processor for each.
    pub(super) quotas: Vec<f64>,
    /// Programs of the servers, which are in the groups of the same numbers, and their starts.
    programs: Vec<usize>,
    since: Vec<Instant>,
    rig: Rig,
}

impl Servers {
    /// Starts a server for each quota, and warms each up with a whole processor.
    pub(super) fn start(
        bench: &ClusterBench,
        product: Product,
        quotas: Vec<f64>,
        generator: &mut LoadGenerator,
    ) -> Result<Self> {
        let mut rig = Rig::new(&bench.paths)?;
        let (mut programs, mut since) = (Vec::new(), Vec::new());
        let warm_up = Level { seconds: if bench.quick { 0.5 } else { WARM_UP.seconds }, ..WARM_UP };
        for (index, part) in quotas.iter().enumerate() {
            let command = command(bench, &rig, product, index, *part)?;
            programs.push(rig.start(1.0, &format!("server-{index}"), &command)?);
            since.push(Instant::now());
            rig.await_calls(generator, &[server(index)])?;
            generator.play(&[server(index)], OfferedLoad::Open(vec![warm_up]))?;
        }
        let servers = Self { product, quotas, programs, since, rig };
        servers.held()?;
        Ok(servers)
    }

    /// Limits each to its fraction of a processor.
    fn held(&self) -> Result<()> {
        self.quotas.iter().enumerate().try_for_each(|(group, part)| self.rig.limit(group, *part))
    }

    /// Limits each to this fraction of a processor.
    ///
    /// # Errors
    /// Fails if a control group refuses it.
    pub(super) fn limit(&self, part: f64) -> Result<()> {
        (0..self.quotas.len()).try_for_each(|group| self.rig.limit(group, part))
    }

    /// Makes each collect all of its garbage, with a whole processor, so that no run begins with garbage of another
    /// load.
    ///
    /// # Errors
    /// Fails if a server has ended, or the JDK is incomplete.
    pub(super) fn collect(&self) -> Result<()> {
        if self.product != Product::Java {
            return Ok(());
        }
        self.limit(1.0)?;
        for program in &self.programs {
            let output =
                Command::new("jcmd").arg(self.rig.program(*program)?.id().to_string()).arg("GC.run").output();
            let output = output.context("jcmd, which comes with a JDK")?;
            ensure!(output.status.success(), "output of jcmd: {}", String::from_utf8_lossy(&output.stdout));
        }
        self.held()
    }

    /// Returns the processor time of all in seconds.
    pub(super) fn used(&self) -> Result<f64> {
        self.rig.used(&self.programs)
    }

    /// Returns the resident memory of the first in bytes.
    pub(super) fn resident(&self) -> Result<u64> {
        Ok(self.rig.program(self.programs[0])?.resident()?)
    }

    /// Returns the pauses of each since then, in seconds after it; none for servers not in Java.
    pub(super) fn pauses(&self, since: Instant) -> Vec<Vec<Pause>> {
        let of = |(index, start): (usize, &Instant)| {
            let log = fs::read_to_string(gc_log(&self.rig, index)).unwrap_or_default();
            let offset = since.duration_since(*start).as_secs_f64();
            let after =
                |pause: Pause| (pause.at >= offset).then_some(Pause { at: pause.at - offset, ..pause });
            pauses(&log).into_iter().filter_map(after).collect()
        };
        self.since.iter().enumerate().map(of).collect()
    }
}
