//! What is run: calls, hosts, neighbours, and who decides what.

use crate::engine::{Spread, StallConfig};
use core::time::Duration;
use elastic::estimate::Settings;
use elastic::queue::QueueSettings;
use elastic::scale::ScaleSettings;
use load::{ArrivalPlan, INVITE_WORK};

/// A run of a cluster.
#[derive(Clone, Debug)]
pub struct CloudPlan {
    /// Calls that come.
    pub arrivals: ArrivalPlan,
    /// How long they last.
    pub calls: CallTimes,
    /// Statistics from here.
    pub from: Duration,
    /// To here, where the run ends.
    pub to: Duration,
    /// What all servers run on.
    pub host: CloudHost,
    /// Neighbours of the servers, in the order in which servers come up; those beyond have none.
    pub neighbours: Vec<Neighbours>,
    /// What servers look each new call up in before they forward it; `None`: they have all that they need.
    pub database: Option<Database>,
    /// How many servers there are.
    pub servers: CloudServers,
    /// Who gets a call.
    pub front: Front,
    /// What servers announce to the queue.
    pub announcing: Announcing,
    /// Where the latency is measured by which they do.
    pub measured: Vantage,
}

/// Times of a call beside what servers take.
#[derive(Clone, Copy, Debug)]
pub struct CallTimes {
    /// To the callee and back.
    pub way: Duration,
    /// Until it answers, exponential.
    pub ringing: Duration,
    /// Until it hangs up, exponential.
    pub talking: Duration,
}

/// The host of a server.
#[derive(Clone, Debug)]
pub struct CloudHost {
    /// Calls a second that the server can process when it has the processor for itself.
    pub rate: f64,
    /// Parts of that time that INVITE, 180, 200, ACK, BYE and the 200 to it take; what takes none is not waited for.
    pub work: [f64; 6],
    /// How the times of messages scatter.
    pub spread: Spread,
    /// Pauses of its own: scheduler, page faults, garbage collection.
    pub pauses: Option<StallConfig>,
    /// Messages a second that its network card carries, each way; `None`: any number, at once.
    pub card: Option<f64>,
}

/// Databases that servers look calls up in. A server does something else meanwhile.
#[derive(Clone, Debug)]
pub struct Database {
    /// Whether all servers ask the same one, or each one of its own.
    pub is_shared: bool,
    /// Calls a second that a database looks up.
    pub rate: f64,
    /// How the times scatter.
    pub spread: Spread,
    /// Neighbours of the databases, in the order of the servers; those beyond have none.
    pub neighbours: Vec<Neighbours>,
}

/// A proxy reads six messages of a call, which are much alike.
pub const PROXY: [f64; 6] = [1.0 / 6.0; 6];
/// A server answers INVITE and BYE, of which the first takes [`INVITE_WORK`] times as long.
pub const SERVER: [f64; 6] =
    [INVITE_WORK / (INVITE_WORK + 1.0), 0.0, 0.0, 0.0, 1.0 / (INVITE_WORK + 1.0), 0.0];

/// Other machines on the same host.
#[derive(Clone, Debug)]
pub struct Neighbours {
    /// What they share with the server.
    pub resource: Resource,
    /// When they are busy: from one time to another.
    pub when: Vec<(Duration, Duration)>,
    /// Part of it that they take meanwhile, in slices too short to tell.
    pub share: f64,
    /// And in long ones: the server stands still (steal time), or none of its messages gets in or out.
    pub steal: Option<StallConfig>,
}

/// What neighbours take a part of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Resource {
    /// Its processor.
    Processor,
    /// Its network card, if there is [one](CloudHost::card).
    Card,
}

/// How many servers there are.
#[derive(Clone, Debug)]
pub enum CloudServers {
    /// So many.
    Fixed(usize),
    /// As many as the scaler says.
    Scaled {
        /// What it works with.
        settings: Box<ScaleSettings>,
        /// Up at the beginning.
        first: usize,
        /// Time between two of its steps.
        step: Duration,
        /// How long servers take to start.
        start: Duration,
    },
}

/// Who gets a call.
#[derive(Clone, Debug)]
pub enum Front {
    /// At once, the server with the least work in transactions, by the weights of [`balance`].
    Tlwl,
    /// The one that pulls it.
    Queue(Box<QueueSettings>),
}

/// What servers announce to the queue.
#[derive(Clone, Debug)]
pub enum Announcing {
    /// Always the same, calls a second.
    Fixed(f64),
    /// What the estimator says, each second.
    Estimated(Box<Settings>),
}

/// Where the latency of a server is measured.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Vantage {
    /// By a monitor on the server: from the INVITE that has come to the one that it sends on, without the waits at the
    /// network card, which the hypervisor shares out.
    Server,
    /// In front, from the INVITE that is sent to the first answer.
    Front,
}
