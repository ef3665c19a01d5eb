use super::medium::{HopFailure, Live, Out, Received, Refresh, Way, quoted_key};
use crate::failure::{Cause, Failure};
use crate::names::{Name, Names, Resolved};
use crate::reply::{self, Halt, Own, acknowledges_us};
use crate::route::{RouteInfo, Target};
use crate::targets::{Refreshed, Side, refreshes_target};
use crate::token::branch::Routing;
use crate::token::route::{Element, Held};
use crate::validate::{
    Refused, check_extensions, check_form, check_from_tag, check_loop, check_secure, refused, refused_until,
};
use crate::{Counters, Drop, Event, Input, Settings, Tokens, Topology};
use ::proxy::{Arrived, Proxy};
use balance::{CallKey, Direction};
use base::{Flow, Instant, Ledger, Operation, Outbox, Recent};
use core::time::Duration;
use std::net::SocketAddr;
use std::sync::Arc;
use transaction::{Keys, Packet};
use wire::{Message, Method, SipUri};

/// How a shard of the proxy behaves, beyond [`Settings`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ProxySettings {
    /// Timers of the transactions, and Timer C.
    pub core: ::proxy::Settings,
    /// What it may hold; beyond it what is new is refused.
    pub limits: ProxyLimits,
}

/// What a shard of the proxy may hold.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ProxyLimits {
    /// Most transactions at a time.
    pub transactions: usize,
    /// Most bytes of memory for transactions and their messages.
    pub memory: usize,
}

/// Of the limits, what is kept beyond them for requests within dialogs, so that calls can end.
const RESERVE: usize = 4;

fn with_reserve(limit: usize) -> usize {
    limit.saturating_add(limit / RESERVE)
}

/// A request may have this part of the memory that is left. So long requests are refused while there is room for many short
/// ones: whoever floods the proxy with long ones does not shut out calls of the usual length.
const LONGEST_PART: usize = 256;

/// Where a request of this length finds no room, the proxy is full. Most are shorter: RFC 3261 §18.1.1 has longer ones go by
/// another transport where nothing is known of the path's MTU.
const USUAL_LENGTH: usize = 1_300;

/// RFC 3261 §21.5.4. A third of the time that ended transactions are kept for: many have gone by then.
const FULL: Refused = Refused { retry_after: Some(10), ..refused(503, "Too Many Transactions") };

/// Without Retry-After, which would keep the previous hop from sending short requests as well (RFC 3261 §21.5.4).
const TOO_LONG: Refused = refused(503, "Too Long For The Memory Left");

/// Of the reserve, how many requests a call may begin within [`RESERVED_FOR`], or who has one call could fill it: enough for
/// the BYE, a change of the media before it, and a repetition of each elsewhere.
const RESERVED: u8 = 4;

/// As long as a transaction lasts that was answered at once.
const RESERVED_FOR: Duration = Duration::from_secs(32);

/// Calls that the reserve is counted for. To have them forgotten takes as many other calls.
const RESERVED_CALLS: usize = 65_536;

/// What a shard of the proxy has to do and did.
#[derive(Clone, Debug, Default)]
pub struct ProxyReport {
    /// Transactions there are.
    pub transactions: usize,
    /// Requests without a final response.
    pub unanswered: usize,
    /// Bytes of memory that they and their messages take.
    pub memory: usize,
    /// Most of both at a time.
    pub limits: ProxyLimits,
    /// What it did.
    pub counters: ::proxy::Counters,
    /// Next hops, and whether they rest because they have failed.
    pub hops: Vec<(SocketAddr, bool)>,
}

impl ProxyReport {
    /// Adds what another shard has and did.
    pub fn merge(&mut self, other: &Self) {
        self.transactions += other.transactions;
        self.unanswered += other.unanswered;
        self.memory += other.memory;
        self.limits.transactions += other.limits.transactions;
        self.limits.memory += other.limits.memory;
        self.counters.merge(&other.counters);
        for &(address, rests) in &other.hops {
            match self.hops.iter_mut().find(|hop| hop.0 == address) {
                Some(hop) => hop.1 |= rests,
                None => self.hops.push((address, rests)),
            }
        }
    }
}

/// One shard of a transaction-stateful, record-routing proxy (RFC 3261 §16) with static next hops.
///
/// A request goes to the next hops, but for one in a dialog that came this way, as the token in our Record-Route proves:
/// that goes where the other party of the dialog wants to be reached, and nowhere else.
///
/// - Setting up: [`new`](Self::new), [`set_hops`](Self::set_hops), [`set_topology`](Self::set_topology),
///   [`set_settings`](Self::set_settings), [`set_limits`](Self::set_limits), [`set_tokens`](Self::set_tokens).
/// - Running: [`handle`](Self::handle), [`unreachable`](Self::unreachable), [`learn`](Self::learn),
///   [`deadline`](Self::deadline).
/// - Looking: [`report`](Self::report), [`counters`](Self::counters), [`ledger`](Self::ledger).
pub struct ProxyShard {
    proxy: Proxy<Live>,
    live: Live,
    settings: Settings,
    limits: ProxyLimits,
    names: Names,
    counters: Counters,
    ledger: Ledger,
    /// How many requests calls have begun out of the reserve, and since when.
    reserved: Recent<CallKey, (Instant, u8)>,
    /// What the message in work failed of.
    failure: Option<Cause>,
}

impl ProxyShard {
    /// A shard without next hops. `secret` and `serial` are random, of this process and shard alone.
    pub fn new(
        topology: Arc<Topology>,
        tokens: Tokens,
        settings: Settings,
        proxy: ProxySettings,
        (secret, serial): ([u8; 16], u64),
    ) -> Self {
        Self {
            proxy: Proxy::new(proxy.core, serial),
            live: Live::new(topology, tokens, Keys::new(secret)),
            settings,
            limits: proxy.limits,
            names: Names::default(),
            counters: Counters::default(),
            ledger: Ledger::default(),
            reserved: Recent::new(RESERVED_CALLS),
            failure: None,
        }
    }

    /// One bounded step; all its effects are in `out` when it returns.
    pub fn handle(&mut self, now: Instant, input: Input<'_>, out: &mut Outbox<Event>) {
        self.set_now(now);
        match input {
            Input::Message { flow, bytes } => self.message(now, flow, bytes, out),
            Input::Timer => self.proxy.expire(now, &mut self.live, &mut Out(out)),
        }
        self.tell(out);
    }

    /// What the medium has to tell.
    fn tell(&mut self, out: &mut Outbox<Event>) {
        for failure in self.live.failures.drain(..) {
            out.event(Event::Failed(Box::new(failure)));
        }
        for failure in self.live.hop_failures.drain(..) {
            out.event(Event::HopFailed(failure));
        }
    }

    /// ICMP says that a datagram to this address, which began with `quoted`, did not arrive (RFC 3261 §16.9). Only who got
    /// it can know the branch in it, and it went to this address: he can say of himself alone that he is not there.
    pub fn unreachable(&mut self, now: Instant, to: SocketAddr, quoted: &[u8], out: &mut Outbox<Event>) {
        self.set_now(now);
        let Some(key) = quoted_key(&self.live.keys, quoted) else { return };
        let went_there = |packet: &Packet| {
            let peer = packet.flow.peer;
            (peer.ip(), peer.port()) == (to.ip(), to.port())
        };
        if self.proxy.unreachable(now, key, went_there, &mut self.live, &mut Out(out)) {
            self.live.rest(to, true);
        }
        self.tell(out);
    }

    /// Whether what comes is a response to a request of this shard, or an ICMP error about one ([`Self::unreachable`]).
    pub fn expects(&self, bytes: &[u8]) -> bool {
        let key = match wire::scan(bytes) {
            Ok(message) if message.status().is_some() => self.live.keys.response(&message),
            _ => quoted_key(&self.live.keys, bytes),
        };
        key.is_some_and(|key| self.proxy.expects(key))
    }

    /// The calls of the transactions, some more than once.
    pub fn calls(&self) -> impl Iterator<Item = CallKey> {
        let mut text = Vec::new();
        let answered = self.proxy.messages().filter_map(move |packet| {
            text.clear();
            packet.bytes.write(&mut text);
            wire::peek_call_id(&text).map(|call_id| self.live.tokens.call_key(call_id))
        });
        self.proxy.calls().chain(answered)
    }

    /// Another shard has told that this next hop is to be asked last until then ([`Event::HopFailed`]).
    pub fn rest_hop(&mut self, failure: &HopFailure) {
        self.live.rest_as_told(failure.hop, failure.until);
    }

    fn set_now(&mut self, now: Instant) {
        self.live.now = now;
        self.live.unix = self.settings.unix(now);
        self.live.tell_failures = self.settings.tell_failures;
        self.proxy.limit_memory(with_reserve(self.limits.memory));
    }

    fn message(&mut self, now: Instant, flow: Flow, bytes: &[u8], out: &mut Outbox<Event>) {
        self.ledger.charge(Operation::Scan);
        self.live.source = flow.peer;
        let scanned = wire::scan(bytes);
        match &scanned {
            Err(discard) => self.discard(Drop::Unreadable(*discard)),
            Ok(message) if message.status().is_some() => self.response(now, message, out),
            Ok(message) => self.request(now, flow, message, out),
        }
        if let Some(cause) = self.failure.take() {
            out.event(Event::Failed(Box::new(Failure::new(scanned.as_ref().ok(), flow.peer, cause))));
        }
    }

    /// RFC 3261 §16.7. What answers nothing of ours is dropped (RFC 6026 §8.9), as is what has another sent-by than ours
    /// in its topmost Via (§18.1.2).
    fn response(&mut self, now: Instant, message: &Message<'_>, out: &mut Outbox<Event>) {
        self.counters.responses += 1;
        let Some(status) = message.status() else { return };
        let is_ours = self.live.topology.is_our_via(message.top_via());
        match self.live.keys.response(message).filter(|_| is_ours) {
            None => self.discard(Drop::ForeignResponse),
            Some(key) => {
                self.proxy.response(now, key, status, message, &mut self.live, &mut Out(out));
                if let Some(cause) = Cause::of_response(message) {
                    self.failed(cause);
                }
            }
        }
        if let Some((host, port)) = self.live.look_up.take() {
            self.names.prepare(now, (&host, port), out);
        }
    }

    fn request(&mut self, now: Instant, flow: Flow, message: &Message<'_>, out: &mut Outbox<Event>) {
        self.counters.requests += 1;
        let key = self.live.keys.request(message);
        if message.fault().is_none() && self.proxy.absorb(now, &key, &mut Out(out)) {
            return;
        }
        if acknowledges_us(&self.live.tokens, message) {
            return self.discard(Drop::Ack);
        }
        // What is that short begins no transaction, which would answer again and again.
        if message.bytes().len() < reply::ANSWERED_MIN && message.method() != Some(Method::Ack) {
            return self.discard(Drop::Unanswerable);
        }
        match self.examine(flow, message, out) {
            Err(Halt::Answered(own)) => self.answer(message, flow, own, out),
            Err(Halt::Unresolved) => self.discard(Drop::Unresolved),
            Ok(received) => {
                let method = message.method().unwrap_or(Method::Other);
                let cancels = (method == Method::Cancel).then(|| self.live.keys.cancelled(message));
                let arrived = Arrived { method, key, cancels, transport: flow.transport.into() };
                self.proxy.take(now, &arrived, received, &mut self.live, &mut Out(out));
            }
        }
    }

    /// §16.3 to §16.5. What is not to be forwarded is answered at once, without a transaction.
    fn examine(
        &mut self,
        flow: Flow,
        message: &Message<'_>,
        out: &mut Outbox<Event>,
    ) -> Result<Received, Halt> {
        check_form(message)?;
        let topology = &self.live.topology;
        let route = RouteInfo::new(topology, message, Element::Proxy);
        check_secure(message, &route)?;
        check_from_tag(message)?;
        let held = self.held(message, &route);
        self.check_limit(message, held.is_some())?;
        let routing = Routing {
            call_id: message.call_id(),
            cseq: message.cseq().number,
            direction: Direction::ToPool,
            from_tag: message.from_tag().unwrap_or_default(),
            uri: message.uri().unwrap_or_default(),
            next: route.next.or(route.last).unwrap_or_default(),
        };
        let routing = check_loop(&self.live.topology, &self.live.tokens, message, (&routing, false))?;
        check_extensions(message)?;
        if self.is_asked(message, &route) {
            return Err(Halt::Answered(Own::Capabilities));
        }
        let way = match held {
            Some(held) => self.way_within(flow.listener, message, &route, &held, out)?,
            None => self.way(message, &route)?,
        };
        let refresh = match held {
            Some(held) => self.refresh(flow.peer, message, &route, &held),
            None => Refresh::of(true),
        };
        Ok(Received { bytes: message.bytes().into(), flow, way, routing, refresh })
    }

    /// Whether it is an OPTIONS about this proxy itself, whose URI has no user part (RFC 3261 §11): who asks whether we
    /// are alive must not be told how somebody behind us is. Where an INVITE had nowhere to go, nor has this.
    fn is_asked(&self, message: &Message<'_>, route: &RouteInfo<'_>) -> bool {
        let ours = |uri: SipUri<'_>| uri.user.is_none() && self.live.topology.is_ours(&uri);
        message.method() == Some(Method::Options)
            && message.to_tag().is_none()
            && route.next.is_none()
            && self.live.has_hops()
            && message.uri().and_then(|uri| SipUri::parse(uri).ok()).is_some_and(ours)
    }

    /// The token of a request, if it is its sender's and fits.
    fn held(&mut self, message: &Message<'_>, route: &RouteInfo<'_>) -> Option<Held> {
        let text = route.token.filter(|_| message.to_tag().is_some())?;
        self.ledger.charge(Operation::VerifyToken);
        let held = self.live.tokens.read_route(Element::Proxy, text, message, self.live.unix);
        // Only the tags tell the sides apart.
        let held = held.filter(|held| {
            held.is_senders() && message.from_tag().is_some() && message.from_tag() != message.to_tag()
        });
        self.counters.tokens_refused += u64::from(held.is_none());
        held
    }

    /// Where a request within a dialog goes (RFC 3261 §16.4 and §16.5): to whom the other party has named.
    fn way_within<'a>(
        &mut self,
        listener: u16,
        message: &Message<'a>,
        route: &RouteInfo<'a>,
        held: &Held,
        out: &mut Outbox<Event>,
    ) -> Result<Way, Halt> {
        let live = &mut self.live;
        if route.leads_to_us(&live.topology, message) {
            // Whoever names us as his Contact, or is reached by a name that we answer to, is behind the hop of the dialog.
            let hop = live.hop_of(held.token.node).filter(|_| held.by_initiator);
            return Ok(Way::There(hop.ok_or(refused(404, "Not Found"))?, true));
        }
        let target = route.target(message);
        let is_hop = matches!(target, Target::Address(address) if live.hop_at(address).is_some());
        let heard = if is_hop {
            true
        } else if live.tokens.leads_to(held, &target) {
            held.token.heard
        } else {
            let side = (Side::of(!held.by_initiator), held.by_initiator);
            let asked = Refreshed::new(&live.tokens, message, side, &target, false);
            live.targets.leads_to(asked).ok_or(refused(403, "Target Is Not Of This Dialog"))?
        };
        let call = live.tokens.call_key(message.call_id());
        let preferred = (&*live.topology, route.far_side.unwrap_or(listener));
        let node = self.names.next_hop(live.now, target, call, preferred, out)?;
        Ok(Way::There(node, heard || live.hop_at(node.peer).is_some()))
    }

    /// Where all other requests go: to the next hops. One that has a token which does not fit, and that names another
    /// address, was meant for that; so was one with a Route to it.
    fn way(&self, message: &Message<'_>, route: &RouteInfo<'_>) -> Result<Way, Refused> {
        let is_astray = route.token.is_some() && message.to_tag().is_some();
        if route.next.is_none() && (!is_astray || route.leads_to_us(&self.live.topology, message)) {
            return Ok(self.live.first_hop(message.call_id()));
        }
        let hop = match route.target(message) {
            Target::Address(to) => self.live.hop_at(to),
            Target::Name(..) | Target::OtherTransport | Target::Nowhere => None,
        };
        hop.map(|hop| Way::There(hop, true)).ok_or(refused(403, "Forbidden"))
    }

    /// What the response may change of where the parties of the dialog are reached.
    fn refresh(
        &self,
        from: SocketAddr,
        message: &Message<'_>,
        route: &RouteInfo<'_>,
        held: &Held,
    ) -> Refresh {
        let by_initiator = held.by_initiator;
        if !message.method().is_some_and(refreshes_target) {
            return Refresh::of(by_initiator);
        }
        let sender = self.live.targets.sender(&self.live.tokens, message, held, from);
        let target = || self.live.tokens.target_hash(&route.target(message), false);
        let receiver = route.next.is_none().then(target);
        Refresh { sender, receiver, ..Refresh::of(by_initiator) }
    }

    /// New calls are refused early where there is no room, and before a stop. Requests of a dialog whose token holds have
    /// a reserve, so that calls can end.
    fn check_limit(&mut self, message: &Message<'_>, within: bool) -> Result<(), Refused> {
        // An ACK takes no room, and a CANCEL makes some.
        if matches!(message.method(), Some(Method::Ack | Method::Cancel)) {
            return Ok(());
        }
        if let Some(end) = self.settings.stopping.filter(|_| message.to_tag().is_none()) {
            return Err(refused_until(end, self.live.now));
        }
        let length = message.bytes().len();
        if length <= self.longest(false) {
            return Ok(());
        }
        match self.longest(within) {
            longest if length <= longest && self.takes_of_reserve(message.call_id()) => Ok(()),
            longest if longest >= USUAL_LENGTH && length > longest => Err(TOO_LONG),
            _ => Err(FULL),
        }
    }

    /// How long a request may be that there is room for.
    fn longest(&self, within: bool) -> usize {
        let most = |limit| if within { with_reserve(limit) } else { limit };
        if self.proxy.transactions() >= most(self.limits.transactions) {
            return 0;
        }
        most(self.limits.memory).saturating_sub(self.proxy.memory()) / LONGEST_PART
    }

    /// Whether this call may begin one more request out of the reserve.
    fn takes_of_reserve(&mut self, call_id: &[u8]) -> bool {
        let (call, now) = (self.live.tokens.call_key(call_id), self.live.now);
        let is_young = |&&(since, _): &&(Instant, u8)| now.saturating_since(since) < RESERVED_FOR;
        let (since, begun) = self.reserved.get(&call).filter(is_young).copied().unwrap_or((now, 0));
        self.reserved.insert(call, (since, begun.saturating_add(1)));
        begun < RESERVED
    }

    /// Answers a request ourselves, statelessly (RFC 3261 §8.2.7). An ACK gets nothing.
    fn answer(&mut self, message: &Message<'_>, flow: Flow, own: Own, out: &mut Outbox<Event>) {
        let Live { topology, tokens, .. } = &self.live;
        match reply::answer(message, flow, own, topology, tokens, out) {
            Ok(()) => {
                self.ledger.charge(Operation::Reject);
                self.failed(Cause::Refused { status: own.status(), reason: own.reason() });
                *self.counters.replies.entry((own.status(), own.reason())).or_default() += 1;
            }
            Err(drop) => self.discard(drop),
        }
    }

    fn discard(&mut self, drop: Drop) {
        self.ledger.charge(Operation::Discard);
        self.counters.dropped(drop);
        self.failed(Cause::Dropped(drop));
    }

    fn failed(&mut self, cause: Cause) {
        if self.settings.tell_failures && cause.is_news() {
            self.failure = Some(cause);
        }
    }

    /// Takes the answer to [`Event::LookUp`].
    pub fn learn(&mut self, now: Instant, name: &Name, answer: &Resolved) {
        self.names.learn(now, name, answer);
    }

    /// When [`Input::Timer`] is due.
    pub fn deadline(&self) -> Option<Instant> {
        self.proxy.deadline()
    }

    /// Takes over the addresses of this process.
    pub fn set_topology(&mut self, topology: Arc<Topology>) {
        self.live.topology = topology;
    }

    /// Changes the next hops.
    pub fn set_hops(&mut self, hops: &[Flow]) {
        self.live.set_hops(hops);
    }

    /// Changes the behaviour.
    pub fn set_settings(&mut self, settings: Settings) {
        self.settings = settings;
    }

    /// Changes how much it may hold.
    pub fn set_limits(&mut self, limits: ProxyLimits) {
        self.limits = limits;
    }

    /// Changes the secrets of new tokens.
    pub fn set_tokens(&mut self, tokens: &Tokens) {
        self.live.tokens = self.live.tokens.rekeyed(tokens);
    }

    /// The tokens in use.
    pub fn tokens(&self) -> &Tokens {
        &self.live.tokens
    }

    /// What there is to do.
    pub fn report(&self) -> ProxyReport {
        ProxyReport {
            transactions: self.proxy.transactions(),
            unanswered: self.proxy.unanswered(),
            memory: self.proxy.memory(),
            limits: self.limits,
            counters: *self.proxy.counters(),
            hops: self.live.hops(self.live.now).collect(),
        }
    }

    /// What was done so far, in the terms of every role.
    pub fn counters(&self) -> Counters {
        let mut counters = self.counters.clone();
        let core = self.proxy.counters();
        counters.requests_forwarded = core.forwarded + core.retried + core.stateless;
        counters.responses_forwarded = core.relayed;
        for (&reply, &count) in &self.live.replies {
            *counters.replies.entry(reply).or_default() += count;
        }
        if self.live.too_long > 0 {
            *counters.drops.entry(Drop::TooLong.reason()).or_default() += self.live.too_long;
        }
        if core.stray > 0 {
            *counters.drops.entry(Drop::ForeignResponse.reason()).or_default() += core.stray;
        }
        counters
    }

    /// What it cost so far.
    pub fn ledger(&self) -> Ledger {
        self.ledger + self.proxy.ledger()
    }
}
