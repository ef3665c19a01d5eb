//! What runs on a host, and the work that it does for a job.

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

/// What runs on a host.
pub(crate) enum Role {
    Proxy(Box<Proxy>),
    Balancer(Box<Balancer>),
    /// The agents answer here.
    Server,
    /// Others look calls up here.
    Database,
}

impl Role {
    /// What its own code counted.
    pub(crate) fn ledger(&self) -> Ledger {
        match self {
            Self::Proxy(proxy) => proxy.core.ledger(),
            Self::Balancer(balancer) => balancer.ledger,
            Self::Server | Self::Database => Ledger::default(),
        }
    }

    /// Ends the transactions whose time is over. Where that is free nobody can tell when it is done, as long as it is
    /// before the next message.
    pub(crate) fn clear_away(&mut self, now: Instant) {
        if let Self::Proxy(proxy) = self {
            while proxy.core.clear_away(now) {}
        }
    }
}

/// A proxy, with what it knows of messages and of the way.
pub(crate) struct Proxy {
    pub(crate) core: proxy::Proxy<Typed>,
    pub(crate) editor: Editor,
    pub(crate) router: Router,
    /// `None` where the state of every call is kept.
    pub(crate) keeper: Option<Keeper>,
    /// Of one that works as a running server: it judges calls when their turn comes, by how long they have waited.
    pub(crate) gate: Option<Gate>,
}

impl Proxy {
    /// Does what a timer asks for.
    pub(crate) fn fire(&mut self, now: Instant, fire: Fire, sink: &mut Outgoing<'_>) {
        let Self { core, editor, router, .. } = self;
        core.fire(fire, &mut ProxyStep { now, medium: editor, router, sink });
    }
}

/// What runs on a host, without the processor and the queue.
pub(crate) struct Element {
    pub(crate) id: HostId,
    pub(crate) role: Role,
    pub(crate) guard: Guard<HostId>,
    /// Whether a repeated INVITE is told from a new one before it can be rejected.
    pub(crate) looks_up: bool,
    pub(crate) costs: Costs,
    pub(crate) prices: Option<Prices>,
    /// What was done, but for what the role at hand counts itself.
    pub(crate) ledger: Ledger,
    /// What of that has taken time already.
    pub(crate) paid: Ledger,
    /// Whether its work takes no time.
    pub(crate) free: bool,
    /// Share of new calls that it answers with 500, and what decides which.
    pub(crate) failing: (f64, Rng),
    pub(crate) results: HostResults,
}

/// Collects what a host sends.
pub(crate) struct Outgoing<'a> {
    pub(crate) from: HostId,
    pub(crate) messages: &'a mut Vec<LinkMessage>,
}

impl Sink<Sent> for Outgoing<'_> {
    fn send(&mut self, message: &Sent, _: Sending) {
        self.messages.push(LinkMessage::new(self.from, *message));
    }
}

/// The surroundings of the work of a job, which is done at the start of its service.
pub(crate) struct Work<'a> {
    pub(crate) now: Instant,
    pub(crate) agents: &'a mut Agents,
    pub(crate) alarms: &'a mut Vec<Alarm>,
    /// What is sent when the service is over.
    pub(crate) out: &'a mut Vec<LinkMessage>,
}

impl Element {
    /// Fires it.
    pub(crate) fn timer(&mut self, work: &mut Work<'_>, fire: Fire) -> Duration {
        if let Role::Proxy(proxy) = &mut self.role {
            proxy.fire(work.now, fire, &mut Outgoing { from: self.id, messages: work.out });
        }
        self.tell(work);
        if fire.is_cleanup() { self.costs.cleanup } else { self.costs.timer }
    }

    /// Whether it judges new calls when their turn comes, as a running server does.
    pub(crate) fn has_gate(&self) -> bool {
        matches!(&self.role, Role::Proxy(proxy) if proxy.gate.is_some())
    }

    /// Whether its guard decides by what waits in its queue.
    pub(crate) fn has_watched_queue(&self) -> bool {
        !self.guard.is_off() && !self.has_gate()
    }

    /// Handles it, and says what that costs on the base server. It has waited so long.
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
                    // Two copies waited, and each was new when it came: this one is no second request.
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
                    // TLWL paper, section IV: it creates the session, which the INVITE's work has in it.
                    (ModelStart::Request, Method::Ack) => 0.0,
                    (ModelStart::Request, Method::Invite) => costs.invite_work,
                    _ => 1.0,
                };
                costs.server_request().mul_f64(if is_repeat { share * costs.repeat_work } else { share })
            }
            // No messages go there.
            Role::Database => Duration::ZERO,
        }
    }

    /// Answers a probe (RFC 3261 §11.2), at the price of any request.
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

    /// Lets responses to other hosts say what the host wants to be sent.
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

    /// Remembers whose state was kept, before what runs here is replaced.
    pub(crate) fn note_kept(&mut self) {
        if let Role::Proxy(proxy) = &mut self.role
            && let Some(keeper) = &mut proxy.keeper
        {
            self.results.kept.append(&mut keeper.take_kept());
        }
    }

    /// How long work takes on the base server that costs this much, and what its operations cost.
    pub(crate) fn time_of(&mut self, cost: Duration) -> Duration {
        match &self.prices {
            _ if self.free => Duration::ZERO,
            None => cost,
            Some(prices) => {
                // What was done outside of any service, such as ending sessions, falls to the next one.
                let done = self.role.ledger() + self.ledger;
                let paid = core::mem::replace(&mut self.paid, done);
                cost + prices.of(&(done - paid))
            }
        }
    }
}

/// Whether the next call of a server that fails this share of them is one that it fails. Draws only where some are.
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
        // To a failure: it finds its transaction, or it is for an answer that left none, and ends here.
        let known = core.absorb(now, &arrived.key, sink);
        let own = message.to_tag == Some(sink.from);
        if !known && !own && keeper.is_some() {
            // Its INVITE was forwarded without one.
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

/// Forwards a response to such a request: it goes where the next Via leads, whatever it says (§16.11).
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
