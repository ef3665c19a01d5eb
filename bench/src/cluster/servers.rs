//! The servers: started, warmed up, held to their parts of a processor.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use clap::ValueEnum;

use super::{ClusterBench, KAMAILIO_MEGABYTES, Pause, SERVERS, pauses, server};
use crate::kamailio::kamailio;
use crate::overload::load::{Level, LoadGenerator, OfferedLoad};
use crate::process::{Program, processors, tie_to};
use crate::quota::Quota;
use crate::scratch::Scratch;

/// A server that answers calls by itself, with transactions and dialogs.
const ANSWER: &str = include_str!("../../kamailio/answer.cfg");
/// What the Java machine is told: a small young generation, so that there is a collection every second or so, in which
/// one thread works while all others stand still; and no second compiler, which would be at work for minutes.
const JAVA: [&str; 5] = [
    "-Djava.net.preferIPv4Stack=true",
    "-Xmn24m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-Xlog:disable",
];
/// Heap in MiB, for a whole processor and at least: so much that it does not fill in a usual session. To collect all of a
/// heap takes a server of 9 % of a processor half a second or more, once in some minutes, and chance would say in which
/// load of which way.
const HEAP: (f64, f64) = (3_000.0, 1_024.0);
/// Objects of 1 KiB that each call keeps there, as an application knows something of its calls.
const OBJECTS: u32 = 4;
/// Calls a second that a server answers before anything is measured, and for how long.
const WARM_UP: Level = Level { rate: 400.0, seconds: 5.0 };

/// The program of the servers.
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
    /// The part of a processor of each of many: so many that callers and balancer, on the other processor, are never
    /// the limit.
    pub fn quota(self) -> f64 {
        match self {
            Self::Java => 0.09,
            Self::Kamailio | Self::Sipp | Self::Sarabande => 0.04,
        }
    }

    /// Seconds for which it keeps a request other than INVITE that it has answered: timer J (RFC 3261 §17.2.2), what
    /// Kamailio's module tm has in its place (`wt_timer`), nothing without transactions.
    pub fn keeps(self) -> f64 {
        match self {
            Self::Java | Self::Sarabande => 32.0,
            Self::Kamailio => 5.0,
            Self::Sipp => 0.0,
        }
    }

    /// Whether it answers REGISTER.
    pub fn registers(self) -> bool {
        self != Self::Sipp
    }
}

impl ClusterBench {
    fn command(&self, product: Product, scratch: &Scratch, index: usize, quota: f64) -> Result<Command> {
        let address = server(index);
        Ok(match product {
            Product::Java => {
                let target = self.java.join("target");
                let classes = target.join("classes");
                ensure!(
                    classes.is_dir(),
                    "{} is not there: mvn -q -f {} package",
                    classes.display(),
                    self.java.join("pom.xml").display()
                );
                let mut java = Command::new("java");
                let (whole, least) = HEAP;
                let heap = (whole * quota).max(least);
                java.args(JAVA).args(["s", "x"].map(|end| format!("-Xm{end}{heap:.0}m")));
                java.arg(format!("-Xlog:gc:file={}:uptime", gc_log(scratch, index).display()));
                java.arg("-cp").arg(format!("{}:{}/lib/*", classes.display(), target.display()));
                java.args(["sarabande.Answerer", &address.ip().to_string(), &address.port().to_string()]);
                java.args([index.to_string(), OBJECTS.to_string()]);
                java
            }
            Product::Kamailio => {
                let mut kamailio = kamailio(
                    &self.kamailio,
                    scratch,
                    &format!("server-{index}"),
                    ANSWER,
                    address,
                    KAMAILIO_MEGABYTES,
                )?;
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
                let mut answer = Command::new(&self.sarabande);
                answer.args(["load", "answer", "--trying", "--listen", &address.to_string()]);
                answer
            }
        })
    }
}

fn gc_log(scratch: &Scratch, index: usize) -> PathBuf {
    scratch.path().join(format!("gc-{index}.log"))
}

struct Server {
    // The group goes last: its processes have to have ended.
    program: Program,
    quota: Quota,
    since: Instant,
    log: PathBuf,
}

/// Servers of one product, ready for calls.
pub struct Servers {
    /// What they are.
    pub(crate) product: Product,
    all: Vec<Server>,
    /// The part of a processor that each may use.
    pub quotas: Vec<f64>,
    _scratch: Scratch,
}

impl Servers {
    /// Starts as many as there are quotas, and has each answer calls until it is warm, with a whole processor.
    ///
    /// # Errors
    /// What could not be started.
    pub(crate) fn start(
        bench: &ClusterBench,
        product: Product,
        quotas: Vec<f64>,
        generator: &mut LoadGenerator,
    ) -> Result<Self> {
        let scratch = Scratch::new("cluster-servers")?;
        let mut all = Vec::new();
        for (index, part) in quotas.iter().enumerate() {
            let command = bench.command(product, &scratch, index, *part)?;
            let quota = Quota::new(&format!("sarabande-cluster-{}-{index}", std::process::id()), 1.0)?;
            tie_to(SERVERS)?;
            let program = scratch.start(&format!("server-{index}.log"), &mut quota.command(&command));
            tie_to(processors() - 1)?;
            let (since, log) = (Instant::now(), gc_log(&scratch, index));
            all.push(Server { program: program?, quota, since, log });
            warm(generator, index).with_context(|| said(scratch.path(), index))?;
        }
        let servers = Self { product, all, quotas, _scratch: scratch };
        for (server, part) in servers.all.iter().zip(&servers.quotas) {
            server.quota.limit(*part)?;
        }
        Ok(servers)
    }

    /// Holds each to this part of a processor.
    ///
    /// # Errors
    /// The control group does not take it.
    pub(crate) fn limit(&self, part: f64) -> Result<()> {
        self.all.iter().try_for_each(|server| server.quota.limit(part))
    }

    /// Has each collect all of its garbage, for which it gets a processor: none begins with what was left by another load.
    ///
    /// # Errors
    /// One has ended, or the JDK is not whole.
    pub(crate) fn collect(&self) -> Result<()> {
        if self.product != Product::Java {
            return Ok(());
        }
        for (server, part) in self.all.iter().zip(&self.quotas) {
            server.quota.limit(1.0)?;
            let said = Command::new("jcmd").arg(server.program.id().to_string()).arg("GC.run").output();
            let said = said.context("jcmd, which comes with a JDK")?;
            ensure!(said.status.success(), "jcmd said: {}", String::from_utf8_lossy(&said.stdout));
            server.quota.limit(*part)?;
        }
        Ok(())
    }

    /// Processor time that all have used, in seconds.
    ///
    /// # Errors
    /// One has ended.
    pub fn used(&self) -> Result<f64> {
        let used = |server: &Server| Ok(server.program.usage()?.total_ns as f64 / 1e9);
        self.all.iter().map(used).sum()
    }

    /// Memory that the first one has now, in bytes.
    ///
    /// # Errors
    /// It has ended.
    pub fn resident(&self) -> Result<u64> {
        Ok(self.all[0].program.resident()?)
    }

    /// The pauses of each since then, as times in seconds after it; of none that is not in Java.
    pub fn pauses(&self, since: Instant) -> Vec<Vec<Pause>> {
        let of = |server: &Server| {
            let log = fs::read_to_string(&server.log).unwrap_or_default();
            let offset = since.duration_since(server.since).as_secs_f64();
            let after =
                |pause: Pause| (pause.at >= offset).then_some(Pause { at: pause.at - offset, ..pause });
            pauses(&log).into_iter().filter_map(after).collect()
        };
        self.all.iter().map(of).collect()
    }
}

fn said(folder: &Path, index: usize) -> String {
    let log = fs::read_to_string(folder.join(format!("server-{index}.log"))).unwrap_or_default();
    format!("server {index} said: {log}")
}

/// Calls until a server is warm.
fn warm(generator: &mut LoadGenerator, index: usize) -> Result<()> {
    generator.await_calls(&[server(index)])?;
    generator.play(&[server(index)], OfferedLoad::Open(vec![WARM_UP])).map(drop)
}
