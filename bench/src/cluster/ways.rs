//! Balancers and their policies.

use core::fmt;

use anyhow::Result;
use clap::ValueEnum;

use crate::kamailio::dispatch;
use crate::report::name;
use crate::rig::{BALANCER, Rig, address, server};

/// Kamailio's dispatcher.
const DISPATCHER: &str = include_str!("../../kamailio/kamailio.cfg");

/// A way to distribute calls: the seven policies of this program, and those of Kamailio's dispatcher.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, ValueEnum)]
pub(crate) enum Way {
    /// Transaction-least-work-left, an INVITE weighing 1.75.
    Tlwl,
    /// Transaction-join-shortest-queue.
    Tjsq,
    /// Call-join-shortest-queue.
    Cjsq,
    /// Response-time weighted moving average.
    Rwma,
    /// Round robin.
    RoundRobin,
    /// By a hash of the Call-ID.
    Hash,
    /// By another hash of the Call-ID, FNV.
    FnvHash,
    /// Kamailio's dispatcher by calls in progress (algorithm 10).
    KamailioLoad,
    /// Kamailio's dispatcher by a hash of the Call-ID (algorithm 0).
    KamailioHash,
    /// Kamailio's dispatcher, round robin (algorithm 4).
    KamailioRoundRobin,
}

impl fmt::Display for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&name(self))
    }
}

impl Way {
    /// Returns the dispatcher's algorithm; `None` for policies of this program.
    fn algorithm(self) -> Option<u8> {
        match self {
            Self::KamailioLoad => Some(10),
            Self::KamailioHash => Some(0),
            Self::KamailioRoundRobin => Some(4),
            _ => None,
        }
    }

    /// Starts it in front of servers of these capacities, on the processor of the callers. Returns its number.
    pub(super) fn start(self, rig: &mut Rig, capacities: &[f64]) -> Result<usize> {
        let at = address(BALANCER);
        let mut command = match self.algorithm() {
            None => rig.sarabande(at, LISTEN, &tables(self, capacities))?,
            Some(algorithm) => {
                let mut kamailio = rig.kamailio(at, DISPATCHER, 256)?;
                dispatch(&mut kamailio, &rig.scratch, (0..capacities.len()).map(server))?;
                kamailio.arg("-A").arg(format!("ALGORITHM=\"{algorithm}\""));
                kamailio
            }
        };
        rig.start_beside("balancer", &mut command)
    }
}

const LISTEN: &str = "threads = 1";

/// Probes, ejection and slow start are off, so that ways differ by their distribution of calls, and not by when they
/// find a server dead.
fn tables(way: Way, capacities: &[f64]) -> String {
    let member = |(index, capacity): (usize, &f64)| {
        format!("{{ address = \"{}\", capacity = {capacity:?} }}", server(index))
    };
    let members: Vec<String> = capacities.iter().enumerate().map(member).collect();
    format!(
        "[pool.servers]\nforward = \"stateless\"\nmembers = [{}]\npolicy = \"{way}\"\nslow_start = \"0s\"\n\
         probe = {{ enabled = false }}\noutlier = false",
        members.join(", "),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_policy_of_the_program_is_a_way() {
        let ways = Way::value_variants().iter().filter(|way| way.algorithm().is_none());
        for way in ways {
            let text = crate::rig::configuration(address(BALANCER), LISTEN, &tables(*way, &[1.0, 0.5]));
            let parsed = config::parse(&text, "sarabande.toml");
            assert!(parsed.is_ok(), "{text}\n{parsed:?}");
        }
    }
}
