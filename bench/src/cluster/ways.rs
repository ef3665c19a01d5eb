//! Who shares calls out, and how.

use core::fmt;
use std::net::UdpSocket;
use std::process::Command;
use std::thread;
use std::time::Duration;

use anyhow::{Result, ensure};
use clap::ValueEnum;

use super::{ClusterBench, KAMAILIO_MEGABYTES, balancer, server};
use crate::kamailio::{dispatch, kamailio};
use crate::process::{Program, processors, tie_to};
use crate::report::name;
use crate::scratch::Scratch;

/// Kamailio's dispatcher.
const DISPATCHER: &str = include_str!("../../kamailio/kamailio.cfg");

/// A way to share calls out: the seven policies of this program, and what Kamailio's dispatcher has.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, ValueEnum)]
pub enum Way {
    /// Transaction-least-work-left, an INVITE weighing 1.75.
    Tlwl,
    /// Transaction-join-shortest-queue.
    Tjsq,
    /// Call-join-shortest-queue.
    Cjsq,
    /// Response-time weighted moving average.
    Rwma,
    /// In turn.
    RoundRobin,
    /// By a hash of the Call-ID.
    Hash,
    /// By another one.
    FnvHash,
    /// Kamailio's dispatcher by calls in progress (algorithm 10).
    KamailioLoad,
    /// Kamailio's dispatcher by a hash of the Call-ID (algorithm 0).
    KamailioHash,
    /// Kamailio's dispatcher in turn (algorithm 4).
    KamailioRoundRobin,
}

impl fmt::Display for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&name(self))
    }
}

impl Way {
    /// The dispatcher's algorithm; `None` of this program's policies.
    fn algorithm(self) -> Option<u8> {
        match self {
            Self::KamailioLoad => Some(10),
            Self::KamailioHash => Some(0),
            Self::KamailioRoundRobin => Some(4),
            _ => None,
        }
    }

    /// Starts it before servers of these capacities, with these keys of the pool besides, on the processor of the callers.
    pub(super) fn start(
        self,
        bench: &ClusterBench,
        scratch: &Scratch,
        (capacities, keys): (&[f64], &str),
    ) -> Result<Program> {
        tie_to(processors() - 1)?;
        // Sockets may share an address: calls would go to whoever is left of a run that was killed. The balancer before this
        // one may take a moment to end.
        let is_free = || UdpSocket::bind(balancer(5060)).is_ok();
        let wait = || thread::sleep(Duration::from_millis(100));
        let becomes_free = (0..50).any(|_| {
            is_free() || {
                wait();
                false
            }
        });
        ensure!(becomes_free, "another program has {}; end it", balancer(5060));
        let mut command = match self.algorithm() {
            None => {
                let file = scratch.write("sarabande.toml", &config(self, capacities, keys))?;
                let mut sarabande = Command::new(&bench.sarabande);
                sarabande.arg("run").arg(file);
                sarabande
            }
            Some(algorithm) => {
                let mut kamailio = kamailio(
                    &bench.kamailio,
                    scratch,
                    "dispatcher",
                    DISPATCHER,
                    balancer(5060),
                    KAMAILIO_MEGABYTES,
                )?;
                dispatch(&mut kamailio, scratch, (0..capacities.len()).map(server))?;
                kamailio.arg("-A").arg(format!("ALGORITHM=\"{algorithm}\""));
                kamailio
            }
        };
        scratch.start("balancer", &mut command)
    }
}

/// Probes, ejection and slow start are off, so that ways differ by how they share calls out, and not by when they find
/// a server dead.
fn config(way: Way, capacities: &[f64], keys: &str) -> String {
    let member = |(index, capacity): (usize, &f64)| {
        format!("{{ address = \"{}\", capacity = {capacity:?} }}", server(index))
    };
    let members: Vec<String> = capacities.iter().enumerate().map(member).collect();
    format!(
        "[listen]\nudp = [\"{}\"]\nthreads = 1\nreceive_buffer = \"4MiB\"\n\n[pool.servers]\nforward = \"stateless\"\nmembers = [{}]\n\
         policy = \"{way}\"\n{keys}\nslow_start = \"0s\"\nprobe = {{ enabled = false }}\noutlier = {{ enabled = false }}\n\n\
         [admin]\nlisten = \"{}\"\n\n[log]\nlevel = \"info\"\n",
        balancer(5060),
        members.join(", "),
        balancer(8060),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_policy_of_the_program_is_a_way() {
        let ways = Way::value_variants().iter().filter(|way| way.algorithm().is_none());
        for way in ways {
            let text = config(*way, &[1.0, 0.5], "");
            let parsed = config::parse(&text, "sarabande.toml");
            assert!(parsed.is_ok(), "{text}\n{parsed:?}");
        }
    }
}
