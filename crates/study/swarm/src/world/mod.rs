//! Simulated world of a run: hosts, the network between them, and the order of events.

mod actions;
mod driver;
mod host;
mod judge;
mod stores;
mod streams;
mod traffic;

use super::checkers::Checkers;
use super::plan::{
    Callee, DOMAIN, Destination, FilePlan, answerer_address, caller_address, probe_address, site_address,
    user_behind, user_name,
};
use super::process::Shown;
use super::{Plan, PlannedAction, RunRule, SitePlan};
use crate::credentials::Chaperon;
use crate::phone::Phone;
use crate::{ProcessInput, Sent};
use base::{Instant, Outbox, Rng, Slab};
use control::Drainer;
use control::scale::Order;
use core::time::Duration;
use dialog::CallRecord;
use driver::{Driver, PendingEffect};
use host::{Host, Role};
use load::{AgentEvent, Answerer, AnswererConfig, Caller, CallerConfig};
use rand::Rng as _;
use route::Forward;
use sim::engine::{EventQueue, HostIndex, LinkConfig, SimNetwork, Trace};
use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use stores::Stores;
use streams::Connections;
use traffic::LinkMessage;

pub use judge::{Counts, Summary};

/// A process of a site, counted from the site's first.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SiteProcess {
    /// The site.
    pub site: u16,
    /// Its process.
    pub process: u16,
}

/// Gets the messages, records and reported state of the processes, and may change them before the checkers see them.
/// Tests use it to break the behaviour of a process, and check that a rule reports this.
pub trait Wrapper {
    /// Returns whether the process gets this datagram. May change it.
    fn hears(&mut self, _bytes: &mut Vec<u8>) -> bool {
        true
    }

    /// May change the messages that a process sends.
    fn says(&mut self, _at: SiteProcess, _cause: ProcessInput<'_>, _sent: &mut Vec<Sent>) {}

    /// Returns whether a shard hands a datagram to the shard that owns its call.
    fn hands_over(&mut self) -> bool {
        true
    }

    /// May change the records of a proxy. Called in the same step as [`says`](Self::says).
    fn writes(&mut self, _records: &mut Vec<CallRecord>) {}

    /// May change the state that a process reports.
    fn shows(&mut self, _shown: &mut Shown) {}

    /// May change the orders of a scaler.
    fn orders(&mut self, _orders: &mut Vec<Order>) {}

    /// Name under which a scaler drains members.
    fn drains_as(&mut self) -> Drainer {
        Drainer::Scaler
    }

    /// May change a piece of a connection's bytes.
    fn carries(&mut self, _piece: &mut Vec<u8>) {}

    /// May change a message of an answerer.
    fn answers(&mut self, _sent: &mut Sent) {}
}

/// Changes nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Honest;

impl Wrapper for Honest {}

/// Time, in T1, that agents need to end their calls: INVITE, its CANCEL and a BYE take 64*T1 each, and messages under
/// way a little more.
const TIMES_T1_TO_END: u32 = 3 * 64 + 30;
/// Interval between audits of the processes.
const LOOK: Duration = Duration::from_secs(1);
/// Longest time to hand a message to another shard, which includes waking its thread.
const HANDING_OVER_MICROS: u64 = 2_000;
/// Fraction of late periods of proxies that share out state, and probability that a proxy is as busy as in the last
/// period.
const LATE: f64 = 0.1;
const STAYS: f64 = 0.7;
/// Probability per second that all monitors fall silent for a while.
const STALLS: f64 = 0.05;
/// Number of messages that a replay shows.
const SHOWN: usize = 60;

#[derive(Clone, Copy)]
enum Event {
    Arrives(u32),
    Due(HostIndex),
    Act(u32),
    /// An order to a driver is completed.
    Driver(u32),
    Look,
}

/// One run of a plan.
///
/// - Set-up: [`new`](Self::new), [`keep_log`](Self::keep_log).
/// - Execution: [`run`](Self::run), once.
/// - Result: [`log`](Self::log).
pub struct World<W> {
    plan: Plan,
    wrapper: W,
    rng: Rng,
    queue: EventQueue<Event>,
    network: SimNetwork,
    /// When the last datagram comes out of the ring from one shard of a host to another.
    rings: BTreeMap<(HostIndex, usize, usize), Instant>,
    ring_rng: Rng,
    /// Draws the utilisation of processes, and the times at which they notice it.
    load_rng: Rng,
    monitor_rng: Rng,
    /// Until when the monitors send nothing to a process.
    monitors_stall: BTreeMap<HostIndex, Instant>,
    hosts: Vec<Host>,
    addresses: BTreeMap<SocketAddr, HostIndex>,
    on_the_way: Slab<LinkMessage>,
    connections: Connections,
    /// Drivers, by site.
    drivers: BTreeMap<u16, Driver>,
    pending: Slab<PendingEffect>,
    /// The process that has the address of each site.
    active: Vec<u16>,
    /// The sites with their current configuration.
    sites: Vec<SitePlan>,
    /// Number of the current token key.
    key: u8,
    checkers: Checkers,
    trace: Trace,
    counts: Counts,
    outbox: Outbox<AgentEvent>,
    log: Option<VecDeque<String>>,
}

/// Returns the Request-URI of a caller's calls.
fn uri(callee: Callee, site: SocketAddr) -> String {
    match callee {
        Callee::Anyone => format!("sip:service@{site}"),
        Callee::User(user) => format!("sip:{}@{DOMAIN}", user_name(user)),
        Callee::Behind(other) => format!("sip:{}@{site}", user_behind(other)),
    }
}

impl<W: Wrapper> World<W> {
    /// Creates the world of a plan, before the first event.
    pub fn new(plan: Plan, wrapper: W) -> Self {
        let rng = Rng::from_seed(plan.seed);
        let link = LinkConfig { delay: plan.delay, reliable: None };
        let mut world = Self {
            wrapper,
            queue: EventQueue::default(),
            network: SimNetwork::new(plan.hosts(), link, plan.rules.clone(), &rng),
            rings: BTreeMap::new(),
            ring_rng: rng.fork("rings"),
            load_rng: rng.fork("utilisation"),
            monitor_rng: rng.fork("monitors"),
            monitors_stall: BTreeMap::new(),
            hosts: Vec::new(),
            addresses: BTreeMap::new(),
            on_the_way: Slab::default(),
            connections: Connections::new(&rng),
            drivers: BTreeMap::new(),
            pending: Slab::default(),
            active: (0..plan.sites.len() as u16).map(|site| plan.first_process(site)).collect(),
            sites: plan.sites.clone(),
            key: 0,
            checkers: Checkers::new(&plan),
            trace: Trace::default(),
            counts: Counts::default(),
            outbox: Outbox::default(),
            log: None,
            rng,
            plan,
        };
        world.settle_in();
        world
    }

    fn settle_in(&mut self) {
        for caller in 0..self.plan.callers.len() {
            let agent = Box::new(self.new_caller(caller));
            let plan = &self.plan.callers[caller];
            let is_asked = self.plan.sites[usize::from(plan.site)].role.callers_store().is_some();
            let name = format!("caller-{caller}");
            let chaperon = is_asked.then(|| Box::new(Chaperon::new(name.as_bytes(), plan.knows_password)));
            let role = Role::Caller { agent, chaperon };
            self.move_in(role, caller_address(caller));
        }
        for process in 0..self.plan.processes() {
            self.move_in(Role::Process(None), probe_address(process));
            let host = self.plan.process_host(process);
            let role = &self.plan.sites[usize::from(self.plan.site_of(process))].role;
            let rng = self.rng.fork(&format!("stores {process}"));
            self.hosts[host as usize].stores = Stores::new(role, rng);
            self.act(&PlannedAction::Start(process));
        }
        for (number, site) in (0..).zip(&self.plan.sites) {
            let Some(scale) = site.role.scale() else { continue };
            let answerer = |target| match target {
                Destination::Answerer(answerer) => Some(answerer),
                Destination::Site(_) => None,
            };
            let members = site.role.targets().into_iter().filter_map(answerer);
            let rng = self.rng.fork(&format!("driver {number}"));
            self.drivers.insert(number, Driver::new(scale, members, rng));
        }
        for answerer in 0..self.plan.answerers.len() as u16 {
            let phone = self.plan.phones.iter().find(|phone| phone.answerer == answerer);
            let phone = phone.map(|phone| Box::new(Phone::new(phone, self.plan.timers)));
            let refuses = self.plan.scaled_by(answerer).is_some_and(|(_, scale)| scale.driver.refuses);
            self.move_in(Role::Answerer { agent: None, refuses, phone }, answerer_address(answerer));
            self.act(&PlannedAction::Return(answerer));
        }
        for (number, (at, _)) in (0..).zip(&self.plan.actions) {
            self.queue.at(*at, Event::Act(number));
        }
        self.queue.after(LOOK, Event::Look);
    }

    fn move_in(&mut self, role: Role, address: SocketAddr) {
        let host = self.hosts.len() as HostIndex;
        self.hosts.push(Host::new(role));
        self.addresses.insert(address, host);
        self.arm(host);
    }

    fn new_caller(&self, number: usize) -> Caller {
        let plan = &self.plan.callers[number];
        let target = site_address(plan.site);
        let config = CallerConfig {
            transport: self.plan.transport,
            listener: 0,
            connections: 1,
            local: caller_address(number),
            target,
            outbound: false,
            uri: uri(plan.callee, target) + self.plan.transport.uri_param(),
            arrivals: plan.arrivals.clone(),
            holding: plan.holding,
            answer_wait: plan.answer_wait,
            timers: self.plan.timers,
        };
        Caller::new(config, plan.start, self.rng.fork(&format!("caller {number}")))
    }

    fn new_answerer(&self, number: u16, life: u64) -> Answerer {
        let plan = &self.plan.answerers[usize::from(number)];
        let config = AnswererConfig {
            transport: self.plan.transport,
            listener: 0,
            local: answerer_address(number),
            name: plan.name.clone(),
            ring: plan.ring,
            trying: plan.trying,
            service: plan.service,
            timers: self.plan.timers,
        };
        Answerer::new(config, self.rng.fork(&format!("answerer {number} life {life}")))
    }

    /// Keeps the last messages for [`log`](Self::log).
    pub fn keep_log(&mut self) {
        self.log = Some(VecDeque::new());
    }

    /// Returns the last messages, oldest first, one a line: time, sender, receiver, content.
    pub fn log(&self) -> impl Iterator<Item = &str> {
        self.log.iter().flatten().map(String::as_str)
    }

    /// Runs the plan to its end.
    ///
    /// # Errors
    /// Names the broken rule.
    ///
    /// # Panics
    /// Panics if a process sends a message that is wrong by itself ([`crate::BalancerWatch`], [`crate::ProxyWatch`]),
    /// or if the code under test panics.
    pub fn run(&mut self) -> Result<Summary, String> {
        self.run_until(self.plan.end)?;
        for host in 0..self.hosts.len() {
            let now = self.queue.now();
            if let Role::Caller { agent, .. } = &mut self.hosts[host].role {
                agent.stop(now);
                self.arm(host as HostIndex);
            }
        }
        self.run_until(self.plan.end + self.plan.timers.t1 * TIMES_T1_TO_END)?;
        let summary = self.summary();
        if !self.callers().all(Caller::finished) {
            let left = summary.callers.calls_in_progress;
            return Err(RunRule::CallersLeft.broken(format_args!("{left}")));
        }
        self.judge_calls(&summary)?;
        self.run_until(self.queue.now() + self.memory())?;
        for number in 0..self.plan.processes() {
            if let Some(shown) = self.shown(number) {
                Checkers::nothing_left(&shown)?;
            }
        }
        self.checkers.all_written()?;
        self.rest()?;
        Ok(Summary { trace: self.trace, ..summary })
    }

    fn run_until(&mut self, end: Instant) -> Result<(), String> {
        while let Some((now, event)) = self.queue.pop_until(end) {
            if self.counts.datagrams > self.plan.datagrams_max {
                return Err(RunRule::TooManyDatagrams.broken(format_args!("{}", self.counts.datagrams)));
            }
            match event {
                Event::Arrives(carried) => self.arrives(now, carried)?,
                Event::Due(host) => self.due(now, host)?,
                Event::Act(number) => {
                    let action = self.plan.actions[number as usize].1.clone();
                    self.trace.event(now, 2, number);
                    self.note(|_| format!("{action:?}"));
                    self.counts.actions += 1;
                    self.act(&action);
                    self.look(now)?;
                }
                Event::Driver(key) => self.driver(now, key)?,
                Event::Look => {
                    self.look(now)?;
                    self.periods(now);
                    self.monitors(now);
                    self.scale(now)?;
                    self.queue.after(LOOK, Event::Look);
                }
            }
        }
        Ok(())
    }

    fn look(&mut self, now: Instant) -> Result<(), String> {
        for process in 0..self.plan.processes() {
            let place = self.place(process);
            if let Some(shown) = self.shown(process) {
                self.checkers.audit(now, place, &shown)?;
            }
        }
        Ok(())
    }

    /// Ends a period at the proxies that share out state, except for some that are late. Their utilisation is random: a
    /// proxy may be at its limit for one period or for many.
    fn periods(&mut self, now: Instant) {
        for process in 0..self.plan.processes() {
            let host = self.plan.process_host(process) as usize;
            let site = usize::from(self.plan.site_of(process));
            if !self.sites[site].role.forwards(Forward::Distributed) {
                continue;
            }
            let is_late = self.load_rng.random_bool(LATE) || now < self.hosts[host].stalled_until;
            let busy = self.hosts[host].busy.unwrap_or_default();
            let stays = self.hosts[host].busy.is_some() && self.load_rng.random_bool(STAYS);
            let busy = if stays { busy } else { self.load_rng.random_range(0.3..1.1_f64).min(1.0) };
            self.hosts[host].busy = Some(busy);
            if let Role::Process(Some(process)) = &mut self.hosts[host].role
                && !is_late
            {
                process.period(now, LOOK, busy);
                self.arm(host as HostIndex);
            }
        }
    }

    /// Announces random capacities of queue members, except from monitors that are late or silent.
    fn monitors(&mut self, now: Instant) {
        for process in 0..self.plan.processes() {
            let host = self.plan.process_host(process);
            let site = usize::from(self.plan.site_of(process));
            if !self.sites[site].role.file().is_some_and(FilePlan::hears_monitors) {
                continue;
            }
            let rng = &mut self.monitor_rng;
            if rng.random_bool(STALLS) {
                self.monitors_stall.insert(host, now + Duration::from_secs(rng.random_range(1..12)));
            }
            if let Role::Process(Some(process)) = &mut self.hosts[host as usize].role
                && self.monitors_stall.get(&host).is_none_or(|until| *until <= now)
            {
                process.announced(now, || (!rng.random_bool(LATE)).then(|| rng.random_range(1.0..80.0)));
                self.arm(host);
            }
        }
    }

    /// Returns the state that a running process reports.
    fn shown(&mut self, process: u16) -> Option<Shown> {
        let host = self.plan.process_host(process);
        let Role::Process(Some(process)) = &self.hosts[host as usize].role else { return None };
        let mut shown = process.shown();
        self.wrapper.shows(&mut shown);
        Some(shown)
    }

    fn place(&self, process: u16) -> SiteProcess {
        let site = self.plan.site_of(process);
        SiteProcess { site, process: process - self.plan.first_process(site) }
    }

    fn callers(&self) -> impl Iterator<Item = &Caller> {
        self.hosts.iter().filter_map(|host| match &host.role {
            Role::Caller { agent, .. } => Some(&**agent),
            _ => None,
        })
    }

    /// Schedules a host's next tick, unless an earlier one is scheduled.
    fn arm(&mut self, host: HostIndex) {
        let now = self.queue.now();
        let it = &mut self.hosts[host as usize];
        let Some(due) = it.deadline().map(|due| due.max(now)) else { return };
        if it.wake.is_none_or(|wake| due < wake) {
            it.wake = Some(due);
            self.queue.at(due, Event::Due(host));
        }
    }

    fn note(&mut self, line: impl FnOnce(&Plan) -> String) {
        if let Some(log) = &mut self.log {
            if log.len() == SHOWN {
                log.pop_front();
            }
            log.push_back(format!("{} {}", self.queue.now(), line(&self.plan)));
        }
    }
}
