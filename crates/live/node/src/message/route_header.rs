//! The header field Route: finds this proxy's values in it (RFC 3261 §16.4), and edits it (§16.6 step 6). The routing
//! rules are in `routes.rs`.

use crate::address::target::Target;
use crate::address::topology::AddressTable;
use crate::token::owner::TokenOwner;
use std::net::SocketAddr;
use wire::{Edits, Message, SipUri};

/// Default of Max-Forwards (RFC 3261 §16.6 step 3).
const MAX_FORWARDS: u32 = 70;

/// Default and maximum of Max-Breadth (RFC 5393 §5.3.3).
const MAX_BREADTH: u8 = 60;

/// A Route or Record-Route value of this proxy.
pub(crate) struct OwnRoute<'a> {
    pub(crate) token: Option<&'a [u8]>,
    /// The listener that the value names.
    listener: Option<u16>,
}

impl<'a> OwnRoute<'a> {
    /// Returns the value if it is of this proxy, by its address. A pool's value that another balancer of the site wrote
    /// is recognised by the parameter with the token.
    pub(crate) fn of(topology: &AddressTable, uri: &'a [u8], element: TokenOwner) -> Option<Self> {
        let uri = SipUri::parse(uri).ok()?;
        Self::with_token(topology, &uri, element, token_of(&uri, element))
    }

    fn with_token(
        topology: &AddressTable,
        uri: &SipUri<'a>,
        element: TokenOwner,
        token: Option<&'a [u8]>,
    ) -> Option<Self> {
        let listener = topology.ports.named(uri);
        let is_of_another = element == TokenOwner::Pool && token.is_some();
        (listener.is_some() || is_of_another || topology.is_ours(uri)).then_some(Self { token, listener })
    }
}

/// Returns the token in a URI for an element.
fn token_of<'a>(uri: &SipUri<'a>, element: TokenOwner) -> Option<&'a [u8]> {
    uri.param(element.param()).flatten()
}

/// Returns the token in a URI and its owner. Without `element`, a pool's token takes precedence over a proxy's.
fn any_token_of<'a>(uri: &SipUri<'a>, element: Option<TokenOwner>) -> (TokenOwner, Option<&'a [u8]>) {
    let first = element.unwrap_or(TokenOwner::Pool);
    let token = token_of(uri, first);
    let proxys = || token_of(uri, TokenOwner::Proxy).filter(|_| element.is_none());
    match token {
        None => proxys().map_or((first, None), |token| (TokenOwner::Proxy, Some(token))),
        Some(_) => (first, token),
    }
}

/// URI parameter in a Path of this proxy that names the source address of a client over UDP. `ob` (RFC 5626 §5.1) would
/// promise that the flow is kept, which needs STUN keep-alives.
pub(crate) const NAT: &str = "nat";

/// The Route header and the Request-URI, which determine the way of a request (RFC 3261 §16.4).
#[derive(Clone, Copy)]
pub(crate) struct RouteHeader<'a> {
    /// Number of this proxy's Route values on top.
    ours: usize,
    /// The next Route value of another element.
    pub(crate) next: Option<&'a [u8]>,
    /// The last Route value, if a strict router put a URI of this proxy into the Request-URI. It is the true
    /// Request-URI.
    pub(crate) last: Option<&'a [u8]>,
    /// The token in the first URI of this proxy with a token.
    pub(crate) token: Option<&'a [u8]>,
    /// The owner of the token.
    pub(crate) owner: TokenOwner,
    /// Name of a client's flow (RFC 5626 §5.3), in the first URI of this proxy that contains such a name. It is from a
    /// Path of this proxy.
    pub(crate) flow: Option<&'a [u8]>,
    /// The listener in this proxy's last Route value, which the far side knows (RFC 5658 §4).
    pub(crate) far_side: Option<u16>,
}

impl<'a> RouteHeader<'a> {
    /// §16.4: finds this proxy's Route values and the next one. If there are tokens of a pool and of a proxy, the first
    /// token is used.
    pub(crate) fn read(topology: &AddressTable, message: &Message<'a>) -> Self {
        Self::scan(topology, message, None)
    }

    /// Reads the header as this element sees it, without tokens of other elements.
    pub(crate) fn new(topology: &AddressTable, message: &Message<'a>, element: TokenOwner) -> Self {
        Self::scan(topology, message, Some(element))
    }

    fn scan(topology: &AddressTable, message: &Message<'a>, element: Option<TokenOwner>) -> Self {
        let uri = message.uri().unwrap_or_default();
        let owner = element.unwrap_or(TokenOwner::Pool);
        let mut info =
            Self { ours: 0, next: None, last: None, token: None, owner, flow: None, far_side: None };
        let mut left = usize::MAX;
        // A strict router replaced the Request-URI by the Record-Route URI of this proxy, and appended the Request-URI
        // as the last Route. A Record-Route URI has parameters, and most other URIs have none.
        if message.has_routes()
            && uri.contains(&b';')
            && let Ok(parsed) = SipUri::parse(uri)
            && let (owner, Some(token)) = any_token_of(&parsed, element)
            && topology.is_ours(&parsed)
        {
            (info.token, info.owner) = (Some(token), owner);
            info.last = message.routes().last().map(|value| value.uri);
            left = message.routes().count().saturating_sub(1);
        }
        for value in message.routes().take(left) {
            let own = value.sip.and_then(|uri| {
                let known = element.or(info.token.map(|_| info.owner));
                let (owner, token) = any_token_of(&uri, known);
                info.owner = owner;
                OwnRoute::with_token(topology, &uri, owner, token)
            });
            let Some(own) = own else {
                info.next = Some(value.uri);
                break;
            };
            info.token = info.token.or(own.token);
            if let Some(uri) = value.sip.filter(|uri| uri.user.is_some()) {
                let names_flow = uri.param("ob").or(uri.param(NAT)).is_some();
                info.flow = info.flow.or(uri.user.filter(|_| names_flow));
            }
            info.far_side = own.listener;
            info.ours += 1;
        }
        info
    }

    /// Returns whether this reading is valid for a proxy, which ignores the tokens of a pool.
    pub(crate) fn is_proxys(&self) -> bool {
        self.token.is_none() || self.owner == TokenOwner::Proxy
    }

    /// Returns the true Request-URI, which a strict router may have moved.
    pub(crate) fn uri(&self, message: &Message<'a>) -> &'a [u8] {
        self.last.or(message.uri()).unwrap_or_default()
    }

    /// Returns the target that the header alone determines: the next Route value, or the Request-URI (§16.6 step 7).
    pub(crate) fn target(&self, message: &Message<'a>) -> Target<'a> {
        Target::of(self.next.or(self.last).or(message.uri()).unwrap_or_default())
    }

    /// Returns the Route values of other elements, from [`next`](Self::next) on.
    pub(crate) fn behind(&self, message: &Message<'a>) -> impl Iterator<Item = &'a [u8]> {
        message.routes().skip(self.ours).map(|value| value.uri)
    }

    /// Returns whether there is no further Route value, and the Request-URI names this proxy.
    pub(crate) fn leads_to_us(&self, topology: &AddressTable, message: &Message<'a>) -> bool {
        let uri = self.last.or(message.uri()).and_then(|uri| SipUri::parse(uri).ok());
        self.next.is_none() && uri.is_some_and(|uri| uri.param("maddr").is_none() && topology.is_ours(&uri))
    }

    /// §16.4 and §16.6 step 6: removes this proxy's Route values, and handles strict routers before and behind this
    /// proxy. `rewritten` replaces the Request-URI, if given.
    pub(crate) fn edit(
        &self,
        message: &Message<'_>,
        rewritten: Option<&[u8]>,
        edits: &mut Edits,
        scratch: &mut Vec<u8>,
    ) {
        if self.ours > 0 {
            edits.pop_route(message, self.ours);
        }
        let uri = match self.last {
            Some(last) => {
                edits.set_uri(message, rewritten.unwrap_or(last));
                edits.pop_last_route(message);
                last
            }
            None => rewritten.or(message.uri()).unwrap_or_default(),
        };
        let strict = |next: &[u8]| SipUri::parse(next).is_ok_and(|next| next.param("lr").is_none());
        if let Some(next) = self.next.filter(|next| self.last.is_none() && strict(next)) {
            scratch.clear();
            scratch.push(b'<');
            scratch.extend_from_slice(uri);
            scratch.push(b'>');
            edits.append_route(message, scratch);
            edits.set_uri(message, next);
            edits.pop_route(message, 1);
        } else if let (Some(uri), None) = (rewritten, self.last) {
            edits.set_uri(message, uri);
        }
    }
}

/// Writes the source into the topmost Via (§18.2.1), and decrements Max-Forwards (§16.6 step 3). A missing Max-Forwards
/// counts as 70 and is added. RFC 5393 §5.3.3: a missing Max-Breadth is added as well, and one that is too large is
/// lowered. `breadth` is the share of this branch: the whole [`max_breadth`] if there is one branch at a time.
pub(crate) fn edit_hop(message: &Message<'_>, from: SocketAddr, breadth: u8, edits: &mut Edits) {
    edits.mark_received(message, from);
    let hops = message.max_forwards().map_or(MAX_FORWARDS, |(hops, _)| hops - 1);
    edits.set_max_forwards(message, hops);
    if message.max_breadth().is_none_or(|(branches, _)| branches != breadth.into()) {
        edits.set_max_breadth(message, breadth.into());
    }
}

/// Returns the Max-Breadth of a request (RFC 5393 §5.3.3).
pub(crate) fn max_breadth(message: &Message<'_>) -> u8 {
    let breadth = message.max_breadth().and_then(|(branches, _)| u8::try_from(branches).ok());
    breadth.filter(|&branches| branches <= MAX_BREADTH).unwrap_or(MAX_BREADTH)
}
