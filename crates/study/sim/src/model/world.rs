//! The world of a run: all hosts, agents and links, and the loop over the events.

mod passage;

use super::agents::{Agents, Alarm, Out, UserAgent};
use super::balancer::Balancer;
use super::gate::Gate;
use super::host::{Host, NEVER};
use super::keeping::{Keeper, NetworkState, ProxyModel, StateKeeping};
use super::links::network;
use super::measure::{BinRates, RunResults};
use super::medium::{Editor, Map, Router};
use super::message::{HostId, LinkMessage};
use super::ties;
use super::work::{Proxy, Role};
use crate::engine::{self, Card, CardSide, EventQueue, SimNetwork, StallConfig, Stalls, Ticket, Trace};
use base::{Instant, Rng, Slab};
use config::scenario::{self, FaultKind, Group, Scenario};
use core::time::Duration;
use load::RandomTime;
use std::sync::Arc;

/// An event of the simulation.
#[derive(Clone, Copy, Debug)]
enum Event {
    /// A service ends, if the ticket is still valid.
    Finished(HostId, Ticket),
    /// A host's timers may be due.
    Timers(HostId),
    /// The agents' timers may be due.
    AgentTimers,
    /// A message arrives from a link.
    Arrives(u32),
    /// A message is retransmitted to the network card of its sender.
    Leaves(u32),
    /// The first message of this side of a card may have passed the card.
    Card(HostId, CardSide),
    /// A call of this stream starts.
    Call(u16),
    /// An agent's alarm.
    Alarm(u32, UserAgent),
    /// A period of a host's overload control ends.
    Tick(HostId),
    /// A period of a host's state distribution ends.
    Period(HostId),
    /// A bin of the time series ends.
    Sample,
    /// A host stalls.
    Stall(HostId),
    /// A stalled host continues.
    GoOn(HostId),
    /// A fault of the scenario starts.
    Fault(u32),
    /// A fault of the scenario ends.
    Mended(u32),
}

/// Runs a scenario once with this seed.
pub fn run(scenario: &Scenario, seed: u64) -> RunResults {
    run_watched(scenario, seed, &|_| ())
}

/// Runs a scenario like [`run`] and calls `passed` with the bin's length at the end of each bin of the time series.
pub fn run_watched(scenario: &Scenario, seed: u64, passed: &dyn Fn(Duration)) -> RunResults {
    run_until(scenario, &NetworkState::default(), seed, &mut |_, _| {
        passed(scenario.run.bin);
        false
    })
}

/// Runs a scenario like [`run`] with proxies that need not keep the state of every call.
///
/// # Panics
/// When the scenario gives overload control to such a proxy, or to a proxy that models a running server.
pub fn run_sharing(scenario: &Scenario, state: &NetworkState, seed: u64) -> RunResults {
    run_until(scenario, state, seed, &mut |_, _| false)
}

/// Runs a scenario like [`run_sharing`] until `is_over` returns `true` or the scenario ends. `is_over` is called at the
/// end of each bin of the time series.
///
/// # Panics
/// Like [`run_sharing`].
pub fn run_until(
    scenario: &Scenario,
    state: &NetworkState,
    seed: u64,
    is_over: &mut dyn FnMut(Instant, BinRates) -> bool,
) -> RunResults {
    let mut world = World::new(scenario, state, seed);
    world.run(is_over);
    world.into_results()
}

struct World<'a> {
    scenario: &'a Scenario,
    seed: u64,
    map: Arc<Map>,
    queue: EventQueue<Event>,
    hosts: Vec<Host>,
    agents: Agents,
    /// `None` when all links are perfect and need no random numbers.
    network: Option<SimNetwork>,
    on_the_way: Slab<LinkMessage>,
    /// Network card of each host; empty if no host has a card.
    cards: Vec<Option<Card<LinkMessage>>>,
    /// Database that each host asked last: hosts ask the databases in turn.
    last_database: Vec<u16>,
    /// Messages sent in this instant and not forwarded yet, and the alarms that agents requested.
    out: Out,
    pauses: Vec<Option<Pauses>>,
    agent_timers_at: Instant,
    messages: u64,
    trace: Trace,
}

impl<'a> World<'a> {
    fn new(scenario: &'a Scenario, state: &NetworkState, seed: u64) -> Self {
        let rng = Rng::from_seed(seed);
        let map = Arc::new(Map::new(scenario, state.clone(), &rng));
        let timers = scenario.timers.transaction;
        let mut hosts = Vec::new();
        let mut pauses = Vec::new();
        for (index, group) in scenario.groups.iter().enumerate() {
            for number in 0..group.count {
                let id = HostId(hosts.len() as u16);
                let rng = rng.fork(&group.host_name(number));
                let role = role(scenario, index, id, &map, (Instant::ZERO, 0), &rng);
                let host = Host::new(id, number, group, scenario, role, &rng);
                // Feedback needs the outcome of each call, so a proxy without call state cannot give it. A running
                // server has its own overload control.
                let keeps_all =
                    state.of(index) == StateKeeping::Always && state.model != ProxyModel::OfServer;
                assert!(
                    group.guard().is_off() || keeps_all,
                    "the scenario gives overload control to {}, which is only for proxies of papers that keep the state \
                     of every call",
                    group.name
                );
                hosts.push(host);
                pauses.push(Pauses::of(group, &rng));
            }
        }
        let network = network(scenario, &map, &rng);
        let agents = Agents::new(scenario, timers, Arc::clone(&map), &rng.fork("agents"));
        let cards = cards(scenario);
        let last_database = vec![0; hosts.len()];
        Self {
            scenario,
            seed,
            map,
            queue: EventQueue::default(),
            hosts,
            agents,
            network,
            on_the_way: Slab::default(),
            cards,
            last_database,
            out: Out::default(),
            pauses,
            agent_timers_at: NEVER,
            messages: 0,
            trace: Trace::default(),
        }
    }

    fn run(&mut self, is_over: &mut dyn FnMut(Instant, BinRates) -> bool) {
        let end = Instant::ZERO + self.scenario.run.duration;
        for stream in 0..self.scenario.streams.len() as u16 {
            self.next_call(stream);
        }
        self.queue.after(self.scenario.run.bin, Event::Sample);
        for (index, fault) in self.scenario.faults.iter().enumerate() {
            self.queue.at(Instant::ZERO + fault.at, Event::Fault(index as u32));
        }
        for host in 0..self.hosts.len() as u16 {
            self.next_pause(Instant::ZERO, HostId(host));
            self.watch_timers(HostId(host));
            self.watch_guard(HostId(host));
            self.watch_period(HostId(host));
        }
        while let Some((now, event)) = self.queue.pop_until(end) {
            self.happen(now, event);
            self.settle(now);
            if let Event::Sample = event
                && is_over(now, self.agents.lately(now, self.scenario.run.bin))
            {
                break;
            }
        }
    }

    fn happen(&mut self, now: Instant, event: Event) {
        match event {
            Event::Finished(host, ticket) => self.finished(now, host, ticket),
            Event::Timers(host) => {
                let at = host.index();
                // An earlier event has replaced this one.
                if self.hosts[at].timers_at != now {
                    return;
                }
                self.hosts[at].timers_at = NEVER;
                self.hosts[at].timers(now, &mut self.out.sent);
                self.start(now, host);
                self.watch_timers(host);
            }
            Event::AgentTimers => {
                if self.agent_timers_at == now {
                    self.agent_timers_at = NEVER;
                    self.agents.expire(now, &mut self.out);
                }
            }
            Event::Arrives(at) => {
                let carried = self.on_the_way.remove(at).expect("each message arrives once");
                self.deliver(now, carried);
            }
            Event::Leaves(at) => {
                let carried = self.on_the_way.remove(at).expect("each message leaves once");
                self.carry(now, carried);
            }
            Event::Card(host, side) => self.through_card(now, host, side),
            Event::Call(stream) => {
                self.agents.call(now, stream, &mut self.out);
                self.next_call(stream);
            }
            Event::Tick(host) => {
                self.hosts[host.index()].tick(now);
                self.watch_guard(host);
            }
            Event::Period(host) => {
                self.hosts[host.index()].end_period(now);
                self.watch_period(host);
            }
            Event::Alarm(call, user_agent) => self.agents.alarm(now, call, user_agent, &mut self.out),
            Event::Sample => {
                for host in &mut self.hosts {
                    host.sample(now);
                }
                self.queue.after(self.scenario.run.bin, Event::Sample);
            }
            Event::Stall(host) => {
                if let Some(pauses) = &self.pauses[host.index()] {
                    let length = pauses.length;
                    self.stop(now, host, length);
                    self.next_pause(now + length, host);
                }
            }
            Event::GoOn(host) => self.start(now, host),
            Event::Fault(index) => self.fault(now, index),
            Event::Mended(index) => self.mended(now, index),
        }
    }

    /// Forwards all sent messages, and the messages sent in reply, until none is left.
    fn settle(&mut self, now: Instant) {
        self.set_alarms();
        let mut next = 0;
        while let Some(carried) = self.out.sent.get_mut(next) {
            // Messages sent in reply are appended to the list.
            let carried = LinkMessage {
                from: carried.from,
                sent: carried.sent,
                notices: core::mem::take(&mut carried.notices),
            };
            self.carry(now, carried);
            self.set_alarms();
            next += 1;
        }
        self.out.sent.clear();
        if let Some(deadline) = self.agents.deadline()
            && deadline < self.agent_timers_at
        {
            self.agent_timers_at = deadline.max(now);
            self.queue.at(self.agent_timers_at, Event::AgentTimers);
        }
    }

    /// Schedules the alarms that agents requested.
    fn set_alarms(&mut self) {
        // The list is usually empty, and the check is cheaper than a drain.
        if self.out.alarms.is_empty() {
            return;
        }
        for Alarm { at, call, user_agent } in self.out.alarms.drain(..) {
            self.queue.at(at, Event::Alarm(call, user_agent));
        }
    }

    /// Lets the free processors of a host start waiting jobs.
    #[inline]
    fn start(&mut self, now: Instant, host: HostId) {
        while self.hosts[host.index()].may_start(now) && self.start_one(now, host) {}
    }

    #[inline(never)]
    fn start_one(&mut self, now: Instant, host: HostId) -> bool {
        let entry = &mut self.hosts[host.index()];
        let Some(due) = entry.start(now, &mut self.agents, &mut self.out.alarms) else { return false };
        self.queue.at(due.at, Event::Finished(host, due.ticket));
        true
    }

    fn finished(&mut self, now: Instant, host: HostId, ticket: Ticket) {
        if let Role::Database = self.hosts[host.index()].element.role {
            return self.looked_up(now, host, ticket);
        }
        if let Some(later) = self.hosts[host.index()].finish(now, ticket, &mut self.out.sent) {
            return self.queue.at(later, Event::Finished(host, ticket));
        }
        self.start(now, host);
        self.watch_timers(host);
    }

    /// A database has finished the look-up of a call.
    fn looked_up(&mut self, now: Instant, database: HostId, ticket: Ticket) {
        let mut found = Vec::new();
        if let Some(later) = self.hosts[database.index()].finish(now, ticket, &mut found) {
            return self.queue.at(later, Event::Finished(database, ticket));
        }
        for carried in found {
            self.hand_over(now, carried);
        }
        self.start(now, database);
    }

    /// Schedules an event for a host's next timer.
    fn watch_timers(&mut self, host: HostId) {
        let entry = &mut self.hosts[host.index()];
        if let Some(deadline) = entry.deadline()
            && deadline < entry.timers_at
        {
            entry.timers_at = deadline.max(self.queue.now());
            self.queue.at(entry.timers_at, Event::Timers(host));
        }
    }

    fn watch_guard(&mut self, host: HostId) {
        if let Some(deadline) = self.hosts[host.index()].element.guard.deadline() {
            self.queue.at(deadline, Event::Tick(host));
        }
    }

    fn watch_period(&mut self, host: HostId) {
        if self.map.state.of(self.map.group_of[host.index()].into()).has_periods() {
            self.queue.at(self.hosts[host.index()].meter.deadline(), Event::Period(host));
        }
    }

    fn next_call(&mut self, stream: u16) {
        if let Some(at) = self.agents.next_arrival(stream) {
            self.queue.at(at, Event::Call(stream));
        }
    }

    fn next_pause(&mut self, end: Instant, host: HostId) {
        if let Some(pauses) = &mut self.pauses[host.index()] {
            let (start, length) = pauses.stalls.next(end);
            pauses.length = length;
            self.queue.at(start, Event::Stall(host));
        }
    }

    fn stop(&mut self, now: Instant, host: HostId, length: Duration) {
        let end = self.hosts[host.index()].stall(now, length);
        self.queue.at(end, Event::GoOn(host));
    }

    /// Returns the host that a fault affects.
    fn faulty(&self, index: u32) -> HostId {
        let fault = &self.scenario.faults[index as usize];
        let before: u16 = self.scenario.groups[..fault.group].iter().map(|group| group.count).sum();
        HostId(before + fault.host)
    }

    fn fault(&mut self, now: Instant, index: u32) {
        let host = self.faulty(index);
        let fault = &self.scenario.faults[index as usize];
        match fault.kind {
            FaultKind::Stall(length) => self.stop(now, host, length),
            FaultKind::Slowdown(factor) => {
                let background = self.scenario.groups[fault.group].background;
                self.hosts[host.index()].slow_down(1.0 - (1.0 - background) * factor);
            }
            FaultKind::Failing(share) => self.hosts[host.index()].element.failing.0 = share,
            FaultKind::Card(share) => {
                if let Some(card) = &mut self.cards[host.index()] {
                    card.set_share(share);
                }
            }
            FaultKind::Restart(length) => {
                self.hosts[host.index()].fail(now);
                if let Role::Server = self.hosts[host.index()].element.role {
                    self.agents.die(host);
                }
                self.queue.at(now + length, Event::Mended(index));
            }
        }
    }

    /// Restarts a failed host without its former state.
    fn mended(&mut self, now: Instant, index: u32) {
        let host = self.faulty(index);
        let group = self.scenario.faults[index as usize].group;
        let map = Arc::clone(&self.map);
        // Its branches must differ from those before the failure.
        let rng = Rng::from_seed(self.seed).fork(&format!("restart {index}"));
        let role = role(self.scenario, group, host, &map, (now, index + 1), &rng);
        self.hosts[host.index()].restart(role);
        self.watch_timers(host);
        self.start(now, host);
    }

    fn into_results(mut self) -> RunResults {
        let end = self.queue.now();
        self.hosts.iter_mut().for_each(|host| host.clear_away(end));
        self.agents.clear_away(end);
        let mut occupancy = Vec::new();
        for host in &self.hosts {
            if let Role::Balancer(balancer) = &host.element.role {
                debug_assert_eq!(balancer.audit(), Ok(()));
                occupancy.extend(balancer.occupancy());
            }
        }
        for (host, met) in occupancy {
            self.hosts[host.index()].element.results.occupancy = met;
        }
        let transactions = self.hosts.iter().map(Host::transactions).sum::<usize>();
        let (calls_left, transactions_left) =
            (self.agents.calls(), self.agents.transactions() + transactions);
        RunResults {
            streams: self.agents.into_results(),
            hosts: self.hosts.into_iter().map(Host::into_results).collect(),
            messages: self.messages,
            calls_left,
            transactions_left,
            trace: self.trace.digest(),
        }
    }
}

/// Pauses of a host.
struct Pauses {
    stalls: Stalls,
    /// Length of the next pause.
    length: Duration,
}

impl Pauses {
    fn of(group: &Group, rng: &Rng) -> Option<Self> {
        let stalls = group.stalls.as_ref()?;
        let (length, length_spread) = spread(stalls.length, rng);
        let config = StallConfig { spacing: stalls.every, length, length_spread };
        Some(Self { stalls: Stalls::new(config, rng.fork("stalls")), length: Duration::ZERO })
    }
}

/// Number of samples for the engine's table of a normal distribution.
const SAMPLES: usize = 10_000;

/// Converts a distribution into the engine's terms: its mean, and the spread around it.
fn spread(time: RandomTime, rng: &Rng) -> (Duration, engine::TimeSpread) {
    match time {
        RandomTime::Fixed(mean) => (mean, engine::TimeSpread::Fixed),
        RandomTime::Exponential(mean) => (mean, engine::TimeSpread::Exponential),
        RandomTime::Normal(mean, _) => {
            let mut rng = rng.fork("normal");
            let samples: Vec<f64> = (0..SAMPLES).map(|_| time.sample(&mut rng).as_secs_f64()).collect();
            (mean, engine::TimeSpread::Measured(engine::QuantileTable::from_samples(&samples)))
        }
    }
}

/// Returns the network card of each host; an empty list if no host has a card.
fn cards(scenario: &Scenario) -> Vec<Option<Card<LinkMessage>>> {
    if scenario.groups.iter().all(|group| group.card.is_none()) {
        return Vec::new();
    }
    let cards = |group: &Group| {
        let rate = group.card;
        (0..group.count).map(move |_| rate.map(Card::new))
    };
    scenario.groups.iter().flat_map(cards).collect()
}

/// Returns the role that a host starts with. `life` is 0 at first and differs for each restart.
fn role(
    scenario: &Scenario,
    group: usize,
    host: HostId,
    map: &Arc<Map>,
    (now, life): (Instant, u32),
    rng: &Rng,
) -> Role {
    let settings = &scenario.groups[group];
    match &settings.role {
        scenario::HostRole::Proxy => {
            let retry = settings.overload.retry;
            let router = Router::new(Arc::clone(map), host, settings.select, retry, rng.fork("routes"));
            // Branches of different lives differ.
            let serial = u64::from(life) << 24;
            let core = proxy::Proxy::new(scenario.timers, serial);
            let (editor, keeper) = (Editor::new(Arc::clone(map), host), Keeper::new(map, host, rng));
            let gate = (map.state.model == ProxyModel::OfServer).then(|| Gate::new(rng));
            Role::Proxy(Box::new(Proxy { core, editor, router, keeper, gate }))
        }
        scenario::HostRole::Balancer(settings) => {
            let servers = map.after(group);
            let sessions = settings.session_settings(&scenario.timers);
            let policy = ties::policy(settings, rng);
            let capacity = |host: HostId| {
                let group = usize::from(map.group_of[host.index()]);
                let capacity = scenario.groups[group].capacity(host.0 - map.groups[group].start);
                // Servers without a cost count equally.
                capacity.map_or(1.0, |capacity| capacity / scenario.costs.base_capacity)
            };
            let probes = settings.probes.then(|| settings.probe_settings(&scenario.timers));
            let (life, health) = ((now, life), settings.health_settings());
            let map = Arc::clone(map);
            Role::Balancer(Box::new(Balancer::new(
                life,
                map,
                (servers, capacity),
                policy,
                sessions,
                health,
                probes,
            )))
        }
        scenario::HostRole::Server => Role::Server,
        scenario::HostRole::Database => Role::Database,
    }
}
