//! Proxies in a chain or a small network, each held to a part of a processor.

use std::fs;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::process::Command;

use anyhow::Result;

use super::arrangement::{Forward, Kept, ProxyPlace, Target};
use super::{DistributionBench, USER};
use crate::credentials::REALM;
use crate::kamailio::kamailio;
use crate::modes::KAMAILIO_CONFIG;
use crate::process::{Program, processors, tie_to};
use crate::quota::Quota;
use crate::registration::users;
use crate::scratch::Scratch;

/// The processor of all proxies. Callers and answerers are on the last one.
const PROXIES: usize = 0;

/// Whose proxies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Product {
    /// Ours.
    Sarabande,
    /// The other one.
    Kamailio,
}

/// How one proxy is started.
#[derive(Clone, Debug)]
pub(super) struct ProxySpec {
    /// Where its calls come from and go to, and how each way is forwarded.
    pub(super) ways: Vec<(ProxyPlace, Forward)>,
    /// Whether it asks callers for a password.
    pub(super) asks: bool,
    /// What it may use of a processor.
    pub(super) quota: f64,
    pub(super) threads: usize,
    /// Further tables of its configuration.
    pub(super) tables: String,
}

/// Running proxies, ended with this value.
pub(super) struct Chain {
    pub(super) proxies: Vec<(Program, Quota)>,
    pub(super) admin: Vec<SocketAddr>,
    scratch: Scratch,
}

/// Where proxies and answerers are.
pub(super) struct Places<'a> {
    pub(super) bench: &'a DistributionBench,
    pub(super) answerers: &'a [SocketAddr],
}

impl Places<'_> {
    pub(super) fn proxy(&self, index: usize, port: u16) -> SocketAddr {
        SocketAddr::new(IpAddr::V4(Ipv4Addr::new(127, 77, self.bench.network, index as u8 + 1)), port)
    }

    fn network(&self) -> String {
        format!("127.77.{}.0/24", self.bench.network)
    }

    fn target(&self, target: Target) -> SocketAddr {
        match target {
            Target::Proxy(index) => self.proxy(index, 5060),
            Target::Answerer(index) => self.answerers[index],
        }
    }

    fn targets(&self, place: &ProxyPlace) -> String {
        let all: Vec<String> = place.next.iter().map(|to| format!("\"{}\"", self.target(*to))).collect();
        all.join(", ")
    }

    /// The tables that say where calls go.
    fn routes(&self, spec: &ProxySpec, kept: Kept) -> String {
        if let [(place, forward)] = &spec.ways[..] {
            let authentication = if spec.asks {
                let shared = match forward {
                    Forward::Shared { .. } => {
                        format!("trusted = [\"{}\"]\nforward = \"distributed\"\n", self.network())
                    }
                    _ => String::new(),
                };
                format!(
                    "[registrar]\ndomains = [\"{REALM}\"]\nrealm = \"{REALM}\"\nusers = \"users\"\n{shared}\n\
                     [[route]]\nauthenticate = true\npool = \"proxy\"\n\n"
                )
            } else {
                String::new()
            };
            let (next, way) = (self.targets(place), forward.name(kept));
            return format!("[proxy]\nnext = [{next}]\nforward = \"{way}\"\n\n{authentication}");
        }
        let way = |(number, (place, forward)): (usize, &(ProxyPlace, Forward))| {
            let source = place
                .from
                .map_or_else(String::new, |index| format!("source = \"{}\"\n", self.proxy(index, 5060).ip()));
            format!(
                "[pool.way{number}]\npolicy = \"hash\"\nmembers = [{}]\nforward = \"{}\"\ndialogs = \"route\"\n\
                 slow_start = \"0s\"\nprobe = {{ enabled = false }}\n\n[[route]]\nfrom = \"anyone\"\n{source}pool = \"way{number}\"\n\n",
                self.targets(place),
                forward.name(kept),
            )
        };
        spec.ways.iter().enumerate().map(way).collect()
    }

    /// The configuration of a proxy of ours.
    fn file(&self, index: usize, spec: &ProxySpec, kept: Kept) -> String {
        let sharing = spec.ways.iter().find_map(|(_, forward)| forward.keys());
        let sharing = sharing.map_or_else(String::new, |keys| {
            let is_shared =
                |(_, forward): &(_, Forward)| matches!(forward, Forward::Shared { authentication: true, .. });
            let shares = match kept {
                Kept::Transactions => "",
                Kept::Authenticated if spec.ways.iter().any(is_shared) => {
                    "shares = [\"transaction\", \"dialog\", \"authentication\"]\n"
                }
                Kept::Dialogs | Kept::Authenticated => "shares = [\"transaction\", \"dialog\"]\n",
            };
            // Calls without transactions may go to neighbours alone, so answerers have to be some.
            let neighbours = match &spec.ways[0].1 {
                Forward::Told("stateless", _) => "127.0.0.0/8".to_owned(),
                _ => self.network(),
            };
            format!("[distribution]\nneighbours = [\"{neighbours}\"]\n{shares}{keys}\n\n")
        });
        // Who never keeps anything writes no records, and `check` refuses the table.
        let writes = spec
            .ways
            .iter()
            .any(|(_, forward)| !matches!(forward, Forward::Stateless | Forward::Transactions));
        let calls = match kept {
            Kept::Dialogs | Kept::Authenticated if writes => "[calls]\nrecords = \"calls.jsonl\"\n\n",
            _ => "",
        };
        format!(
            "[listen]\nudp = [\"{}\"]\nthreads = {}\n\n{}{sharing}{calls}{}\n\n\
             [token]\nkey = \"{:032x}\"\n\n[admin]\nlisten = \"{}\"\n\n[log]\nlevel = \"warn\"\n",
            self.proxy(index, 5060),
            spec.threads,
            self.routes(spec, kept),
            spec.tables,
            if kept == Kept::Authenticated { 1 } else { index + 1 },
            self.proxy(index, 8060),
        )
    }

    fn sarabande(&self, index: usize, spec: &ProxySpec, kept: Kept, scratch: &Scratch) -> Result<Command> {
        scratch.write(&format!("{index}/users"), &users(USER))?;
        let file = scratch.write(&format!("{index}/sarabande.toml"), &self.file(index, spec, kept))?;
        let mut command = Command::new(&self.bench.sarabande);
        command.arg("run").arg(file);
        Ok(command)
    }

    fn kamailio(&self, index: usize, spec: &ProxySpec, kept: Kept, scratch: &Scratch) -> Result<Command> {
        let (place, forward) = &spec.ways[0];
        let (program, address) = (&self.bench.kamailio, self.proxy(index, 5060));
        // A gigabyte holds the transactions of five seconds, which tm keeps.
        let mut command = kamailio(program, scratch, &index.to_string(), KAMAILIO_CONFIG, address, 1_024)?;
        command.arg("-A").arg(format!("HOP=\"sip:{}\"", self.target(place.next[0])));
        let keeps = *forward != Forward::Stateless;
        let is_dialog = keeps && kept != Kept::Transactions;
        let with = [
            ("WITH_TM", keeps),
            ("WITH_DIALOG", is_dialog),
            ("WITH_RECORDS", is_dialog),
            ("WITH_AUTH", spec.asks),
        ];
        for (name, _) in with.iter().filter(|(_, is_on)| *is_on) {
            command.arg("-A").arg(format!("{name}=1"));
        }
        Ok(command)
    }

    /// Starts these proxies, the first one of them with the address of index 0.
    pub(super) fn start(&self, product: Product, specs: &[ProxySpec], kept: Kept) -> Result<Chain> {
        let scratch = Scratch::new("distribution")?;
        let (mut proxies, mut admin) = (Vec::new(), Vec::new());
        // The kernel hands a quota out to processors in pieces; where a thread has moved away, what is left of one is
        // lost.
        tie_to(PROXIES)?;
        for (index, spec) in specs.iter().enumerate() {
            let command = match product {
                Product::Sarabande => self.sarabande(index, spec, kept, &scratch)?,
                Product::Kamailio => self.kamailio(index, spec, kept, &scratch)?,
            };
            let group = format!("sarabande-series-{}-{index}", std::process::id());
            let quota = Quota::new(&group, spec.quota)?;
            let program = scratch.start(&format!("{index}/log"), &mut quota.command(&command))?;
            proxies.push((program, quota));
            admin.push(self.proxy(index, 8060));
        }
        tie_to(processors() - 1)?;
        Ok(Chain { proxies, admin, scratch })
    }
}

impl Chain {
    /// What the proxies have said.
    pub(super) fn logs(&self) -> String {
        let log = |index| fs::read_to_string(self.scratch.path().join(format!("{index}/log")));
        (0..self.proxies.len()).map(log).filter_map(Result::ok).collect()
    }

    /// Processor time that each has used, in nanoseconds.
    pub(super) fn used_ns(&self) -> io::Result<Vec<u64>> {
        self.proxies.iter().map(|(program, _)| Ok(program.usage()?.total_ns)).collect()
    }
}

impl Drop for Chain {
    /// Ends all at once: a proxy with calls that never end would wait for them.
    fn drop(&mut self) {
        for (_, quota) in &self.proxies {
            // What lives on gets SIGTERM as the program goes.
            let _ = quota.kill();
        }
    }
}
