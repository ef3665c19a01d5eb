//! A request as it arrived: its form is checked, and what the rest of its way asks about is read once (RFC 3261
//! §16.3).

use crate::admission::lets_in;
use crate::edge::Edge;
use crate::pools::Pools;
use crate::ports::Ports;
use crate::rejection::{Refused, Rejection};
use crate::route_header::RouteHeader;
use crate::token::dialog::VerifiedToken;
use crate::token::owner::TokenOwner;
use crate::validate::{SIPS_NOT_ALLOWED, asks_for_tls, check_form, check_secure};
use balance::{CallKey, Direction, PoolId, Request, Slot};
use base::{Flow, Operation};
use route::Access;
use std::net::SocketAddr;
use wire::{Message, Method, request_source_target};

/// The result of verifying the token in the Route of a request within a dialog.
#[derive(Clone, Copy, Debug)]
pub(crate) enum TokenProof {
    /// There is no token, or it is not valid.
    None,
    /// The token of a pool is valid, and its node is known.
    Token(VerifiedToken),
    /// The token of a proxy is valid, and was given to the sender: the request goes to the remote target of the
    /// dialog.
    Proxy(VerifiedToken),
    /// The token of a pool is valid, but its node is not known.
    UnknownNode,
}

/// A message, and the flow that it came by.
#[derive(Clone, Copy)]
pub(crate) struct Inbound<'m> {
    pub(crate) flow: Flow,
    pub(crate) message: &'m Message<'m>,
}

/// A request as it arrived, with its fields and its sender.
pub(crate) struct Arrival<'m> {
    /// The flow that it came by.
    pub(crate) flow: Flow,
    pub(crate) message: &'m Message<'m>,
    pub(crate) method: Method,
    pub(crate) call: CallKey,
    pub(crate) route: RouteHeader<'m>,
    pub(crate) proof: TokenProof,
    /// Whether it goes on over TLS alone.
    pub(crate) is_sips: bool,
    /// The member that sent it. A request of a next hop is handled like one of any caller.
    pub(crate) member: Option<Slot>,
    /// The address that its responses go to (§18.2.2).
    pub(crate) target: SocketAddr,
}

impl<'m> Arrival<'m> {
    /// Reads a request. Changes nothing but counters.
    pub(crate) fn read(edge: &mut Edge, pools: &Pools, flow: Flow, message: &'m Message<'m>) -> Self {
        let target = request_source_target(message.top_via(), flow.peer).unwrap_or(flow.peer);
        let route = RouteHeader::read(&edge.topology, message);
        let proof = prove(edge, message, &route);
        let method = message.method().unwrap_or(Method::Other);
        let call = edge.tokens.call_key(message.call_id());
        let member = pools.member_of(&edge.topology, flow);
        let is_sips = asks_for_tls(message, &route);
        Self { flow, message, method, call, route, proof, is_sips, member, target }
    }

    /// Checks whether its sender may send requests here: a member, the sender of a valid token, or a sender that the
    /// access list of the listener admits. This comes before all other checks, since the access list may ask for
    /// silence.
    pub(crate) fn lets_in(&self, access: &[Access]) -> Result<(), Rejection> {
        let is_proven = matches!(self.proof, TokenProof::Token(_) | TokenProof::Proxy(_));
        if is_proven || self.member.is_some() { Ok(()) } else { lets_in(access, self.flow) }
    }

    /// Checks its form (§16.3).
    pub(crate) fn check(&self, ports: &Ports) -> Result<(), Refused> {
        check_form(self.message)?;
        if self.is_sips {
            check_secure(self.message, &self.route, ports, self.flow.transport)
        } else {
            Ok(())
        }
    }

    /// Checks whether it may go this way, if it goes on over TLS alone.
    pub(crate) fn check_hop(&self, hop: Flow) -> Result<(), Refused> {
        if self.is_sips && !hop.transport.is_secure() { Err(SIPS_NOT_ALLOWED) } else { Ok(()) }
    }

    /// The message, and the flow that it came by.
    pub(crate) fn inbound(&self) -> Inbound<'m> {
        Inbound { flow: self.flow, message: self.message }
    }

    /// The valid token of a pool, if there is one.
    pub(crate) fn held(&self) -> Option<&VerifiedToken> {
        match &self.proof {
            TokenProof::Token(held) => Some(held),
            TokenProof::None | TokenProof::Proxy(_) | TokenProof::UnknownNode => None,
        }
    }

    /// Whether it begins a transaction of its own, as all do but an ACK and a CANCEL.
    pub(crate) fn begins_transaction(&self) -> bool {
        !matches!(self.method, Method::Ack | Method::Cancel)
    }

    /// The request as the balancer sees it, as far as that follows from the message and its token.
    pub(crate) fn request(&self, edge: &Edge) -> Request<'m> {
        let held = self.held();
        Request {
            key: self.call,
            call_id: self.message.call_id(),
            pool: PoolId::default(),
            method: self.method,
            cseq: self.message.cseq().number,
            in_dialog: self.message.to_tag().is_some(),
            direction: Direction::ToPool,
            pinned: held.and_then(|held| edge.topology.slot(held.token.node)),
            by_token: held.is_some(),
            begun_by_peer: held.is_some_and(|held| !held.by_initiator),
            branch: 0,
            tags: edge.tokens.tags(self.message),
            has_priority: self.message.to_tag().is_none() && edge.gate.overload.has_priority(self),
        }
    }
}

/// Verifies the token, if there is one, of a request within a dialog.
fn prove(edge: &mut Edge, message: &Message<'_>, route: &RouteHeader<'_>) -> TokenProof {
    let Some(text) = route.token.filter(|_| message.to_tag().is_some()) else { return TokenProof::None };
    edge.ledger.charge(Operation::VerifyToken);
    let proof = match edge.tokens.read_route(route.owner, text, message, edge.unix()) {
        Some(held) if route.owner == TokenOwner::Proxy => {
            // Only the tags tell the sides apart: without one in From, which RFC 3261 §8.1.1.3 asks for, nobody can.
            let from = message.from_tag();
            let is_senders = held.is_senders() && from.is_some() && from != message.to_tag();
            if is_senders { TokenProof::Proxy(held) } else { TokenProof::None }
        }
        Some(held) if edge.topology.slot(held.token.node).is_some() => TokenProof::Token(held),
        Some(_) => TokenProof::UnknownNode,
        None => TokenProof::None,
    };
    edge.counters.tokens_refused += u64::from(matches!(proof, TokenProof::None | TokenProof::UnknownNode));
    proof
}
