//! A checked scenario: hosts, the calls between them, what they cost and what goes wrong.

use super::balancer::BalancerSettings;
use super::overload::{BUFFER, Overload};
use base::Transport;
use load::{ArrivalProcess, INVITE_WORK, RandomTime, RateStep};
use proxy::ProxyTimers;
use std::time::Duration;

/// One scenario, checked: every reference is an index into a list that has it.
#[derive(Debug, Clone, PartialEq)]
pub struct Scenario {
    /// What it is called in reports.
    pub title: String,
    /// Time, seeds and intervals.
    pub run: RunSettings,
    /// What the hosts' work costs.
    pub costs: Costs,
    /// Values of the SIP timers.
    pub timers: ProxyTimers,
    /// The hosts, in groups of like ones.
    pub groups: Vec<Group>,
    /// The calls.
    pub streams: Vec<Stream>,
    /// Links that differ from perfect ones; a later rule adds to an earlier.
    pub links: Vec<LinkFaults>,
    /// What happens to hosts.
    pub faults: Vec<HostFault>,
}

impl Scenario {
    /// These hosts and calls for so long, without a warm-up: at the Overload paper's prices, with perfect links, and nothing
    /// fails.
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
    /// Left out of all averages.
    pub warm_up: Duration,
    /// Decides everything that is drawn.
    pub seed: u64,
    /// Independent runs; 1 = no confidence intervals.
    pub replications: u32,
    /// Width of a bin of the time series.
    pub bin: Duration,
    /// Relative half width of a 95 % interval above which a run says that it is too wide.
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
    /// A timer that only clears a transaction away (D, I, J, K, L, M).
    pub cleanup: Duration,
    /// Rejecting a request without state (section VI-C: 0.16666 ms).
    pub reject: Duration,
    /// Rejecting a request through a transaction.
    pub reject_stateful: Duration,
    /// Taking in the ACK to a rejection that left no state.
    pub reject_ack: Duration,
    /// An INVITE at a server that answers calls, in units of a BYE ([`Costs::server_request`]).
    pub invite_work: f64,
    /// A request that comes again at a server that answers calls, as a share of the work of the first, 0 to 1. At 0
    /// the server absorbs it on arrival, as `load::Answerer` does: it waits for nothing and takes no room in the
    /// buffer.
    pub repeat_work: f64,
    /// How service times spread around these means.
    pub service: Service,
    /// What operations of the ledger cost on top, by name; those that are absent cost nothing.
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
            service: Service::Deterministic,
            operations: Vec::new(),
        }
    }
}

impl Costs {
    /// Any request but INVITE and ACK, and a response, at a base server that answers calls: an INVITE and a BYE take
    /// it so long that it carries [`Costs::base_capacity`].
    pub fn server_request(&self) -> Duration {
        Duration::from_secs_f64(1.0 / self.base_capacity / (self.invite_work + 1.0))
    }
}

/// How service times spread.
#[derive(Debug, Clone, PartialEq)]
pub enum Service {
    /// Always the mean.
    Deterministic,
    /// Exponential.
    Exponential,
    /// Mean times a factor drawn from this table of quantiles, least first; their mean is 1.
    Table(Vec<f64>),
}

/// `[host.<name>]`: one host or several like ones.
#[derive(Debug, Clone, PartialEq)]
pub struct Group {
    /// The `<name>`.
    pub name: String,
    /// How many.
    pub count: u16,
    /// What they do.
    pub role: HostRole,
    /// Calls a second that each of the `count` hosts carries; empty = their work costs no time.
    pub capacities: Vec<f64>,
    /// Processors each; the capacity is that of all together.
    pub workers: u16,
    /// Messages from outside that may wait (B of section IV-A).
    pub buffer: u32,
    /// What a proxy whose buffer is full drops of what it reads from its connections.
    pub discard: Discard,
    /// How a proxy chooses among the next hosts.
    pub select: Select,
    /// Transport between this host and other hosts: UDP or TCP.
    pub transport: Transport,
    /// Overload control.
    pub overload: Overload,
    /// Pauses of the whole host, as garbage collection makes them.
    pub stalls: Option<StallSettings>,
    /// Whether a control group holds each host to its capacity; `None` = its processor is that slow.
    pub quota: Option<QuotaSettings>,
    /// Share of the processor that something else takes, 0 to below 1.
    pub background: f64,
    /// Index of the group of databases that new calls are looked up in, before a host sees them.
    pub database: Option<usize>,
    /// Messages a second that its network card carries, each way; `None` = any number, at once.
    pub card: Option<f64>,
}

impl Default for Group {
    /// A proxy without a name, whose work costs no time.
    fn default() -> Self {
        Self {
            name: String::new(),
            count: 1,
            role: HostRole::Proxy,
            capacities: Vec::new(),
            workers: 1,
            buffer: BUFFER,
            discard: Discard::default(),
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

    /// A group of proxies with everything else as it is by default.
    pub fn proxies(name: &str, count: u16, capacity: f64) -> Self {
        let capacities = vec![capacity; usize::from(count)];
        Self { name: name.to_owned(), count, capacities, ..Self::default() }
    }

    /// Calls a second that the host of this index carries; `None` = its work costs no time.
    pub fn capacity(&self, host: u16) -> Option<f64> {
        self.capacities.get(usize::from(host)).copied()
    }

    /// What the host of this index is called: `core.2`, or `core` if there is no other.
    pub fn host_name(&self, host: u16) -> String {
        if self.count > 1 { format!("{}.{}", self.name, host + 1) } else { self.name.clone() }
    }
}

/// What a host does.
#[derive(Debug, Clone, PartialEq)]
pub enum HostRole {
    /// Transaction-stateful, record-routing proxy.
    Proxy,
    /// Session-aware balancer, stateless to transactions.
    Balancer(BalancerSettings),
    /// Answers the calls itself.
    Server,
    /// Calls are looked up in it.
    Database,
}

/// What a proxy whose buffer is full drops of what comes by TCP. Of what comes by UDP it drops whatever comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Discard {
    /// Whatever comes.
    #[default]
    Any,
    /// INVITEs that begin a call alone: all else waits beyond the limit (Overload paper, section V-D).
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
    /// Mean time between two, exponential.
    pub every: Duration,
    /// How long one lasts.
    pub length: RandomTime,
}

/// A control group that allows a host its capacity in parts.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct QuotaSettings {
    /// Length of a period.
    pub period: Duration,
    /// Calls a second that each host would carry without it.
    pub processor: f64,
}

/// `[calls.<name>]`: calls that take the same way.
#[derive(Debug, Clone, PartialEq)]
pub struct Stream {
    /// The `<name>`.
    pub name: String,
    /// Indices of the groups passed, caller's side first. The first and last host are chosen by the caller, each with
    /// the same probability, those between, and servers, by the host before.
    pub path: Vec<usize>,
    /// Calls a second over time, never empty: from each instant on, at this rate; in order, none before the first.
    /// A rate rises or falls linearly to the next step where [`RateStep::ramp`] says so.
    pub load: Vec<RateStep>,
    /// How the gaps between calls are spread.
    pub arrivals: ArrivalProcess,
    /// How long an answered call lasts.
    pub holding: RandomTime,
    /// From INVITE to 180 at the callee.
    pub ring: Duration,
    /// From 180 to 200.
    pub answer: Duration,
    /// A caller gives up a call that is not answered after this.
    pub patience: Duration,
    /// Transport between the agents and their hosts: UDP or TCP.
    pub transport: Transport,
}

impl Default for Stream {
    /// Without a name, a path and a call; the rest is as the Overload paper has it (section IV-B).
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
    /// A stream as the Overload paper has it.
    pub fn of_paper(name: &str, path: Vec<usize>, rate: f64) -> Self {
        let load = vec![RateStep { at: Duration::ZERO, rate, ramp: false }];
        Self { name: name.to_owned(), path, load, ..Self::default() }
    }
}

/// `[[link]]`: what happens to messages between two groups, in both directions.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct LinkFaults {
    /// Index of a group; `None` = the agents.
    pub from: Option<usize>,
    /// Index of the other.
    pub to: Option<usize>,
    /// From when on.
    pub since: Duration,
    /// Until when.
    pub until: Duration,
    /// Time on the way.
    pub delay: Duration,
    /// Added to it, drawn evenly from zero to this.
    pub jitter: Duration,
    /// Share lost, 0 to 1; 1 is a partition.
    pub loss: f64,
    /// Share that arrives twice.
    pub duplication: f64,
    /// Share that is held back by another `delay` and `jitter` in full, and so overtaken; 0 where there is no delay.
    pub reordering: f64,
}

/// `[[fault]]`: what happens to a host.
#[derive(Debug, Clone, PartialEq)]
pub struct HostFault {
    /// Index of the group.
    pub group: usize,
    /// Which of the group, counted from zero.
    pub host: u16,
    /// When.
    pub at: Duration,
    /// What.
    pub what: What,
}

/// A thing that happens to a host.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum What {
    /// It is dead, and its state gone, for this long.
    Restart(Duration),
    /// From now on it has this share of its own capacity, above 0 and at most 1; 1 = whole again.
    Slowdown(f64),
    /// It stops for this long, and keeps its state.
    Stall(Duration),
    /// From now on it answers this share of new calls, 0 to 1, with 500, at once and without work.
    Failing(f64),
    /// From now on it has this share of its network card, above 0 and at most 1; 1 = all of it.
    Card(f64),
}
