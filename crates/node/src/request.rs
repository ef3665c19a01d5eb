//! The way of a request: validate, read the Route, decide, edit, forward (RFC 3261 §16.3 to §16.6, §16.11).

use crate::shard::Orphans;
use crate::token::branch::{self, BranchToken, Routing, Transaction};
use crate::token::route::{self, RouteToken};
use crate::{Drop, Shard, Topology};
use balance::{CallKey, Decision, Direction, Request, Sign, Slot, Why};
use base::{Instant, Operation, Outbox};
use std::net::SocketAddr;
use wire::{Message, Method, SipUri, Via, request_source_target, scheme_of};

/// RFC 3261 §16.6 step 3.
const MAX_FORWARDS: u32 = 70;

/// URI schemes that a pool may understand (RFC 3261 §16.3 step 2): the request goes there whatever the URI says.
const SCHEMES: [&[u8]; 4] = [b"sip", b"sips", b"tel", b"urn"];

/// How the To tags begin that we make.
const OWN_TAG: &str = "sb";

/// A refusal: status and reason phrase.
#[derive(Clone, Copy)]
pub(crate) struct Refused {
    pub(crate) status: u16,
    pub(crate) reason: &'static str,
}

const fn refused(status: u16, reason: &'static str) -> Refused {
    Refused { status, reason }
}

/// What the Route header and the Request-URI say about where a request goes (RFC 3261 §16.4).
#[derive(Clone, Copy, Default)]
pub(crate) struct RouteInfo<'a> {
    /// How many Route values on top are ours.
    ours: usize,
    /// The next one, which is not.
    next: Option<&'a [u8]>,
    /// A strict router put our URI into the Request-URI; this last Route value belongs there.
    last: Option<&'a [u8]>,
    /// The token in the first URI of ours that has one.
    token: Option<&'a [u8]>,
    /// The listener that the last Route value of ours names: the one that the far side knows (RFC 5658 §4).
    far_side: Option<u16>,
}

/// What a request is to the balancer.
pub(crate) struct Facts<'a> {
    pub(crate) route: RouteInfo<'a>,
    pub(crate) token: Option<RouteToken>,
    pub(crate) request: Request<'a>,
    /// Where its responses go.
    target: SocketAddr,
    /// Where it goes if it comes from the pool, and the listener that leads there.
    outside: Option<(SocketAddr, u16)>,
    routing: u32,
}

impl Facts<'_> {
    /// The token would have named the node of an ACK or CANCEL; a bad one earns no search.
    pub(crate) fn reconsider(&self, decision: Decision) -> Decision {
        match decision {
            Decision::Search if self.route.token.is_some() => Decision::Orphan,
            other => other,
        }
    }
}

impl Shard {
    pub(crate) fn request(
        &mut self,
        now: Instant,
        listener: u16,
        from: SocketAddr,
        message: &Message<'_>,
        out: &mut Outbox<Sign>,
    ) {
        self.counters.requests += 1;
        if self.acknowledges_us(message) {
            return self.discard(Drop::Ack);
        }
        let outcome = self.examine(now, listener, from, message);
        let outcome = outcome.and_then(|facts| self.assign(now, listener, from, message, &facts, out));
        if let Err(refusal) = outcome {
            self.reply(message, listener, from, refusal, out);
        }
    }

    /// RFC 3261 §16.3: is the request valid? And §16.4: which dialog does it belong to? Changes nothing but counters.
    pub(crate) fn examine<'a>(
        &mut self,
        now: Instant,
        listener: u16,
        from: SocketAddr,
        message: &Message<'a>,
    ) -> Result<Facts<'a>, Refused> {
        if let Some(fault) = message.fault() {
            return Err(refused(fault.status, fault.reason));
        }
        let uri = message.uri().unwrap_or_default();
        // §16.3 step 2.
        if !scheme_of(uri)
            .is_some_and(|scheme| SCHEMES.iter().any(|known| scheme.eq_ignore_ascii_case(known)))
        {
            return Err(refused(416, "Unsupported URI Scheme"));
        }
        // §16.3 step 3.
        if message.max_forwards().is_some_and(|(hops, _)| hops == 0) {
            return Err(refused(483, "Too Many Hops"));
        }
        let target = request_source_target(message.top_via(), from).unwrap_or(from);
        let route = self.route_info(message, uri);
        let token = self.route_token(now, message, &route);
        let slot_at_source = self.topology.slot_at(from);
        let direction = self.direction(from, message, token, slot_at_source)?;
        let pinned = token.and_then(|token| self.topology.slot(token.node));
        let pinned = pinned.or(slot_at_source.filter(|_| direction == Direction::FromPool));
        let outside = match direction {
            Direction::ToPool => None,
            Direction::FromPool => Some(self.outside(message, &route, listener)?),
        };
        let key = self.tokens.call_key(message.call_id());
        let routing = check_loop(&self.topology, message, key, &route, direction)?;
        // §16.3 step 5. An extension that we do not know must not be passed by a proxy that was asked for it.
        if message.proxy_require().next().is_some()
            && !matches!(message.method(), Some(Method::Ack | Method::Cancel))
        {
            return Err(refused(420, "Bad Extension"));
        }
        let request = Request {
            key,
            call_id: message.call_id(),
            method: message.method().unwrap_or(Method::Other),
            cseq: message.cseq().number,
            in_dialog: message.to_tag().is_some(),
            direction,
            pinned,
            by_token: token.is_some(),
            branch: Transaction::new(message, message.top_via(), target).mark(),
        };
        Ok(Facts { route, token, request, target, outside, routing })
    }

    /// §16.4: which Route values are ours, and what the next one is.
    fn route_info<'a>(&self, message: &Message<'a>, uri: &'a [u8]) -> RouteInfo<'a> {
        let mut info = RouteInfo::default();
        let mut left = usize::MAX;
        // A strict router replaced the Request-URI by what we put into Record-Route, and put that last. That one has
        // parameters, and most others have none.
        if message.has_routes()
            && uri.contains(&b';')
            && let Ok(parsed) = SipUri::parse(uri)
            && let Some(Some(token)) = parsed.param(route::PARAM)
            && self.topology.is_ours(&parsed)
        {
            info.token = Some(token);
            info.last = message.routes().last().map(|value| value.uri);
            left = message.routes().count() - 1;
        }
        for value in message.routes().take(left) {
            let parsed = SipUri::parse(value.uri).ok();
            let token = parsed.and_then(|parsed| parsed.param(route::PARAM).flatten());
            // A URI with our parameter is ours even under a sister's address.
            if token.is_none() && !parsed.is_some_and(|parsed| self.topology.is_ours(&parsed)) {
                info.next = Some(value.uri);
                break;
            }
            info.token = info.token.or(token);
            info.far_side = parsed.and_then(|parsed| self.topology.listener_named(&parsed));
            info.ours += 1;
        }
        info
    }

    /// Verifies the token, if there is one.
    fn route_token(
        &mut self,
        now: Instant,
        message: &Message<'_>,
        route: &RouteInfo<'_>,
    ) -> Option<RouteToken> {
        let text = route.token?;
        self.ledger.charge(Operation::VerifyToken);
        let token = self.tokens.read_route(text, message.call_id(), self.unix(now));
        let known = token.filter(|token| self.topology.slot(token.node).is_some());
        self.counters.tokens_refused += u64::from(known.is_none());
        known
    }

    /// Which side of the dialog sent this. The token knows by the From tag; without one, the source tells.
    fn direction(
        &self,
        from: SocketAddr,
        message: &Message<'_>,
        token: Option<RouteToken>,
        slot_at_source: Option<Slot>,
    ) -> Result<Direction, Refused> {
        let by_source = if slot_at_source.is_some() { Direction::FromPool } else { Direction::ToPool };
        let Some(token) = token else { return Ok(by_source) };
        let is = |tag: Option<&[u8]>| tag.is_some_and(|tag| route::tag_hash(tag) == token.from);
        let by_initiator = match (is(message.from_tag()), is(message.to_tag())) {
            (true, false) => true,
            (false, true) => false,
            _ => return Ok(by_source),
        };
        if by_initiator != token.outbound {
            return Ok(Direction::ToPool);
        }
        // What comes from the pool goes wherever its Request-URI says: only the node itself may ask for that.
        let node = self.topology.slot(token.node).map(|slot| self.topology.node(slot).address.ip());
        if node == Some(from.ip()) { Ok(Direction::FromPool) } else { Err(refused(403, "Forbidden")) }
    }

    /// Asks the balancer and carries out what it says.
    fn assign(
        &mut self,
        now: Instant,
        listener: u16,
        from: SocketAddr,
        message: &Message<'_>,
        facts: &Facts<'_>,
        out: &mut Outbox<Sign>,
    ) -> Result<(), Refused> {
        self.ledger.charge(Operation::Lookup);
        let request = &facts.request;
        if self.settings.stopping && self.is_new(request) {
            return Err(refused(503, "Service Unavailable"));
        }
        let mut decision = facts.reconsider(self.balancer.request(now, request));
        if decision == Decision::Orphan {
            match self.settings.orphans {
                Orphans::Reject => return Err(refused(481, "Call/Transaction Does Not Exist")),
                Orphans::Drop => {
                    self.discard(Drop::Orphan);
                    return Ok(());
                }
                Orphans::Balance => {
                    decision = self.balancer.request(now, &Request { in_dialog: false, ..*request });
                }
            }
        }
        match decision {
            Decision::Forward { slot, why } => {
                self.counters.decisions[why as usize] += 1;
                if why == Why::Policy || why == Why::Moved {
                    self.ledger.charge(Operation::Choose);
                    self.ledger.charge(Operation::CreateSession);
                }
                self.send_to(now, listener, from, message, facts, slot, false, out);
            }
            Decision::Search => {
                for index in 0..self.topology.nodes().len() {
                    let slot = Slot(index as u16);
                    let node = &self.balancer.nodes()[index];
                    if node.member && node.reachable {
                        self.send_to(now, listener, from, message, facts, slot, true, out);
                    }
                }
            }
            Decision::NoServer | Decision::Orphan => return Err(refused(503, "No Server Available")),
        }
        Ok(())
    }

    /// Whether a request begins something: nothing here and no token knows of it.
    pub(crate) fn is_new(&self, request: &Request<'_>) -> bool {
        !request.in_dialog
            && request.pinned.is_none()
            && !matches!(request.method, Method::Ack | Method::Cancel)
            && self.balancer.session(request.key).is_none()
    }

    /// RFC 3261 §16.6: the edits of a forwarded request.
    #[expect(
        clippy::too_many_arguments,
        reason = "the parts of one message; a struct would live one call long"
    )]
    fn send_to(
        &mut self,
        now: Instant,
        listener: u16,
        from: SocketAddr,
        message: &Message<'_>,
        facts: &Facts<'_>,
        slot: Slot,
        search: bool,
        out: &mut Outbox<Sign>,
    ) {
        // To the pool, always to the node: whatever Route or Request-URI say, no other address can be reached.
        let node = self.topology.node(slot);
        let (to, leaves_by) = facts.outside.unwrap_or((node.address, node.listener));
        self.edits.clear();
        self.edits.mark_received(message, from);
        // Step 3. An absent Max-Forwards counts as 70 and is added.
        let hops = message.max_forwards().map_or(MAX_FORWARDS, |(hops, _)| hops - 1);
        self.edits.set_max_forwards(message, hops);
        self.edit_routes(message, &facts.route);
        if wants_record_route(&facts.request) {
            self.record_route(now, message, facts, slot, [listener, leaves_by]);
        }
        // Step 8.
        let token = BranchToken {
            node: self.balancer.nodes()[slot.index()].id,
            direction: facts.request.direction,
            listener: listener as u8,
            routing: facts.routing,
        };
        self.ledger.charge(Operation::MakeToken);
        let transaction = Transaction::new(message, message.top_via(), facts.target);
        self.scratch.clear();
        self.scratch.extend_from_slice(self.topology.listeners[leaves_by as usize].via.as_bytes());
        let older = self.is_older_than_key(facts.request.key);
        self.tokens.write_branch(token, &transaction, older, &mut self.scratch);
        if search {
            self.scratch.extend_from_slice(branch::SEARCHED);
        }
        self.edits.push_via(message, &self.scratch);
        self.forward(message, leaves_by, to, out);
        self.counters.requests_forwarded += 1;
    }

    /// §16.4 and §16.6 step 6: our own Route values go; a strict router before or behind us is served.
    fn edit_routes(&mut self, message: &Message<'_>, route: &RouteInfo<'_>) {
        if route.ours > 0 {
            self.edits.pop_route(message, route.ours);
        }
        let uri = match route.last {
            Some(last) => {
                self.edits.set_uri(message, last);
                self.edits.pop_last_route(message);
                last
            }
            None => message.uri().unwrap_or_default(),
        };
        let strict = |next: &[u8]| SipUri::parse(next).is_ok_and(|next| next.param("lr").is_none());
        if let Some(next) = route.next.filter(|next| route.last.is_none() && strict(next)) {
            self.scratch.clear();
            self.scratch.push(b'<');
            self.scratch.extend_from_slice(uri);
            self.scratch.push(b'>');
            self.edits.append_route(message, &self.scratch);
            self.edits.set_uri(message, next);
            self.edits.pop_route(message, 1);
        }
    }

    /// Where a request from the pool goes: to the next Route value, else the Request-URI (§16.6 step 7).
    fn outside(
        &self,
        message: &Message<'_>,
        route: &RouteInfo<'_>,
        listener: u16,
    ) -> Result<(SocketAddr, u16), Refused> {
        let uri = route.next.or(route.last).or(message.uri()).unwrap_or_default();
        let to = address_of(uri).ok_or(refused(502, "Next Hop Is No Address"))?;
        let by = route.far_side.unwrap_or(listener);
        let by = self.topology.listener_for(by, to).ok_or(refused(502, "Next Hop Is Of Another Family"))?;
        Ok((to, by))
    }

    /// §16.6 step 4, and RFC 5658 where the two sides have different addresses of ours: the one that the
    /// next hop sees goes on top.
    fn record_route(
        &mut self,
        now: Instant,
        message: &Message<'_>,
        facts: &Facts<'_>,
        slot: Slot,
        listeners: [u16; 2],
    ) {
        self.ledger.charge(Operation::MakeToken);
        let token = RouteToken {
            node: self.balancer.nodes()[slot.index()].id,
            outbound: facts.request.direction == Direction::FromPool,
            from: route::tag_hash(message.from_tag().unwrap_or_default()),
        };
        // §16.11: the same in a retransmission, so nothing of this moment may be in it.
        let call = facts.request.key;
        let begun = self.balancer.session(call).map_or(now, |session| session.created);
        let (unix, older) = (self.unix(begun), self.is_older_than_key(call));
        let secure = scheme_of(message.uri().unwrap_or_default())
            .is_some_and(|scheme| scheme.eq_ignore_ascii_case(b"sips"));
        let scheme = if secure { "sips" } else { "sip" };
        let sides = if listeners[0] == listeners[1] { &listeners[..1] } else { &listeners[..] };
        for &side in sides {
            self.scratch.clear();
            let host = &self.topology.listeners[side as usize].sent_by;
            for part in ["<", scheme, ":", host, ";lr;", route::PARAM, "="] {
                self.scratch.extend_from_slice(part.as_bytes());
            }
            self.tokens.write_route(token, message.call_id(), unix, older, &mut self.scratch);
            self.scratch.push(b'>');
            self.edits.push_record_route(message, &self.scratch);
        }
    }

    /// The To tag of our own answers, the same for each retransmission (RFC 3261 §8.2.7): made of what stays the
    /// same in them. Of the call key it shows only what the session table does not sort by, or clients could learn
    /// which Call-IDs meet there.
    fn own_tag(&self, message: &Message<'_>) -> String {
        let CallKey(key) = self.tokens.call_key(message.call_id());
        let shown = (key >> 64) as u64 & (u64::MAX >> 8);
        format!("{OWN_TAG}{:014x}", shown ^ u64::from(message.cseq().number))
    }

    /// Whether this is the ACK to an answer of ours: it ends here (RFC 3261 §8.2.7), no node knows of it.
    fn acknowledges_us(&self, message: &Message<'_>) -> bool {
        message.method() == Some(Method::Ack)
            && message.to_tag().is_some_and(|tag| {
                tag.starts_with(OWN_TAG.as_bytes()) && tag == self.own_tag(message).as_bytes()
            })
    }

    /// Answers a request ourselves, statelessly (RFC 3261 §8.2.7). An ACK gets nothing.
    fn reply(
        &mut self,
        message: &Message<'_>,
        listener: u16,
        from: SocketAddr,
        refusal: Refused,
        out: &mut Outbox<Sign>,
    ) {
        if message.method() == Some(Method::Ack) {
            return self.discard(Drop::Ack);
        }
        let to = request_source_target(message.top_via(), from).unwrap_or(from);
        // A Via with `maddr` may lead out of the family of the listener that was asked.
        let Some(listener) = self.topology.listener_for(listener, to) else {
            return self.discard(Drop::NoTarget);
        };
        self.ledger.charge(Operation::Reject);
        *self.counters.replies.entry(refusal.status).or_default() += 1;
        let tag = self.own_tag(message);
        let unsupported = unsupported(message);
        let header = [("Unsupported", unsupported.as_str())];
        let headers = if refusal.status == 420 { &header[..] } else { &[] };
        out.send(listener, to, |buffer| {
            wire::write_response(message, from, refusal.status, refusal.reason, &tag, headers, buffer);
        });
    }
}

/// RFC 5393 §4.2: a Via of ours with the same routing decision below means that the request has come back.
fn check_loop(
    topology: &Topology,
    message: &Message<'_>,
    call: CallKey,
    route: &RouteInfo<'_>,
    direction: Direction,
) -> Result<u32, Refused> {
    let routing = Routing {
        call,
        cseq: message.cseq().number,
        direction,
        from_tag: message.from_tag().unwrap_or_default(),
        uri: message.uri().unwrap_or_default(),
        next: route.next.unwrap_or_default(),
    };
    let routing = routing.hash();
    // A balancer of the same site in front of us makes the same hash: the sent-by tells its Via from ours.
    let looped = |via: &Via<'_>| {
        via.branch.and_then(branch::peek_routing) == Some(routing) && topology.is_our_via(via)
    };
    let lower = || message.has_lower_vias() && message.vias().skip(1).flatten().any(|via| looped(&via));
    if looped(message.top_via()) || lower() {
        return Err(refused(482, "Loop Detected"));
    }
    Ok(routing)
}

/// RFC 3261 §16.6 step 4: requests that begin a dialog. In one, Record-Route changes nothing.
fn wants_record_route(request: &Request<'_>) -> bool {
    !request.in_dialog && matches!(request.method, Method::Invite | Method::Subscribe | Method::Refer)
}

/// RFC 3261 §16.3 step 5: the tags that we do not know, which are all.
fn unsupported(message: &Message<'_>) -> String {
    let tags: Vec<_> = message.proxy_require().map(String::from_utf8_lossy).collect();
    tags.join(", ")
}

/// The address in a URI, if a datagram may be sent there: a host name would have to be resolved first.
fn address_of(uri: &[u8]) -> Option<SocketAddr> {
    let uri = SipUri::parse(uri).ok()?;
    let host = match uri.param("maddr").flatten() {
        Some(maddr) => wire::Host::parse(maddr)?,
        None => uri.host,
    };
    let ip = host.ip()?;
    let fine = !ip.is_unspecified() && !ip.is_multicast() && ip != std::net::Ipv4Addr::BROADCAST;
    fine.then(|| SocketAddr::new(ip, uri.port.unwrap_or(5060)))
}
