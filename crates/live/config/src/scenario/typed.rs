//! A checked scenario: hosts, calls, costs and faults.

use super::balancer::BalancerSettings;
use super::overload::{BUFFER, Overload};
use base::Transport;
use load::{ArrivalProcess, INVITE_WORK, RandomTime, RateStep};
use proxy::ProxyTimers;
use std::time::Duration;

/// A checked scenario: every reference is a valid index.
#[derive(Debug, Clone, PartialEq)]
pub struct Scenario {
    /// Title in reports.
    pub title: String,
    /// Time, seeds and intervals.
    pub run: RunSettings,
    /// Costs of the hosts' work.
    pub costs: Costs,
    /// Values of the SIP timers.
    pub timers: ProxyTimers,
    /// Groups of equal hosts.
    pub groups: Vec<Group>,
    /// Streams of calls.
    pub streams: Vec<Stream>,
    /// Links that differ from perfect ones; a later rule adds to an earlier one.
    pub links: Vec<LinkFaults>,
    /// Faults of hosts.
    pub faults: Vec<HostFault>,
}

impl Scenario {
    /// A scenario with these hosts and calls, without a warm-up: with the costs of the Overload paper, perfect links,
    /// and no faults.
    pub fn new(groups: Vec<Group>, streams: Vec<Stream>, duration: Duration) -> Self {
        Self {
            title: String::new(),
            run: RunSettings { duration, warm_up: Duration::ZERO, ..RunSettings::default() },
            costs: Costs::default(),
            timers: ProxyTimers::default(),
            groups,
            streams,
            links: Vec::new(),
            faults: Vec::new(),
        }
    }
}

/// `[run]`
#[derive(Debug, Clone, PartialEq)]
pub struct RunSettings {
    /// Simulated time.
    pub duration: Duration,
    /// Time that is left out of all averages.
    pub warm_up: Duration,
    /// Seed of all random numbers.
    pub seed: u64,
    /// Independent runs; with 1 there are no confidence intervals.
    pub replications: u32,
    /// Width of a bin of the time series.
    pub bin: Duration,
    /// Relative half width of a 95 % interval above which the report says that it is too wide.
    pub precision: f64,
}

impl Default for RunSettings {
    fn default() -> Self {
        Self {
            duration: Duration::from_mins(10),
            warm_up: Duration::from_mins(2),
            seed: 1,
            replications: 1,
            bin: Duration::from_secs(10),
            precision: 0.05,
        }
    }
}

/// `[costs]`: service times on the base server, whose capacity is [`Costs::base_capacity`]. A host of another
/// capacity scales all of them.
#[derive(Debug, Clone, PartialEq)]
pub struct Costs {
    /// Calls a second that the base server carries (Overload paper, section V-A: about 160).
    pub base_capacity: f64,
    /// A message from outside at a proxy or a balancer (section IV-A: 1 ms).
    pub message: Duration,
    /// A timer that makes a transaction act (section IV-A: 0.5 ms).
    pub timer: Duration,
    /// A timer that only removes a transaction (D, I, J, K, L, M).
    pub cleanup: Duration,
    /// A rejection without state (section VI-C: 0.16666 ms).
    pub reject: Duration,
    /// A rejection with a transaction.
    pub reject_stateful: Duration,
    /// The ACK of a rejection without state.
    pub reject_ack: Duration,
    /// An INVITE at a server that answers calls, relative to a BYE ([`Costs::server_request`]).
    pub invite_work: f64,
    /// A repeated request at a server that answers calls, as a share of the work of the first, 0 to 1. At 0 the server
    /// absorbs it on arrival, as `load::Answerer` does: it does not wait and takes no room in the buffer.
    pub repeat_work: f64,
    /// Distribution of service times around these means.
    pub service: ServiceTimes,
    /// Additional costs of operations of the ledger, by name; absent ones cost nothing.
    pub operations: Vec<(&'static str, Duration)>,
}

impl Default for Costs {
    fn default() -> Self {
        Self {
            base_capacity: 160.0,
            message: Duration::from_millis(1),
            timer: Duration::from_micros(500),
            cleanup: Duration::ZERO,
            reject: Duration::from_nanos(166_660),
            reject_stateful: Duration::from_millis(1),
            reject_ack: Duration::from_millis(1),
            invite_work: INVITE_WORK,
            repeat_work: 0.0,
            service: ServiceTimes::Deterministic,
            operations: Vec::new(),
        }
    }
}

impl Costs {
    /// Service time of a request other than INVITE and ACK, and of a response, at a base server that answers calls.
    /// With an INVITE and a BYE for each call it carries [`Costs::base_capacity`].
    pub fn server_request(&self) -> Duration {
        Duration::from_secs_f64(1.0 / self.base_capacity / (self.invite_work + 1.0))
    }
}

/// Distribution of service times.
#[derive(Debug, Clone, PartialEq)]
pub enum ServiceTimes {
    /// Always the mean.
    Deterministic,
    /// Exponential.
    Exponential,
    /// The mean times a factor drawn from this table of quantiles, in ascending order; their mean is 1.
    Table(Vec<f64>),
}

/// `[host.<name>]`: one host or several equal ones.
#[derive(Debug, Clone, PartialEq)]
pub struct Group {
    /// The `<name>`.
    pub name: String,
    /// Number of hosts.
    pub count: u16,
    /// Role of the hosts.
    pub role: HostRole,
    /// Calls a second that each of the `count` hosts carries; empty: their work takes no time.
    pub capacities: Vec<f64>,
    /// Processors of each host, which share its capacity.
    pub workers: u16,
    /// Messages from outside that may wait (B of section IV-A).
    pub buffer: u32,
    /// Messages from connections that a proxy drops if its buffer is full.
    pub discard: TcpDiscard,
    /// How a proxy chooses among the next hosts.
    pub select: Select,
    /// Transport between this host and other hosts: UDP or TCP.
    pub transport: Transport,
    /// Overload control.
    pub overload: Overload,
    /// Pauses of the whole host, such as garbage collection.
    pub stalls: Option<StallSettings>,
    /// Control group that limits each host to its capacity; `None`: the processor itself is that slow.
    pub quota: Option<QuotaSettings>,
    /// Share of the processor that other programs take, from 0 to below 1.
    pub background: f64,
    /// Index of the group of databases in which new calls are looked up before a host handles them.
    pub database: Option<usize>,
    /// Messages a second that its network card carries in each direction; `None`: no limit.
    pub card: Option<f64>,
}

impl Default for Group {
    /// A proxy without a name, whose work takes no time.
    fn default() -> Self {
        Self {
            name: String::new(),
            count: 1,
            role: HostRole::Proxy,
            capacities: Vec::new(),
            workers: 1,
            buffer: BUFFER,
            discard: TcpDiscard::default(),
            select: Select::Random,
            transport: Transport::default(),
            overload: Overload::default(),
            stalls: None,
            quota: None,
            background: 0.0,
            database: None,
            card: None,
        }
    }
}

impl Group {
    /// The settings of the guard of each of its hosts.
    pub fn guard(&self) -> ::overload::OverloadSettings {
        self.overload.guard(self.buffer)
    }

    /// A group of proxies with defaults for all other settings.
    pub fn proxies(name: &str, count: u16, capacity: f64) -> Self {
        let capacities = vec![capacity; usize::from(count)];
        Self { name: name.to_owned(), count, capacities, ..Self::default() }
    }

    /// Calls a second that the host of this index carries; `None`: its work takes no time.
    pub fn capacity(&self, host: u16) -> Option<f64> {
        self.capacities.get(usize::from(host)).copied()
    }

    /// Name of the host of this index: `core.2`, or `core` if there is no other.
    pub fn host_name(&self, host: u16) -> String {
        if self.count > 1 { format!("{}.{}", self.name, host + 1) } else { self.name.clone() }
    }
}

/// Role of a host.
#[derive(Debug, Clone, PartialEq)]
pub enum HostRole {
    /// Transaction-stateful, record-routing proxy.
    Proxy,
    /// Session-aware balancer without transactions.
    Balancer(BalancerSettings),
    /// Server that answers calls.
    Server,
    /// Database in which calls are looked up.
    Database,
}

/// Messages over TCP that a proxy drops if its buffer is full. Messages over UDP are always dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TcpDiscard {
    /// Any message.
    #[default]
    Any,
    /// Only INVITEs that begin a call: all others wait beyond the limit (Overload paper, section V-D).
    NewCalls,
}

/// How a proxy chooses among several next hosts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Select {
    /// Each with the same probability.
    Random,
    /// In turn.
    RoundRobin,
}

/// Pauses of a host.
#[derive(Debug, Clone, PartialEq)]
pub struct StallSettings {
    /// Mean time between two pauses, exponentially distributed.
    pub every: Duration,
    /// Length of a pause.
    pub length: RandomTime,
}

/// A control group that grants a host its capacity in parts.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct QuotaSettings {
    /// Length of a period.
    pub period: Duration,
    /// Calls a second that each host would carry without the control group.
    pub processor: f64,
}

/// `[calls.<name>]`: calls that take the same path.
#[derive(Debug, Clone, PartialEq)]
pub struct Stream {
    /// The `<name>`.
    pub name: String,
    /// Indices of the groups on the path, from the caller's side. The caller chooses the first and last host, each with
    /// the same probability. Each host chooses the next host in between, also the server behind a balancer.
    pub path: Vec<usize>,
    /// Calls a second over time, never empty: steps in order, each with its start and its rate; no calls before the
    /// first. With [`RateStep::ramp`] a rate changes linearly to the next step.
    pub load: Vec<RateStep>,
    /// Arrival process.
    pub arrivals: ArrivalProcess,
    /// Duration of an answered call.
    pub holding: RandomTime,
    /// Time from INVITE to 180 at the callee.
    pub ring: Duration,
    /// Time from 180 to 200.
    pub answer: Duration,
    /// Time after which a caller gives up an unanswered call.
    pub patience: Duration,
    /// Transport between the agents and their hosts: UDP or TCP.
    pub transport: Transport,
}

impl Default for Stream {
    /// A stream without a name, a path and calls; all else is as in the Overload paper (section IV-B).
    fn default() -> Self {
        Self {
            name: String::new(),
            path: Vec::new(),
            load: Vec::new(),
            arrivals: ArrivalProcess::Poisson,
            holding: RandomTime::Exponential(Duration::from_secs(100)),
            ring: Duration::ZERO,
            answer: Duration::ZERO,
            patience: Duration::from_secs(10),
            transport: Transport::default(),
        }
    }
}

impl Stream {
    /// A stream as in the Overload paper.
    pub fn of_paper(name: &str, path: Vec<usize>, rate: f64) -> Self {
        let load = vec![RateStep { at: Duration::ZERO, rate, ramp: false }];
        Self { name: name.to_owned(), path, load, ..Self::default() }
    }
}

/// `[[link]]`: conditions of messages between two groups, in both directions.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct LinkFaults {
    /// Index of a group; `None`: the agents.
    pub from: Option<usize>,
    /// Index of the other group; `None`: the agents.
    pub to: Option<usize>,
    /// Start of these conditions.
    pub since: Duration,
    /// End of these conditions.
    pub until: Duration,
    /// Delay of each message.
    pub delay: Duration,
    /// Additional delay, evenly distributed from zero to this.
    pub jitter: Duration,
    /// Share of messages that is lost, 0 to 1; 1 is a partition.
    pub loss: f64,
    /// Share of messages that arrives twice.
    pub duplication: f64,
    /// Share of messages that is delayed by another `delay` and the full `jitter`, so that later ones overtake them; 0
    /// without a delay.
    pub reordering: f64,
}

/// `[[fault]]`: an event at a host.
#[derive(Debug, Clone, PartialEq)]
pub struct HostFault {
    /// Index of the group.
    pub group: usize,
    /// Index of the host in the group.
    pub host: u16,
    /// Time of the event.
    pub at: Duration,
    /// The event.
    pub kind: FaultKind,
}

/// An event at a host.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum FaultKind {
    /// The host is dead for this time, and loses its state.
    Restart(Duration),
    /// The host has this share of its capacity from now on, above 0 and at most 1; 1: all of it.
    Slowdown(f64),
    /// The host stops for this time, and keeps its state.
    Stall(Duration),
    /// The host answers this share of new calls with 500 from now on, 0 to 1, at once and without work.
    Failing(f64),
    /// The host has this share of its network card from now on, above 0 and at most 1; 1: all of it.
    Card(f64),
}
