//! Hosts, the network between them, and the order of events.

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
use driver::{Begun, Driver};
use host::{Host, Role};
use load::{AgentEvent as Told, Answerer, AnswererConfig, Caller, CallerConfig};
use rand::Rng as _;
use route::Forward;
use sim::engine::{EventQueue, HostIndex, LinkConfig, SimNetwork, Trace};
use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use stores::Stores;
use streams::Connections;
use traffic::LinkMessage;

pub use judge::{Counts, Summary};

/// Which process of which site, counted from the site's first.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ProcessId {
    /// The site.
    pub site: u16,
    /// Its process.
    pub process: u16,
}

/// Stands between the processes and the network, and between them and whoever looks into them. The checkers see what
/// has passed it: so tests can break what a process does, and see whether anybody notices.
pub trait Wrapper {
    /// Whether the process of a balancer or proxy gets this datagram.
    fn hears(&mut self, _bytes: &mut Vec<u8>) -> bool {
        true
    }

    /// The process of a balancer or proxy sends these.
    fn says(&mut self, _at: ProcessId, _cause: ProcessInput<'_>, _sent: &mut Vec<Sent>) {}

    /// Whether a shard of a balancer hands a datagram to the one that owns its call.
    fn hands_over(&mut self) -> bool {
        true
    }

    /// The process of a proxy writes these records, in the step whose messages [`says`](Self::says) has seen.
    fn writes(&mut self, _records: &mut Vec<CallRecord>) {}

    /// The process of a balancer or proxy shows this of itself.
    fn shows(&mut self, _shown: &mut Shown) {}

    /// The scaler of a balancer wants this done.
    fn orders(&mut self, _orders: &mut Vec<Order>) {}

    /// In whose name a scaler drains members.
    fn drains_as(&mut self) -> Drainer {
        Drainer::Scaler
    }

    /// A connection carries this piece of its bytes.
    fn carries(&mut self, _piece: &mut Vec<u8>) {}

    /// An answerer sends this.
    fn answers(&mut self, _sent: &mut Sent) {}
}

/// Passes everything as it is.
#[derive(Clone, Copy, Debug, Default)]
pub struct Honest;

impl Wrapper for Honest {}

/// Agents end what is in progress within the time of an INVITE, of its CANCEL and of a BYE, each 64*T1, and some more
/// for what is on the way.
const TIMES_T1_TO_END: u32 = 3 * 64 + 30;
/// How often the processes are looked into.
const LOOK: Duration = Duration::from_secs(1);
/// From one shard to another takes less than so many microseconds: the thread has to wake up.
const HANDING_OVER_MICROS: u64 = 2_000;
/// Of the periods of those that share out state, so many are late, and in so many a proxy is as busy as in the one
/// before.
const LATE: f64 = 0.1;
const STAYS: f64 = 0.7;
/// In so many seconds all monitors begin to stand still for a while.
const STALLS: f64 = 0.05;
/// Messages that a replay shows.
const SHOWN: usize = 60;

#[derive(Clone, Copy)]
enum Event {
    Arrives(u32),
    Due(HostIndex),
    Act(u32),
    /// Something that a driver has begun is over.
    Driver(u32),
    Look,
}

/// One run of a plan.
///
/// - Setting up: [`new`](Self::new), [`keep_log`](Self::keep_log).
/// - Running: [`run`](Self::run), once.
/// - Looking: [`log`](Self::log).
pub struct World<W> {
    plan: Plan,
    wrapper: W,
    rng: Rng,
    queue: EventQueue<Event>,
    network: SimNetwork,
    /// When the last datagram comes out of the ring from one shard of a host to another.
    rings: BTreeMap<(HostIndex, usize, usize), Instant>,
    ring_rng: Rng,
    /// How busy the processes are, and when one notices.
    load_rng: Rng,
    monitor_rng: Rng,
    /// Until when all monitors say nothing to a process.
    monitors_stall: BTreeMap<HostIndex, Instant>,
    hosts: Vec<Host>,
    addresses: BTreeMap<SocketAddr, HostIndex>,
    on_the_way: Slab<LinkMessage>,
    connections: Connections,
    /// Of the sites that start and stop servers.
    drivers: BTreeMap<u16, Driver>,
    begun: Slab<Begun>,
    /// The process that has the address of each site.
    active: Vec<u16>,
    /// The sites with their configuration of the moment.
    sites: Vec<SitePlan>,
    /// Number of the key that tokens are made with.
    key: u8,
    checkers: Checkers,
    trace: Trace,
    counts: Counts,
    told: Outbox<Told>,
    log: Option<VecDeque<String>>,
}

/// The Request-URI of a caller's calls.
fn uri(callee: Callee, site: SocketAddr) -> String {
    match callee {
        Callee::Anyone => format!("sip:service@{site}"),
        Callee::User(user) => format!("sip:{}@{DOMAIN}", user_name(user)),
        Callee::Behind(other) => format!("sip:{}@{site}", user_behind(other)),
    }
}

impl<W: Wrapper> World<W> {
    /// The world of a plan, before the first event.
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
            begun: Slab::default(),
            active: (0..plan.sites.len() as u16).map(|site| plan.first_process(site)).collect(),
            sites: plan.sites.clone(),
            key: 0,
            checkers: Checkers::new(&plan),
            trace: Trace::default(),
            counts: Counts::default(),
            told: Outbox::default(),
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

    /// The last messages, oldest first, one line each: when, from whom, to whom, what.
    pub fn log(&self) -> impl Iterator<Item = &str> {
        self.log.iter().flatten().map(String::as_str)
    }

    /// Runs to the end.
    ///
    /// # Errors
    /// Says which invariant does not hold.
    ///
    /// # Panics
    /// When what a process sent is wrong by itself ([`crate::BalancerWatch`], [`crate::ProxyWatch`]), or something in
    /// the code under test panics.
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
                return Err(RunRule::Endless.broken(format_args!("{}", self.counts.datagrams)));
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

    /// A period is over for those that share out state, but for some that are late. How busy they are follows no law:
    /// a proxy may be at its limit for one period or for many.
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

    /// Monitors say what members of queues can take, by no law, but for those that are late or stand still.
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

    /// What a process that lives shows of itself.
    fn shown(&mut self, process: u16) -> Option<Shown> {
        let host = self.plan.process_host(process);
        let Role::Process(Some(process)) = &self.hosts[host as usize].role else { return None };
        let mut shown = process.shown();
        self.wrapper.shows(&mut shown);
        Some(shown)
    }

    fn place(&self, process: u16) -> ProcessId {
        let site = self.plan.site_of(process);
        ProcessId { site, process: process - self.plan.first_process(site) }
    }

    fn callers(&self) -> impl Iterator<Item = &Caller> {
        self.hosts.iter().filter_map(|host| match &host.role {
            Role::Caller { agent, .. } => Some(&**agent),
            _ => None,
        })
    }

    /// Schedules a host's next tick, if it is due before the one that stands.
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
