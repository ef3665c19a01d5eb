//! The address of a client that authenticates, and whether its user has registered from there.

use super::services::Registrar;
use super::waiting::Pending;
use crate::outcome::question::StoreQuery;
use crate::outcome::rejection::Rejection;
use crate::read::arrival::{Arrival, Inbound};
use crate::read::progress::{Progress, Stage};
use crate::step::Step;
use base::{Flow, UnixTime};
use digest_auth::{Judgement, Place, Refusal};
use location::{Aor, Ask, Authorization, Binding, Record};
use route::Network;
use std::net::{IpAddr, SocketAddr};
use wire::{Message, NameAddr, Rport, request_source_target};

/// The client of a request that came by this flow, and its place.
///
/// A trusted proxy says in the Via below its own where the request came from (RFC 3261 §18.2.1: it adds `received`
/// wherever the sent-by is not that address). If that is a trusted proxy as well, the next Via is asked, and so on. A
/// request that such a proxy sends of its own accord, or whose Via names a host alone, says nothing: the clients
/// there cannot be told apart.
pub(super) fn client(flow: Flow, message: &Message<'_>, trusted: &[Network]) -> (SocketAddr, Place) {
    let edge = flow.peer.ip().to_canonical();
    let is_trusted = |ip| trusted.iter().any(|network| network.contains(ip));
    if !is_trusted(edge) {
        // Where its answers go, nonces too: who has answered one is there. `maddr` may name another address
        // (§18.2.2).
        // By a connection they go back the same way.
        let by_via = request_source_target(message.top_via(), flow.peer);
        let to = by_via.filter(|_| !flow.transport.is_reliable()).unwrap_or(flow.peer);
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

/// The host at an address. An IPv6 host chooses its addresses from a network of 64 bits: the limits to guessing count
/// such a network as one host, too.
fn host(ip: IpAddr) -> Network {
    let ip = ip.to_canonical();
    Network::around(ip, if ip.is_ipv4() { 32 } else { 64 })
}

/// The address that a user registers from, by a live binding: the client's address, if the REGISTER came from its
/// host, or came through the proxy in front of it for a contact there; else that proxy, which tells less.
fn home_of(record: &Record, date: UnixTime, place: Place) -> Option<IpAddr> {
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
    /// A user has no try left at the place of this request. The user's bindings may say that the user is at home
    /// there: what was known of users is lost with the process, and what is in the store is not.
    pub(super) fn ask_for_home(
        &mut self,
        step: &mut Step<'_>,
        arrival: &Arrival<'_>,
        refusal: Refusal,
        user: Box<[u8]>,
        party: &[u8],
        progress: &mut Progress,
    ) -> Result<Stage, Rejection> {
        let (_, place) = client(arrival.flow, arrival.message, &self.trusted);
        let aor = NameAddr::parse(party).and_then(|party| Aor::of(party.uri));
        let aor = aor.filter(|aor| self.is_address_of(&user, aor));
        let authenticator = self.authenticator.as_mut().filter(|_| !progress.has_looked_up);
        let may_ask = authenticator.is_some_and(|of| of.may_ask(step.site.now, place));
        let Some(aor) = aor.filter(|_| may_ask) else { return Err(self.limited(refusal)) };
        progress.has_looked_up = true;
        let (about, pending) = (StoreQuery::Location(Ask::Read(aor)), Pending::Place(user));
        self.ask(step, arrival.inbound(), about, pending, progress)?;
        Ok(Stage::Done)
    }

    /// The bindings of a user who has no try left are known: a live one from here lets the request be judged.
    pub(super) fn learn_home(
        &mut self,
        Inbound { flow, message }: Inbound<'_>,
        user: &[u8],
        record: Option<Record>,
        date: UnixTime,
    ) {
        if let Some(authenticator) = &mut self.authenticator {
            let (_, place) = client(flow, message, &self.trusted);
            if let Some(address) = record.and_then(|record| home_of(&record, date, place)) {
                authenticator.learn(address, user);
            }
        }
    }

    /// Takes what another shard of this process has found out about passwords
    /// ([`ShardEvent::Judgement`](crate::ShardEvent::Judgement)).
    pub(crate) fn hear(&mut self, judgement: Judgement) {
        if let Some(authenticator) = &mut self.authenticator {
            authenticator.hear(judgement);
        }
    }

    /// Whether an address-of-record is that of a user of the realm.
    fn is_address_of(&self, user: &[u8], aor: &Aor) -> bool {
        let Some(authenticator) = &self.authenticator else { return false };
        let realm = authenticator.settings().realm.clone();
        let shared = self.decisions.settings().shared_realm.as_deref();
        Authorization::As { user: user.into(), realm }.covers(aor, shared)
    }
}
