//! Configuration of a run: calls, hosts, neighbours, and the selection of servers.

use crate::engine::{StallConfig, TimeSpread};
use core::time::Duration;
use elastic::estimate::EstimatorSettings;
use elastic::queue::QueueSettings;
use elastic::scale::ScaleSettings;
use load::{ArrivalPlan, INVITE_WORK};

/// Configuration of a cluster's run.
#[derive(Clone, Debug)]
pub struct CloudPlan {
    /// Arrivals of calls.
    pub arrivals: ArrivalPlan,
    /// Durations within a call.
    pub calls: CallTimes,
    /// Start of the statistics.
    pub from: Duration,
    /// End of the statistics and of the run.
    pub to: Duration,
    /// The machine of every server.
    pub host: CloudHost,
    /// Neighbours of the servers, in the order in which servers start; further servers have none.
    pub neighbours: Vec<Neighbours>,
    /// Database where servers look up each new call before they forward it; `None`: no look-up.
    pub database: Option<Database>,
    /// Number of servers.
    pub servers: CloudServers,
    /// Selection of a server for each call.
    pub front: Front,
    /// Capacity that servers announce to the queue.
    pub announcing: Announcing,
    /// Place where the latency for the estimator is measured.
    pub measured: Vantage,
}

/// Durations of a call apart from the servers.
#[derive(Clone, Copy, Debug)]
pub struct CallTimes {
    /// Round-trip time to the callee.
    pub way: Duration,
    /// Mean ringing time, exponentially distributed.
    pub ringing: Duration,
    /// Mean holding time, exponentially distributed.
    pub talking: Duration,
}

/// The host of a server.
#[derive(Clone, Debug)]
pub struct CloudHost {
    /// Calls per second that the server can process when it has the processor alone.
    pub rate: f64,
    /// Parts of the time per call for INVITE, 180, 200, ACK, BYE and its 200. A message with part 0 does not wait.
    pub work: [f64; 6],
    /// Distribution of the messages' service times.
    pub spread: TimeSpread,
    /// Pauses of the host itself: scheduler, page faults, garbage collection.
    pub pauses: Option<StallConfig>,
    /// Messages per second of its network card in each direction; `None`: unlimited and at once.
    pub card: Option<f64>,
}

/// Databases for the look-up of calls. A server continues with other messages meanwhile.
#[derive(Clone, Debug)]
pub struct Database {
    /// Whether all servers share one database, or each has its own.
    pub is_shared: bool,
    /// Look-ups per second of a database.
    pub rate: f64,
    /// Distribution of the look-up times.
    pub spread: TimeSpread,
    /// Neighbours of the databases, in the order of the servers; further databases have none.
    pub neighbours: Vec<Neighbours>,
}

/// Parts for a proxy, which reads six similar messages for each call.
pub const PROXY: [f64; 6] = [1.0 / 6.0; 6];
/// Parts for a server, which answers INVITE and BYE. The INVITE takes [`INVITE_WORK`] times as long.
pub const SERVER: [f64; 6] =
    [INVITE_WORK / (INVITE_WORK + 1.0), 0.0, 0.0, 0.0, 1.0 / (INVITE_WORK + 1.0), 0.0];

/// Other machines on the same host.
#[derive(Clone, Debug)]
pub struct Neighbours {
    /// Resource that they share with the server.
    pub resource: Resource,
    /// Periods of activity, from one time to another.
    pub when: Vec<(Duration, Duration)>,
    /// Part of the resource that they take while active, in slices too short to be modelled.
    pub share: f64,
    /// Long interruptions while active: the server stalls (steal time), or its card carries no messages.
    pub steal: Option<StallConfig>,
}

/// Resource that neighbours share.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Resource {
    /// The server's processor.
    Processor,
    /// The server's network card, if it has [one](CloudHost::card).
    Card,
}

/// Number of servers.
#[derive(Clone, Debug)]
pub enum CloudServers {
    /// Constant.
    Fixed(usize),
    /// Decided by the scaler.
    Scaled {
        /// Settings of the scaler.
        settings: Box<ScaleSettings>,
        /// Number of servers at the beginning.
        first: usize,
        /// Interval between two steps of the scaler.
        step: Duration,
        /// Time that a server takes to start.
        start: Duration,
    },
}

/// Selection of a server for each call.
#[derive(Clone, Debug)]
pub enum Front {
    /// Sends each call at once to the server with the least work in transactions, by the weights of [`balance`].
    Tlwl,
    /// Queues calls until a server pulls them.
    Queue(Box<QueueSettings>),
}

/// Capacity that servers announce to the queue.
#[derive(Clone, Debug)]
pub enum Announcing {
    /// Constant number of calls per second.
    Fixed(f64),
    /// Result of the estimator, each second.
    Estimated(Box<EstimatorSettings>),
}

/// Place where the latency of a server is measured.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Vantage {
    /// By a monitor on the server: from the received INVITE to the forwarded one. The waits at the network card, which
    /// the hypervisor shares, are not included.
    Server,
    /// In front: from the INVITE sent to the server until its first response.
    Front,
}
