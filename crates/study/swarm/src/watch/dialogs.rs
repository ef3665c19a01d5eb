//! Valid targets of Record-Route tokens, derived from the messages alone.

use super::balancer::names;
use base::Instant;
use node::TokenOwner;
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use wire::{Host, Message, SipUri};

/// Host and port of a URI.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Place {
    At(SocketAddr),
    Name(Vec<u8>, Option<u16>),
}

/// A token that was given to a party.
#[derive(Clone)]
struct IssuedToken {
    /// End of the time in which the proxy must accept the token; `None`: its key is gone.
    until: Option<Instant>,
    initiator: Vec<u8>,
    /// `None` in a token given to the other side before its tag was known.
    peer: Option<Vec<u8>>,
    place: Option<Place>,
}

/// Call-ID, tag of the sender of a message, and tag of its receiver.
type PartyKey = (Vec<u8>, Vec<u8>, Vec<u8>);

/// Record-Route tokens by dialog, and the contacts that the parties have sent since.
pub(super) struct Dialogs {
    element: TokenOwner,
    listeners: Vec<SocketAddr>,
    /// By Call-ID and token.
    tokens: BTreeMap<(Vec<u8>, Vec<u8>), IssuedToken>,
    /// Contacts that parties have announced.
    contacts: BTreeSet<(PartyKey, Place)>,
}

impl Dialogs {
    pub(super) fn new(element: TokenOwner, listeners: &[SocketAddr]) -> Self {
        let (tokens, contacts) = (BTreeMap::new(), BTreeSet::new());
        Self { element, listeners: listeners.to_vec(), tokens, contacts }
    }

    /// Tokens made so far may be refused from now on.
    pub(super) fn forgotten(&mut self) {
        self.tokens.values_mut().for_each(|token| token.until = None);
    }

    /// Returns true if a Route or Record-Route value is the element's.
    pub(super) fn is_own(&self, uri: &[u8]) -> bool {
        let Ok(parsed) = SipUri::parse(uri) else { return false };
        let is_sisters = self.element == TokenOwner::Pool && self.token_of(uri).is_some();
        is_sisters || address_of(&parsed).is_some_and(|at| self.listeners.contains(&at))
    }

    /// Returns the element's token in a URI.
    pub(super) fn token_of(&self, uri: &[u8]) -> Option<Vec<u8>> {
        let token = SipUri::parse(uri).ok()?.param(self.element.param()).flatten()?;
        Some(token.to_ascii_lowercase())
    }

    /// A request was forwarded with `count` new Record-Routes on top. Their tokens lead to the initiator of the dialog,
    /// and must be accepted until `until`.
    pub(super) fn recorded(&mut self, until: Instant, forwarded: &Message<'_>, count: usize) {
        let below = forwarded.record_routes().map(|value| value.uri).find(|uri| !self.is_own(uri));
        let place = below.or(forwarded.contact()).and_then(place_of);
        let initiator = forwarded.from_tag().unwrap_or_default().to_vec();
        let issued = IssuedToken { until: Some(until), initiator, peer: None, place };
        for value in forwarded.record_routes().take(count) {
            if let Some(token) = self.token_of(value.uri) {
                self.tokens.insert((forwarded.call_id().to_vec(), token), issued.clone());
            }
        }
    }

    /// A response was passed back to the initiator. Returns true if it reveals no token of the other side.
    pub(super) fn answered(&mut self, came: &Message<'_>, went: &Message<'_>) -> bool {
        let call = came.call_id();
        let begins = came.status().is_some_and(|status| (101..300).contains(&status));
        let (mut above, mut is_fine) = (None, true);
        for (before, after) in came.record_routes().zip(went.record_routes()) {
            if !self.is_own(before.uri) {
                above = Some(before.uri);
                continue;
            }
            let (before, after) = (self.token_of(before.uri), self.token_of(after.uri));
            let known = before.clone().and_then(|token| self.tokens.get(&(call.to_vec(), token)));
            let Some(issued) = known.filter(|token| token.peer.is_none()).cloned() else { continue };
            if before == after {
                is_fine = false;
            } else if let Some(after) = after.filter(|after| begins && after.iter().any(|&byte| byte != b'0'))
            {
                let peer = Some(came.to_tag().unwrap_or_default().to_vec());
                let place = above.or(came.contact()).and_then(place_of);
                self.tokens.insert((call.to_vec(), after), IssuedToken { peer, place, ..issued });
            }
        }
        is_fine
    }

    /// Records the contact in a message within a dialog.
    pub(super) fn heard(&mut self, message: &Message<'_>) {
        let counts = message.status().is_none_or(|status| (200..300).contains(&status));
        let place = message.contact().and_then(place_of).filter(|_| counts);
        let (Some(to), Some(place)) = (message.to_tag(), place) else { return };
        let from = message.from_tag().unwrap_or_default();
        let (speaker, other) = if message.status().is_some() { (to, from) } else { (from, to) };
        self.contacts.insert(((message.call_id().to_vec(), speaker.to_vec(), other.to_vec()), place));
    }

    /// Returns the tokens of a request that belong to its dialog and direction.
    fn held<'a>(&'a self, request: &'a Message<'_>) -> impl Iterator<Item = &'a IssuedToken> + 'a {
        let (from, to) = (request.from_tag().unwrap_or_default(), request.to_tag().unwrap_or_default());
        let uris = request.routes().map(|route| route.uri).chain(request.uri());
        let token = |uri| self.tokens.get(&(request.call_id().to_vec(), self.token_of(uri)?));
        uris.filter_map(token).filter(move |token| match &token.peer {
            _ if request.to_tag().is_none() => false,
            Some(peer) => (from, to) == (&token.initiator[..], &peer[..]),
            None => {
                to == token.initiator && from != to && (self.element == TokenOwner::Pool || !from.is_empty())
            }
        })
    }

    /// Returns true if a token of this request allows this target.
    pub(super) fn may_go(&self, request: &Message<'_>, to: SocketAddr) -> bool {
        let tag = |tag: Option<&[u8]>| tag.unwrap_or_default().to_vec();
        let (from, other) = (tag(request.from_tag()), tag(request.to_tag()));
        let contact = ((request.call_id().to_vec(), other, from), Place::At(to));
        let is_named = names(request).any(|named| named == to);
        self.held(request).any(|token| match &token.place {
            Some(Place::At(at)) if *at == to => is_named,
            // The DNS decides the address of a name.
            Some(Place::Name(..)) => true,
            _ => is_named && self.contacts.contains(&contact),
        })
    }

    /// Returns true if this request must be forwarded to the target of its Route or Request-URI.
    pub(super) fn must_follow_route(&self, now: Instant, request: &Message<'_>) -> bool {
        self.held(request).any(|token| token.until.is_some_and(|until| now < until))
    }
}

fn place_of(uri: &[u8]) -> Option<Place> {
    let uri = SipUri::parse(uri).ok()?;
    match uri.param("maddr").flatten().map_or(Some(uri.host), Host::parse)? {
        Host::Name(name) => Some(Place::Name(name.to_ascii_lowercase(), uri.port)),
        Host::V4(_) | Host::V6(_) => address_of(&uri).map(Place::At),
    }
}

pub(super) fn address_of(uri: &SipUri<'_>) -> Option<SocketAddr> {
    let host = uri.param("maddr").flatten().map_or(Some(uri.host), Host::parse)?;
    Some(SocketAddr::new(host.ip()?, uri.port.unwrap_or(5060)))
}
