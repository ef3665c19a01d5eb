//! A run: its events, and the handling of each.

mod passage;

use super::host::{Duty, Host, MESSAGES};
use super::machine::{Job, Machine};
use super::plan::{CallTimes, CloudPlan, CloudServers, Front};
use super::results::{CloudResults, CloudSecond};
use crate::engine::{CardSide, EventQueue, Ticket};
use base::{Instant, Rng};
use core::time::Duration;
use elastic::queue::{Effect, FrontQueue};
use elastic::scale::{FrontTraffic, Scaler, ScalingDecision, ServerId, ServerLoad};
use load::Arrivals;
use rand::RngCore as _;
use rand_distr::{Distribution, Exp1};

/// Indexes of messages in a call.
const FIRST: u8 = 0;
const HANGING_UP: u8 = 4;
const LAST: u8 = MESSAGES - 1;

/// Time after which a call without set-up is given up (Overload paper).
const PATIENCE: Duration = Duration::from_secs(10);
/// Time until a message that was dropped by a buffer or a network card is sent again: T1.
const AGAIN: Duration = Duration::from_millis(500);
const SECOND: Duration = Duration::from_secs(1);
/// Time from the decision to stop a server until it is stopped.
const STOPPING: Duration = Duration::from_secs(10);

#[derive(Clone, Copy, Debug)]
enum Event {
    Arrival,
    /// The queue's deadline.
    Front,
    /// A message of a call arrives for the call's server.
    Message(u32, u8),
    /// A message arrives again at its server's network card, which dropped it.
    AtCard(Job),
    /// The server sends a message again.
    Leaving(Job),
    /// The first message of this side of a server's card may have passed the card.
    Card(u32, CardSide),
    Finish(Place, Ticket),
    /// A machine may continue after a pause.
    Go(Place),
    Pause(u32),
    Steal(Place),
    Burst(Place),
    Window,
    Scale,
    Up(u32),
    Stopped(u32),
}

/// A machine of a server or of a database.
#[derive(Clone, Copy, Debug)]
enum Place {
    Server(u32),
    Database(u32),
}

#[derive(Clone, Copy, Debug)]
struct Call {
    came: Instant,
    sent: Instant,
    host: u32,
}

type Queue = FrontQueue<u32, (), u32>;

struct World<'p> {
    plan: &'p CloudPlan,
    events: EventQueue<Event>,
    arrivals: Arrivals,
    rng: Rng,
    hosts: Vec<Host>,
    /// One shared database, or one for each host.
    databases: Vec<Machine>,
    calls: Vec<Call>,
    queue: Option<Queue>,
    effects: Vec<Effect<u32, (), u32>>,
    /// Earliest scheduled event for the queue.
    woken: Option<Instant>,
    scaler: Option<Scaler>,
    arrived: u64,
    turn: u64,
    second: CloudSecond,
    paid: usize,
    results: CloudResults,
}

/// Runs a cluster.
pub fn run(plan: &CloudPlan, seed: u64) -> CloudResults {
    let mut world = World::new(plan, seed);
    let end = Instant::ZERO + plan.to;
    while let Some((now, event)) = world.events.pop_until(end) {
        world.handle(now, event);
    }
    world.results
}

impl<'p> World<'p> {
    fn new(plan: &'p CloudPlan, seed: u64) -> Self {
        let rng = Rng::from_seed(seed);
        let arrivals = Arrivals::new(plan.arrivals.clone(), Instant::ZERO, rng.fork("arrivals"));
        let queue = match &plan.front {
            Front::Tlwl => None,
            Front::Queue(settings) => Some(Queue::new(**settings)),
        };
        let (scaler, first) = match &plan.servers {
            CloudServers::Fixed(count) => (None, *count),
            CloudServers::Scaled { settings, first, .. } => {
                (Some(Scaler::new(Instant::ZERO, (**settings).clone())), *first)
            }
        };
        let mut world = Self {
            plan,
            events: EventQueue::default(),
            arrivals,
            rng: rng.fork("calls"),
            hosts: Vec::new(),
            databases: Vec::new(),
            calls: Vec::new(),
            queue,
            effects: Vec::new(),
            woken: None,
            scaler,
            arrived: 0,
            turn: 0,
            second: CloudSecond::default(),
            paid: first,
            results: CloudResults::default(),
        };
        for member in 0..first as u32 {
            if let Some(scaler) = &mut world.scaler {
                scaler.adopt(Instant::ZERO, ServerId(member));
            }
            world.bring_up(Instant::ZERO, member);
        }
        world.next_arrival();
        world.events.after(SECOND, Event::Window);
        if let CloudServers::Scaled { step, .. } = &plan.servers {
            world.events.after(*step, Event::Scale);
        }
        world
    }

    fn handle(&mut self, now: Instant, event: Event) {
        match event {
            Event::Arrival => self.arrive(now),
            Event::Front => {
                self.woken = self.woken.filter(|at| *at > now);
                self.ask(now, |queue, effects| queue.tick(now, effects));
            }
            Event::Message(call, message) => {
                self.receive(now, self.calls[call as usize].host, call, message);
            }
            Event::AtCard(job) => self.come_in(now, job),
            Event::Leaving(job) => self.go_out(now, job),
            Event::Card(host, side) => self.through_card(now, host, side),
            Event::Finish(place, ticket) => self.finish(now, place, ticket),
            Event::Go(place) => self.start(now, place),
            Event::Pause(host) => self.pause(now, host),
            Event::Steal(place) => self.steal(now, place),
            Event::Burst(place) => self.burst(now, place),
            Event::Window => self.end_second(now),
            Event::Scale => self.scale(now),
            Event::Up(member) => {
                if let Some(scaler) = &mut self.scaler {
                    scaler.on_started(now, ServerId(member));
                }
                // A member that the scaler gave up meanwhile is not in its list of ready ones.
                if self.is_wanted(member) {
                    self.bring_up(now, member);
                }
            }
            Event::Stopped(member) => {
                self.paid -= 1;
                if let Some(scaler) = &mut self.scaler {
                    scaler.on_stopped(now, ServerId(member));
                }
            }
        }
    }

    fn counts(&self, now: Instant) -> bool {
        now >= Instant::ZERO + self.plan.from
    }

    fn next_arrival(&mut self) {
        if let Some(at) = self.arrivals.next() {
            self.events.at(at, Event::Arrival);
        }
    }

    fn arrive(&mut self, now: Instant) {
        self.next_arrival();
        self.arrived += 1;
        self.second.offered += 1;
        self.results.offered += u64::from(self.counts(now));
        let call = self.calls.len() as u32;
        self.calls.push(Call { came: now, sent: now, host: 0 });
        if self.queue.is_some() {
            let random = self.rng.next_u64();
            self.ask(now, |queue, effects| {
                queue.offer(now, call, (), random, effects);
            });
        } else {
            let ready = self.hosts.iter().enumerate().filter(|(_, host)| host.duty == Duty::Ready);
            let order = |one: &Host, other: &Host| {
                one.load().total_cmp(&other.load()).then(one.turn.cmp(&other.turn))
            };
            match ready.min_by(|one, other| order(one.1, other.1)).map(|(index, _)| index) {
                Some(host) => self.deliver(now, call, host),
                None => self.lose(now),
            }
        }
    }

    /// Passes an input to the queue and carries out its effects.
    fn ask(&mut self, now: Instant, say: impl FnOnce(&mut Queue, &mut Vec<Effect<u32, (), u32>>)) {
        let Some(queue) = &mut self.queue else { return };
        let mut effects = core::mem::take(&mut self.effects);
        say(queue, &mut effects);
        let deadline = queue.deadline();
        for effect in effects.drain(..) {
            match effect {
                Effect::Deliver { key, member, .. } => {
                    let host = self.host_of(member).expect("a member of the queue is up");
                    self.deliver(now, key, host);
                }
                Effect::Refuse { .. } => self.lose(now),
            }
        }
        self.effects = effects;
        // An event cannot be cancelled: one that comes too early asks the queue again.
        if let Some(at) = deadline
            && self.woken.is_none_or(|woken| at < woken)
        {
            let at = at.max(now);
            self.woken = Some(at);
            self.events.at(at, Event::Front);
        }
    }

    /// Index of the member's current host: the last with this number.
    fn host_of(&self, member: u32) -> Option<usize> {
        self.hosts.iter().rposition(|host| host.member == member && host.duty != Duty::Stopped)
    }

    fn lose(&mut self, now: Instant) {
        self.second.lost += 1;
        self.results.lost += u64::from(self.counts(now));
    }

    fn deliver(&mut self, now: Instant, call: u32, host: usize) {
        let known = &mut self.calls[call as usize];
        (known.sent, known.host) = (now, host as u32);
        self.turn += 1;
        self.hosts[host].on_call(self.turn);
        self.receive(now, host as u32, call, FIRST);
    }

    /// Reports a host's answer to the queue. `answered`: sending time of the call, if this is the call's first answer.
    fn tell_queue(&mut self, now: Instant, index: u32, answered: Option<Instant>) {
        let host = &self.hosts[index as usize];
        let (member, load) = (host.member, host.load());
        self.ask(now, |queue, effects| {
            queue.answers(now, member);
            if let Some(sent) = answered {
                queue.answered(now, member, sent);
            }
            queue.set_load(now, member, load, effects);
        });
    }

    fn set_up(&mut self, now: Instant, call: Call) {
        if now - call.came > PATIENCE {
            self.lose(now);
            return;
        }
        self.second.carried += 1;
        if self.counts(now) {
            self.results.carried += 1;
            self.results.set_up.add(now - call.came);
            self.results.latency.add(now - call.sent);
        }
    }

    /// Draws the time until the next message of a call.
    fn wait(&mut self, times: CallTimes, message: u8) -> Duration {
        let mut exponential = |mean: Duration| {
            let factor: f64 = Exp1.sample(&mut self.rng);
            mean.mul_f64(factor)
        };
        match message {
            // 180, then 200, ACK, BYE and its 200.
            1 => exponential(times.ringing),
            3 => exponential(times.talking),
            _ => times.way,
        }
    }

    fn pause(&mut self, now: Instant, index: u32) {
        let machine = &mut self.hosts[index as usize].machine;
        let Some(pauses) = &mut machine.pauses else { return };
        // The distributions have no memory: the spacing counts from the end of this pause.
        let (next, length) = pauses.next(now);
        let end = machine.cpu.stall(now, length);
        self.events.at(end, Event::Go(Place::Server(index)));
        self.events.at(next + length, Event::Pause(index));
    }

    fn steal(&mut self, now: Instant, place: Place) {
        let (end, next) = self.machine(place).steal(now);
        if let Some(end) = end {
            self.events.at(end, Event::Go(place));
        }
        if let Some(next) = next {
            self.events.at(next, Event::Steal(place));
        }
    }

    fn burst(&mut self, now: Instant, place: Place) {
        let machine = self.machine(place);
        machine.turn_neighbours();
        if let Some(at) = machine.next_burst(now) {
            self.events.at(at, Event::Burst(place));
        }
    }

    /// Schedules the activity of a machine's neighbours.
    fn watch_neighbours(&mut self, now: Instant, place: Place) {
        let machine = self.machine(place);
        let (burst, steal) = (machine.next_burst(now), machine.first_steal(now));
        let events = [burst.map(|at| (at, Event::Burst(place))), steal.map(|at| (at, Event::Steal(place)))];
        for (at, event) in events.into_iter().flatten() {
            self.events.at(at, event);
        }
    }

    fn end_second(&mut self, now: Instant) {
        let mut second = core::mem::take(&mut self.second);
        second.at = now.as_secs_f64();
        second.ready = self.hosts.iter().filter(|host| host.duty == Duty::Ready).count();
        second.paid = self.paid;
        let mut others = CloudSecond::default();
        for index in 0..self.hosts.len() {
            let host = &mut self.hosts[index];
            if host.duty == Duty::Stopped {
                continue;
            }
            host.end_window(now, if index == 0 { &mut second } else { &mut others });
            let (member, capacity, duty) = (host.member, host.capacity, host.duty);
            if duty == Duty::Ready {
                self.ask(now, |queue, effects| queue.announce(now, member, capacity, effects));
            }
        }
        if self.counts(now) {
            self.results.server_hours += self.paid as f64 / 3600.0;
        }
        self.results.seconds.push(second);
        self.events.after(SECOND, Event::Window);
    }

    fn bring_up(&mut self, now: Instant, member: u32) {
        let index = self.hosts.len() as u32;
        let neighbours = self.plan.neighbours.get(index as usize).cloned();
        let rng = self.rng.fork(&format!("host {index}"));
        let host = Host::new(now, member, &self.plan.host, neighbours, &self.plan.announcing, &rng);
        let capacity = host.capacity;
        self.hosts.push(host);
        if let Some(pauses) = &mut self.hosts[index as usize].machine.pauses {
            self.events.at(pauses.next(now).0, Event::Pause(index));
        }
        self.watch_neighbours(now, Place::Server(index));
        if let Some(database) = &self.plan.database
            && (index == 0 || !database.is_shared)
        {
            let rng = self.rng.fork(&format!("database {index}"));
            let neighbours = database.neighbours.get(index as usize).cloned();
            self.databases.push(Machine::new(database.spread.clone(), None, None, neighbours, &rng));
            self.watch_neighbours(now, Place::Database(index));
        }
        self.ask(now, |queue, effects| queue.announce(now, member, capacity, effects));
    }

    fn is_wanted(&self, member: u32) -> bool {
        use elastic::scale::ServerState::Ready;
        let is_it = |row: elastic::scale::ServerRow| row.id == ServerId(member) && row.state == Ready;
        self.scaler.as_ref().is_some_and(|scaler| scaler.rows().any(is_it))
    }

    fn scale(&mut self, now: Instant) {
        let CloudServers::Scaled { step, start, .. } = &self.plan.servers else { return };
        let (Some(scaler), Some(queue)) = (&mut self.scaler, &self.queue) else { return };
        let capacity =
            |member| queue.members(now).find(|(of, _)| *of == member).map(|(_, view)| view.capacity);
        let loads: Vec<_> = self
            .hosts
            .iter()
            .filter(|host| host.duty != Duty::Stopped)
            .map(|host| ServerLoad {
                id: ServerId(host.member),
                capacity: capacity(host.member),
                is_announced: true,
                calls: host.calls,
            })
            .collect();
        let rate = self.arrived as f64 / step.as_secs_f64();
        self.arrived = 0;
        let mut decisions = Vec::new();
        scaler.step(now, &FrontTraffic { rate, servers: &loads }, &mut decisions);
        self.events.after(*step, Event::Scale);
        for decision in decisions {
            self.results.decisions.push((now, decision));
            self.carry_out(now, decision, *start);
        }
    }

    fn carry_out(&mut self, now: Instant, decision: ScalingDecision, start: Duration) {
        match decision {
            ScalingDecision::Start(ServerId(member)) => {
                self.paid += 1;
                self.events.after(start, Event::Up(member));
            }
            ScalingDecision::Drain(ServerId(member)) => {
                self.turn_duty(member, Duty::Draining);
                self.ask(now, |queue, effects| queue.remove_member(now, member, effects));
            }
            ScalingDecision::Resume(ServerId(member)) => {
                self.turn_duty(member, Duty::Ready);
                let capacity = self.host_of(member).map_or(0.0, |host| self.hosts[host].capacity);
                self.ask(now, |queue, effects| queue.announce(now, member, capacity, effects));
            }
            ScalingDecision::Stop(ServerId(member)) | ScalingDecision::GiveUp(ServerId(member)) => {
                self.turn_duty(member, Duty::Stopped);
                self.events.after(STOPPING, Event::Stopped(member));
            }
            ScalingDecision::ClusterLatency(_) | ScalingDecision::Limit(_) => {}
        }
    }

    fn turn_duty(&mut self, member: u32, duty: Duty) {
        if let Some(host) = self.host_of(member) {
            self.hosts[host].duty = duty;
        }
    }
}
