//! A host: a processor with its queue, and the role that runs on it.

use super::agents::{Agents, Alarm, Out};
use super::balancer::Balancer;
use super::control::{Control, Period, Refused, class_of};
use super::measure::HostResults;
use super::medium::{Router, Settled};
use super::message::{HostId, Letter, Message, Notice, Sent, Start};
use super::prices::Prices;
use crate::engine::{Admission, Cpu, CpuConfig, Due, Finish, Mark, Priority, Spread, Ticket, Triage};
use base::{Instant, Ledger, Operation, Slab};
use config::scenario::{Costs, Group, Scenario};
use core::time::Duration;
use overload::{Class, Fate, RejectAt, RejectState};
use proxy::{Arrived, Fire, Medium, Proxy, Refusal, Sink};
use transaction::Sending;
use wire::Method;

/// What waits for the processor.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Job {
    what: What,
    class: Class,
    /// The buffer of what it sends when it is done; it gets one at the start of its service.
    out: Option<u32>,
    /// The same for copies of a message; only where copies are looked for.
    key: u64,
}

#[derive(Clone, Copy, Debug)]
enum What {
    /// A message, by its place.
    Message(u32),
    /// A timer, by its place.
    Timer(u32),
    /// The rejection of a message, by its place.
    Rejection(u32, Refused),
}

/// The queue's rules: those of the `overload` crate where the host has a triage queue.
#[derive(Debug)]
struct Lanes {
    rules: Option<overload::Triage>,
    /// Stale jobs, to be forgotten.
    dropped: Vec<Job>,
}

impl Triage<Job> for Lanes {
    fn key(&self, job: &Job) -> Option<u64> {
        let copies = self.rules.is_some() && overload::Triage::coalesces(job.class);
        (copies && matches!(job.what, What::Message(_))).then_some(job.key)
    }

    fn is_stale(&mut self, now: Instant, since: Instant, job: &Job) -> bool {
        let Some(rules) = self.rules else { return false };
        let stale = rules.fate(job.class, now - since) == Fate::Drop;
        if stale {
            self.dropped.push(*job);
        }
        stale
    }
}

/// Where a class waits. Timers come first (section IV-A); rejections second, everything else third (section VI-A); or
/// by the lanes of a triage queue, of which the engine has four.
fn priority(class: Class, triage: bool) -> Priority {
    match class.lane() {
        0 => Priority::P1,
        _ if !triage => Priority::P3,
        1 => Priority::P2,
        2 | 3 => Priority::P3,
        _ => Priority::P4,
    }
}

/// What runs on a host.
pub(crate) enum Role {
    Proxy(Box<Proxy<Router>>, Router),
    Balancer(Box<Balancer>),
    /// The agents answer here.
    Server,
}

impl Role {
    /// What its own code counted.
    fn ledger(&self) -> Ledger {
        match self {
            Self::Proxy(proxy, _) => proxy.ledger(),
            Self::Balancer(balancer) => balancer.ledger,
            Self::Server => Ledger::default(),
        }
    }

    /// Ends the transactions whose time is over. Where that is free nobody can tell when it is done, as long as it is
    /// before the next message.
    fn clear_away(&mut self, now: Instant) {
        if let Self::Proxy(proxy, _) = self {
            while proxy.clear_away(now) {}
        }
    }
}

/// A host.
pub(crate) struct Host {
    pub(crate) id: HostId,
    pub(crate) role: Role,
    cpu: Cpu<Job, Lanes>,
    control: Control,
    costs: Costs,
    prices: Option<Prices>,
    /// What was done, but for what the role at hand counts itself.
    ledger: Ledger,
    /// What of that has taken time already.
    paid: Ledger,
    /// Whether its work takes no time.
    free: bool,
    messages: Slab<Message>,
    fires: Slab<Fire>,
    outs: Vec<Vec<Letter>>,
    idle_outs: Vec<u32>,
    /// When the world will look at its timers.
    pub(crate) timers_at: Instant,
    pub(crate) results: HostResults,
    mark: Mark,
    /// Where the period of each controller began.
    marks: [Mark; 2],
}

/// Collects what a host sends.
struct Outgoing<'a> {
    from: HostId,
    letters: &'a mut Vec<Letter>,
}

impl Sink<Sent> for Outgoing<'_> {
    fn send(&mut self, message: &Sent, _: Sending) {
        self.letters.push(Letter::new(self.from, *message));
    }
}

/// `edge.2` for the second of several, `edge` for the only one.
pub(crate) fn name_of(group: &Group, number: u16) -> String {
    if group.count > 1 { format!("{}.{}", group.name, number + 1) } else { group.name.clone() }
}

/// The far future, where no timer is.
pub(crate) const NEVER: Instant = Instant::from_nanos(u64::MAX);

impl Host {
    /// `number` is which of its group it is.
    pub(crate) fn new(
        id: HostId,
        number: u16,
        group: &Group,
        scenario: &Scenario,
        role: Role,
        rng: &base::Rng,
    ) -> Self {
        let (costs, bin, capacity) = (&scenario.costs, scenario.run.bin, group.capacity(number));
        let spread = match &costs.service {
            config::scenario::Service::Deterministic => Spread::Fixed,
            config::scenario::Service::Exponential => Spread::Exponential,
            config::scenario::Service::Table(quantiles) => Spread::Measured(
                crate::engine::QuantileTable::new(quantiles).expect("checked by the scenario"),
            ),
        };
        let workers = usize::from(group.workers);
        let free = capacity.is_none();
        let capacity = capacity.unwrap_or(costs.base_capacity) / costs.base_capacity;
        let config = CpuConfig {
            workers,
            capacity: capacity / workers as f64,
            buffer: group.buffer as usize,
            bounded: [false, true, true, true],
            spread,
            background: group.background,
        };
        let control = Control::new(group, costs.message.div_f64(capacity), rng.fork("control"));
        let lanes = Lanes { rules: control.settings().triage, dropped: Vec::new() };
        let cpu = Cpu::with_triage(config, lanes, rng.fork("cpu"));
        let mark = cpu.mark(Instant::ZERO);
        Self {
            id,
            role,
            cpu,
            control,
            costs: costs.clone(),
            prices: Prices::new(costs),
            ledger: Ledger::default(),
            paid: Ledger::default(),
            free,
            messages: Slab::default(),
            fires: Slab::default(),
            outs: Vec::new(),
            idle_outs: Vec::new(),
            timers_at: NEVER,
            results: HostResults::new(name_of(group, number), bin),
            mark,
            marks: [mark; 2],
        }
    }

    /// A message arrives: it waits for the processor, or is lost on a full buffer.
    pub(crate) fn arrive(
        &mut self,
        now: Instant,
        from: HostId,
        mut message: Message,
        notice: Option<&Notice>,
    ) {
        // Where nothing is refused nobody asks whether a call is new.
        let may_refuse = !self.control.is_idle();
        if may_refuse && message.is_initial_invite() {
            // It is compared with the transactions that there are.
            self.clear_away(now);
        }
        let (mut class, mut refused) = (Class::Response, None);
        if let Role::Proxy(proxy, router) = &mut self.role {
            if message.is_request() {
                // RFC 3261 §16.4: our own Route value goes.
                if message.is_in_dialog() && message.route.last() == Some(&self.id) {
                    message.route.pop();
                }
                let control = &mut self.control;
                router.choose(&mut message, |host| control.is_open(now, host));
                let known =
                    may_refuse && message.method == Method::Invite && proxy.knows(&message.server_key());
                class = class_of(&message, known);
                if class.is_new() && control.settings().reject_at == RejectAt::Arrival {
                    refused = control.judge(now, from, class, &message);
                }
                if refused.is_none() {
                    control.on_request(now, from, class);
                }
            } else {
                self.control.on_response(now, &message, from, notice);
            }
        }
        let triage = self.control.settings().triage.is_some();
        let key = if triage { key_of(&message) } else { 0 };
        let at = self.messages.insert(message);
        if let Some(refused) = refused {
            self.results.rejected.add(now, 1.0);
            self.enqueue(now, Priority::P2, class, What::Rejection(at, refused), key);
        } else {
            self.enqueue(now, priority(class, triage), class, What::Message(at), key);
        }
    }

    fn enqueue(&mut self, now: Instant, lane: Priority, class: Class, what: What, key: u64) {
        let admission = self.cpu.enqueue(now, lane, Job { what, class, out: None, key });
        if admission == Admission::Queued {
            if let What::Message(_) = what {
                self.control.on_enqueue(now, class, self.cpu.occupied());
            }
            return;
        }
        if admission == Admission::Dropped {
            self.results.dropped.add(now, 1.0);
        }
        self.lose(what);
    }

    /// A job is gone without service. What a limit of a sender or receiver counted of it is no longer under way.
    fn lose(&mut self, what: What) {
        if let What::Message(at) = what
            && let Some(message) = self.messages.get(at).filter(|message| message.is_initial_invite())
        {
            let settled = Settled { hop: message.hop, from: message.top().host, last: true };
            self.control.on_settled(core::iter::once(settled));
        }
        self.forget(what);
    }

    fn forget(&mut self, what: What) {
        match what {
            What::Message(at) | What::Rejection(at, _) => drop(self.messages.remove(at)),
            What::Timer(at) => drop(self.fires.remove(at)),
        }
    }

    /// Begins the next service, if it can.
    pub(crate) fn start(
        &mut self,
        now: Instant,
        agents: &mut Agents,
        alarms: &mut Vec<Alarm>,
    ) -> Option<Due> {
        if !self.cpu.may_start(now) {
            return None;
        }
        let clears = self.clears_for_free();
        let Self {
            cpu,
            role,
            control,
            messages,
            fires,
            outs,
            idle_outs,
            costs,
            prices,
            ledger,
            paid,
            free,
            id,
            results,
            ..
        } = self;
        let mut served = None;
        let due = cpu.start(now, |job| {
            if clears {
                role.clear_away(now);
            }
            let out = idle_outs.pop().unwrap_or_else(|| {
                outs.push(Vec::new());
                outs.len() as u32 - 1
            });
            job.out = Some(out);
            let out = &mut outs[out as usize];
            let mut work = Work { now, id: *id, role, control, costs, ledger, results, agents, alarms, out };
            let cost = match job.what {
                What::Timer(at) => work.timer(fires.remove(at).expect("it was put there to wait")),
                What::Message(at) => {
                    let cost = work.message(job.class, &messages[at]);
                    messages.remove(at);
                    cost
                }
                What::Rejection(at, refused) => {
                    work.ledger.charge(Operation::Scan);
                    let cost = work.reject(&messages[at], refused);
                    messages.remove(at);
                    cost
                }
            };
            let mut cost = if *free { Duration::ZERO } else { cost };
            if let (Some(prices), false) = (prices, *free) {
                // What was done outside of any service, such as ending sessions, falls to the next one.
                let done = role.ledger() + *ledger;
                cost += prices.of(&(done - *paid));
                *paid = done;
            }
            served = Some((*job, cost));
            cost
        });
        self.left(now, served);
        due
    }

    /// A job has left the queue, and stale ones before it.
    fn left(&mut self, now: Instant, served: Option<(Job, Duration)>) {
        if self.control.is_off() {
            if let Role::Proxy(_, router) = &mut self.role {
                router.forget_settled();
            }
            return;
        }
        for job in core::mem::take(&mut self.cpu.triage().dropped) {
            self.control.on_dequeue(now, job.class, self.cpu.occupied());
            self.lose(job.what);
        }
        if let Some((Job { what: What::Message(_), class, .. }, cost)) = served {
            self.control.on_dequeue(now, class, self.cpu.occupied());
            self.control.on_served(class, cost);
        }
        if let Role::Proxy(_, router) = &mut self.role {
            self.control.on_settled(router.drain_settled());
        }
    }

    /// Periods at the end of which [`period`](Self::period) is wanted.
    pub(crate) fn periods(&self) -> impl Iterator<Item = (Period, Duration)> + use<> {
        self.control.periods()
    }

    /// A period of a controller is over.
    pub(crate) fn period(&mut self, now: Instant, which: Period) {
        let mark = core::mem::replace(&mut self.marks[which as usize], self.cpu.mark(now));
        self.control.on_period(now, which, self.cpu.utilisation(mark, now));
    }

    /// A service ends: what it sent leaves.
    pub(crate) fn finish(&mut self, now: Instant, ticket: Ticket, sent: &mut Vec<Letter>) -> Option<Instant> {
        match self.cpu.finish(now, ticket) {
            Finish::Done(served) => {
                let out = served.job.out.expect("it was given one when its service began");
                let out_box = &mut self.outs[out as usize];
                // Mostly nothing else has been sent.
                if sent.is_empty() {
                    core::mem::swap(sent, out_box);
                } else {
                    sent.append(out_box);
                }
                self.idle_outs.push(out);
                None
            }
            Finish::Later(at) => Some(at),
            Finish::Void => None,
        }
    }

    /// Timers that are due wait for the processor, but for those whose work costs nothing.
    pub(crate) fn timers(&mut self, now: Instant, sent: &mut Vec<Letter>) {
        let Role::Proxy(..) = self.role else {
            if let Role::Balancer(balancer) = &mut self.role {
                balancer.expire(now);
            }
            return;
        };
        let clears = self.clears_for_free();
        while let Role::Proxy(proxy, router) = &mut self.role
            && let Some(fire) = proxy.due(now)
        {
            if self.free || (fire.is_cleanup() && clears) {
                proxy.fire(now, fire, router, &mut Outgoing { from: self.id, letters: sent });
                continue;
            }
            if fire.is_resend() {
                self.results.resends.add(now, 1.0);
            } else if !fire.is_cleanup() {
                self.results.give_ups.add(now, 1.0);
            }
            let at = self.fires.insert(fire);
            self.enqueue(now, Priority::P1, Class::Timer, What::Timer(at), 0);
        }
    }

    /// Whether ending a transaction takes no time, so that nobody can tell when it is done.
    fn clears_for_free(&self) -> bool {
        self.free || (self.costs.cleanup.is_zero() && self.prices.is_none())
    }

    /// Ends the transactions whose time is over, if that is free.
    pub(crate) fn clear_away(&mut self, now: Instant) {
        if self.clears_for_free() {
            self.role.clear_away(now);
        }
    }

    /// When [`timers`](Self::timers) is to be called.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        match &self.role {
            Role::Proxy(proxy, _) if self.clears_for_free() => proxy.noticed_deadline(),
            Role::Proxy(proxy, _) => proxy.deadline(),
            Role::Balancer(balancer) => balancer.deadline(),
            Role::Server => None,
        }
    }

    /// All that it shows, at the end.
    pub(crate) fn into_results(self) -> HostResults {
        HostResults { operations: self.role.ledger() + self.ledger, ..self.results }
    }

    pub(crate) fn transactions(&self) -> usize {
        match &self.role {
            Role::Proxy(proxy, _) => proxy.transactions(),
            Role::Balancer(balancer) => balancer.transactions(),
            Role::Server => 0,
        }
    }

    /// Notes how busy it was since the last time, and how much waits.
    pub(crate) fn sample(&mut self, now: Instant) {
        self.results.utilisation.push((now, self.cpu.utilisation(self.mark, now)));
        self.results.queue.push((now, self.cpu.occupied() as f64));
        self.mark = self.cpu.mark(now);
    }

    /// It dies: what waits and what it knows is gone.
    pub(crate) fn fail(&mut self, now: Instant) {
        let mut lost = Vec::new();
        self.cpu.fail(now, |job| lost.push(job));
        for job in lost {
            if let Some(out) = job.out {
                self.outs[out as usize].clear();
                self.idle_outs.push(out);
            }
            self.forget(job.what);
        }
    }

    /// It is back, with nothing but its role.
    pub(crate) fn restart(&mut self, role: Role) {
        self.ledger += self.role.ledger();
        self.role = role;
        self.cpu.restart();
    }

    /// Something else takes this share of its processor from now on.
    pub(crate) fn slow_down(&mut self, background: f64) {
        self.cpu.set_background(background);
    }

    /// All of it stops until the returned instant.
    pub(crate) fn stall(&mut self, now: Instant, length: Duration) -> Instant {
        self.cpu.stall(now, length)
    }
}

/// The work of a job, done at the start of its service.
struct Work<'a> {
    now: Instant,
    id: HostId,
    role: &'a mut Role,
    control: &'a mut Control,
    costs: &'a Costs,
    ledger: &'a mut Ledger,
    results: &'a mut HostResults,
    agents: &'a mut Agents,
    alarms: &'a mut Vec<Alarm>,
    out: &'a mut Vec<Letter>,
}

impl Work<'_> {
    fn timer(&mut self, fire: Fire) -> Duration {
        if let Role::Proxy(proxy, router) = self.role {
            proxy.fire(self.now, fire, router, &mut Outgoing { from: self.id, letters: self.out });
        }
        self.tell();
        if fire.is_cleanup() { self.costs.cleanup } else { self.costs.timer }
    }

    /// Does it, and says what it costs on the base server.
    fn message(&mut self, class: Class, message: &Message) -> Duration {
        let Self { now, id, costs, .. } = *self;
        match self.role {
            Role::Proxy(proxy, router) => {
                self.ledger.charge(Operation::Scan);
                if class.is_new() && self.control.settings().reject_at == RejectAt::Service {
                    let from = message.top().host;
                    if let Some(refused) = self.control.judge(now, from, class, message) {
                        self.results.rejected.add(now, 1.0);
                        return self.reject(message, refused);
                    }
                }
                let sink = &mut Outgoing { from: id, letters: self.out };
                let cost = proxied(now, id, proxy, router, (costs, self.ledger), message, sink);
                self.tell();
                cost
            }
            Role::Balancer(balancer) => {
                balancer.handle(now, id, *message, self.out);
                costs.message
            }
            Role::Server => {
                let work = match (message.start, message.method) {
                    (Start::Request, Method::Invite) => costs.invite_work,
                    // TLWL paper, section IV: it creates the session, which the INVITE's work has in it.
                    (Start::Request, Method::Ack) => 0.0,
                    _ => 1.0,
                };
                let mut answers =
                    Out { sent: core::mem::take(self.out), alarms: core::mem::take(self.alarms) };
                self.agents.handle(now, message, &mut answers);
                // They are answers of this host: its links carry them.
                answers.sent.iter_mut().for_each(|letter| letter.from = id);
                (*self.out, *self.alarms) = (answers.sent, answers.alarms);
                costs.message.mul_f64(work)
            }
        }
    }

    /// Answers a new request with a failure.
    fn reject(&mut self, request: &Message, refused: Refused) -> Duration {
        let Role::Proxy(proxy, router) = self.role else { return Duration::ZERO };
        let stateful = self.control.settings().reject_state == RejectState::Stateful;
        let before = self.out.len();
        if stateful {
            let arrived = arrived(request, router);
            let sink = &mut Outgoing { from: self.id, letters: self.out };
            proxy.refuse(self.now, &arrived, request, Refusal(refused.status), router, sink);
        } else {
            self.out.push(Letter::new(self.id, router.respond(request, refused.status)));
            self.ledger.charge(Operation::Reject);
        }
        for letter in &mut self.out[before..] {
            letter.sent.message.retry_after = refused.retry_after;
        }
        self.tell();
        if stateful { self.costs.reject_stateful } else { self.costs.reject }
    }

    /// Lets responses to other hosts say what the host wants to be sent.
    fn tell(&mut self) {
        if !self.control.gives_notice() {
            return;
        }
        for letter in self.out.iter_mut() {
            let Sent { to, message } = &letter.sent;
            if to != &HostId::AGENTS && !message.is_request() {
                letter.notice = self.control.notice(self.now, message.target);
            }
        }
    }
}

/// The same for copies of a message.
fn key_of(message: &Message) -> u64 {
    let status = if let Start::Response(status) = message.start { status } else { 0 };
    let key = if message.is_request() { message.server_key().key } else { message.client_key() };
    key.0 as u64 ^ u64::from(status) << 48 ^ u64::from(message.method == Method::Ack) << 47
}

fn arrived(request: &Message, router: &Router) -> Arrived {
    Arrived {
        method: request.method,
        key: request.server_key(),
        cancels: (request.method == Method::Cancel).then(|| request.cancelled_key()),
        transport: router.transport_of(request),
    }
}

fn proxied(
    now: Instant,
    id: HostId,
    proxy: &mut Proxy<Router>,
    router: &mut Router,
    (costs, ledger): (&Costs, &mut Ledger),
    message: &Message,
    sink: &mut Outgoing<'_>,
) -> Duration {
    if let Start::Response(status) = message.start {
        proxy.response(now, message.client_key(), status, message, router, sink);
        return costs.message;
    }
    let arrived = arrived(message, router);
    if message.method == Method::Ack && message.to_tag != Some(HostId::AGENTS) {
        // To a failure: it finds its transaction, or it is for an answer that left none, and ends here.
        let known = proxy.absorb(now, &arrived.key, sink);
        return if known || message.to_tag != Some(id) { costs.message } else { costs.reject_ack };
    }
    if message.is_in_dialog() && !proxy.knows(&arrived.key) {
        ledger.charge(Operation::VerifyToken);
    }
    proxy.request(now, &arrived, *message, router, sink);
    costs.message
}
