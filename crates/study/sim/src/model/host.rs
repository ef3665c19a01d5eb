//! A host: a processor with its queue, and the role that it runs.

use super::agents::{Agents, Alarm};
use super::control::{class_of, on_response};
use super::keeping::{Keeper, PERIOD};
use super::measure::HostResults;
use super::message::{HostId, LinkMessage, ModelMessage, ModelStart, Notices};
use super::prices::Prices;
use super::work::{Element, Outgoing, Role, Work};
use crate::engine::{
    BegunService, Cpu, CpuConfig, CpuMark, EnqueueOutcome, Finish, Priority, QuantileTable, QueueTriage,
    QuotaConfig, Ticket, TimeSpread,
};
use base::{Instant, Ledger, Operation, Slab};
use config::scenario::{Group, QuotaSettings, Scenario, TcpDiscard};
use core::time::Duration;
use overload::signal::Utilisation;
use overload::{Guard, MessageClass, OverloadSettings, Rejection, TriageDecision};
use proxy::Fire;
use rand::Rng as _;
use std::collections::BTreeSet;
use transaction::{TransactionKey, TransportKind};
use wire::Method;

/// A job that waits for the processor.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Job {
    kind: JobKind,
    class: MessageClass,
    /// Whether it enters the queue even when the buffer is full.
    is_spared: bool,
    /// Equal for copies of a message; set only if copies are looked for.
    key: u64,
    /// Time of arrival.
    since: Instant,
}

#[derive(Clone, Copy, Debug)]
enum JobKind {
    /// A message, by its index.
    Message(u32),
    /// A timer, by its index.
    Timer(u32),
    /// A balancer's probe, by its index.
    Probe(u32),
    /// Rejection of a message, by the message's index.
    Rejection(u32, Rejection),
    /// Look-up of a call for another host, by its index.
    Query(u32),
}

/// Rules of the queue, from the `overload` crate if the host has a triage queue.
#[derive(Debug)]
struct Lanes {
    rules: Option<overload::Triage>,
    /// Whether requests that will be rejected take room in the buffer.
    buffers_rejections: bool,
    /// Stale jobs to be removed.
    dropped: Vec<Job>,
}

impl QueueTriage<Job> for Lanes {
    fn key(&self, job: &Job) -> Option<u64> {
        let copies = self.rules.is_some() && overload::Triage::coalesces(job.class);
        (copies && matches!(job.kind, JobKind::Message(_))).then_some(job.key)
    }

    /// Section VI-A: with early rejection, only admitted requests take room in the buffer.
    fn is_bounded(&self, class: Priority, job: &Job) -> bool {
        match job.kind {
            JobKind::Rejection(..) => self.buffers_rejections,
            _ => class != Priority::P1,
        }
    }

    fn is_spared(&self, job: &Job) -> bool {
        job.is_spared
    }

    fn is_stale(&mut self, now: Instant, since: Instant, job: &Job) -> bool {
        let Some(rules) = self.rules else { return false };
        let stale = rules.decision(job.class, now - since) == TriageDecision::Drop;
        if stale {
            self.dropped.push(*job);
        }
        stale
    }
}

/// Returns the priority of a class. Timers come first (section IV-A); rejections second, everything else third (section
/// VI-A). With a triage queue, the class decides the lane; the engine has four lanes.
fn priority(class: MessageClass, triage: bool) -> Priority {
    match class.lane() {
        0 => Priority::P1,
        _ if !triage => Priority::P3,
        1 => Priority::P2,
        2 | 3 => Priority::P3,
        _ => Priority::P4,
    }
}

/// A host.
pub(crate) struct Host {
    pub(crate) element: Element,
    cpu: Cpu<Job, Lanes>,
    /// Whether ending a transaction takes no time, so that the moment of its end is unobservable.
    clears_for_free: bool,
    messages: Slab<ModelMessage>,
    /// Of a database: look-ups for other hosts, as the messages arrived.
    queries: Slab<LinkMessage>,
    fires: Slab<Fire>,
    discard: TcpDiscard,
    /// Of a server that absorbs retransmissions: requests received and not yet answered.
    unanswered: BTreeSet<TransactionKey>,
    /// The unanswered request that each worker serves.
    serving: Vec<Option<TransactionKey>>,
    /// Messages that each worker's service sends when it is done.
    outs: Vec<Vec<LinkMessage>>,
    /// Reused memory for sent messages.
    spare: Vec<LinkMessage>,
    /// Time at which the world will run its timers.
    pub(crate) timers_at: Instant,
    mark: CpuMark,
    /// Utilisation in each period, for a proxy that shares out state.
    pub(crate) meter: Utilisation,
}

/// An instant that no timer reaches.
pub(crate) const NEVER: Instant = Instant::from_nanos(u64::MAX);

impl Host {
    /// `number` is the index of the host in its group.
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
            config::scenario::ServiceTimes::Deterministic => TimeSpread::Fixed,
            config::scenario::ServiceTimes::Exponential => TimeSpread::Exponential,
            config::scenario::ServiceTimes::Table(quantiles) => {
                TimeSpread::Measured(QuantileTable::new(quantiles))
            }
        };
        let workers = usize::from(group.workers);
        let free = capacity.is_none();
        let capacity = capacity.unwrap_or(costs.base_capacity) / costs.base_capacity;
        let quota = |quota: QuotaSettings| QuotaConfig {
            period: quota.period,
            processor: quota.processor / costs.base_capacity,
        };
        let config = CpuConfig {
            workers,
            quota: group.quota.map(quota),
            capacity: capacity / workers as f64,
            buffer: group.buffer as usize,
            spread,
            background: group.background,
        };
        let mean = costs.message.div_f64(capacity);
        let has_gate = matches!(&role, Role::Proxy(proxy) if proxy.gate.is_some());
        let laws = if has_gate { OverloadSettings::by_wait() } else { group.guard() };
        let guard = Guard::new(Instant::ZERO, laws, group.workers.into(), mean, rng.fork("control"));
        let lanes = Lanes {
            rules: guard.settings().triage,
            buffers_rejections: group.overload.buffer_rejections,
            dropped: Vec::new(),
        };
        let cpu = Cpu::with_triage(config, lanes, rng.fork("cpu"));
        let (mark, prices) = (cpu.mark(Instant::ZERO), Prices::new(costs));
        let results = HostResults::new(group.host_name(number), bin);
        // The periods of different hosts end at different instants.
        let period = match &role {
            Role::Proxy(proxy) => proxy.keeper.as_ref().map_or(PERIOD, Keeper::period),
            _ => PERIOD,
        };
        let phase = period.mul_f64(rng.fork("period").random());
        Self {
            clears_for_free: free
                || (costs.cleanup.is_zero() && prices.as_ref().is_none_or(Prices::clears_for_free)),
            element: Element {
                id,
                role,
                guard,
                looks_up: group.overload.look_up,
                costs: costs.clone(),
                prices,
                ledger: Ledger::default(),
                paid: Ledger::default(),
                free,
                failing: (0.0, rng.fork("failing")),
                results,
            },
            cpu,
            messages: Slab::default(),
            queries: Slab::default(),
            fires: Slab::default(),
            discard: group.discard,
            unanswered: BTreeSet::new(),
            serving: vec![None; workers],
            outs: vec![Vec::new(); workers],
            spare: Vec::new(),
            timers_at: NEVER,
            mark,
            meter: Utilisation::new(Instant::ZERO + phase, period, group.workers.into()),
        }
    }

    /// A message arrives: it waits for the processor, or is lost if the buffer is full.
    pub(crate) fn arrive(
        &mut self,
        now: Instant,
        from: HostId,
        mut message: ModelMessage,
        notices: &Notices,
        agents: &Agents,
    ) {
        if message.method == Method::Options {
            return self.arrive_probe(now, from, message);
        }
        if let Role::Server = self.element.role {
            return self.arrive_at_server(now, message, agents);
        }
        // Without refusals, it does not matter whether a call is new.
        let may_refuse = !self.element.guard.is_idle() && !self.element.has_gate();
        if may_refuse && message.is_initial_invite() {
            // The message is compared with the current transactions, so ended ones must be gone.
            self.clear_away(now);
        }
        let (mut class, mut rejection) = (MessageClass::Response, None);
        let mut is_spared = false;
        if let Role::Proxy(proxy) = &mut self.element.role {
            is_spared = self.discard == TcpDiscard::NewCalls
                && !message.is_initial_invite()
                && proxy.router.transport_from(from, &message) == TransportKind::Reliable;
            if message.is_request() {
                // RFC 3261 §16.4: the host removes its own Route value.
                if message.is_in_dialog() && message.route.last() == Some(&self.element.id) {
                    message.route.pop();
                }
                let guard = &mut self.element.guard;
                proxy.router.choose(&mut message, |host| guard.is_open(now, host));
                let known = may_refuse
                    && self.element.looks_up
                    && message.method == Method::Invite
                    && proxy.core.knows(&message.server_key());
                class = class_of(&message, known);
                if proxy.gate.is_none() {
                    rejection = guard.on_request(now, class, &proxy.router.way(from, class, &message)).err();
                }
            } else {
                on_response(&mut self.element.guard, now, &message, from, notices.overload.as_deref());
                if let (Some(room), Some(keeper)) = (&notices.room, &mut proxy.keeper) {
                    keeper.on_notice(now, from, **room);
                }
            }
        }
        let triage = self.element.guard.settings().triage.is_some();
        let key = if triage { key_of(&message) } else { 0 };
        let at = self.messages.insert(message);
        if let Some(rejection) = rejection {
            self.enqueue(
                now,
                Priority::P2,
                Job { kind: JobKind::Rejection(at, rejection), class, is_spared, key, since: now },
            );
        } else {
            let job = Job { kind: JobKind::Message(at), class, is_spared, key, since: now };
            self.enqueue(now, priority(class, triage), job);
        }
    }

    /// A message arrives at a host that answers calls. A message without service time waits only for the end of the
    /// current service or stall, and takes no room in the buffer.
    fn arrive_at_server(&mut self, now: Instant, message: ModelMessage, agents: &Agents) {
        let mut lane = Priority::P3;
        let mut request = None;
        if message.is_request() && message.method == Method::Ack {
            lane = Priority::P1;
        } else if message.is_request() && self.element.costs.repeat_work <= 0.0 {
            let key = message.server_key_at(self.element.id);
            if self.unanswered.contains(&key.key) {
                return;
            }
            if agents.knows(&key) {
                lane = Priority::P1;
            } else {
                request = Some(key.key);
            }
        }
        let kind = JobKind::Message(self.messages.insert(message));
        let job = Job { kind, class: MessageClass::Response, is_spared: false, key: 0, since: now };
        if self.enqueue(now, lane, job) == EnqueueOutcome::Queued {
            self.unanswered.extend(request);
        }
    }

    /// A probe waits like any other request. Responses to probes do not, because a running server has a separate thread
    /// and sockets for them.
    fn arrive_probe(&mut self, now: Instant, from: HostId, probe: ModelMessage) {
        if probe.is_request() {
            let triage = self.element.guard.settings().triage.is_some();
            let class = MessageClass::Response;
            let kind = JobKind::Probe(self.messages.insert(probe));
            let job = Job { kind, class, is_spared: false, key: 0, since: now };
            self.enqueue(now, priority(class, triage), job);
        } else if let Role::Balancer(balancer) = &mut self.element.role
            && self.cpu.is_up()
        {
            balancer.answered(now, from, &probe);
        }
    }

    /// Queues a look-up for another host. Its message is sent on when the look-up has been served.
    pub(crate) fn look_up(&mut self, now: Instant, message: LinkMessage) {
        let kind = JobKind::Query(self.queries.insert(message));
        let class = MessageClass::Response;
        self.enqueue(now, Priority::P3, Job { kind, class, is_spared: false, key: 0, since: now });
    }

    fn enqueue(&mut self, now: Instant, lane: Priority, job: Job) -> EnqueueOutcome {
        let Job { kind, class, .. } = job;
        let admission = self.cpu.enqueue(now, lane, job);
        if admission == EnqueueOutcome::Queued {
            if matches!(kind, JobKind::Message(_)) && self.element.has_watched_queue() {
                self.element.guard.on_enqueue(now, class, self.cpu.occupied());
            }
            return admission;
        }
        if admission == EnqueueOutcome::Dropped {
            self.element.results.dropped.add(now, 1.0);
        }
        self.lose(now, class, kind);
        admission
    }

    /// Removes a job without service. Limits of a sender or receiver no longer count it as in progress.
    fn lose(&mut self, now: Instant, class: MessageClass, kind: JobKind) {
        if let JobKind::Message(at) = kind
            && class.is_new()
        {
            let message = &self.messages[at];
            self.element.guard.on_lost(now, message.top().host.server(), message.hop.server());
        }
        self.forget(kind);
    }

    fn forget(&mut self, kind: JobKind) {
        match kind {
            JobKind::Message(at) | JobKind::Probe(at) | JobKind::Rejection(at, _) => {
                self.messages.remove(at);
            }
            JobKind::Timer(at) => drop(self.fires.remove(at)),
            JobKind::Query(at) => drop(self.queries.remove(at)),
        }
    }

    /// Whether a processor is free and a job waits for it.
    pub(crate) fn may_start(&self, now: Instant) -> bool {
        self.cpu.may_start(now)
    }

    /// Starts the next service, if possible.
    pub(crate) fn start(
        &mut self,
        now: Instant,
        agents: &mut Agents,
        alarms: &mut Vec<Alarm>,
    ) -> Option<BegunService> {
        let Self { cpu, element, messages, queries, fires, outs, spare: out, clears_for_free, .. } = self;
        let (mut served, mut request) = (None, None);
        let due = cpu.start(now, |job| {
            if *clears_for_free {
                element.role.clear_away(now);
            }
            let mut work = Work { now, agents, alarms, out };
            let cost = match job.kind {
                JobKind::Timer(at) => {
                    element.timer(&mut work, fires.remove(at).expect("the job of a timer has its index"))
                }
                JobKind::Message(at) => {
                    request = messages.get(at).map(|message| message.server_key_at(element.id).key);
                    let cost = element.message(&mut work, job.class, &messages[at], now - job.since);
                    messages.remove(at);
                    cost
                }
                JobKind::Probe(at) => {
                    let cost = element.probe(&mut work, &messages[at]);
                    messages.remove(at);
                    cost
                }
                JobKind::Query(at) => {
                    work.out.extend(queries.remove(at));
                    Duration::from_secs_f64(1.0 / element.costs.base_capacity)
                }
                JobKind::Rejection(at, rejection) => {
                    element.ledger.charge(Operation::Scan);
                    let cost = element.reject(&mut work, &messages[at], rejection);
                    messages.remove(at);
                    cost
                }
            };
            let cost = element.time_of(cost);
            served = Some((*job, cost));
            cost
        });
        if let Some(due) = due {
            core::mem::swap(out, &mut outs[due.ticket.worker()]);
            self.serving[due.ticket.worker()] = request;
        }
        self.left(now, served);
        due
    }

    /// A job has left the queue, with the stale jobs before it.
    fn left(&mut self, now: Instant, served: Option<(Job, Duration)>) {
        let is_watched = self.element.has_watched_queue();
        for job in core::mem::take(&mut self.cpu.triage().dropped) {
            if is_watched {
                self.element.guard.on_dequeue(now, job.class, self.cpu.occupied());
            }
            self.lose(now, job.class, job.kind);
        }
        if !is_watched {
            if let Role::Proxy(proxy) = &mut self.element.role {
                proxy.router.forget_settled();
            }
            return;
        }
        if let Some((Job { kind: JobKind::Message(_), class, .. }, cost)) = served {
            self.element.guard.on_dequeue(now, class, self.cpu.occupied());
            self.element.guard.on_served(class, cost);
        }
        if let Role::Proxy(proxy) = &mut self.element.role {
            for settled in proxy.router.drain_settled() {
                self.element.guard.on_settled(now, &settled);
            }
        }
    }

    /// Ends a period of overload control.
    pub(crate) fn tick(&mut self, now: Instant) {
        self.element.guard.tick(now, self.cpu.busy(now));
    }

    /// Ends a period of state distribution.
    pub(crate) fn end_period(&mut self, now: Instant) {
        let utilisation = self.meter.poll(now, self.cpu.busy(now));
        if let (Role::Proxy(proxy), Some(utilisation)) = (&mut self.element.role, utilisation)
            && let Some(keeper) = &mut proxy.keeper
        {
            keeper.on_period(now, utilisation);
        }
    }

    /// Ends a service and sends its messages.
    pub(crate) fn finish(
        &mut self,
        now: Instant,
        ticket: Ticket,
        sent: &mut Vec<LinkMessage>,
    ) -> Option<Instant> {
        match self.cpu.finish(now, ticket) {
            Finish::Done(_) => {
                if let Some(request) = self.serving[ticket.worker()].take() {
                    self.unanswered.remove(&request);
                }
                let out = &mut self.outs[ticket.worker()];
                // `sent` is usually empty.
                if sent.is_empty() {
                    core::mem::swap(sent, out);
                } else {
                    sent.append(out);
                }
                None
            }
            Finish::Later(at) => Some(at),
            Finish::Void => None,
        }
    }

    /// Queues the timers that are due. Timers without a cost are handled at once.
    pub(crate) fn timers(&mut self, now: Instant, sent: &mut Vec<LinkMessage>) {
        if !self.cpu.is_up() {
            return;
        }
        let Role::Proxy(..) = self.element.role else {
            if let Role::Balancer(balancer) = &mut self.element.role {
                balancer.tick(now, self.element.id, sent);
            }
            return;
        };
        let clears = self.clears_for_free;
        while let Role::Proxy(proxy) = &mut self.element.role
            && let Some(fire) = proxy.core.due(now)
        {
            if self.element.free || (fire.is_cleanup() && clears) {
                proxy.fire(now, fire, &mut Outgoing { from: self.element.id, messages: sent });
                continue;
            }
            if fire.is_resend() {
                self.element.results.resends.add(now, 1.0);
            } else if !fire.is_cleanup() {
                self.element.results.give_ups.add(now, 1.0);
            }
            let at = self.fires.insert(fire);
            let (kind, class) = (JobKind::Timer(at), MessageClass::Timer);
            let job = Job { kind, class, is_spared: false, key: 0, since: now };
            self.enqueue(now, Priority::P1, job);
        }
    }

    /// Ends the transactions whose time is over, if this takes no time.
    pub(crate) fn clear_away(&mut self, now: Instant) {
        if self.clears_for_free {
            self.element.role.clear_away(now);
        }
    }

    /// Time of the next [`timers`](Self::timers).
    pub(crate) fn deadline(&self) -> Option<Instant> {
        match &self.element.role {
            _ if !self.cpu.is_up() => None,
            Role::Proxy(proxy) if self.clears_for_free => proxy.core.noticed_deadline(),
            Role::Proxy(proxy) => proxy.core.deadline(),
            Role::Balancer(balancer) => balancer.deadline(),
            Role::Server | Role::Database => None,
        }
    }

    /// Returns all measurements of the host at the end.
    pub(crate) fn into_results(mut self) -> HostResults {
        self.element.note_kept();
        HostResults { operations: self.element.role.ledger() + self.element.ledger, ..self.element.results }
    }

    pub(crate) fn transactions(&self) -> usize {
        match &self.element.role {
            Role::Proxy(proxy) => proxy.core.transactions(),
            Role::Balancer(balancer) => balancer.transactions(),
            Role::Server | Role::Database => 0,
        }
    }

    /// Records the utilisation since the last sample, and the length of the queue.
    pub(crate) fn sample(&mut self, now: Instant) {
        self.element.results.utilisation.push((now, self.cpu.utilisation(self.mark, now)));
        self.element.results.queue.push((now, self.cpu.occupied() as f64));
        self.mark = self.cpu.mark(now);
    }

    /// The host fails: its queue and its state are lost.
    pub(crate) fn fail(&mut self, now: Instant) {
        let mut lost = Vec::new();
        self.cpu.fail(now, |job| lost.push(job));
        for job in lost {
            self.forget(job.kind);
        }
        self.outs.iter_mut().for_each(Vec::clear);
        self.unanswered.clear();
        self.serving.fill(None);
        self.element.guard.forget();
    }

    /// Restarts the host with only its role.
    pub(crate) fn restart(&mut self, role: Role) {
        self.element.ledger += self.element.role.ledger();
        self.element.note_kept();
        self.element.role = role;
        self.cpu.restart();
    }

    /// From now on, other work takes this share of the host's processor.
    pub(crate) fn slow_down(&mut self, background: f64) {
        self.cpu.set_background(background);
    }

    /// Stalls the whole host until the returned instant.
    pub(crate) fn stall(&mut self, now: Instant, length: Duration) -> Instant {
        self.cpu.stall(now, length)
    }
}

/// Returns a key that is equal for copies of a message.
fn key_of(message: &ModelMessage) -> u64 {
    let status = if let ModelStart::Response(status) = message.start { status } else { 0 };
    let key = if message.is_request() { message.server_key().key } else { message.client_key() };
    key.0 as u64 ^ u64::from(status) << 48 ^ u64::from(message.method == Method::Ack) << 47
}
