//! The transactions of a shard: [`proxy::Proxy`] on live bytes.

use super::budgets::Budgets;
use super::dialogs::{DialogSettings, Dialogs};
use super::editor::quoted_key;
use super::form::{Assigner, Editor, Notes, Out, UNVERIFIED_REPEATS, Wire};
use super::limits::{ProxyLimits, ProxySettings, RESERVED_CALLS, with_reserve};
use super::received::Received;
use super::report::ProxyReport;
use super::targets::{Source, Targets, UriTarget};
use crate::address::target::Target;
use crate::admission::Ticket;
use crate::forward::onward::RecordRoute;
use crate::message::validate::check_form;
use crate::outcome::counters::Drop;
use crate::outcome::event::ShardEvent;
use crate::outcome::pause::Pause;
use crate::outcome::rejection::{OwnResponse, Rejection};
use crate::site::Site;
use crate::site::allowance::allowance;
use crate::site::leave::over_udp;
use crate::site::marks::{hear_load, hear_notice};
use crate::site::record::is_unrecorded;
use crate::site::reply::{longest, note_response, reject};
use crate::site::routes::Routes;
use crate::step::Step;
use crate::token::branch::peek_ingress;
use ::dialog::{CallEvent, CallRecord, Calls, Cause, DialogEnds, DialogSide, HangUp};
use ::proxy::{Arrived, Proxy, ProxyEvent, ProxyStep};
use balance::{CallKey, Members, Response, Slot, Tags};
use base::{Flow, Instant, Ledger, Outbox, Recent};
use std::sync::Arc;
use transaction::{Keys, Packet, ServerKey, TransactionKey};
use wire::{Message, Method};

/// Forwards to members of pools with a transaction for each request (RFC 3261 §16).
///
/// A request within a dialog goes only to the dialog's member, without a transaction. In a proxy's dialog it goes to
/// the remote target that the token in the Record-Route proves: [`Dialogs`](route::Dialogs).
pub(crate) struct Stateful {
    pub(super) proxy: Proxy<Wire>,
    pub(super) keys: Keys,
    /// Flows to the members of all pools, by slot.
    members: Vec<Flow>,
    /// Next hops that requests within dialogs may name.
    pub(super) hops: Members,
    budgets: Budgets,
    pub(super) notes: Notes,
    pub(super) limits: ProxyLimits,
    /// Number of requests that each call has started from the reserve, with the time of the first.
    pub(super) reserved: Recent<CallKey, (Instant, u8)>,
    /// Whether there may be dialogs: a pool keeps or kept transactions, a pool has or had next hops, or there is a
    /// registrar.
    has_pool: bool,
    /// Next hops whose calls the balancer remembers.
    pub(super) counted: Members,
    /// Calls with kept dialogs; `None` if no pool keeps them.
    pub(super) dialogs: Option<Box<Dialogs>>,
}

impl Stateful {
    /// Creates the proxy without members. `keys` and `serial` are random values that only this shard of this process
    /// has.
    pub(crate) fn new(settings: ProxySettings, keys: Keys, serial: u64) -> Self {
        let mut proxy = Proxy::new(settings.timers, serial);
        proxy.limit_branches(settings.limits.branches);
        Self {
            proxy,
            keys,
            members: Vec::new(),
            hops: Members::All,
            budgets: Budgets::default(),
            notes: Notes::default(),
            limits: settings.limits,
            reserved: Recent::new(RESERVED_CALLS),
            has_pool: false,
            counted: Members::of([]),
            dialogs: None,
        }
    }

    /// Sets the memory limit. Must be called first in each step.
    pub(crate) fn limit_memory(&mut self) {
        self.proxy.limit_memory(with_reserve(self.limits.memory));
    }

    pub(crate) fn expire(&mut self, step: &mut Step<'_>) {
        self.drive(step, Proxy::expire);
        if let Some(dialogs) = &mut self.dialogs {
            dialogs.expire(step.site.now);
            self.tell_calls(step);
        }
    }

    pub(crate) fn deadline(&self) -> Option<Instant> {
        let dialogs = self.dialogs.as_ref().and_then(|dialogs| dialogs.deadline());
        Instant::earliest(self.proxy.deadline(), dialogs)
    }

    /// Runs an action of the proxy's core.
    fn drive<T>(
        &mut self,
        step: &mut Step<'_>,
        act: impl FnOnce(&mut Proxy<Wire>, &mut ProxyStep<'_, Wire>) -> T,
    ) -> T {
        self.drive_with(step, None, act)
    }

    /// Runs an action of the proxy's core on the current request.
    fn drive_with<T>(
        &mut self,
        Step { site, balancer, queues, out, .. }: &mut Step<'_>,
        in_hand: Option<&Message<'_>>,
        act: impl FnOnce(&mut Proxy<Wire>, &mut ProxyStep<'_, Wire>) -> T,
    ) -> T {
        let Self { proxy, keys, members, budgets, notes, dialogs, .. } = self;
        let now = site.now;
        let medium = Editor { site, keys, notes, dialogs: dialogs.as_deref_mut(), in_hand };
        let router = Assigner { now, balancer, queues: queues.as_deref_mut(), members, budgets };
        act(proxy, &mut ProxyStep { now, medium, router, sink: &mut Out(out) })
    }

    /// Reports the failed requests of a step.
    pub(crate) fn tell(&mut self, out: &mut Outbox<ShardEvent>) {
        for failure in self.notes.failures.drain(..) {
            out.event(ShardEvent::Failed(Box::new(failure)));
        }
    }

    /// Reports the results of calls. Their records must be written before the messages of the same step leave.
    pub(crate) fn tell_calls(&mut self, step: &mut Step<'_>) {
        while let Some(event) = self.dialogs.as_mut().and_then(|dialogs| dialogs.next_event()) {
            match event {
                CallEvent::Record(record) => {
                    tell_load(step, &record);
                    step.out.event(ShardEvent::Record(record));
                }
                CallEvent::HangUp(hang_up) => {
                    for to in [DialogSide::Caller, DialogSide::Callee] {
                        self.hang_up(step, &hang_up, to);
                    }
                }
            }
        }
    }

    /// Sends a BYE of this proxy to a side of a dialog, to the target of the dialog's requests. Sends none if the
    /// target is unknown.
    fn hang_up(&mut self, step: &mut Step<'_>, hang_up: &HangUp, to: DialogSide) {
        let (site, of) = (&mut *step.site, DialogEnds::index(to));
        let route = wire::NameAddr::parse(&hang_up.ends.routes[of]).map(|route| route.uri);
        let uri = route.unwrap_or(&hang_up.ends.contacts[of]);
        let call = site.tokens.call_key(&hang_up.call_id);
        let hop = match hang_up.ends.flows[of] {
            Some(flow) => Ok(flow),
            None => site.names.next_hop(site.now, Target::of(uri), call, &site.topology, 0, step.out),
        };
        let Ok(hop) = hop else { return };
        self.drive(step, |proxy, step| {
            proxy.originate((hop.transport.into(), UNVERIFIED_REPEATS), step, |editor, serial| {
                editor.bye(hang_up, to, hop, serial)
            });
        });
    }

    /// Handles an ICMP error about a datagram to this address that began with `quoted` (RFC 3261 §16.9), or a lost
    /// connection. Only the receiver of the datagram can know the branch in `quoted`, so no other host can forge such
    /// an error.
    pub(crate) fn unreachable(&mut self, step: &mut Step<'_>, to: Flow, quoted: &[u8]) {
        let event_of = |packet: &Packet| {
            let is_clients = packet.flow.connection.is_some();
            let event = if is_clients { ProxyEvent::FlowFailed } else { ProxyEvent::Unreachable };
            packet.flow.meets(to).then_some(event)
        };
        if quoted.is_empty() && to.transport.is_reliable() {
            self.drive(step, |proxy, step| proxy.connection_lost(event_of, step));
        } else if let Some(key) = quoted_key(&self.keys, quoted) {
            self.drive(step, |proxy, step| proxy.unreachable(key, event_of, step));
        }
        self.tell(step.out);
    }

    /// Sends a request over UDP that used TCP because of its length (RFC 3261 §18.1.1) and whose connection was lost.
    /// `quoted` is the beginning of the request. Returns whether it was sent.
    pub(crate) fn send_over_udp(&mut self, step: &mut Step<'_>, lost: Flow, quoted: &[u8]) -> bool {
        let Step { site, out, .. } = step;
        let Some(key) = quoted_key(&self.keys, quoted) else { return false };
        let now = site.now;
        let otherwise = |packet: &Packet| {
            if !packet.flow.meets(lost) {
                return None;
            }
            let (bytes, way) = over_udp(site, packet.flow, &packet.bytes.whole())?;
            Some((Packet::new(bytes, way), way.transport.into()))
        };
        self.proxy.send_otherwise(now, key, otherwise, &mut Out(out))
    }

    /// Returns whether a message belongs to a transaction unknown to this shard: a response, or an ICMP error about its
    /// request ([`Self::unreachable`]).
    pub(crate) fn is_stray(&self, bytes: &[u8]) -> bool {
        let key = match wire::scan(bytes) {
            Ok(message) if message.status().is_some() => {
                let is_proxys = message.top_via().branch.and_then(peek_ingress).is_some();
                self.keys.response(&message).filter(|_| is_proxys)
            }
            _ => quoted_key(&self.keys, bytes),
        };
        key.is_some_and(|key| !self.proxy.expects(key))
    }

    /// Returns the calls of the transactions. A call with several transactions occurs several times.
    pub(crate) fn calls(&self, site: &Site) -> impl Iterator<Item = CallKey> {
        let mut text = Vec::new();
        let answered = self.proxy.messages().filter_map(move |packet| {
            text.clear();
            packet.bytes.write(&mut text);
            wire::peek_call_id(&text).map(|call_id| site.tokens.call_key(call_id))
        });
        let kept = self.dialogs.iter().flat_map(|dialogs| dialogs.call_ids());
        let kept = kept.map(|call_id| site.tokens.call_key(call_id));
        self.proxy.calls().chain(answered).chain(kept)
    }

    /// Returns the calls whose dialogs are kept.
    pub(crate) fn kept_calls(&self) -> Option<&Calls> {
        self.dialogs.as_ref().map(|dialogs| dialogs.calls())
    }

    /// Ends the kept calls with this Call-ID. Returns the number of ended dialogs.
    pub(crate) fn hang_up_call(&mut self, now: Instant, call_id: &[u8]) -> usize {
        self.dialogs.as_mut().map_or(0, |dialogs| dialogs.hang_up_call(now, call_id))
    }

    /// Sets the flows to the members of all pools, by slot.
    pub(crate) fn set_members(&mut self, members: &[Flow]) {
        self.members = members.to_vec();
    }

    /// Returns the flow to a member.
    pub(crate) fn member(&self, slot: Slot) -> Option<Flow> {
        self.members.get(slot.index()).copied()
    }

    /// Sets how requests are forwarded to the pools. `has_pool`: a pool has transactions or next hops. Requests within
    /// dialogs may name `hops`. The balancer remembers the calls of `counted`.
    pub(crate) fn set_pools(&mut self, has_pool: bool, hops: Members, counted: Members) {
        self.has_pool |= has_pool;
        (self.hops, self.counted) = (hops, counted);
    }

    /// Records whether there is a registrar (`is_there`), to whose users requests are forwarded with transactions.
    pub(crate) fn serve_users(&mut self, is_there: bool) {
        self.has_pool |= is_there;
    }

    /// Sets the settings of kept dialogs; `shards` share them. Existing calls are kept.
    pub(crate) fn set_dialogs(&mut self, settings: &DialogSettings, shards: usize) {
        self.dialogs.get_or_insert_default().configure(settings, shards);
    }

    /// Sets the retry budgets of the rules; `shards` share them.
    pub(crate) fn set_routes(&mut self, routes: &Arc<Routes>, shards: usize) {
        self.budgets.configure(routes, shards);
    }

    pub(crate) fn set_limits(&mut self, limits: ProxyLimits) {
        self.limits = limits;
        self.proxy.limit_branches(limits.branches);
    }

    pub(crate) fn counters(&self) -> &::proxy::ProxyCounters {
        self.proxy.counters()
    }

    pub(crate) fn ledger(&self) -> Ledger {
        self.proxy.ledger()
    }

    /// Returns whether a message may belong to a transaction or dialog here.
    pub(crate) fn is_in_use(&self) -> bool {
        self.has_pool
    }

    /// Handles a message that belongs to a transaction: a response, a retransmission, the ACK to a failure, or a
    /// CANCEL. Only elements that received a branch know it. Returns whether the message belongs to a transaction.
    pub(crate) fn takes(
        &mut self,
        step: &mut Step<'_>,
        flow: Flow,
        message: &Message<'_>,
        key: Option<ServerKey>,
    ) -> bool {
        if let Some(status) = message.status() {
            let key = self.keys.response(message).filter(|&key| self.proxy.expects(key));
            if let Some(key) = key {
                self.notes.source = flow;
                self.response(step, key, status, message);
            }
            return key.is_some();
        }
        let key = key.unwrap_or_else(|| self.keys.request(message));
        if message.fault().is_none() && self.proxy.absorb(step.site.now, &key, &mut Out(step.out)) {
            return true;
        }
        if message.method() != Some(Method::Cancel) {
            return false;
        }
        let cancelled = self.keys.cancelled(message);
        if !self.proxy.knows(&cancelled) {
            return false;
        }
        // If the CANCEL is refused, it has no effect.
        if let Err(refused) = check_form(message) {
            step.reject(flow, message, None, refused.into());
            return true;
        }
        let noted = self.proxy.received(&cancelled);
        if let Some(noted) = noted.and_then(Received::noted) {
            step.balancer.cancelled(step.site.now, noted);
        }
        let tracked = noted.and_then(|request| request.tracked.as_ref());
        if let (Some(tracked), Some(dialogs)) = (tracked, &mut self.dialogs) {
            dialogs.cancelled(tracked.call(), message);
        }
        // The CANCEL itself is not forwarded and has no ticket. The proxy's core makes a new CANCEL from the forwarded
        // INVITE.
        let target = UriTarget::new(flow, false);
        let call = step.site.tokens.call_key(message.call_id());
        let received = Received::new(step.site, call, flow, message, Targets::new(Source::Uri(target)));
        self.receive(step, message, Some(key), received);
        true
    }

    /// Forwards a request that belongs to no transaction, with a new transaction.
    pub(super) fn forward(
        &mut self,
        step: &mut Step<'_>,
        message: &Message<'_>,
        key: Option<ServerKey>,
        received: Received,
        ticket: Ticket,
    ) {
        received.ticket.set(Some(ticket));
        self.receive(step, message, key, received);
    }

    fn receive(
        &mut self,
        step: &mut Step<'_>,
        message: &Message<'_>,
        key: Option<ServerKey>,
        received: Received,
    ) {
        self.notes.source = received.flow;
        let method = message.method().unwrap_or(Method::Other);
        let cancels = (method == Method::Cancel).then(|| self.keys.cancelled(message));
        let key = key.unwrap_or_else(|| self.keys.request(message));
        let transport = received.flow.transport.into();
        let arrived = Arrived { method, key, cancels, transport };
        self.drive_with(step, Some(message), |proxy, step| proxy.take(&arrived, received, step));
    }

    /// Answers a request that got a 100 while it waited. The request has no transaction yet.
    pub(crate) fn answer_waiter(
        &mut self,
        step: &mut Step<'_>,
        flow: Flow,
        message: &Message<'_>,
        own: OwnResponse<'static>,
    ) {
        let mut answered = Outbox::default();
        reject(step.site, flow, message, None, Rejection::Answered(own), &mut answered);
        let method = message.method().unwrap_or(Method::Other);
        let (key, transport) = (self.keys.request(message), flow.transport.into());
        let arrived = Arrived { method, key, cancels: None, transport };
        for transmit in answered.transmits() {
            let bytes = answered.message(transmit);
            let length = message.bytes().len();
            let allowance = allowance(step.site, flow, transmit.flow, false, length);
            // Maximum bytes of the 100.
            let provisional = allowance.most_of_trying(longest(length));
            let repeats = allowance.repeats(provisional, bytes.len());
            let packet = Packet { repeats, ..Packet::new(bytes, transmit.flow) };
            self.drive(step, |proxy, step| proxy.answer_with(&arrived, own.status(), packet, step));
        }
    }

    /// Returns the number of requests with a ticket.
    pub(crate) fn tickets(&self) -> usize {
        self.proxy.requests().filter(|request| request.holds_ticket()).count()
    }

    /// Returns the number of requests without a final response.
    pub(crate) fn unanswered(&self) -> usize {
        self.proxy.unanswered()
    }

    pub(crate) fn report(&self) -> ProxyReport {
        ProxyReport {
            transactions: self.proxy.transactions(),
            unanswered: self.proxy.unanswered(),
            memory: self.proxy.memory(),
            limits: self.limits,
            counters: *self.proxy.counters(),
            sharing: None,
            calls: self.dialogs.as_ref().map(|dialogs| dialogs.counts()),
        }
    }

    /// RFC 3261 §16.7. Drops a response whose topmost Via has another sent-by (§18.1.2).
    fn response(&mut self, step: &mut Step<'_>, key: TransactionKey, status: u16, message: &Message<'_>) {
        if !step.site.topology.ports.wrote(message.top_via()) {
            return step.site.discard(Drop::ForeignResponse);
        }
        if (200..300).contains(&status)
            && message.cseq().method == Method::Bye
            && let Some(dialogs) = &mut self.dialogs
            && matches!(self.proxy.sent(key), Some((_, None)))
        {
            dialogs.took_our_bye(step.site, message);
        }
        self.drive(step, |proxy, step| proxy.decide(key, status, step));
        self.note(step, key, status, message);
        hear_notice(step.site, message, self.notes.source.peer);
        hear_load(step.site, message, self.notes.source, step.out);
        self.drive(step, |proxy, step| proxy.response(key, status, message, step));
        note_response(step.site, message);
        if let Some(name) = self.notes.look_up.take() {
            step.site.names.prepare(step.site.now, name.named(), step.out);
        }
    }

    /// Reports a response to the balancer, before another member may be tried.
    fn note(
        &self,
        Step { site, balancer, queues, out, .. }: &mut Step<'_>,
        key: TransactionKey,
        status: u16,
        message: &Message<'_>,
    ) {
        let Some((sent, request)) = self.proxy.sent(key) else { return };
        let slot = site.topology.slot_toward(sent.flow.remote());
        if let Some(slot) = slot {
            if let Some(queues) = queues {
                queues.answers(site.now, slot);
            }
            balancer.answered(site.now, slot);
            balancer.count_response(slot, status);
            // Elements behind the next hop have seen the branch as well. A 503 from one of them says nothing about the
            // next hop.
            let is_its_own = self.notes.source.remote() == sent.flow.remote();
            if let Some(rest) = Pause::asked_by(message).filter(|_| is_its_own) {
                balancer.pause(site.now, slot, site.now + rest.length, rest.asked);
            }
        }
        if !site.has_reported_unrecorded
            && is_unrecorded(message)
            && request.is_some_and(Received::begins_recorded)
        {
            site.has_reported_unrecorded = true;
            out.event(ShardEvent::NoRecordRoute(sent.flow.peer));
        }
        let request = request.filter(|request| request.targets.counts_with(slot));
        if let Some(noted) = request.and_then(Received::noted) {
            let response = Response {
                key: noted.key,
                method: noted.method,
                cseq: noted.cseq,
                status,
                direction: noted.direction,
                branch: noted.branch,
                tags: site.tokens.tags(message),
            };
            balancer.response(site.now, &response);
            let is_call = noted.method == Method::Invite && (200..300).contains(&status);
            // Further requests of the dialog do not pass this proxy.
            if is_call && request.is_some_and(|request| request.stay() == RecordRoute::No) {
                balancer.end_dialog(site.now, noted.key, response.tags);
            }
        }
    }
}

/// Reports to the balancer that a call ended without an accepted BYE. The load of the call is removed from its member,
/// and added again if the call turns out to continue.
fn tell_load(step: &mut Step<'_>, record: &CallRecord) {
    let (Some(cause), Some(accepted)) = (record.cause, &record.accepted) else { return };
    if cause == Cause::Bye && (200..300).contains(&record.bye_status) || step.balancer.is_idle() {
        return;
    }
    let (about, tokens, now) = (&record.about, &step.site.tokens, step.site.now);
    let hash = |tag: &[u8]| tokens.tag_hash(Some(tag).filter(|tag| !tag.is_empty()));
    let tags = Tags { from: hash(about.tag()), to: hash(&accepted.tag) };
    let call = tokens.call_key(about.call_id());
    match cause {
        Cause::Reopened => step.balancer.resume_dialog(now, call, tags),
        _ => step.balancer.end_dialog(now, call, tags),
    }
}
