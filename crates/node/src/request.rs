//! The way of a request: validate, read the Route, decide, edit, forward (RFC 3261 §16.3 to §16.6, §16.11).

use crate::failure::Cause;
use crate::record::{initiator_target, record, wants_record_route};
use crate::reply::{self, Halt, Own, acknowledges_us};
use crate::route::{RouteInfo, Target, edit_hop};
use crate::shard::Orphans;
use crate::targets::Refreshed;
use crate::token::branch::{self, BranchToken, Routing, Transaction};
use crate::token::route::{Element, Held, RouteToken};
use crate::validate::{
    Refused, check_extensions, check_form, check_loop, check_secure, refused, refused_until,
};
use crate::{Drop, Event, Shard};
use balance::{Decision, Direction, Request, Slot, Why};
use base::{Flow, Instant, Operation, Outbox};
use std::net::SocketAddr;
use wire::{Message, Method, request_source_target};

/// RFC 3261 §21.5.4. Of a table that holds nothing but calls, some end in that time.
const TOO_MANY_SESSIONS: Refused = Refused { retry_after: Some(10), ..refused(503, "Too Many Sessions") };

/// What a request is to the balancer.
pub(crate) struct Facts<'a> {
    pub(crate) route: RouteInfo<'a>,
    pub(crate) token: Option<RouteToken>,
    pub(crate) request: Request<'a>,
    /// Where its responses go.
    target: SocketAddr,
    /// The dialog that its token names is with a node that is no more. Should the call be in the table, then in another
    /// branch, with another node that knows nothing of this dialog.
    is_astray: bool,
    /// Where it goes if it comes from the pool.
    outside: Option<Result<Flow, Halt>>,
    routing: u32,
    /// Where its sender is reached from now on, for the time when the node is no member any more.
    refreshed: Option<Refreshed>,
}

impl Facts<'_> {
    /// Why it goes nowhere, if that is so.
    pub(crate) fn halted(&self) -> Option<Halt> {
        self.outside.and_then(Result::err)
    }

    /// What the balancer says, if it has to be asked. The token would have named the node of an ACK or CANCEL; a bad one
    /// earns no search.
    pub(crate) fn decide(&self, ask: impl FnOnce() -> Decision) -> Decision {
        if self.is_astray {
            return Decision::Orphan;
        }
        match ask() {
            Decision::Search if self.route.token.is_some() => Decision::Orphan,
            other => other,
        }
    }
}

impl Shard {
    pub(crate) fn request(
        &mut self,
        now: Instant,
        flow: Flow,
        message: &Message<'_>,
        out: &mut Outbox<Event>,
    ) {
        self.counters.requests += 1;
        if acknowledges_us(&self.tokens, message) {
            return self.discard(Drop::Ack);
        }
        let outcome = self.examine(now, flow, message, out);
        let outcome = outcome.and_then(|facts| match facts.halted() {
            Some(halt) => {
                // A node that hangs up has done with the call, whoever hears of it.
                if facts.request.method == Method::Bye {
                    self.balancer.request(now, &facts.request);
                }
                Err(halt)
            }
            None => Ok(self.assign(now, flow, message, &facts, out)?),
        });
        match outcome {
            Ok(()) => {}
            Err(Halt::Answered(own)) => self.answer(message, flow, own, out),
            Err(Halt::Unresolved) => self.discard(Drop::Unresolved),
        }
    }

    /// RFC 3261 §16.3: is the request valid? And §16.4: which dialog does it belong to? Changes nothing but counters;
    /// a host name that it goes to may be asked for.
    pub(crate) fn examine<'a>(
        &mut self,
        now: Instant,
        flow: Flow,
        message: &Message<'a>,
        out: &mut Outbox<Event>,
    ) -> Result<Facts<'a>, Halt> {
        check_form(message)?;
        let target = request_source_target(message.top_via(), flow.peer).unwrap_or(flow.peer);
        let route = RouteInfo::new(&self.topology, message, Element::Pool);
        check_secure(message, &route)?;
        let (held, is_astray) = self.route_token(now, message, &route);
        let slot_at_source = self.topology.slot_at(flow.peer);
        let direction = self.direction(flow.peer, held, slot_at_source)?;
        // What comes from the pool needs no node: it goes outside.
        let is_astray = is_astray && direction == Direction::ToPool;
        let pinned = held.and_then(|held| self.topology.slot(held.token.node));
        let pinned = pinned.or(slot_at_source.filter(|_| direction == Direction::FromPool));
        let key = self.tokens.call_key(message.call_id());
        let mut request = Request {
            key,
            call_id: message.call_id(),
            method: message.method().unwrap_or(Method::Other),
            cseq: message.cseq().number,
            in_dialog: message.to_tag().is_some(),
            direction,
            pinned,
            by_token: held.is_some(),
            branch: 0,
            tags: self.tokens.tags(message),
        };
        let routing = Routing {
            call_id: message.call_id(),
            cseq: request.cseq,
            direction,
            from_tag: message.from_tag().unwrap_or_default(),
            uri: message.uri().unwrap_or_default(),
            next: route.next.or(route.last).unwrap_or_default(),
        };
        let older = self.is_older_than_key(&request);
        let routing = check_loop(&self.topology, &self.tokens, message, (&routing, older))?;
        check_extensions(message)?;
        let transaction = Transaction::new(message, message.top_via(), target);
        request.branch = self.tokens.mark(&transaction, direction, routing);
        let outside = match direction {
            Direction::ToPool => None,
            Direction::FromPool => {
                let preferred = (&*self.topology, route.far_side.unwrap_or(flow.listener));
                Some(self.names.next_hop(now, route.target(message), key, preferred, out))
            }
        };
        let refreshed = match (direction, &held) {
            (Direction::FromPool, held) => {
                self.check_removed(now, message, (&route, held.as_ref()), &request)?;
                None
            }
            (Direction::ToPool, Some(held)) => self.targets.sender(&self.tokens, message, held, flow.peer),
            (Direction::ToPool, None) => None,
        };
        let token = held.map(|held| held.token);
        Ok(Facts { route, token, request, target, is_astray, outside, routing, refreshed })
    }

    /// Verifies the token, if there is one, of a request within a dialog; and whether it ties the dialog to a node that is
    /// not known.
    fn route_token(
        &mut self,
        now: Instant,
        message: &Message<'_>,
        route: &RouteInfo<'_>,
    ) -> (Option<Held>, bool) {
        let Some(text) = route.token.filter(|_| message.to_tag().is_some()) else { return (None, false) };
        self.ledger.charge(Operation::VerifyToken);
        let held = self.tokens.read_route(Element::Pool, text, message, self.unix(now));
        let known = held.filter(|held| self.topology.slot(held.token.node).is_some());
        self.counters.tokens_refused += u64::from(known.is_none());
        (known, held.is_some() && known.is_none())
    }

    /// Which side of the dialog sent this. The token knows by the tags; without one, the source tells.
    fn direction(
        &self,
        from: SocketAddr,
        held: Option<Held>,
        slot_at_source: Option<Slot>,
    ) -> Result<Direction, Refused> {
        let by_source = if slot_at_source.is_some() { Direction::FromPool } else { Direction::ToPool };
        let Some(held) = held else { return Ok(by_source) };
        if held.by_initiator != held.token.outbound {
            return Ok(Direction::ToPool);
        }
        // What comes from the pool goes wherever its Request-URI says: only the node itself may ask for that.
        let node = self.topology.slot(held.token.node).map(|slot| self.topology.node(slot).peer.ip());
        if node == Some(from.ip()) { Ok(Direction::FromPool) } else { Err(refused(403, "Forbidden")) }
    }

    /// Asks the balancer and carries out what it says.
    fn assign(
        &mut self,
        now: Instant,
        flow: Flow,
        message: &Message<'_>,
        facts: &Facts<'_>,
        out: &mut Outbox<Event>,
    ) -> Result<(), Refused> {
        self.ledger.charge(Operation::Lookup);
        let request = &facts.request;
        if let Some(end) = self.settings.stopping
            && self.is_new(request)
        {
            return Err(refused_until(end, now));
        }
        let mut decision = facts.decide(|| self.balancer.request(now, request));
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
                if let Some(refreshed) = facts.refreshed {
                    self.targets.note(refreshed);
                }
                self.send_to(now, flow, message, facts, slot, false, out);
            }
            Decision::Search => self.search(now, flow, message, facts, out)?,
            Decision::NoRoom => {
                if let Some(refused) = self.no_room.note(now) {
                    out.event(Event::NoRoom(refused));
                }
                return Err(TOO_MANY_SESSIONS);
            }
            Decision::NoServer | Decision::Orphan => {
                if let Some(refused) = self.no_server.note(now) {
                    out.event(Event::NoServer(refused));
                }
                return Err(refused(503, "No Server Available"));
            }
        }
        Ok(())
    }

    /// Whether a request begins something: nothing here and no token knows of it.
    pub(crate) fn is_new(&self, request: &Request<'_>) -> bool {
        !request.in_dialog
            && request.pinned.is_none()
            && !matches!(request.method, Method::Ack | Method::Cancel)
            && self.balancer.session_of(request).is_none()
    }

    /// RFC 3261 §16.6: the edits of a forwarded request.
    #[expect(
        clippy::too_many_arguments,
        reason = "the parts of one message; a struct would live one call long"
    )]
    pub(crate) fn send_to(
        &mut self,
        now: Instant,
        flow: Flow,
        message: &Message<'_>,
        facts: &Facts<'_>,
        slot: Slot,
        search: bool,
        out: &mut Outbox<Event>,
    ) {
        // To the pool, always to the node: whatever Route or Request-URI say, no other address can be reached.
        let node = self.topology.node(slot);
        let way = facts.outside.and_then(Result::ok).unwrap_or(node);
        self.edits.clear();
        edit_hop(message, flow.peer, &mut self.edits);
        facts.route.edit(message, &mut self.edits, &mut self.scratch);
        if wants_record_route(message) {
            self.record_route(now, message, facts, slot, [flow.listener, way.listener]);
        }
        // Step 8.
        let token = BranchToken {
            node: self.balancer.nodes()[slot.index()].id,
            direction: facts.request.direction,
            listener: flow.listener as u8,
            routing: facts.routing,
        };
        self.ledger.charge(Operation::MakeToken);
        let transaction = Transaction::new(message, message.top_via(), facts.target);
        self.scratch.clear();
        self.scratch.extend_from_slice(self.topology.listeners[usize::from(way.listener)].via.as_bytes());
        let older = self.is_older_than_key(&facts.request);
        self.tokens.write_branch(token, &transaction, older, &mut self.scratch);
        if search {
            self.scratch.extend_from_slice(branch::SEARCHED);
        }
        self.edits.push_via(message, &self.scratch);
        self.forward(message, way, out);
        self.counters.requests_forwarded += 1;
        if facts.request.direction == Direction::ToPool {
            self.balancer.count_request(slot, facts.request.method);
        }
    }

    /// §16.6 step 4.
    fn record_route(
        &mut self,
        now: Instant,
        message: &Message<'_>,
        facts: &Facts<'_>,
        slot: Slot,
        listeners: [u16; 2],
    ) {
        self.ledger.charge(Operation::MakeToken);
        // §16.11: the same in a retransmission, so nothing of this moment may be in it.
        let begun = self.balancer.session_of(&facts.request).map_or(now, |session| session.created);
        let (unix, older) = (self.unix(begun), self.is_older_than_key(&facts.request));
        let outbound = facts.request.direction == Direction::FromPool;
        // Towards a node its token leads, whatever the target.
        let nowhere = (Target::Nowhere, false);
        let (target, is_contact) =
            if outbound { nowhere } else { initiator_target(&self.topology, message, Element::Pool) };
        let token = RouteToken {
            node: self.balancer.nodes()[slot.index()].id,
            outbound,
            target: self.tokens.target_hash(&target, older),
            heard: false,
            home: self.tokens.home_hash(is_contact.then_some(&target), older),
        };
        let (edits, scratch, tokens) = (&mut self.edits, &mut self.scratch, &self.tokens);
        let write = |out: &mut Vec<u8>| {
            tokens.write_route(Element::Pool, token, message, unix, older, out);
        };
        record(message, &self.topology, listeners, edits, scratch, (Element::Pool, write));
    }

    /// Answers a request ourselves, statelessly (RFC 3261 §8.2.7). An ACK gets nothing.
    fn answer(&mut self, message: &Message<'_>, flow: Flow, own: Own, out: &mut Outbox<Event>) {
        match reply::answer(message, flow, own, &self.topology, &self.tokens, out) {
            Ok(()) => {
                self.ledger.charge(Operation::Reject);
                self.failed(Cause::Refused { status: own.status(), reason: own.reason() });
                *self.counters.replies.entry((own.status(), own.reason())).or_default() += 1;
            }
            Err(drop) => self.discard(drop),
        }
    }
}
