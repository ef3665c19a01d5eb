//! Proxies in a chain or a small network, each limited to a fraction of a processor.

use std::net::SocketAddr;
use std::process::Command;

use anyhow::Result;

use super::arrangement::{Forward, Kept, ProxyPlace, Target};
use super::{DistributionBench, USER};
use crate::credentials::REALM;
use crate::modes::{KAMAILIO_CONFIG, Product};
use crate::registration::users;
use crate::rig::{NETWORK, Rig, server};

/// Configuration of one proxy.
#[derive(Clone, Debug)]
pub(super) struct ProxySpec {
    /// Source and targets of its routes, and the forwarding mode of each.
    pub(super) ways: Vec<(ProxyPlace, Forward)>,
    /// Whether it authenticates callers.
    pub(super) asks: bool,
    /// Quota as a fraction of a processor.
    pub(super) quota: f64,
    pub(super) threads: usize,
    /// Further tables of its configuration.
    pub(super) tables: &'static str,
}

/// Running proxies, ended on drop. They have the first servers' addresses.
pub(super) struct Chain {
    pub(super) rig: Rig,
    pub(super) proxies: Vec<usize>,
}

/// Addresses of the next hops.
pub(super) struct Places<'a> {
    pub(super) answerers: &'a [SocketAddr],
}

impl Places<'_> {
    fn target(&self, target: Target) -> SocketAddr {
        match target {
            Target::Proxy(index) => server(index),
            Target::Answerer(index) => self.answerers[index],
        }
    }

    fn targets(&self, place: &ProxyPlace) -> String {
        let all: Vec<String> = place.next.iter().map(|to| format!("\"{}\"", self.target(*to))).collect();
        all.join(", ")
    }

    /// Returns the tables for the routes.
    fn routes(&self, spec: &ProxySpec, kept: Kept) -> String {
        if let [(place, forward)] = &spec.ways[..] {
            let authentication = if spec.asks {
                let shared = match forward {
                    Forward::Shared { .. } => {
                        format!("trusted = [\"{NETWORK}\"]\nforward = \"distributed\"\n")
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
            let source =
                place.from.map_or_else(String::new, |index| format!("source = \"{}\"\n", server(index).ip()));
            format!(
                "[pool.way{number}]\npolicy = \"hash\"\nmembers = [{}]\nforward = \"{}\"\ndialogs = \"route\"\n\
                 slow_start = \"0s\"\nprobe = {{ enabled = false }}\n\n[[route]]\nfrom = \"anyone\"\n{source}pool = \"way{number}\"\n\n",
                self.targets(place),
                forward.name(kept),
            )
        };
        spec.ways.iter().enumerate().map(way).collect()
    }

    /// Returns the tables of a Sarabande proxy.
    fn tables(&self, index: usize, spec: &ProxySpec, kept: Kept) -> String {
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
            // Calls without transactions may go to neighbours only, so answerers have to be neighbours.
            let neighbours = match &spec.ways[0].1 {
                Forward::Told("stateless") => "127.0.0.0/8",
                _ => NETWORK,
            };
            format!("[distribution]\nneighbours = [\"{neighbours}\"]\n{shares}{keys}\n\n")
        });
        // A proxy that keeps no calls writes no records, and `check` refuses the table.
        let writes = spec
            .ways
            .iter()
            .any(|(_, forward)| !matches!(forward, Forward::Stateless | Forward::Transactions));
        let calls = match kept {
            Kept::Dialogs | Kept::Authenticated if writes => "[calls]\nrecords = \"calls.jsonl\"\n\n",
            _ => "",
        };
        format!(
            "{}{sharing}{calls}{}\n\n[token]\nkey = \"{:032x}\"",
            self.routes(spec, kept),
            spec.tables,
            if kept == Kept::Authenticated { 1 } else { index + 1 },
        )
    }

    fn sarabande(&self, rig: &Rig, index: usize, spec: &ProxySpec, kept: Kept) -> Result<Command> {
        let at = server(index);
        rig.scratch.write(&format!("{}/users", at.ip()), &users(USER))?;
        rig.sarabande(at, &format!("threads = {}", spec.threads), &self.tables(index, spec, kept))
    }

    fn kamailio(&self, rig: &Rig, index: usize, spec: &ProxySpec, kept: Kept) -> Result<Command> {
        let (place, forward) = &spec.ways[0];
        // A gigabyte holds the transactions of five seconds, which tm keeps.
        let mut command = rig.kamailio(server(index), KAMAILIO_CONFIG, 1_024)?;
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

    /// Starts these proxies, the first one with the address of index 0.
    pub(super) fn start(
        &self,
        bench: &DistributionBench,
        product: Product,
        specs: &[ProxySpec],
        kept: Kept,
    ) -> Result<Chain> {
        let (mut rig, mut proxies) = (Rig::new(&bench.paths)?, Vec::new());
        for (index, spec) in specs.iter().enumerate() {
            let command = match product {
                Product::Sarabande => self.sarabande(&rig, index, spec, kept)?,
                Product::Kamailio => self.kamailio(&rig, index, spec, kept)?,
            };
            proxies.push(rig.start(spec.quota, &format!("proxy-{index}"), &command)?);
        }
        Ok(Chain { rig, proxies })
    }
}
