//! Requests within dialogs that began with one of our transactions (RFC 3261 §16.3 to §16.5): each goes to whom the other
//! party has named.

use super::dialogs::way;
use super::received::{Received, TargetSet, UriTarget, way_back};
use super::transactions::Stateful;
use crate::admission::{NEXT_HOP_OVERLOADED, class_of};
use crate::arrival::{Arrival, TokenProof};
use crate::client_flow::ClientFlow;
use crate::edge::Edge;
use crate::forward::contacts::anew;
use crate::forward::onward::{Onward, RecordRoute, Refresh};
use crate::forward::stateless::pass;
use crate::progress::ToldProof;
use crate::rejection::{Refused, Rejection, refused};
use crate::remote_targets::{Led, refreshes_target};
use crate::route_header::max_breadth;
use crate::step::Step;
use crate::target::Target;
use crate::token::branch::Transaction;
use crate::token::copies::copies_key;
use crate::token::dialog::{Kept, VerifiedToken};
use crate::token::owner::TokenOwner;
use crate::validate::check_extensions;
use ::dialog::Proof as TargetProof;
use balance::{Direction, PoolId, Request};
use base::{Flow, Peer};
use std::cell::Cell;
use std::net::SocketAddr;
use wire::{Message, Method};

/// How a request within a dialog goes on.
struct DialogHop {
    /// Its token.
    held: VerifiedToken,
    to: UriTarget,
    /// Whether it goes to the target of its dialog: asked where its answer says what becomes of that.
    proof: TargetProof,
    routing: u32,
    refresh: Refresh,
    /// Whether its first copy went on, without a transaction, before the key of new tokens changed.
    is_older: bool,
}

impl Stateful {
    /// Forwards a request that has a valid token of a proxy. `false`: it has none, and is to be handled like any
    /// other request. It may then name nobody but us or a next hop.
    pub(crate) fn within(&mut self, step: &mut Step<'_>, arrival: &Arrival<'_>) -> Result<bool, Rejection> {
        let Some(held) = self.token_within(step.edge, arrival)? else { return Ok(false) };
        let passage = self.examine(step, arrival, held)?;
        let Arrival { flow, message, call, .. } = *arrival;
        let DialogHop { held, to, proof, routing, refresh, is_older } = passage;
        let hop = to.hop;
        if !step.edge.gate.overload.may_go(step.edge.now, class_of(arrival.method, true), hop) {
            return Err(NEXT_HOP_OVERLOADED.into());
        }
        if held.token.kept == Kept::Nothing {
            pass(step, message, &Onward::of(flow, hop, RecordRoute::No), routing, &refresh, is_older);
            return Ok(true);
        }
        let tracked = match self.dialogs.as_mut().filter(|_| held.token.kept == Kept::Dialog) {
            Some(dialogs) => dialogs.within(step.edge, message, flow.peer, &held, proof)?,
            None => None,
        };
        let noted = self.note_within(step, arrival, &passage);
        let (bytes, way) = (message.bytes().into(), TargetSet::Uri(to));
        let (breadth, noted) = (max_breadth(message), noted.map(Box::new));
        let (back, is_genuine, told) = (way_back(step.edge, message, flow), false, Cell::default());
        let received = Received {
            bytes,
            call,
            flow,
            back,
            way,
            routing,
            breadth,
            refresh,
            noted,
            tracked,
            is_genuine,
            proof: ToldProof::Nothing,
            ticket: Cell::default(),
            told,
        };
        self.notes.source = flow;
        self.forward(step, message, received);
        Ok(true)
    }

    /// Tells the balancer of a request of a dialog, if anything is remembered of its call, or of the calls of its next hop.
    fn note_within(
        &self,
        Step { edge, balancer, .. }: &mut Step<'_>,
        arrival: &Arrival<'_>,
        passage: &DialogHop,
    ) -> Option<Request<'static>> {
        let held = &passage.held;
        let slot = edge.topology.slot(held.token.node)?;
        if !self.counted.has(slot) && balancer.is_idle() {
            return None;
        }
        let message = arrival.message;
        let transaction = Transaction::new(message, message.top_via(), arrival.target);
        let direction = if held.by_initiator { Direction::ToPool } else { Direction::FromPool };
        let request = Request {
            key: arrival.call,
            call_id: &[],
            // It is not to be chosen again.
            pool: PoolId::default(),
            method: arrival.method,
            cseq: message.cseq().number,
            in_dialog: true,
            direction,
            pinned: Some(slot),
            by_token: true,
            begun_by_peer: !held.by_initiator,
            branch: edge.tokens.mark(&transaction, direction, passage.routing),
            tags: edge.tokens.tags(message),
            has_priority: false,
        };
        // A call that is remembered ends there, whatever a reload has made of its pool.
        let is_noted = self.counted.has(slot) || balancer.session_of(&request).is_some();
        is_noted.then(|| {
            balancer.request(edge.now, &request);
            request
        })
    }

    /// The hop of a request that has a valid token of a proxy; `None` where it has none. Neither the room for its
    /// transaction nor the limits of the next hop are checked.
    pub(crate) fn would_go(
        &self,
        step: &mut Step<'_>,
        arrival: &Arrival<'_>,
    ) -> Result<Option<Flow>, Rejection> {
        let Some(held) = self.token_within(step.edge, arrival)? else { return Ok(None) };
        step.edge.routing(arrival.message, &arrival.route, Direction::ToPool, false)?;
        check_extensions(arrival.message)?;
        let hop = self.way_within(step, arrival, &held)?.hop;
        arrival.check_hop(hop)?;
        Ok(Some(hop))
    }

    /// The valid token of a proxy that a request has. A request with an invalid one may name us or a next hop alone.
    fn token_within(&self, edge: &Edge, arrival: &Arrival<'_>) -> Result<Option<VerifiedToken>, Rejection> {
        let Arrival { message, ref route, .. } = *arrival;
        if let TokenProof::Proxy(held) = arrival.proof {
            return Ok(Some(held));
        }
        let has_token = route.owner == TokenOwner::Proxy && route.token.is_some();
        if has_token && message.to_tag().is_some() && !route.leads_to_us(&edge.topology, message) {
            self.check_named(edge, &route.target(message))?;
        }
        Ok(None)
    }

    /// §16.4 and §16.5. A request that is not to be forwarded is answered at once, without a transaction.
    fn examine(
        &mut self,
        step: &mut Step<'_>,
        arrival: &Arrival<'_>,
        held: VerifiedToken,
    ) -> Result<DialogHop, Rejection> {
        let Arrival { flow, message, ref route, .. } = *arrival;
        let edge = &mut *step.edge;
        if held.token.kept != Kept::Nothing {
            self.check_limit(edge, message, true)?;
        }
        let is_older = held.token.kept == Kept::Nothing && self.is_older_than_key(edge, message, flow.peer);
        let routing = edge.routing(message, route, Direction::ToPool, is_older)?;
        check_extensions(message)?;
        let to = self.way_within(step, arrival, &held)?;
        arrival.check_hop(to.hop)?;
        let refresh = refresh(step.edge, arrival, &held);
        let proof = target_proof(step.edge, arrival, &held);
        Ok(DialogHop { held, to, proof, routing, refresh, is_older })
    }

    /// A BYE of a dialog whose state is kept gets this answer of ours, whatever the reason: the dialog hears of it.
    pub(crate) fn refused_bye(&mut self, edge: &mut Edge, arrival: &Arrival<'_>, status: u16) {
        if arrival.method == Method::Bye
            && let TokenProof::Proxy(held) = &arrival.proof
            && held.token.kept == Kept::Dialog
            && let Some(dialogs) = &mut self.dialogs
        {
            dialogs.refused_bye(edge, arrival.message, arrival.flow.peer, held, status);
        }
    }

    /// Whether the first copy of a request, which goes on without a transaction, did so before the key of new tokens changed: all
    /// copies have one branch (RFC 3261 §16.11). Takes note of the first one.
    fn is_older_than_key(&mut self, edge: &Edge, message: &Message<'_>, from: SocketAddr) -> bool {
        let since = self.first_copies.since(edge.now, copies_key(&edge.tokens, message, from));
        edge.rekeyed.is_some_and(|rekeyed| since <= rekeyed)
    }

    /// The hop of a request within a dialog (RFC 3261 §16.4 and §16.5): its remote target.
    fn way_within(
        &self,
        step: &mut Step<'_>,
        arrival: &Arrival<'_>,
        held: &VerifiedToken,
    ) -> Result<UriTarget, Rejection> {
        let Arrival { flow, message, call, ref route, .. } = *arrival;
        let Step { edge, out, .. } = step;
        if route.leads_to_us(&edge.topology, message) {
            // Whoever names us as his Contact, or is reached by a name that we answer to, is behind the hop of the dialog.
            let hop = edge.topology.slot(held.token.node).filter(|_| held.by_initiator);
            let hop = hop.ok_or(refused(404, "Not Found"))?;
            return Ok(UriTarget { hop: edge.topology.node(hop), is_wanted: true, anew: None });
        }
        let target = route.target(message);
        let is_hop = matches!(target, Target::Address(at) if self.hop_at(edge, at).is_some());
        let led = if is_hop {
            Led { heard: true, flow: None }
        } else {
            edge.led(message, held, &target).ok_or(refused(403, "Target Is Not Of This Dialog"))?
        };
        let preferred = route.far_side.unwrap_or(flow.listener);
        let ports = &edge.topology.ports;
        if let Some(by) = led.flow
            && let Some(hop) = by.way(ports, route.far_side.unwrap_or(u16::MAX))
        {
            return Ok(UriTarget { hop, is_wanted: true, anew: anew(ports, hop, &target) });
        }
        let hop = edge.names.next_hop(edge.now, target, call, &edge.topology, preferred, out)?;
        let is_wanted = led.heard || self.hop_at(edge, hop.remote()).is_some();
        Ok(UriTarget { hop, is_wanted, anew: None })
    }

    /// The next hop at an address.
    fn hop_at(&self, edge: &Edge, at: Peer) -> Option<Flow> {
        let slot = edge.topology.slot_at(at).filter(|&slot| self.hops.has(slot))?;
        Some(edge.topology.node(slot))
    }

    /// A request without a valid token may name a next hop, and nobody else but us. Whether it goes there is decided
    /// as for any other request: a To tag without a token proves no dialog.
    fn check_named(&self, edge: &Edge, target: &Target<'_>) -> Result<(), Refused> {
        // A To tag and a Route that somebody made up would stand for a password.
        if edge.realm.is_some() {
            return Err(refused(481, "Call/Transaction Does Not Exist"));
        }
        let is_hop = matches!(target, Target::Address(to) if self.hop_at(edge, *to).is_some());
        is_hop.then_some(()).ok_or(refused(403, "Forbidden"))
    }
}

/// Whether a request goes to the target that the other party of its dialog has named, and by which way. A next hop takes requests
/// of anybody, and a Route may lead on from there: whoever answers then need not be of the dialog.
fn target_proof(edge: &mut Edge, arrival: &Arrival<'_>, held: &VerifiedToken) -> TargetProof {
    let Arrival { message, method, ref route, .. } = *arrival;
    let matters = matches!(method, Method::Bye | Method::Invite | Method::Update);
    if !matters || held.token.kept != Kept::Dialog || route.last.is_some() {
        return TargetProof::Tags;
    }
    let target = route.target(message);
    if edge.led(message, held, &target).is_none() {
        return TargetProof::Tags;
    }
    TargetProof::Token(way(&edge.tokens, route.behind(message), message.uri().unwrap_or_default()))
}

/// What the response may change of where the parties of the dialog are reached.
fn refresh(edge: &Edge, arrival: &Arrival<'_>, held: &VerifiedToken) -> Refresh {
    let Arrival { message, ref route, .. } = *arrival;
    let by_initiator = held.by_initiator;
    if !refreshes_target(arrival.method) {
        return Refresh::of(by_initiator);
    }
    let client = ClientFlow::of(arrival.flow, &edge.topology);
    let sender = edge.targets.sender(&edge.tokens, message, held, arrival.flow.peer, client);
    let target = || edge.tokens.target_hash(&route.target(message), false);
    let receiver = route.next.is_none().then(target);
    Refresh { sender, receiver, ..Refresh::of(by_initiator) }
}
