//! Where a client is that authenticates, and whether its user is known there.

use super::authenticate::limited;
use super::waiting::Pending;
use super::{Asked, AtHome, Known};
use crate::examine::Facts;
use crate::reply::Halt;
use crate::{Shard, ShardEvent};
use ::route::Network;
use base::{Flow, Outbox, UnixTime};
use digest_auth::{Judgement, Place, Refusal};
use location::{Aor, Ask, Authorization, Record};
use std::net::{IpAddr, SocketAddr};
use wire::{Message, NameAddr, Rport, request_source_target};

/// The client of a request that came by this flow, and its place.
///
/// A trusted proxy says in the Via below its own where the request came from (RFC 3261 §18.2.1: it adds `received` wherever
/// the sent-by is not that address). If that is a trusted proxy as well, the next Via is asked, and so on. A request that such
/// a proxy sends of its own accord, or whose Via names a host alone, says nothing: the clients there cannot be told apart.
pub(super) fn client(flow: Flow, message: &Message<'_>, trusted: &[Network]) -> (SocketAddr, Place) {
    let edge = flow.peer.ip().to_canonical();
    let is_trusted = |ip| trusted.iter().any(|network| network.contains(ip));
    if !is_trusted(edge) {
        // Where its answers go, nonces too: who has answered one is there. `maddr` may name another address (§18.2.2).
        let to = request_source_target(message.top_via(), flow.peer).unwrap_or(flow.peer);
        return (flow.peer, to.ip().to_canonical().into());
    }
    let unknown = (flow.peer, Place { address: edge, edge: Some(edge) });
    for via in message.vias().skip(1) {
        let Ok(via) = via else { return unknown };
        let Some(address) = via.received.or(via.host.ip()).map(|ip| ip.to_canonical()) else {
            return unknown;
        };
        if !is_trusted(address) {
            let port = if let Rport::Port(port) = via.rport { port } else { via.sent_by_port() };
            return (SocketAddr::new(address, port), Place { address, edge: Some(edge) });
        }
    }
    unknown
}

/// From where a live binding says that its user registers: the client's address, if the REGISTER came from there, or came through
/// the proxy in front of it for a contact there; else that proxy, which tells less.
fn home_of(record: &Record, date: UnixTime, place: Place) -> Option<IpAddr> {
    let live = record.bindings().into_iter().filter(|binding| binding.is_live(date));
    let live: Vec<_> = live.map(|binding| (binding.origin(), binding.contact_address())).collect();
    let (client, edge) = (Some(place.address.to_canonical()), place.edge.map(|edge| edge.to_canonical()));
    let through_edge = |origin| edge.is_some() && origin == edge;
    let is_at_client =
        |&(origin, contact): &_| origin == client || (through_edge(origin) && contact == client);
    if live.iter().any(is_at_client) {
        return Some(place.address);
    }
    place.edge.filter(|_| live.iter().any(|&(origin, _)| through_edge(origin)))
}

impl Shard {
    /// A user has no try left at the place of this request. The user's bindings may say that the user is at home there: what
    /// was known of users is lost with the process, and what is in the store is not.
    pub(super) fn ask_for_home(
        &mut self,
        (flow, message): (Flow, &Message<'_>),
        facts: &Facts<'_>,
        (refusal, user): (Refusal, Box<[u8]>),
        known: &mut Known,
        out: &mut Outbox<ShardEvent>,
    ) -> Result<AtHome, Halt> {
        let Some(home) = &mut self.home else { return Ok(AtHome::GoesOn) };
        let (_, place) = client(flow, message, &home.trusted);
        let party = if facts.is_for_registrar { message.to() } else { message.from() };
        let aor = NameAddr::parse(party).and_then(|party| Aor::of(party.uri));
        let aor = aor.filter(|aor| home.is_address_of(&user, aor));
        let authenticator = home.authenticator.as_mut().filter(|_| !known.has_looked_up);
        let may_ask = authenticator.is_some_and(|of| of.may_ask(self.edge.now, place));
        let Some(aor) = aor.filter(|_| may_ask) else {
            self.count_limited(refusal);
            return Err(limited(refusal).into());
        };
        let known = Known { has_looked_up: true, ..core::mem::take(known) };
        self.ask(flow, message, (Asked::Location(Ask::Read(aor)), Pending::Place(user), known), out)?;
        Ok(AtHome::Done)
    }

    /// The bindings of a user who has no try left are known: a live one from here lets the request be judged.
    pub(super) fn learn_home(
        &mut self,
        (flow, message): (Flow, &Message<'_>),
        (user, record, date): (&[u8], Option<Record>, UnixTime),
        known: Known,
        out: &mut Outbox<ShardEvent>,
    ) -> Result<(), Halt> {
        if let Some(home) = &mut self.home
            && let Some(authenticator) = &mut home.authenticator
        {
            let (_, place) = client(flow, message, &home.trusted);
            if let Some(address) = record.and_then(|record| home_of(&record, date, place)) {
                authenticator.learn(address, user);
            }
        }
        self.take_request(flow, message, known, out)
    }

    /// Takes what another shard of this process has found out about passwords ([`ShardEvent::Judged`]).
    pub(crate) fn hear(&mut self, judgement: Judgement) {
        if let Some(authenticator) = self.home.as_mut().and_then(|home| home.authenticator.as_mut()) {
            authenticator.hear(judgement);
        }
    }
}

impl super::Home {
    /// Whether an address-of-record is that of a user of the realm.
    fn is_address_of(&self, user: &[u8], aor: &Aor) -> bool {
        let Some(authenticator) = &self.authenticator else { return false };
        let realm = authenticator.settings().realm.clone();
        let shared = self.registrar.settings().shared_realm.as_deref();
        Authorization::As { user: user.into(), realm }.covers(aor, shared)
    }
}
