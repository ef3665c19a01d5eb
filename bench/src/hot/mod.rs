//! Hot paths, each as a function that does a given amount of work. The instruction gate runs them under `callgrind`.
//!
//! Each path is run with a [`Length::Short`] and a [`Length::Long`]. Both have the same preparations, so the difference
//! is the work alone. Nothing is random: seeds are fixed, hashes have constant keys, there is one thread.

mod agents;
mod datagrams;
mod modes;
pub mod routes;
mod stores;
mod transactions;

use crate::scenarios::topology_3;
use anyhow::Result;
use clap::ValueEnum;
use modes::CallMode;
use route::Forward;

/// A hot path.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum HotPath {
    /// Scanning the messages of a call.
    Scan,
    /// A message of an established call through the balancer: scanned, assigned, edited.
    Balanced,
    /// A message through the stateful proxy, transactions and timers included.
    Proxied,
    /// A new INVITE refused by overload control, and its ACK.
    Refused,
    /// The life of a transaction: created, answered, removed.
    Transaction,
    /// A typed message of the simulator, in topology 3 of the Overload paper.
    Simulated,
    /// A call between a caller and an answerer.
    Called,
    /// A call to a next hop, without transactions: the first of the [modes](crate::modes::MODES) of a proxy.
    Stateless,
    /// A call to a registered contact, without transactions.
    Located,
    /// A call to a registered contact, with transactions.
    Transactions,
    /// A call of an authenticated caller to a registered contact, with transactions.
    Authenticated,
    /// A call to a registered contact, with transactions and kept dialogs.
    Dialogs,
    /// A call of an authenticated caller to a registered contact, with transactions and kept dialogs.
    #[value(name = "dialogs_authenticated")]
    DialogsAuthenticated,
}

/// Amount of work.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Length {
    /// Up to the steady state of the path.
    Short,
    /// The same and the measured work.
    Long,
}

impl Length {
    /// Returns the value for this length.
    fn pick<T>(self, short: T, long: T) -> T {
        match self {
            Self::Short => short,
            Self::Long => long,
        }
    }
}

impl HotPath {
    /// Counted unit, in the singular.
    pub const fn unit(self) -> &'static str {
        match self {
            Self::Scan | Self::Balanced | Self::Proxied | Self::Simulated => "message",
            Self::Transaction => "transaction",
            Self::Refused => "refusal",
            Self::Called
            | Self::Stateless
            | Self::Located
            | Self::Transactions
            | Self::Authenticated
            | Self::Dialogs
            | Self::DialogsAuthenticated => "call",
        }
    }

    /// Does the work of this length. Returns the number of units.
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
            Self::Stateless => CallMode::Hop.run(length),
            Self::Located => CallMode::located(Forward::Stateless).run(length),
            Self::Transactions => CallMode::located(Forward::Transaction).run(length),
            Self::Authenticated => CallMode::authenticated(Forward::Transaction).run(length),
            Self::Dialogs => CallMode::located(Forward::Dialog).run(length),
            Self::DialogsAuthenticated => CallMode::authenticated(Forward::Dialog).run(length),
        }
    }
}
