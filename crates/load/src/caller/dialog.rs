use std::net::{IpAddr, SocketAddr};
use wire::{Host, Message, NameAddr, SipUri};

/// What a caller keeps of a dialog: the parts of its requests that the 2xx decided. One allocation, some 300 bytes.
#[derive(Debug)]
pub(super) struct Dialog {
    /// Where its requests are sent.
    pub(super) next_hop: SocketAddr,
    /// Request-URI, then the Route and To lines, then the remote tag.
    text: Box<[u8]>,
    lines_at: u32,
    tag_at: u32,
}

impl Dialog {
    /// The dialog that a 2xx creates (RFC 3261 §12.1.2). `uri` stands in for a Contact that is missing, and
    /// `fallback` is where requests go when the URI to be asked is a name: resolving is not an agent's business.
    pub(super) fn new(response: &Message<'_>, uri: &str, fallback: SocketAddr) -> Self {
        let contact = response.header("Contact").and_then(NameAddr::parse);
        let target = contact.map_or(uri.as_bytes(), |contact| contact.uri);
        // The route set is the Record-Route in reverse order.
        let mut routes: Vec<_> = response.record_routes().map(|route| route.uri).collect();
        routes.reverse();
        let next_hop = address(routes.first().copied().unwrap_or(target)).unwrap_or(fallback);
        // RFC 3261 §12.2.1.1: a first route without `lr` goes into the Request-URI and the target to the end.
        let strict = routes.first().is_some_and(|route| !is_loose(route));
        let mut text = Vec::with_capacity(384);
        if strict {
            text.extend_from_slice(routes.remove(0));
            routes.push(target);
        } else {
            text.extend_from_slice(target);
        }
        let lines_at = text.len() as u32;
        for route in routes {
            for part in [b"Route: <", route, b">\r\n"] {
                text.extend_from_slice(part);
            }
        }
        for part in [b"To: ", response.to(), b"\r\n"] {
            text.extend_from_slice(part);
        }
        let tag_at = text.len() as u32;
        text.extend_from_slice(response.to_tag().unwrap_or_default());
        Self { next_hop, text: text.into_boxed_slice(), lines_at, tag_at }
    }

    /// The Request-URI.
    pub(super) fn uri(&self) -> &[u8] {
        &self.text[..self.lines_at as usize]
    }

    /// The Route and To header lines.
    pub(super) fn lines(&self) -> &[u8] {
        &self.text[self.lines_at as usize..self.tag_at as usize]
    }

    /// Whether the message comes from this dialog's remote party.
    pub(super) fn has_remote_tag(&self, tag: Option<&[u8]>) -> bool {
        &self.text[self.tag_at as usize..] == tag.unwrap_or_default()
    }
}

fn is_loose(uri: &[u8]) -> bool {
    SipUri::parse(uri).is_ok_and(|uri| uri.param("lr").is_some())
}

/// The address that a URI with a numeric host names (RFC 3263 §4.1 and §4.2 without DNS).
fn address(uri: &[u8]) -> Option<SocketAddr> {
    let uri = SipUri::parse(uri).ok()?;
    let maddr = uri.param("maddr").flatten().and_then(Host::parse);
    let ip = match maddr.unwrap_or(uri.host) {
        Host::V4(ip) => IpAddr::V4(ip),
        Host::V6(ip) => IpAddr::V6(ip),
        Host::Name(_) => return None,
    };
    Some(SocketAddr::new(ip, uri.port.unwrap_or(5060)))
}
