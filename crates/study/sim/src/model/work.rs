//! Roles of hosts, and their work for each job.

use super::agents::{Agents, Alarm, Out};
use super::balancer::Balancer;
use super::gate::Gate;
use super::keeping::Keeper;
use super::measure::HostResults;
use super::medium::{Editor, Router, Typed};
use super::message::{HostId, LinkMessage, ModelMessage, ModelStart, Sent};
use super::prices::Prices;
use base::{Instant, Ledger, Operation, Rng};
use config::scenario::Costs;
use core::time::Duration;
use overload::{Guard, MessageClass, RejectState, Rejection};
use proxy::{Answered, Arrived, Fire, Medium, ProxyRefusal, ProxyStep, Sink};
use rand::Rng as _;
use transaction::Sending;
use wire::Method;

/// Role of a host.
pub(crate) enum Role {
    Proxy(Box<Proxy>),
    Balancer(Box<Balancer>),
    /// The agents answer here.
    Server,
    /// Other hosts look up calls here.
    Database,
}

impl Role {
    /// Operations counted by the role's own code.
    pub(crate) fn ledger(&self) -> Ledger {
        match self {
            Self::Proxy(proxy) => proxy.core.ledger(),
            Self::Balancer(balancer) => balancer.ledger,
            Self::Server | Self::Database => Ledger::default(),
        }
    }

    /// Ends the transactions whose time is over. If this takes no time, it may happen at any instant before the next
    /// message.
    pub(crate) fn clear_away(&mut self, now: Instant) {
        if let Self::Proxy(proxy) = self {
            while proxy.core.clear_away(now) {}
        }
    }
}

/// A proxy, with the parts that edit and route messages.
pub(crate) struct Proxy {
    pub(crate) core: proxy::Proxy<Typed>,
    pub(crate) editor: Editor,
    pub(crate) router: Router,
    /// `None` if the state of every call is kept.
    pub(crate) keeper: Option<Keeper>,
    /// Of a proxy that models a running server: admits calls at the end of their wait, by their waiting time.
    pub(crate) gate: Option<Gate>,
}

impl Proxy {
    /// Handles a timer.
    pub(crate) fn fire(&mut self, now: Instant, fire: Fire, sink: &mut Outgoing<'_>) {
        let Self { core, editor, router, .. } = self;
        core.fire(fire, &mut ProxyStep { now, medium: editor, router, sink });
    }
}

/// A host without its processor and queue.
pub(crate) struct Element {
    pub(crate) id: HostId,
    pub(crate) role: Role,
    pub(crate) guard: Guard<HostId>,
    /// Whether a repeated INVITE is told from a new one before it can be rejected.
    pub(crate) looks_up: bool,
    pub(crate) costs: Costs,
    pub(crate) prices: Option<Prices>,
    /// Operations done, without those that the current role counts itself.
    pub(crate) ledger: Ledger,
    /// Operations whose time is already accounted for.
    pub(crate) paid: Ledger,
    /// Whether its work takes no time.
    pub(crate) free: bool,
    /// Share of new calls that it answers with 500, and the random numbers that select them.
    pub(crate) failing: (f64, Rng),
    pub(crate) results: HostResults,
}

/// Collects the messages that a host sends.
pub(crate) struct Outgoing<'a> {
    pub(crate) from: HostId,
    pub(crate) messages: &'a mut Vec<LinkMessage>,
}

impl Sink<Sent> for Outgoing<'_> {
    fn send(&mut self, message: &Sent, _: Sending) {
        self.messages.push(LinkMessage::new(self.from, *message));
    }
}

/// Environment of a job's work, which is done at the start of its service.
pub(crate) struct Work<'a> {
    pub(crate) now: Instant,
    pub(crate) agents: &'a mut Agents,
    pub(crate) alarms: &'a mut Vec<Alarm>,
    /// Messages that are sent at the end of the service.
    pub(crate) out: &'a mut Vec<LinkMessage>,
}

impl Element {
    /// Fires a timer.
    pub(crate) fn timer(&mut self, work: &mut Work<'_>, fire: Fire) -> Duration {
        if let Role::Proxy(proxy) = &mut self.role {
            proxy.fire(work.now, fire, &mut Outgoing { from: self.id, messages: work.out });
        }
        self.tell(work);
        if fire.is_cleanup() { self.costs.cleanup } else { self.costs.timer }
    }

    /// Whether it admits new calls at the end of their wait, like a running server.
    pub(crate) fn has_gate(&self) -> bool {
        matches!(&self.role, Role::Proxy(proxy) if proxy.gate.is_some())
    }

    /// Whether its guard decides by the contents of its queue.
    pub(crate) fn has_watched_queue(&self) -> bool {
        !self.guard.is_off() && !self.has_gate()
    }

    /// Handles a message that waited for `waited`. Returns the cost on the base server.
    pub(crate) fn message(
        &mut self,
        work: &mut Work<'_>,
        class: MessageClass,
        message: &ModelMessage,
        waited: Duration,
    ) -> Duration {
        let now = work.now;
        let Self { id, role, guard, looks_up, costs, ledger, failing, .. } = self;
        match role {
            Role::Proxy(proxy) => {
                ledger.charge(Operation::Scan);
                let Proxy { gate, keeper, .. } = &mut **proxy;
                if let Some(gate) = gate {
                    if class.is_new()
                        && let Err(rejection) = gate.admit(now, guard, keeper.as_mut(), message, waited)
                    {
                        return self.reject(work, message, rejection);
                    }
                } else if class.is_new() && !guard.is_off() {
                    let way = proxy.router.way(message.top().host, class, message);
                    // Two copies waited, and both were new on arrival: this copy is not a second request.
                    let is_copy = proxy.core.knows(&message.server_key());
                    if !(is_copy && *looks_up)
                        && let Err(rejection) = guard.on_turn(now, class, &way)
                    {
                        return self.reject(work, message, rejection);
                    }
                    if is_copy {
                        guard.on_lost(now, way.from, way.to);
                    }
                }
                let sink = &mut Outgoing { from: *id, messages: work.out };
                let cost = proxied(now, proxy, (costs, ledger), message, sink);
                self.tell(work);
                cost
            }
            Role::Balancer(balancer) => {
                balancer.handle(now, *id, *message, work.out);
                costs.message
            }
            Role::Server => {
                let is_repeat = message.is_request() && work.agents.knows(&message.server_key_at(*id));
                let fails = message.is_initial_invite() && !is_repeat && draw(failing);
                let mut answers =
                    Out { sent: core::mem::take(work.out), alarms: core::mem::take(work.alarms) };
                if fails {
                    work.agents.refuse(now, *id, message, 500, &mut answers);
                } else {
                    work.agents.handle(now, *id, message, &mut answers);
                }
                (*work.out, *work.alarms) = (answers.sent, answers.alarms);
                let share = match (message.start, message.method) {
                    _ if fails => 0.0,
                    // TLWL paper, section IV: the ACK creates the session; the INVITE's work includes this.
                    (ModelStart::Request, Method::Ack) => 0.0,
                    (ModelStart::Request, Method::Invite) => costs.invite_work,
                    _ => 1.0,
                };
                costs.server_request().mul_f64(if is_repeat { share * costs.repeat_work } else { share })
            }
            // A database gets no messages.
            Role::Database => Duration::ZERO,
        }
    }

    /// Answers a probe (RFC 3261 §11.2), at the cost of any other request.
    pub(crate) fn probe(&mut self, work: &mut Work<'_>, probe: &ModelMessage) -> Duration {
        let answer = Sent { to: probe.top().host, message: probe.response(200, self.id) };
        work.out.push(LinkMessage::new(self.id, answer));
        if let Role::Server = self.role { self.costs.server_request() } else { self.costs.message }
    }

    /// Answers a new request with a failure.
    pub(crate) fn reject(
        &mut self,
        work: &mut Work<'_>,
        request: &ModelMessage,
        rejection: Rejection,
    ) -> Duration {
        let Role::Proxy(proxy) = &mut self.role else { return Duration::ZERO };
        let Proxy { core, editor, router, .. } = &mut **proxy;
        let stateful = self.guard.settings().reject_state == RejectState::Stateful;
        let before = work.out.len();
        if stateful {
            let arrived = arrived(request, router);
            let sink = &mut Outgoing { from: self.id, messages: work.out };
            let step = &mut ProxyStep { now: work.now, medium: editor, router, sink };
            core.refuse(&arrived, request, ProxyRefusal(rejection.status), step);
        } else {
            let mut editor = editor;
            let refusal = editor.respond(request, rejection.status);
            work.out.extend(refusal.map(|refusal| LinkMessage::new(self.id, refusal)));
            self.ledger.charge(Operation::Reject);
        }
        for carried in &mut work.out[before..] {
            carried.sent.message.retry_after = rejection.retry_after;
        }
        self.results.rejected.add(work.now, 1.0);
        self.tell(work);
        if stateful { self.costs.reject_stateful } else { self.costs.reject }
    }

    /// Adds the host's notices to its responses to other hosts.
    fn tell(&mut self, work: &mut Work<'_>) {
        let Role::Proxy(proxy) = &self.role else { return };
        let controls = self.guard.gives_notice();
        if !controls && proxy.keeper.is_none() {
            return;
        }
        for carried in work.out.iter_mut() {
            let Sent { to, message } = &carried.sent;
            if to == &HostId::AGENTS || message.is_request() {
                continue;
            }
            if controls {
                carried.notices.overload =
                    self.guard.notice(work.now, proxy.router.path_answered(message)).map(Box::new);
            }
            carried.notices.room = proxy.keeper.as_ref().and_then(|keeper| keeper.notice(*to, message));
        }
    }

    /// Records the calls whose state was kept, before the role is replaced.
    pub(crate) fn note_kept(&mut self) {
        if let Role::Proxy(proxy) = &mut self.role
            && let Some(keeper) = &mut proxy.keeper
        {
            self.results.kept.append(&mut keeper.take_kept());
        }
    }

    /// Returns the service time of work with this cost on the base server, plus the prices of its operations.
    pub(crate) fn time_of(&mut self, cost: Duration) -> Duration {
        match &self.prices {
            _ if self.free => Duration::ZERO,
            None => cost,
            Some(prices) => {
                // Operations outside any service, such as the end of sessions, count for the next service.
                let done = self.role.ledger() + self.ledger;
                let paid = core::mem::replace(&mut self.paid, done);
                cost + prices.of(&(done - paid))
            }
        }
    }
}

/// Whether a server that fails this share of calls fails the next one. Draws only if the share is above 0.
fn draw((share, rng): &mut (f64, Rng)) -> bool {
    *share > 0.0 && rng.random::<f64>() < *share
}

fn arrived(request: &ModelMessage, router: &Router) -> Arrived {
    Arrived {
        method: request.method,
        key: request.server_key(),
        cancels: (request.method == Method::Cancel).then(|| request.cancelled_key()),
        transport: router.transport_of(request),
    }
}

fn proxied(
    now: Instant,
    proxy: &mut Proxy,
    (costs, ledger): (&Costs, &mut Ledger),
    message: &ModelMessage,
    sink: &mut Outgoing<'_>,
) -> Duration {
    let Proxy { core, editor, router, keeper, .. } = proxy;
    if let ModelStart::Response(status) = message.start {
        if keeper.is_some() && message.top().is_stateless() {
            pass_back(editor, ledger, message, sink);
        } else {
            let step = &mut ProxyStep { now, medium: editor, router, sink };
            core.response(message.client_key(), status, message, step);
        }
        return costs.message;
    }
    let arrived = arrived(message, router);
    if message.method == Method::Ack && message.to_tag != Some(HostId::AGENTS) {
        // An ACK to a failure either matches a transaction or acknowledges a stateless response, and ends here.
        let known = core.absorb(now, &arrived.key, sink);
        let own = message.to_tag == Some(sink.from);
        if !known && !own && keeper.is_some() {
            // Its INVITE was forwarded without a transaction.
            pass_on(editor, ledger, message, sink);
        }
        return if known || !own { costs.message } else { costs.reject_ack };
    }
    if !core.absorb(now, &arrived.key, sink) {
        if message.is_in_dialog() {
            ledger.charge(Operation::VerifyToken);
        }
        let mut request = *message;
        if keeper.as_mut().is_none_or(|keeper| keeper.keeps(now, &mut request)) {
            core.take(&arrived, request, &mut ProxyStep { now, medium: editor, router, sink });
        } else {
            pass_on(editor, ledger, message, sink);
        }
    }
    costs.message
}

/// Forwards a request without a transaction (RFC 3261 §16.11).
fn pass_on(mut editor: &mut Editor, ledger: &mut Ledger, request: &ModelMessage, sink: &mut dyn Sink<Sent>) {
    ledger.charge(Operation::Forward);
    let (message, _) = editor.forward(request, request.hop, None);
    sink.send(&message, Sending::First);
}

/// Forwards a response to a request without a transaction, to the next Via and whatever its status (§16.11).
fn pass_back(
    mut editor: &mut Editor,
    ledger: &mut Ledger,
    response: &ModelMessage,
    sink: &mut dyn Sink<Sent>,
) {
    if let Some(message) = editor.relay(Answered::Final(()), response) {
        ledger.charge(Operation::Forward);
        sink.send(&message, Sending::First);
    }
}
