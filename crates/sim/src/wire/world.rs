//! Hosts, the network between them, and the order of events.

use super::checkers::Checkers;
use super::plan::{answerer_address, caller_address, probe_address, site_address};
use super::site::Site;
use super::{Action, Care, Plan, SiteConfig};
use crate::engine::{EventQueue, HostId, LinkConfig, Network, Trace};
use base::{Instant, Outbox, Rng, Slab};
use core::time::Duration;
use load::{Answerer, AnswererConfig, AnswererResults, Caller, CallerConfig, Event as Told, Input, Results};
use node::fuzz::Sent;
use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;

/// Stands between a balancer's process and its network card. The checkers see what has passed it: so tests can break
/// what a balancer does, and see whether anybody notices.
pub trait Wrapper {
    /// Whether the process gets this datagram.
    fn hears(&mut self, _bytes: &[u8]) -> bool {
        true
    }

    /// The process sends these.
    fn says(&mut self, _sent: &mut Vec<Sent>) {}
}

/// Passes everything as it is.
#[derive(Clone, Copy, Debug, Default)]
pub struct Honest;

impl Wrapper for Honest {}

/// Agents end what is in progress within the time of an INVITE, of its CANCEL and of a BYE, each 64*T1, and some more
/// for what is on the way.
const TIMES_T1_TO_END: u32 = 3 * 64 + 30;
/// How often the books are looked into.
const LOOK: Duration = Duration::from_secs(1);
/// More than any plan asks for: something goes round in circles.
const MOST_EVENTS: u64 = 100_000_000;
/// Messages that a replay shows.
const SHOWN: usize = 60;

/// How much happened.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Counts {
    /// Datagrams that arrived.
    pub datagrams: u64,
    /// Calls that were started.
    pub calls: u64,
    /// Things that were done to hosts.
    pub actions: u64,
}

/// What came of a run.
#[derive(Clone, Debug)]
pub struct Summary {
    /// How much happened.
    pub counts: Counts,
    /// Digest of all of it: equal for two runs that went the same way.
    pub trace: Trace,
    /// What the callers counted, all together.
    pub callers: Results,
    /// What the answerers that live at the end counted, all together.
    pub answerers: AnswererResults,
}

enum Role {
    Caller(Box<Caller>),
    Balancer(Option<Box<Site>>),
    Answerer { agent: Option<Box<Answerer>>, refuses: bool },
}

struct Host {
    role: Role,
    /// When its next tick is scheduled.
    wake: Option<Instant>,
    stalled_until: Instant,
    /// How many processes it has had.
    lives: u64,
}

impl Host {
    fn deadline(&self) -> Option<Instant> {
        match &self.role {
            Role::Caller(caller) => caller.deadline(),
            Role::Balancer(site) => site.as_ref()?.deadline(),
            Role::Answerer { agent, .. } => agent.as_ref()?.deadline(),
        }
    }
}

/// What is on the way.
enum Freight {
    Datagram {
        from_host: HostId,
        from: SocketAddr,
        to: SocketAddr,
        bytes: Vec<u8>,
    },
    /// Nobody listens at `address`, to which `host` sent something from `from`.
    Refusal {
        host: HostId,
        from: SocketAddr,
        address: SocketAddr,
    },
}

#[derive(Clone, Copy)]
enum Event {
    Arrives(u32),
    Due(HostId),
    Act(u32),
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
    network: Network,
    hosts: Vec<Host>,
    addresses: BTreeMap<SocketAddr, HostId>,
    on_the_way: Slab<Freight>,
    /// The balancer that has the address which callers know.
    active: u16,
    /// The balancers' configuration of the moment.
    config: SiteConfig,
    checkers: Checkers,
    trace: Trace,
    counts: Counts,
    told: Outbox<Told>,
    log: Option<VecDeque<String>>,
}

impl<W: Wrapper> World<W> {
    /// The world of a plan, before the first event.
    pub fn new(plan: Plan, wrapper: W) -> Self {
        let rng = Rng::from_seed(plan.seed);
        let link = LinkConfig { delay: plan.delay, reliable: None };
        let mut world = Self {
            wrapper,
            queue: EventQueue::default(),
            network: Network::new(plan.hosts(), link, plan.rules.clone(), &rng),
            hosts: Vec::new(),
            addresses: BTreeMap::new(),
            on_the_way: Slab::default(),
            active: 0,
            config: plan.config.clone(),
            checkers: Checkers::new(plan.balancers),
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
            let role = Role::Caller(Box::new(self.new_caller(caller)));
            self.move_in(role, caller_address(caller));
        }
        for balancer in 0..self.plan.balancers {
            self.move_in(Role::Balancer(None), probe_address(balancer));
            self.act(&Action::Start(balancer));
        }
        for answerer in 0..self.plan.answerers.len() as u16 {
            self.move_in(Role::Answerer { agent: None, refuses: false }, answerer_address(answerer));
            self.act(&Action::Return(answerer));
        }
        for (number, (at, _)) in (0..).zip(&self.plan.actions) {
            self.queue.at(*at, Event::Act(number));
        }
        self.queue.after(LOOK, Event::Look);
    }

    fn move_in(&mut self, role: Role, address: SocketAddr) {
        let host = self.hosts.len() as HostId;
        self.hosts.push(Host { role, wake: None, stalled_until: Instant::ZERO, lives: 0 });
        self.addresses.insert(address, host);
        self.arm(host);
    }

    fn new_caller(&self, number: usize) -> Caller {
        let plan = &self.plan.callers[number];
        let config = CallerConfig {
            listener: 0,
            local: caller_address(number),
            target: site_address(),
            uri: format!("sip:service@{}", site_address()),
            arrivals: plan.arrivals,
            holding: plan.holding,
            answer_wait: plan.answer_wait,
            timers: self.plan.timers,
        };
        Caller::new(config, plan.start, self.rng.fork(&format!("caller {number}")))
    }

    fn new_answerer(&self, number: u16, life: u64) -> Answerer {
        let plan = &self.plan.answerers[usize::from(number)];
        let config = AnswererConfig {
            listener: 0,
            local: answerer_address(number),
            name: format!("answerer-{number}"),
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
    /// When what a balancer sent is wrong by itself ([`node::fuzz::Watch`]), or something in the code under test panics.
    pub fn run(&mut self) -> Result<Summary, String> {
        self.run_until(self.plan.end)?;
        for host in 0..self.hosts.len() {
            let now = self.queue.now();
            if let Role::Caller(caller) = &mut self.hosts[host].role {
                caller.stop(now);
                self.arm(host as HostId);
            }
        }
        self.run_until(self.plan.end + self.plan.timers.t1 * TIMES_T1_TO_END)?;
        let summary = self.summary();
        if !self.callers().all(Caller::finished) {
            let left = summary.callers.calls_in_progress;
            return Err(format!("{left} calls of the callers do not end"));
        }
        self.judge_calls(&summary)?;
        let balance::Settings { call_lifetime, linger, invite_timeout, .. } = self.config.books;
        self.run_until(self.queue.now() + call_lifetime + linger * 2 + invite_timeout)?;
        for (_, site) in self.sites() {
            Checkers::nothing_left(site)?;
        }
        Ok(Summary { trace: self.trace, ..summary })
    }

    fn run_until(&mut self, end: Instant) -> Result<(), String> {
        while let Some((now, event)) = self.queue.pop_until(end) {
            self.counts.datagrams += u64::from(matches!(event, Event::Arrives(_)));
            if self.counts.datagrams > MOST_EVENTS {
                return Err(format!("{MOST_EVENTS} datagrams and no end"));
            }
            match event {
                Event::Arrives(freight) => self.arrives(now, freight)?,
                Event::Due(host) => self.due(now, host)?,
                Event::Act(number) => {
                    let action = self.plan.actions[number as usize].1.clone();
                    self.trace.event(now, 2, number);
                    self.note(|_| format!("{action:?}"));
                    self.counts.actions += 1;
                    self.act(&action);
                    self.look()?;
                }
                Event::Look => {
                    self.look()?;
                    self.queue.after(LOOK, Event::Look);
                }
            }
        }
        Ok(())
    }

    fn look(&self) -> Result<(), String> {
        self.sites().try_for_each(|(balancer, site)| self.checkers.books(balancer, site))
    }

    fn sites(&self) -> impl Iterator<Item = (u16, &Site)> {
        let first = self.plan.balancer_host(0) as usize;
        let hosts = self.hosts[first..].iter().zip(0..self.plan.balancers);
        hosts.filter_map(|(host, number)| match &host.role {
            Role::Balancer(Some(site)) => Some((number, &**site)),
            _ => None,
        })
    }

    fn callers(&self) -> impl Iterator<Item = &Caller> {
        self.hosts.iter().filter_map(|host| match &host.role {
            Role::Caller(caller) => Some(&**caller),
            _ => None,
        })
    }

    /// Schedules a host's next tick, if it is due before the one that stands.
    fn arm(&mut self, host: HostId) {
        let now = self.queue.now();
        let it = &mut self.hosts[host as usize];
        let Some(due) = it.deadline().map(|due| due.max(now)) else { return };
        if it.wake.is_none_or(|wake| due < wake) {
            it.wake = Some(due);
            self.queue.at(due, Event::Due(host));
        }
    }

    fn due(&mut self, now: Instant, host: HostId) -> Result<(), String> {
        let it = &mut self.hosts[host as usize];
        if it.wake != Some(now) {
            return Ok(());
        }
        it.wake = None;
        if now < it.stalled_until {
            it.wake = Some(it.stalled_until);
            self.queue.at(it.stalled_until, Event::Due(host));
            return Ok(());
        }
        match &mut it.role {
            Role::Caller(caller) => caller.handle(now, Input::Tick, &mut self.told),
            Role::Answerer { agent: Some(agent), .. } => agent.handle(now, Input::Tick, &mut self.told),
            Role::Balancer(Some(site)) => {
                let (sent, probes) = site.tick(now);
                if !sent.is_empty() {
                    return Err("a balancer sent something that nobody asked for".to_owned());
                }
                let from = probe_address((host - self.plan.balancer_host(0)) as u16);
                for Sent { to, bytes, .. } in probes {
                    self.send(host, from, to, &bytes)?;
                }
            }
            Role::Answerer { agent: None, .. } | Role::Balancer(None) => {}
        }
        self.flush(host)?;
        self.arm(host);
        Ok(())
    }

    /// Sends what an agent has put into its outbox.
    fn flush(&mut self, host: HostId) -> Result<(), String> {
        let mut told = core::mem::take(&mut self.told);
        let answerers = self.plan.answerer_host(0);
        let from = match host.checked_sub(answerers) {
            Some(answerer) => answerer_address(answerer as u16),
            None => caller_address(host as usize),
        };
        for transmit in told.transmits() {
            let bytes = told.datagram(transmit);
            if host >= answerers
                && let Ok(message) = wire::scan(bytes)
            {
                self.checkers.answered.said(from, &message)?;
            }
            self.send(host, from, transmit.to, bytes)?;
        }
        told.clear();
        told.drain_events().for_each(drop);
        self.told = told;
        Ok(())
    }

    fn host_at(&self, address: SocketAddr) -> Option<HostId> {
        if address == site_address() {
            return Some(self.plan.balancer_host(self.active));
        }
        self.addresses.get(&address).copied()
    }

    fn send(&mut self, host: HostId, from: SocketAddr, to: SocketAddr, bytes: &[u8]) -> Result<(), String> {
        let now = self.queue.now();
        self.note(|plan| format!("{} to {to}: {}", plan.host_name(host), gist(bytes)));
        let name = |host| self.plan.host_name(host);
        let to_host = self.host_at(to).ok_or_else(|| format!("{} sent to {to}: nobody", name(host)))?;
        for at in self.network.send(now, host, to_host) {
            let freight = Freight::Datagram { from_host: host, from, to, bytes: bytes.to_vec() };
            let key = self.on_the_way.insert(freight);
            self.queue.at(at, Event::Arrives(key));
        }
        Ok(())
    }

    fn arrives(&mut self, now: Instant, key: u32) -> Result<(), String> {
        let freight = self.on_the_way.get(key).expect("an event for each freight");
        let host = match freight {
            Freight::Datagram { to, .. } => self.host_at(*to).expect("it was found when it was sent"),
            Freight::Refusal { host, .. } => *host,
        };
        let stalled_until = self.hosts[host as usize].stalled_until;
        if now < stalled_until {
            // It lies in the socket's buffer.
            self.queue.at(stalled_until, Event::Arrives(key));
            return Ok(());
        }
        match self.on_the_way.remove(key).expect("it was there") {
            Freight::Datagram { from_host, from, to, bytes } => {
                self.trace.event(now, 0, host);
                mix(&mut self.trace, &bytes);
                self.received(now, host, from_host, from, to, &bytes)?;
            }
            Freight::Refusal { host, from, address } => {
                self.trace.event(now, 1, host);
                if let Role::Balancer(Some(site)) = &mut self.hosts[host as usize].role {
                    site.unreachable(now, address, from != site_address());
                }
            }
        }
        self.arm(host);
        Ok(())
    }

    fn received(
        &mut self,
        now: Instant,
        host: HostId,
        from_host: HostId,
        from: SocketAddr,
        to: SocketAddr,
        bytes: &[u8],
    ) -> Result<(), String> {
        match &mut self.hosts[host as usize].role {
            Role::Caller(caller) => {
                caller.handle(now, Input::Datagram { from, bytes }, &mut self.told);
            }
            Role::Answerer { agent: Some(agent), .. } => {
                agent.handle(now, Input::Datagram { from, bytes }, &mut self.told);
            }
            Role::Answerer { agent: None, refuses: true } => {
                let refusal = Freight::Refusal { host: from_host, from, address: to };
                let key = self.on_the_way.insert(refusal);
                self.queue.after(self.plan.delay, Event::Arrives(key));
            }
            Role::Balancer(Some(site)) if to == site_address() => {
                if !self.wrapper.hears(bytes) {
                    return Ok(());
                }
                let mut sent = site.datagram(now, from, bytes);
                self.wrapper.says(&mut sent);
                let number = (host - self.plan.balancer_host(0)) as u16;
                self.checkers.element(number, site, from, bytes, &sent)?;
                for Sent { to, bytes, .. } in sent {
                    self.send(host, site_address(), to, &bytes)?;
                }
                return Ok(());
            }
            Role::Balancer(Some(site)) => site.probe_answer(now, bytes),
            Role::Answerer { agent: None, refuses: false } | Role::Balancer(None) => {}
        }
        self.flush(host)
    }

    fn act(&mut self, action: &Action) {
        let now = self.queue.now();
        match action {
            Action::Fail(balancer) => {
                let host = self.plan.balancer_host(*balancer);
                self.hosts[host as usize].role = Role::Balancer(None);
                self.checkers.ended(*balancer);
            }
            Action::Start(balancer) => self.start_balancer(now, *balancer),
            Action::TakeOver(balancer) => self.active = *balancer,
            Action::Die { answerer, refuses } => {
                let host = self.plan.answerer_host(*answerer);
                self.hosts[host as usize].role = Role::Answerer { agent: None, refuses: *refuses };
                self.checkers.answered.died(answerer_address(*answerer));
            }
            Action::Return(answerer) => self.start_answerer(*answerer),
            Action::Stall(host, time) => {
                let it = &mut self.hosts[*host as usize];
                it.stalled_until = it.stalled_until.max(now + *time);
            }
            Action::Drain(answerer, draining) => {
                self.each_site(|site| site.drain(answerer_address(*answerer), *draining));
            }
            Action::SetMembers(members) => {
                self.config.members.clone_from(members);
                self.reload(now);
            }
            Action::SetPolicy(policy) => {
                self.config.policy = policy;
                self.reload(now);
            }
            Action::Rekey => {
                self.config.key = self.config.key.wrapping_add(1);
                self.checkers.rekeyed = true;
                self.reload(now);
            }
        }
    }

    fn start_balancer(&mut self, now: Instant, balancer: u16) {
        let host = self.plan.balancer_host(balancer);
        let it = &mut self.hosts[host as usize];
        if let Role::Balancer(None) = it.role {
            it.lives += 1;
            let id = u64::from(balancer) << 32 | it.lives;
            it.role = Role::Balancer(Some(Box::new(Site::start(now, self.config.clone(), balancer, id))));
            self.arm(host);
        }
    }

    fn start_answerer(&mut self, answerer: u16) {
        let host = self.plan.answerer_host(answerer);
        if let Role::Answerer { agent: None, .. } = self.hosts[host as usize].role {
            let life = self.hosts[host as usize].lives;
            let agent = Some(Box::new(self.new_answerer(answerer, life)));
            let it = &mut self.hosts[host as usize];
            it.lives += 1;
            it.role = Role::Answerer { agent, refuses: false };
            self.arm(host);
        }
    }

    fn reload(&mut self, now: Instant) {
        let config = self.config.clone();
        self.each_site(|site| site.reload(now, &config));
    }

    fn each_site(&mut self, mut change: impl FnMut(&mut Site)) {
        for balancer in 0..self.plan.balancers {
            let host = self.plan.balancer_host(balancer);
            if let Role::Balancer(Some(site)) = &mut self.hosts[host as usize].role {
                change(site);
                self.arm(host);
            }
        }
    }

    fn summary(&self) -> Summary {
        let mut callers = Results::default();
        self.callers().for_each(|caller| callers.merge(caller.results()));
        let mut answerers = AnswererResults::default();
        for host in &self.hosts {
            if let Role::Answerer { agent: Some(agent), .. } = &host.role {
                answerers.merge(agent.results());
            }
        }
        let counts = Counts { calls: callers.calls_started, ..self.counts };
        Summary { counts, trace: self.trace, callers, answerers }
    }

    /// What must hold of the calls when all of them are over.
    fn judge_calls(&self, Summary { callers, answerers, .. }: &Summary) -> Result<(), String> {
        for (plan, caller) in self.plan.callers.iter().zip(self.callers()) {
            let results = caller.results();
            let all = results.calls_started > 0 && results.calls_completed == results.calls_started;
            if plan.must_succeed && !all {
                return Err(format!("not all calls succeeded without faults: {}", outcomes(results)));
            }
        }
        let byes_failed = callers.bye_timeouts + callers.bye_refused.values().sum::<u64>();
        if answerers.calls_in_progress > byes_failed + callers.forks_hung_up {
            let left = answerers.calls_in_progress;
            return Err(format!("{left} calls of the answerers do not end: {}", outcomes(callers)));
        }
        if self.plan.care != Care::Gentle {
            return Ok(());
        }
        let lost = self.checkers.answered.lost();
        if callers.calls_failed() > lost {
            return Err(format!("{lost} calls died with their answerers, but: {}", outcomes(callers)));
        }
        // A table that was lost and a node that is dead, or seems to be, are the only reasons to ask a second node.
        let may_fork = self.plan.actions.iter().any(|(_, action)| match action {
            Action::Fail(_) | Action::TakeOver(_) | Action::Die { .. } => true,
            Action::Stall(host, _) => *host >= self.plan.answerer_host(0),
            _ => false,
        });
        if !may_fork && (callers.forks_hung_up, callers.wrong_server) != (0, 0) {
            return Err(format!("a call met two servers: {}", outcomes(callers)));
        }
        Ok(())
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

/// First line and Call-ID of a message.
fn gist(bytes: &[u8]) -> String {
    let Ok(message) = wire::scan(bytes) else { return "unreadable".to_owned() };
    let start = bytes.split(|&byte| byte == b'\r').next().unwrap_or_default();
    let cseq = message.cseq();
    let (start, call) = (start.escape_ascii(), message.call_id().escape_ascii());
    format!("{start} ({} {}, {call})", cseq.number, cseq.method.name())
}

fn outcomes(results: &Results) -> String {
    format!(
        "{} started, {} completed, refused {:?}, {} abandoned, {} INVITE time-outs, {} BYE time-outs, BYE refused {:?}, \
         {} forks, {} at a wrong server",
        results.calls_started,
        results.calls_completed,
        results.calls_refused,
        results.calls_abandoned,
        results.invite_timeouts,
        results.bye_timeouts,
        results.bye_refused,
        results.forks_hung_up,
        results.wrong_server
    )
}

/// Every byte of a datagram into the digest.
fn mix(trace: &mut Trace, bytes: &[u8]) {
    for word in bytes.chunks(8) {
        let mut all = [0; 8];
        all[..word.len()].copy_from_slice(word);
        trace.word(u64::from_le_bytes(all));
    }
}
