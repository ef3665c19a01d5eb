//! The address of a client that authenticates, and whether its user has registered from that address.

use super::services::Registrar;
use super::waiting::Pending;
use crate::outcome::question::StoreQuery;
use crate::outcome::rejection::Rejection;
use crate::read::arrival::{Arrival, Inbound};
use crate::read::progress::{Progress, Stage};
use crate::step::Step;
use base::{Flow, UnixTime};
use digest_auth::{AttemptResult, AuthRefusal, ClientLocation};
use location::{Aor, Authorization, Binding, BindingsRecord, StoreRequest};
use route::Network;
use std::net::{IpAddr, SocketAddr};
use wire::{Message, NameAddr, Rport, request_source_target};

/// Returns the client of a request that came by this flow, and the location of the client.
///
/// A trusted proxy states the source of the request in the Via below its own: it adds `received` if the sent-by differs
/// from the address (RFC 3261 §18.2.1). If that source is a trusted proxy as well, the next Via is read, and so on. If
/// a proxy itself made the request, or a Via has only a host name, the client is unknown. Clients behind such a proxy
/// cannot be distinguished.
pub(super) fn client(flow: Flow, message: &Message<'_>, trusted: &[Network]) -> (SocketAddr, ClientLocation) {
    let edge = flow.peer.ip().to_canonical();
    let is_trusted = |ip| trusted.iter().any(|network| network.contains(ip));
    if !is_trusted(edge) {
        // The address to which responses go. They contain the nonces, so a sender that answers a nonce is at this
        // address. `maddr` may name another address (§18.2.2). Over a connection, responses go back by the connection.
        let by_via = request_source_target(message.top_via(), flow.peer);
        let to = by_via.filter(|_| !flow.transport.is_reliable()).unwrap_or(flow.peer);
        return (flow.peer, to.ip().to_canonical().into());
    }
    let unknown = (flow.peer, ClientLocation { address: edge, edge: Some(edge) });
    for via in message.vias().skip(1) {
        let Ok(via) = via else { return unknown };
        let Some(address) = via.received.or(via.host.ip()).map(|ip| ip.to_canonical()) else {
            return unknown;
        };
        if !is_trusted(address) {
            let port = if let Rport::Port(port) = via.rport { port } else { via.sent_by_port() };
            return (SocketAddr::new(address, port), ClientLocation { address, edge: Some(edge) });
        }
    }
    unknown
}

/// Returns the host at an address. An IPv6 host may use a whole network of 64 bits, so the limits to password guessing
/// count the network as one host.
fn host(ip: IpAddr) -> Network {
    let ip = ip.to_canonical();
    Network::around(ip, if ip.is_ipv4() { 32 } else { 64 })
}

/// Returns the address that a user has registered from, by a live binding. It is the client's address if the REGISTER
/// came from the client's host, or came through its proxy for a contact on that host. Otherwise it is the proxy's
/// address, which is less precise.
fn home_of(record: &BindingsRecord, date: UnixTime, place: ClientLocation) -> Option<IpAddr> {
    let live = record.bindings().into_iter().filter(|binding| binding.is_live(date));
    let hosts = |binding: &Binding| (binding.origin().map(host), binding.contact_address().map(host));
    let live: Vec<_> = live.map(|binding| hosts(&binding)).collect();
    let (client, edge) = (Some(host(place.address)), place.edge.map(host));
    let through_edge = |origin| edge.is_some() && origin == edge;
    let is_at_client =
        |&(origin, contact): &_| origin == client || (through_edge(origin) && contact == client);
    if live.iter().any(is_at_client) {
        return Some(place.address);
    }
    place.edge.filter(|_| live.iter().any(|&(origin, _)| through_edge(origin)))
}

impl Registrar {
    /// Asks the store for the bindings of a user who has no password attempt left at this location. The bindings may
    /// show that the user is known there. Unlike the records of this process, they outlive a restart.
    pub(super) fn ask_for_home(
        &mut self,
        step: &mut Step<'_>,
        arrival: &Arrival<'_>,
        refusal: AuthRefusal,
        user: Box<[u8]>,
        name_addr: &[u8],
        progress: &mut Progress,
    ) -> Result<Stage, Rejection> {
        let (_, place) = client(arrival.flow, arrival.message, &self.trusted);
        let aor = NameAddr::parse(name_addr).and_then(|parsed| Aor::of(parsed.uri));
        let aor = aor.filter(|aor| self.is_address_of(&user, aor));
        let authenticator = self.authenticator.as_mut().filter(|_| !progress.has_looked_up);
        let may_ask = authenticator.is_some_and(|of| of.may_look_up_bindings(step.site.now, place));
        let Some(aor) = aor.filter(|_| may_ask) else { return Err(self.limited(refusal)) };
        progress.has_looked_up = true;
        let (about, pending) = (StoreQuery::Location(StoreRequest::Read(aor)), Pending::Place(user));
        self.ask(step, arrival.inbound(), about, pending, progress)?;
        Ok(Stage::Done)
    }

    /// Uses the bindings of a user who has no attempt left. If there is a live binding from this location, the
    /// credentials are checked.
    pub(super) fn learn_home(
        &mut self,
        Inbound { flow, message }: Inbound<'_>,
        user: &[u8],
        record: Option<BindingsRecord>,
        date: UnixTime,
    ) {
        if let Some(authenticator) = &mut self.authenticator {
            let (_, place) = client(flow, message, &self.trusted);
            if let Some(address) = record.and_then(|record| home_of(&record, date, place)) {
                authenticator.note_binding(address, user);
            }
        }
    }

    /// Uses the result of a password check by another shard of this process
    /// ([`ShardEvent::Judgement`](crate::ShardEvent::Judgement)).
    pub(crate) fn hear(&mut self, judgement: AttemptResult) {
        if let Some(authenticator) = &mut self.authenticator {
            authenticator.apply_shared(judgement);
        }
    }

    /// Returns whether an address-of-record belongs to a user of the realm.
    fn is_address_of(&self, user: &[u8], aor: &Aor) -> bool {
        let Some(authenticator) = &self.authenticator else { return false };
        let realm = authenticator.settings().realm.clone();
        let shared = self.decisions.settings().shared_realm.as_deref();
        Authorization::As { user: user.into(), realm }.covers(aor, shared)
    }
}
