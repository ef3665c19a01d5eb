//! Updates of capacity: what `sarabande monitor` beside a server sends (`instruments::sender`), and what the balancer in
//! front takes (`listener`), and whose monitors it hears nothing of (`silence`). `elastic::update` has the protocol,
//! `docs/elastic.md` describes it for users.
//!
//! Whatever was accepted comes to the control task as an `Offer`, one by one, and is answered by it: it alone knows
//! the members, and which connection of several is the newest.

mod connection;
mod counts;
mod listener;
mod silence;
#[cfg(test)]
mod tests;

pub(crate) use counts::CapacityCounts;
pub(crate) use listener::{Intake, Listening, bind};
pub(crate) use silence::{Monitors, SilentMonitor};

use elastic::update::{Refusal, Update};
use std::net::SocketAddr;
use std::time::Duration;
use tokio::sync::oneshot;

/// An update on its way to the control task.
#[derive(Debug)]
pub(crate) struct Offer {
    /// Connections are numbered in the order in which they came.
    pub(crate) connection: u64,
    /// Whose it is.
    pub(crate) peer: SocketAddr,
    pub(crate) update: Update,
    /// The answer: how many calls this process has sent the server so far.
    pub(crate) reply: oneshot::Sender<Result<u64, Refusal>>,
}

/// The report of the control task about `[capacity]`.
#[derive(Clone, Debug)]
pub(crate) struct CapacityReport {
    pub(crate) counts: CapacityCounts,
    /// Of each server that has announced any.
    pub(crate) announced: Vec<AnnouncedCapacity>,
    /// Of whom an update is waited for in vain.
    pub(crate) silent: Vec<SilentMonitor>,
}

/// What a server has announced last.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AnnouncedCapacity {
    pub(crate) member: SocketAddr,
    /// Calls a second.
    pub(crate) capacity: f64,
    /// The effective capacity, less once updates stay out.
    pub(crate) now: f64,
    pub(crate) age: Duration,
}
