//! The user agents: a pair for each call, without processors, so that they answer at once (Overload paper, section
//! IV-B).

use super::measure::{BinRates, StreamResults};
use super::medium::Map;
use super::message::{CallId, HostId, LinkMessage, ModelMessage, ModelStart, ModelVia, Route, Sent, Vias};
use super::sources::Source;
use crate::stats::Series;
use base::{Instant, Rng, Slab};
use config::scenario::Scenario;
use core::time::Duration;
use load::CallOutcome;
use load::user_agent::{Uac, UacAct, UacActs, UacEvent, Uas, UasAct, UasActs, UasEvent};
use std::sync::Arc;
use transaction::{
    Effects, Id, Layer, New, Sending, ServerKey, StatusClass, Timers, TransactionKind, TransactionNews,
};
use wire::Method;

/// A party of a call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum UserAgent {
    Caller,
    Callee,
}

/// Data that the agents keep with a transaction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Leg {
    call: CallId,
    user_agent: UserAgent,
    method: Method,
    /// Host of the transaction: a server, or [`HostId::AGENTS`].
    at: HostId,
}

/// A call, with the state of both parties.
#[derive(Debug)]
struct Call {
    generation: u32,
    stream: u16,
    started: Instant,
    /// Time at which the caller hung up.
    hung_up: Instant,
    answered: bool,
    caller: Uac,
    callee: Option<Uas>,
    /// Time of each party's alarm. An alarm at another time is void.
    alarms: [Instant; 2],
    /// The caller's INVITE, for a CANCEL.
    invite: Option<Id>,
    /// The callee's transaction of the INVITE, and the INVITE as received.
    incoming: Option<(Id, ModelMessage)>,
    /// Destination of the Request-URI: at first a drawn host, then the server that has the callee.
    target: HostId,
    /// Host of the callee: a server, or [`HostId::AGENTS`].
    at: HostId,
    /// The proxy that keeps the call's state, from its Record-Route.
    keeper: HostId,
    /// Route of each party's requests, next host last.
    routes: [Route; 2],
}

const NEVER: Instant = Instant::from_nanos(u64::MAX);

/// An alarm that the agents request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Alarm {
    pub(crate) at: Instant,
    pub(crate) call: u32,
    pub(crate) user_agent: UserAgent,
}

/// Output of a step of the agents.
#[derive(Default, Debug)]
pub(crate) struct Out {
    pub(crate) sent: Vec<LinkMessage>,
    pub(crate) alarms: Vec<Alarm>,
}

/// All user agents.
pub(crate) struct Agents {
    layer: Layer<Leg, Sent>,
    calls: Slab<Call>,
    sources: Vec<Source>,
    map: Arc<Map>,
    generation: u32,
    branch: u32,
}

/// Collects sent messages, and keeps the transaction's news until the layer is no longer borrowed.
struct Collect<'a> {
    sent: &'a mut Vec<LinkMessage>,
    news: Option<(Leg, TransactionNews)>,
    /// Stream of the request that a timer has retransmitted.
    resent: Option<u16>,
}

impl<'a> Collect<'a> {
    fn new(sent: &'a mut Vec<LinkMessage>) -> Self {
        Self { sent, news: None, resent: None }
    }
}

impl Effects<Leg, Sent> for Collect<'_> {
    fn send(&mut self, _: Id, leg: &Leg, message: &Sent, sending: Sending) {
        if matches!(sending, Sending::Timer(_)) && message.message.is_request() {
            self.resent = Some(message.message.stream);
        }
        self.sent.push(LinkMessage::new(leg.at, *message));
    }

    fn tell(&mut self, _: Id, leg: &mut Leg, news: TransactionNews) {
        self.news = Some((*leg, news));
    }

    fn ended(&mut self, _: Id, _: Leg) {}
}

impl Agents {
    pub(crate) fn new(scenario: &Scenario, timers: Timers, map: Arc<Map>, rng: &Rng) -> Self {
        Self {
            layer: Layer::new(timers),
            calls: Slab::default(),
            sources: scenario
                .streams
                .iter()
                .map(|stream| Source::new(stream, scenario, timers, rng))
                .collect(),
            map,
            generation: 0,
            branch: 0,
        }
    }

    /// Start time of a stream's next call.
    pub(crate) fn next_arrival(&mut self, stream: u16) -> Option<Instant> {
        self.sources[stream as usize].arrivals.next()
    }

    pub(crate) fn into_results(self) -> Vec<StreamResults> {
        self.sources.into_iter().map(|source| source.measure.results).collect()
    }

    /// Returns the rates of all streams in the bin that ends now.
    pub(crate) fn lately(&self, now: Instant, bin: Duration) -> BinRates {
        let from = Instant::ZERO + (now - Instant::ZERO).saturating_sub(bin);
        let sum = |of: fn(&StreamResults) -> &Series| {
            self.sources.iter().map(|source| of(&source.measure.results).rate(from, now)).sum()
        };
        BinRates {
            offered: sum(|stream| &stream.offered),
            answered: sum(|stream| &stream.answered[0]),
            completed: sum(|stream| &stream.completed),
        }
    }

    /// Number of calls in progress.
    pub(crate) fn calls(&self) -> usize {
        self.calls.len()
    }

    /// Number of transactions of all agents.
    pub(crate) fn transactions(&self) -> usize {
        self.layer.len()
    }

    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.layer.noticed_deadline()
    }

    /// Starts a call with an INVITE to one of the first hosts of its path.
    pub(crate) fn call(&mut self, now: Instant, stream: u16, out: &mut Out) {
        let last = self.map.paths[stream as usize].len() - 1;
        let (first, target) = (self.map.stage(stream, 0), self.map.stage(stream, last));
        let source = &mut self.sources[stream as usize];
        let (first, target) = (source.draw(first), source.draw(target));
        let target = if last == 0 { first } else { target };
        let holding = source.draw_holding();
        source.measure.offered(now);
        self.generation = self.generation.wrapping_add(1);
        let give_up = now + source.patience;
        let at = self.calls.insert(Call {
            generation: self.generation,
            stream,
            started: now,
            hung_up: now,
            answered: false,
            caller: Uac::new(holding),
            callee: None,
            alarms: [give_up, NEVER],
            invite: None,
            incoming: None,
            target,
            at: HostId::AGENTS,
            keeper: HostId::AGENTS,
            routes: [Route::none(); 2],
        });
        let call = CallId { at, generation: self.generation };
        out.alarms.push(Alarm { at: give_up, call: at, user_agent: UserAgent::Caller });
        let message = self.request(call, UserAgent::Caller, Method::Invite, None);
        self.calls[at].invite = self.send_request(now, call, UserAgent::Caller, first, message, out);
    }

    /// Host of a party of a call. Responses to its requests go there.
    fn place_of(&self, call: CallId, user_agent: UserAgent) -> HostId {
        if user_agent == UserAgent::Callee { self.calls[call.at].at } else { HostId::AGENTS }
    }

    fn request(
        &mut self,
        call: CallId,
        user_agent: UserAgent,
        method: Method,
        to_tag: Option<HostId>,
    ) -> ModelMessage {
        self.branch = self.branch.wrapping_add(1);
        let via = ModelVia::new(self.place_of(call, user_agent), self.branch);
        let Call { stream, target, keeper, ref routes, .. } = self.calls[call.at];
        let route = if to_tag.is_some() { routes[user_agent as usize] } else { Route::none() };
        ModelMessage {
            start: ModelStart::Request,
            method,
            by_callee: user_agent == UserAgent::Callee,
            to_tag,
            stage: 0,
            stream,
            retry_after: 0,
            target,
            hop: HostId::AGENTS,
            keeper: if to_tag.is_some() { keeper } else { HostId::AGENTS },
            call,
            vias: Vias::one(via),
            route,
        }
    }

    fn send_request(
        &mut self,
        now: Instant,
        call: CallId,
        user_agent: UserAgent,
        to: HostId,
        message: ModelMessage,
        out: &mut Out,
    ) -> Option<Id> {
        let kind = if message.method == Method::Invite {
            TransactionKind::Invite
        } else {
            TransactionKind::NonInvite
        };
        let at = self.place_of(call, user_agent);
        let transport = self.map.transport(at, to, message.stream);
        let user = Leg { call, user_agent, method: message.method, at };
        let new = New { key: message.client_key(), kind, transport, user };
        let mut collect = Collect::new(&mut out.sent);
        self.layer.request(now, new, Sent { to, message }, &mut collect)
    }

    /// Sends a request in the dialog.
    fn send_in_dialog(
        &mut self,
        now: Instant,
        call: CallId,
        user_agent: UserAgent,
        method: Method,
        out: &mut Out,
    ) {
        let message = self.request(call, user_agent, method, Some(HostId::AGENTS));
        let Some(&to) = message.route.last() else { return };
        if method == Method::Ack {
            out.sent.push(LinkMessage::new(HostId::AGENTS, Sent { to, message }));
        } else {
            self.send_request(now, call, user_agent, to, message, out);
        }
    }

    /// Handles a message that arrived at a server or at the agents' own host.
    pub(crate) fn handle(&mut self, now: Instant, at: HostId, message: &ModelMessage, out: &mut Out) {
        self.clear_away(now);
        match message.start {
            ModelStart::Response(status) => self.response(now, message, status, out),
            ModelStart::Request => self.incoming(now, at, message, out),
        }
    }

    /// A server fails. Of its calls only the callers' state is left, and the callers must notice by themselves. After
    /// the server's return, requests in these calls get 481, and a retransmitted INVITE is new.
    pub(crate) fn die(&mut self, server: HostId) {
        let there = self.layer.iter().filter(|(_, leg)| leg.at == server).map(|(id, _)| id);
        for id in there.collect::<Vec<_>>() {
            self.layer.forget(id);
        }
        let places = self.calls.iter().filter(|(_, call)| call.at == server).map(|(at, _)| at);
        for at in places.collect::<Vec<_>>() {
            let call = &mut self.calls[at];
            (call.callee, call.incoming, call.at) = (None, None, HostId::AGENTS);
            call.alarms[UserAgent::Callee as usize] = NEVER;
            self.settle(at);
        }
    }

    /// Ends the transactions whose time is over.
    pub(crate) fn clear_away(&mut self, now: Instant) {
        while self.layer.clear_away(now, |_, _| ()) {}
    }

    /// Whether a request is a retransmission of a known request.
    pub(crate) fn knows(&self, key: &ServerKey) -> bool {
        self.layer.find(key).is_some()
    }

    /// Refuses a new INVITE at a server, without the callee.
    pub(crate) fn refuse(
        &mut self,
        now: Instant,
        at: HostId,
        invite: &ModelMessage,
        status: u16,
        out: &mut Out,
    ) {
        self.clear_away(now);
        let Some(id) = self.accept(now, at, invite, out) else { return };
        let refusal = Sent { to: invite.top().host, message: invite.response(status, at) };
        let mut collect = Collect::new(&mut out.sent);
        self.layer.respond(now, id, StatusClass::of(status), refusal, &mut collect);
    }

    fn response(&mut self, now: Instant, message: &ModelMessage, status: u16, out: &mut Out) {
        let mut collect = Collect::new(&mut out.sent);
        self.layer.response(now, message.client_key(), StatusClass::of(status), message, &mut collect);
        let Some((leg, _)) = collect.news else { return };
        let Some(call) =
            self.calls.get_mut(leg.call.at).filter(|call| call.generation == leg.call.generation)
        else {
            return;
        };
        match (leg.user_agent, leg.method) {
            (UserAgent::Caller, Method::Invite) => {
                if (200..300).contains(&status) {
                    call.routes[0] = message.route.reversed();
                }
                let event = match status {
                    100..=199 => UacEvent::Provisional,
                    200..=299 => UacEvent::Answered,
                    _ => UacEvent::Refused(status),
                };
                self.caller(now, leg.call, event, out);
            }
            (UserAgent::Caller, Method::Bye) if status >= 200 => {
                self.caller(now, leg.call, UacEvent::ByeAnswered(status), out);
            }
            (UserAgent::Callee, Method::Bye) if status >= 200 => {
                self.callee(now, leg.call, UasEvent::Done, None, out);
            }
            _ => {}
        }
    }

    fn incoming(&mut self, now: Instant, at: HostId, message: &ModelMessage, out: &mut Out) {
        let key = message.server_key_at(at);
        let mut collect = Collect::new(&mut out.sent);
        if self.layer.received(now, &key, &mut collect).is_some() {
            return;
        }
        let call = message.call;
        let entry = self.calls.get(call.at).filter(|entry| entry.generation == call.generation);
        let lives = entry.is_some();
        // Whether the callee of the call is on this host.
        let is_home = entry.is_some_and(|entry| entry.at == at);
        if message.method == Method::Ack {
            if is_home {
                self.callee(now, call, UasEvent::Ack, None, out);
            }
            return;
        }
        let Some(id) = self.accept(now, at, message, out) else { return };
        let this = Some((id, message));
        match message.method {
            Method::Invite if lives && self.may_ring(call.at, at) => {
                self.invited(now, call, id, message, out);
            }
            // Another branch of an earlier request (RFC 3261 §8.2.2.2), or the call is over.
            Method::Invite => answer(&mut self.layer, now, this, if lives { 482 } else { 487 }, out),
            Method::Cancel => {
                if is_home && self.layer.find(&message.cancelled_key_at(at)).is_some() {
                    self.callee(now, call, UasEvent::Cancel, this, out);
                } else {
                    answer(&mut self.layer, now, this, 481, out);
                }
            }
            Method::Bye if lives && message.by_callee => {
                answer(&mut self.layer, now, this, 200, out);
                self.caller(now, call, UacEvent::Bye, out);
            }
            Method::Bye if is_home => self.callee(now, call, UasEvent::Bye, this, out),
            _ => answer(&mut self.layer, now, this, 481, out),
        }
    }

    /// Creates a server transaction for a request that is not a retransmission.
    fn accept(&mut self, now: Instant, at: HostId, request: &ModelMessage, out: &mut Out) -> Option<Id> {
        let ModelMessage { call, method, stream, .. } = *request;
        let user_agent = if request.by_callee { UserAgent::Caller } else { UserAgent::Callee };
        let kind =
            if method == Method::Invite { TransactionKind::Invite } else { TransactionKind::NonInvite };
        let transport = self.map.transport(at, request.top().host, stream);
        let user = Leg { call, user_agent, method, at };
        let new = New { key: request.server_key_at(at), kind, transport, user };
        self.layer.accept(now, new, &mut Collect::new(&mut out.sent))
    }

    /// Whether an INVITE starts ringing. It does if no server has the call, or if the previous server's answer was lost
    /// before a balancer sent the INVITE to another server. In reality both servers would ring, and one of them would
    /// get a BYE.
    fn may_ring(&self, call: u32, at: HostId) -> bool {
        let entry = &self.calls[call];
        entry.callee.is_none() || (entry.at != at && !entry.answered)
    }

    fn invited(&mut self, now: Instant, call: CallId, id: Id, invite: &ModelMessage, out: &mut Out) {
        let at = self.layer.user(id).map_or(HostId::AGENTS, |leg| leg.at);
        let entry = &mut self.calls[call.at];
        if let Some((elsewhere, _)) = entry.incoming.take() {
            self.layer.forget(elsewhere);
        }
        entry.at = at;
        entry.keeper = invite.keeper;
        self.sources[entry.stream as usize].measure.rang(now, invite.keeper == HostId::AGENTS);
        entry.routes[1] = invite.route;
        let mut invite = *invite;
        if at != HostId::AGENTS {
            entry.target = at;
            // Its Contact: the last host of the path sends requests of the call there.
            invite.route.push(at);
        }
        entry.incoming = Some((id, invite));
        entry.callee = Some(Uas::CALLED);
        self.callee(now, call, UasEvent::Invited, None, out);
    }

    fn caller(&mut self, now: Instant, call: CallId, event: UacEvent, out: &mut Out) {
        let acts = self.calls[call.at].caller.on(now, event);
        self.do_caller(now, call, acts, out);
        self.settle(call.at);
    }

    fn do_caller(&mut self, now: Instant, call: CallId, acts: UacActs, out: &mut Out) {
        for act in acts {
            let entry = &mut self.calls[call.at];
            match act {
                UacAct::Ack => {
                    let repeated = core::mem::replace(&mut entry.answered, true);
                    let (stream, started) = (entry.stream, entry.started);
                    if !repeated {
                        self.sources[stream as usize].measure.answered(now, started);
                    }
                    self.send_in_dialog(now, call, UserAgent::Caller, Method::Ack, out);
                }
                UacAct::Bye => {
                    entry.alarms[0] = NEVER;
                    entry.hung_up = now;
                    self.send_in_dialog(now, call, UserAgent::Caller, Method::Bye, out);
                }
                UacAct::Cancel => {
                    let Some(invite) = entry.invite else { continue };
                    let mut collect = Collect::new(&mut out.sent);
                    if self.layer.cancel(now, invite, &mut collect)
                        && let Some(sent) = self.layer.message(invite)
                    {
                        let Sent { to, message } = sent.sibling(Method::Cancel, None);
                        self.send_request(now, call, UserAgent::Caller, to, message, out);
                    }
                }
                UacAct::Alarm(at) => {
                    entry.alarms[0] = at;
                    out.alarms.push(Alarm { at, call: call.at, user_agent: UserAgent::Caller });
                }
                UacAct::Ended(outcome) => {
                    entry.alarms[0] = NEVER;
                    let measure = &mut self.sources[entry.stream as usize].measure;
                    measure.ended(now, outcome);
                    if matches!(outcome, CallOutcome::Completed | CallOutcome::AnsweredLate) {
                        measure.hung_up(now, entry.hung_up);
                    }
                }
            }
        }
    }

    fn callee(
        &mut self,
        now: Instant,
        call: CallId,
        event: UasEvent,
        this: Option<(Id, &ModelMessage)>,
        out: &mut Out,
    ) {
        let Call { callee, stream, .. } = &mut self.calls[call.at];
        let Some(callee) = callee else {
            return answer(&mut self.layer, now, this, 481, out);
        };
        let acts = callee.on(now, event, &self.sources[*stream as usize].plan);
        self.do_callee(now, call, acts, this, out);
        self.settle(call.at);
    }

    fn do_callee(
        &mut self,
        now: Instant,
        call: CallId,
        acts: UasActs,
        this: Option<(Id, &ModelMessage)>,
        out: &mut Out,
    ) {
        for act in acts {
            let entry = &mut self.calls[call.at];
            match act {
                UasAct::Respond(status) => {
                    let this = entry.incoming.as_ref().map(|(id, message)| (*id, message));
                    answer(&mut self.layer, now, this, status, out);
                }
                UasAct::RespondToThis(status) => answer(&mut self.layer, now, this, status, out),
                UasAct::Bye => self.send_in_dialog(now, call, UserAgent::Callee, Method::Bye, out),
                UasAct::Alarm(at) => {
                    entry.alarms[1] = at;
                    out.alarms.push(Alarm { at, call: call.at, user_agent: UserAgent::Callee });
                }
                UasAct::Established => {
                    entry.alarms[1] = NEVER;
                    let (stream, started) = (entry.stream, entry.started);
                    if !entry.caller.has_given_up() {
                        self.sources[stream as usize].measure.established(now, started);
                    }
                }
                UasAct::Ended => entry.alarms[1] = NEVER,
            }
        }
    }

    /// Removes a call that is over on both sides.
    fn settle(&mut self, at: u32) {
        let call = &self.calls[at];
        if call.caller.is_over() && call.callee.is_none_or(Uas::is_settled) {
            self.calls.remove(at);
        }
    }

    /// Handles an alarm.
    pub(crate) fn alarm(&mut self, now: Instant, call: u32, user_agent: UserAgent, out: &mut Out) {
        let Some(entry) = self.calls.get_mut(call) else { return };
        if entry.alarms[user_agent as usize] != now {
            return;
        }
        let call = CallId { at: call, generation: entry.generation };
        match user_agent {
            UserAgent::Caller => self.caller(now, call, UacEvent::Alarm, out),
            UserAgent::Callee => self.callee(now, call, UasEvent::Alarm, None, out),
        }
    }

    /// Fires the transactions' timers that are due.
    pub(crate) fn expire(&mut self, now: Instant, out: &mut Out) {
        while let Some(due) = self.layer.due(now) {
            let mut collect = Collect::new(&mut out.sent);
            self.layer.fire(now, due, &mut collect);
            if let Some(stream) = collect.resent {
                self.sources[usize::from(stream)].measure.results.resends.add(now, 1.0);
            }
            let Some((leg, TransactionNews::Timeout(_) | TransactionNews::TransportError)) = collect.news
            else {
                continue;
            };
            if self.calls.get(leg.call.at).is_none_or(|call| call.generation != leg.call.generation) {
                continue;
            }
            match (leg.user_agent, leg.method) {
                (UserAgent::Caller, Method::Invite) => {
                    self.caller(now, leg.call, UacEvent::InviteLost, out);
                }
                (UserAgent::Caller, Method::Bye) => self.caller(now, leg.call, UacEvent::ByeLost, out),
                // Not for an INVITE that another server refused.
                (UserAgent::Callee, Method::Invite | Method::Bye) if self.calls[leg.call.at].at == leg.at => {
                    self.callee(now, leg.call, UasEvent::Done, None, out);
                }
                _ => {}
            }
        }
    }
}

/// Answers a received request.
fn answer(
    layer: &mut Layer<Leg, Sent>,
    now: Instant,
    this: Option<(Id, &ModelMessage)>,
    status: u16,
    out: &mut Out,
) {
    let Some((id, request)) = this else { return };
    let message = request.response(status, HostId::AGENTS);
    let sent = Sent { to: request.top().host, message };
    layer.respond(now, id, StatusClass::of(status), sent, &mut Collect::new(&mut out.sent));
}
