//! Capacity updates. `sarabande monitor` beside a server sends them (`instruments::sender`), the balancer in front
//! receives them (`listener`) and notices silent monitors (`silence`). `elastic::update` defines the protocol;
//! `docs/capacity-updates.md` describes it for users.
//!
//! Each accepted update goes to the control task as an `Offer`, one by one, and the control task answers it. Only this
//! task knows the members, and which of several connections is the newest.

mod connection;
mod counts;
mod listener;
mod silence;
#[cfg(test)]
mod tests;

pub(crate) use counts::CapacityCounts;
pub(crate) use listener::{Intake, Listening, bind};
pub(crate) use silence::{Monitors, SilentMonitor};

use elastic::update::{Update, UpdateRefusal};
use std::net::SocketAddr;
use std::time::Duration;
use tokio::sync::oneshot;

/// An update on its way to the control task.
#[derive(Debug)]
pub(crate) struct Offer {
    /// Number of the connection, in the order of acceptance.
    pub(crate) connection: u64,
    pub(crate) peer: SocketAddr,
    pub(crate) update: Update,
    /// Channel for the answer: the number of calls that this process has sent to the server so far.
    pub(crate) reply: oneshot::Sender<Result<u64, UpdateRefusal>>,
}

#[derive(Clone, Debug)]
pub(crate) struct CapacityReport {
    pub(crate) counts: CapacityCounts,
    /// Servers that have announced a capacity.
    pub(crate) announced: Vec<AnnouncedCapacity>,
    /// Members whose expected updates fail to arrive.
    pub(crate) silent: Vec<SilentMonitor>,
}

/// Last announcement of a server.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AnnouncedCapacity {
    pub(crate) member: SocketAddr,
    /// Announced capacity in calls a second.
    pub(crate) capacity: f64,
    /// Capacity that is used now, which is less once updates fail to arrive.
    pub(crate) now: f64,
    pub(crate) age: Duration,
}
