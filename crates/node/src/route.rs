//! The Route of a request: what of it is ours (RFC 3261 §16.4), and what becomes of it (§16.6 steps 4 and 6).

use crate::Topology;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use wire::{Edits, Message, Method, SipUri};

/// RFC 3261 §16.6 step 3.
const MAX_FORWARDS: u32 = 70;

/// RFC 5393 §5.3.3: what is added where it is missing, and the most that is passed on.
const MAX_BREADTH: u32 = 60;

/// What the Route header and the Request-URI say about where a request goes (RFC 3261 §16.4).
#[derive(Clone, Copy, Default)]
pub(crate) struct RouteInfo<'a> {
    /// How many Route values on top are ours.
    ours: usize,
    /// The next one, which is not.
    pub(crate) next: Option<&'a [u8]>,
    /// A strict router put our URI into the Request-URI; this last Route value belongs there.
    pub(crate) last: Option<&'a [u8]>,
    /// The token in the first URI of ours that has one.
    pub(crate) token: Option<&'a [u8]>,
    /// The listener that the last Route value of ours names: the one that the far side knows (RFC 5658 §4).
    pub(crate) far_side: Option<u16>,
}

impl<'a> RouteInfo<'a> {
    /// §16.4: which Route values are ours, and what the next one is. `param` is the URI parameter with our token;
    /// with `sisters`, a URI with it is ours even under another address of the site.
    pub(crate) fn new(topology: &Topology, message: &Message<'a>, param: &str, sisters: bool) -> Self {
        let uri = message.uri().unwrap_or_default();
        let mut info = Self::default();
        let mut left = usize::MAX;
        // A strict router replaced the Request-URI by what we put into Record-Route, and put that last. That one has
        // parameters, and most others have none.
        if message.has_routes()
            && uri.contains(&b';')
            && let Ok(parsed) = SipUri::parse(uri)
            && let Some(Some(token)) = parsed.param(param)
            && topology.is_ours(&parsed)
        {
            info.token = Some(token);
            info.last = message.routes().last().map(|value| value.uri);
            left = message.routes().count() - 1;
        }
        for value in message.routes().take(left) {
            let parsed = SipUri::parse(value.uri).ok();
            let token = parsed.and_then(|parsed| parsed.param(param).flatten());
            let sister = sisters && token.is_some();
            if !(sister || parsed.is_some_and(|parsed| topology.is_ours(&parsed))) {
                info.next = Some(value.uri);
                break;
            }
            info.token = info.token.or(token);
            info.far_side = parsed.and_then(|parsed| topology.listener_named(&parsed));
            info.ours += 1;
        }
        info
    }

    /// Where the request goes by itself: to the next Route value, else the Request-URI (§16.6 step 7).
    pub(crate) fn target(&self, message: &Message<'a>) -> Target<'a> {
        Target::of(self.next.or(self.last).or(message.uri()).unwrap_or_default())
    }

    /// The address of the next Route value.
    pub(crate) fn next_address(&self) -> Option<SocketAddr> {
        match Target::of(self.next?) {
            Target::Address(address) => Some(address),
            Target::Name(..) | Target::Nowhere => None,
        }
    }

    /// §16.4 and §16.6 step 6: our own Route values go; a strict router before or behind us is served.
    pub(crate) fn edit(&self, message: &Message<'_>, edits: &mut Edits, scratch: &mut Vec<u8>) {
        if self.ours > 0 {
            edits.pop_route(message, self.ours);
        }
        let uri = match self.last {
            Some(last) => {
                edits.set_uri(message, last);
                edits.pop_last_route(message);
                last
            }
            None => message.uri().unwrap_or_default(),
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
        }
    }
}

/// Notes the source in the topmost Via (§18.2.1) and counts the hop (§16.6 step 3): an absent Max-Forwards counts as 70
/// and is added. RFC 5393 §5.3.3: Max-Breadth is added likewise, and lowered where it is too large. All of it goes on: a
/// request has one branch at a time.
pub(crate) fn edit_hop(message: &Message<'_>, from: SocketAddr, edits: &mut Edits) {
    edits.mark_received(message, from);
    let hops = message.max_forwards().map_or(MAX_FORWARDS, |(hops, _)| hops - 1);
    edits.set_max_forwards(message, hops);
    if message.max_breadth().is_none_or(|(branches, _)| branches > MAX_BREADTH) {
        edits.set_max_breadth(message, MAX_BREADTH);
    }
}

/// §16.6 step 4: requests that begin a dialog. In one, Record-Route changes nothing.
pub(crate) fn wants_record_route(message: &Message<'_>) -> bool {
    message.to_tag().is_none()
        && matches!(message.method(), Some(Method::Invite | Method::Subscribe | Method::Refer))
}

/// Adds our Record-Route with the URI parameter `param`, whose value `write` appends: one for each of `listeners`, the one that the next
/// hop sees on top (RFC 5658).
pub(crate) fn record(
    message: &Message<'_>,
    topology: &Topology,
    listeners: [u16; 2],
    edits: &mut Edits,
    scratch: &mut Vec<u8>,
    (param, write): (&str, impl Fn(&mut Vec<u8>)),
) {
    let sides = if listeners[0] == listeners[1] { &listeners[..1] } else { &listeners[..] };
    for &side in sides {
        scratch.clear();
        let host = &topology.listeners[side as usize].sent_by;
        for part in ["<sip:", host, ";lr;", param, "="] {
            scratch.extend_from_slice(part.as_bytes());
        }
        write(scratch);
        scratch.push(b'>');
        edits.push_record_route(message, scratch);
    }
}

/// Where a URI leads: its `maddr`, else its host (RFC 3263 §4).
#[derive(Clone, Copy)]
pub(crate) enum Target<'a> {
    Address(SocketAddr),
    /// A host name, and the port if there is one.
    Name(&'a [u8], Option<u16>),
    /// It is no SIP URI, or a datagram may not be sent there.
    Nowhere,
}

impl<'a> Target<'a> {
    fn of(uri: &'a [u8]) -> Self {
        let Ok(uri) = SipUri::parse(uri) else { return Self::Nowhere };
        let host = match uri.param("maddr").flatten() {
            Some(maddr) => wire::Host::parse(maddr),
            None => Some(uri.host),
        };
        match host {
            Some(wire::Host::Name(name)) => Self::Name(name, uri.port),
            Some(host) => {
                let address = host.ip().map(|ip| SocketAddr::new(ip, uri.port.unwrap_or(5060)));
                address.filter(|address| is_unicast(address.ip())).map_or(Self::Nowhere, Self::Address)
            }
            None => Self::Nowhere,
        }
    }
}

/// Whether a datagram may be sent there.
pub(crate) fn is_unicast(ip: IpAddr) -> bool {
    !ip.is_unspecified() && !ip.is_multicast() && ip != Ipv4Addr::BROADCAST
}
