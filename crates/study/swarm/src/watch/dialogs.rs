//! Where the tokens of Record-Route may lead, as it follows from the messages alone.

use super::balancer::names;
use base::Instant;
use node::TokenOwner;
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use wire::{Host, Message, SipUri};

/// A host and a port as a URI names them.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Place {
    At(SocketAddr),
    Name(Vec<u8>, Option<u16>),
}

/// A token that somebody was given.
#[derive(Clone)]
struct Led {
    /// Until when it must lead its dialog; `None` once its key is gone.
    until: Option<Instant>,
    initiator: Vec<u8>,
    /// `None` in the token that the other side was given before its tag was known.
    peer: Option<Vec<u8>>,
    place: Option<Place>,
}

/// Call-ID, the tag of a party, and that of the other one, to whom it has said something.
type Said = (Vec<u8>, Vec<u8>, Vec<u8>);

/// What was recorded in which dialogs, and what their parties have said since.
pub(super) struct Dialogs {
    element: TokenOwner,
    listeners: Vec<SocketAddr>,
    /// By Call-ID and token.
    led: BTreeMap<(Vec<u8>, Vec<u8>), Led>,
    /// Where parties have said that they want to be reached.
    said: BTreeSet<(Said, Place)>,
}

impl Dialogs {
    pub(super) fn new(element: TokenOwner, listeners: &[SocketAddr]) -> Self {
        let (led, said) = (BTreeMap::new(), BTreeSet::new());
        Self { element, listeners: listeners.to_vec(), led, said }
    }

    /// Tokens made so far need not be honoured any more.
    pub(super) fn forgotten(&mut self) {
        self.led.values_mut().for_each(|led| led.until = None);
    }

    /// Whether a Route or Record-Route value is the element's.
    pub(super) fn is_own(&self, uri: &[u8]) -> bool {
        let Ok(parsed) = SipUri::parse(uri) else { return false };
        let is_sisters = self.element == TokenOwner::Pool && self.token_of(uri).is_some();
        is_sisters || address_of(&parsed).is_some_and(|at| self.listeners.contains(&at))
    }

    /// The element's token in a URI.
    pub(super) fn token_of(&self, uri: &[u8]) -> Option<Vec<u8>> {
        let token = SipUri::parse(uri).ok()?.param(self.element.param()).flatten()?;
        Some(token.to_ascii_lowercase())
    }

    /// A request was sent on with `count` Record-Routes on top that it had not come with: they lead to who began the
    /// dialog, and must until then.
    pub(super) fn recorded(&mut self, until: Instant, forwarded: &Message<'_>, count: usize) {
        let below = forwarded.record_routes().map(|value| value.uri).find(|uri| !self.is_own(uri));
        let place = below.or(forwarded.contact()).and_then(place_of);
        let initiator = forwarded.from_tag().unwrap_or_default().to_vec();
        let led = Led { until: Some(until), initiator, peer: None, place };
        for value in forwarded.record_routes().take(count) {
            if let Some(token) = self.token_of(value.uri) {
                self.led.insert((forwarded.call_id().to_vec(), token), led.clone());
            }
        }
    }

    /// A response was passed back to who began the dialog. Whether it shows nothing of the other side's tokens.
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
            let known = before.clone().and_then(|token| self.led.get(&(call.to_vec(), token)));
            let Some(led) = known.filter(|led| led.peer.is_none()).cloned() else { continue };
            if before == after {
                is_fine = false;
            } else if let Some(after) = after.filter(|after| begins && after.iter().any(|&byte| byte != b'0'))
            {
                let peer = Some(came.to_tag().unwrap_or_default().to_vec());
                let place = above.or(came.contact()).and_then(place_of);
                self.led.insert((call.to_vec(), after), Led { peer, place, ..led });
            }
        }
        is_fine
    }

    /// What the sender of a message within a dialog says of where it is reached.
    pub(super) fn heard(&mut self, message: &Message<'_>) {
        let counts = message.status().is_none_or(|status| (200..300).contains(&status));
        let place = message.contact().and_then(place_of).filter(|_| counts);
        let (Some(to), Some(place)) = (message.to_tag(), place) else { return };
        let from = message.from_tag().unwrap_or_default();
        let (speaker, other) = if message.status().is_some() { (to, from) } else { (from, to) };
        self.said.insert(((message.call_id().to_vec(), speaker.to_vec(), other.to_vec()), place));
    }

    /// The tokens of a request that were made for its dialog and its direction.
    fn held<'a>(&'a self, request: &'a Message<'_>) -> impl Iterator<Item = &'a Led> + 'a {
        let (from, to) = (request.from_tag().unwrap_or_default(), request.to_tag().unwrap_or_default());
        let uris = request.routes().map(|route| route.uri).chain(request.uri());
        let led = |uri| self.led.get(&(request.call_id().to_vec(), self.token_of(uri)?));
        uris.filter_map(led).filter(move |led| match &led.peer {
            _ if request.to_tag().is_none() => false,
            Some(peer) => (from, to) == (&led.initiator[..], &peer[..]),
            None => {
                to == led.initiator && from != to && (self.element == TokenOwner::Pool || !from.is_empty())
            }
        })
    }

    /// Whether its token allows this request to go there.
    pub(super) fn may_go(&self, request: &Message<'_>, to: SocketAddr) -> bool {
        let tag = |tag: Option<&[u8]>| tag.unwrap_or_default().to_vec();
        let (from, other) = (tag(request.from_tag()), tag(request.to_tag()));
        let said = ((request.call_id().to_vec(), other, from), Place::At(to));
        let is_named = names(request).any(|named| named == to);
        self.held(request).any(|led| match &led.place {
            Some(Place::At(at)) if *at == to => is_named,
            // Where it leads, the DNS says.
            Some(Place::Name(..)) => true,
            _ => is_named && self.said.contains(&said),
        })
    }

    /// Whether this request must be led where its Route or Request-URI says, if anywhere.
    pub(super) fn is_led(&self, now: Instant, request: &Message<'_>) -> bool {
        self.held(request).any(|led| led.until.is_some_and(|until| now < until))
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
