//! A received request: checks of its form, and its fields, which are read once (RFC 3261 §16.3).

use crate::address::ports::Ports;
use crate::message::route_header::RouteHeader;
use crate::message::validate::{SIPS_NOT_ALLOWED, asks_for_tls, check_form, check_secure};
use crate::outcome::rejection::{Refused, Refuser, Rejection};
use crate::seen::{Earlier, Hop, RequestKey};
use crate::site::Site;
use crate::site::pools::Pools;
use crate::token::KeyIndex;
use crate::token::dialog::VerifiedToken;
use crate::token::owner::TokenOwner;
use balance::{CallKey, Direction, PoolId, RequestFacts, Slot};
use base::{Flow, Operation};
use route::Access;
use std::net::SocketAddr;
use transaction::ServerKey;
use wire::{Message, Method, request_source_target};

/// Result of verifying the token in the Route of a request within a dialog.
#[derive(Clone, Copy, Debug)]
pub(crate) enum TokenProof {
    /// There is no token, or it is not valid.
    None,
    /// The token of a pool is valid, and its node is known.
    Token(VerifiedToken),
    /// The token of a proxy is valid and belongs to the sender: the request goes to the remote target of the dialog.
    Proxy(VerifiedToken),
    /// The token of a pool is valid, but its node is unknown.
    UnknownNode,
}

#[derive(Clone, Copy)]
pub(crate) struct Inbound<'m> {
    pub(crate) flow: Flow,
    pub(crate) message: &'m Message<'m>,
}

/// A received request with its fields and its sender.
pub(crate) struct Arrival<'m> {
    /// Ingress flow of the request.
    pub(crate) flow: Flow,
    pub(crate) message: &'m Message<'m>,
    pub(crate) method: Method,
    pub(crate) call: CallKey,
    pub(crate) route: RouteHeader<'m>,
    pub(crate) proof: TokenProof,
    /// Whether the request must go on over TLS.
    pub(crate) is_sips: bool,
    /// The member that sent the request. Requests of next hops are handled like the requests of any caller.
    pub(crate) member: Option<Slot>,
    /// Address that the responses go to (§18.2.2).
    pub(crate) target: SocketAddr,
    /// Key of the transaction (RFC 3261 §17.2.3), if already computed.
    pub(crate) key: Option<ServerKey>,
    /// Key of the record of requests, if already computed.
    pub(crate) seen: Option<RequestKey>,
    /// Record of the first copy, or of the INVITE of an ACK or CANCEL, if its transaction is not kept.
    pub(crate) earlier: Option<Earlier>,
}

impl<'m> Arrival<'m> {
    /// Reads a request. Has no effects except on counters.
    pub(crate) fn read(
        site: &mut Site,
        pools: &Pools,
        flow: Flow,
        message: &'m Message<'m>,
        known: Option<ServerKey>,
    ) -> Self {
        let target = request_source_target(message.top_via(), flow.peer).unwrap_or(flow.peer);
        let route = RouteHeader::read(&site.topology, message);
        let proof = prove(site, message, &route);
        let method = message.method().unwrap_or(Method::Other);
        let call = site.tokens.call_key(message.call_id());
        let member = pools.member_of(&site.topology, flow);
        let is_sips = asks_for_tls(message, &route);
        let mut arrival = Self {
            flow,
            message,
            method,
            call,
            route,
            proof,
            is_sips,
            member,
            target,
            key: known,
            seen: None,
            earlier: None,
        };
        // For a request whose dialog is proved by a token, only a refusal can be recorded.
        if !site.seen.is_empty() && (!arrival.is_proven() || method == Method::Invite) {
            let key = site.seen.request_key(&site.tokens, message, known, flow.peer);
            let counts = |earlier: &Earlier| !arrival.is_proven() || earlier.refused().is_some();
            (arrival.seen, arrival.earlier) = (Some(key), site.seen.recall(key).filter(counts));
        }
        arrival
    }

    /// Returns whether a token proves the dialog of the request.
    fn is_proven(&self) -> bool {
        matches!(self.proof, TokenProof::Token(_) | TokenProof::Proxy(_))
    }

    pub(crate) fn refused(&self) -> Option<Refused> {
        self.earlier.as_ref().and_then(Earlier::refused).filter(|_| self.method == Method::Invite)
    }

    /// Returns the hop to which the first copy, or the INVITE of an ACK or CANCEL, went without a transaction.
    pub(crate) fn hop(&self) -> Option<&Hop> {
        self.earlier.as_ref().and_then(Earlier::hop)
    }

    /// Returns the key for a branch without a transaction: the key that was current when the first copy came. So all
    /// copies have the same branch (RFC 3261 §16.11).
    pub(crate) fn key(&self, site: &Site) -> KeyIndex {
        let first = self.earlier.as_ref().filter(|_| self.hop().is_some()).map(|earlier| earlier.first);
        // An ACK or CANCEL is not recorded. Without its INVITE it always gets the current key.
        if first.is_none() && !self.begins_transaction() {
            return KeyIndex::CURRENT;
        }
        site.key_since(|| first.unwrap_or(site.now))
    }

    /// Checks whether the sender may send requests here. Allowed are members, senders of a valid token, and senders
    /// that the access list of the listener admits. This check comes before all others, since the access list may
    /// forbid a response.
    pub(crate) fn lets_in(&self, access: &[Access]) -> Result<(), Rejection> {
        let is_let_in = self.is_proven() || self.member.is_some();
        let list = access.get(usize::from(self.flow.listener)).filter(|_| !is_let_in);
        match list {
            Some(list) if !list.admits(self.flow.peer.ip()) => {
                Err(Refuser::Listener(self.flow.listener).into())
            }
            _ => Ok(()),
        }
    }

    /// Checks the form of the request (§16.3).
    pub(crate) fn check(&self, ports: &Ports) -> Result<(), Refused> {
        check_form(self.message)?;
        if self.is_sips {
            check_secure(self.message, &self.route, ports, self.flow.transport)
        } else {
            Ok(())
        }
    }

    /// Checks whether a request that must go on over TLS may go to this hop.
    pub(crate) fn check_hop(&self, hop: Flow) -> Result<(), Refused> {
        if self.is_sips && !hop.transport.is_secure() { Err(SIPS_NOT_ALLOWED) } else { Ok(()) }
    }

    pub(crate) fn inbound(&self) -> Inbound<'m> {
        Inbound { flow: self.flow, message: self.message }
    }

    /// Returns the valid token of a pool, if there is one.
    pub(crate) fn held(&self) -> Option<&VerifiedToken> {
        match &self.proof {
            TokenProof::Token(held) => Some(held),
            TokenProof::None | TokenProof::Proxy(_) | TokenProof::UnknownNode => None,
        }
    }

    pub(crate) fn begins_transaction(&self) -> bool {
        !matches!(self.method, Method::Ack | Method::Cancel)
    }

    /// Returns the request as the balancer needs it, as far as message and token determine it.
    pub(crate) fn request(&self, site: &Site) -> RequestFacts<'m> {
        let held = self.held();
        RequestFacts {
            key: self.call,
            call_id: self.message.call_id(),
            pool: PoolId::default(),
            method: self.method,
            cseq: self.message.cseq().number,
            in_dialog: self.message.to_tag().is_some(),
            direction: Direction::ToPool,
            pinned: held.and_then(|held| site.topology.slot(held.token.node)),
            by_token: held.is_some(),
            started_by_peer: held.is_some_and(|held| !held.by_initiator),
            branch: 0,
            tags: site.tokens.tags(self.message),
            has_priority: self.message.to_tag().is_none()
                && site.admission.overload.has_priority(self.message, self.flow, self.member.is_some()),
        }
    }
}

/// Verifies the token of a request within a dialog, if there is one.
fn prove(site: &mut Site, message: &Message<'_>, route: &RouteHeader<'_>) -> TokenProof {
    let Some(text) = route.token.filter(|_| message.to_tag().is_some()) else { return TokenProof::None };
    site.ledger.charge(Operation::VerifyToken);
    let proof = match site.tokens.read_route(route.owner, text, message, site.unix()) {
        Some(held) if route.owner == TokenOwner::Proxy => {
            // Only the tags distinguish the two sides, so From must have a tag (RFC 3261 §8.1.1.3).
            let from = message.from_tag();
            let is_senders = held.is_senders() && from.is_some() && from != message.to_tag();
            if is_senders { TokenProof::Proxy(held) } else { TokenProof::None }
        }
        Some(held) if site.topology.slot(held.token.node).is_some() => TokenProof::Token(held),
        Some(_) => TokenProof::UnknownNode,
        None => TokenProof::None,
    };
    site.counters.tokens_refused += u64::from(matches!(proof, TokenProof::None | TokenProof::UnknownNode));
    proof
}
