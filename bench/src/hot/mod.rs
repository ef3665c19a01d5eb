//! The hot paths, each as a function that does a given amount of work: the gate of instructions runs them under
//! `callgrind`.
//!
//! Each path is run twice, a [`Length::Short`] and a [`Length::Long`] time. Both prepare the same, so that the
//! difference is the work between the two alone. Nothing is random: seeds are fixed, hashes are keyed with constants,
//! there is one thread.

mod agents;
mod datagrams;
pub mod routes;
mod transactions;

use crate::scenarios::topology_3;
use anyhow::Result;
use clap::ValueEnum;

/// A hot path.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum HotPath {
    /// Scanning the messages of a call.
    Scan,
    /// A message of an established call through the balancer: scanned, assigned, edited.
    Balanced,
    /// A message through the stateful proxy, transactions and timers included.
    Proxied,
    /// A new INVITE that overload control refuses, and the ACK to that.
    Refused,
    /// The life of a transaction: opened, answered, cleared away.
    Transaction,
    /// A typed message of the simulator, in topology 3 of the Overload paper.
    Simulated,
    /// A call between a caller and an answerer.
    Called,
}

/// How much of the work is done.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Length {
    /// Until the path is in its steady state.
    Short,
    /// And then what is measured.
    Long,
}

impl Length {
    /// What of the two is asked for.
    fn pick<T>(self, short: T, long: T) -> T {
        match self {
            Self::Short => short,
            Self::Long => long,
        }
    }
}

impl HotPath {
    /// What is counted, in the singular.
    pub const fn unit(self) -> &'static str {
        match self {
            Self::Scan | Self::Balanced | Self::Proxied | Self::Simulated => "message",
            Self::Transaction => "transaction",
            Self::Refused => "refusal",
            Self::Called => "call",
        }
    }

    /// Does the work of this length; returns how many units that were.
    pub fn run(self, length: Length) -> Result<u64> {
        match self {
            Self::Scan => datagrams::scan(length),
            Self::Balanced => datagrams::balanced(length),
            Self::Proxied => datagrams::proxied(length),
            Self::Refused => datagrams::refused(length),
            Self::Transaction => transactions::lives(length),
            // From 40 s on, transactions end as fast as they begin.
            Self::Simulated => Ok(sim::model::run(&topology_3(length.pick(40, 80), 20.0), 1).messages),
            Self::Called => agents::calls(length),
        }
    }
}
