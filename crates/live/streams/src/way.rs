//! Key by which a message without a named connection finds one, and name that the peer's certificate must be valid for.

use crate::tls::TlsSetup;
use base::{Flow, Peer, Transport};
use wire::{Host, Message, SipUri};

/// Destination of messages. Two hosts at one address have two keys: the certificate of one does not authenticate the
/// other (RFC 5922 §4).
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(super) struct Way {
    /// Index of the local port.
    port: u16,
    peer: Peer,
    /// Host that a message names as its next hop, in lower case. `None`: it names an address, the expected name is
    /// configured, or there is none.
    host: Option<Box<str>>,
}

impl Way {
    /// Destination of this message.
    pub(super) fn of(flow: Flow, message: &[u8], tls: Option<&TlsSetup>) -> Self {
        let peer = flow.remote();
        let is_configured = tls.is_none_or(|tls| tls.names().contains_key(&peer.address));
        let asks = peer.transport == Transport::Tls && !is_configured;
        Self { port: flow.listener, peer, host: asks.then(|| next_host(message)).flatten() }
    }

    pub(super) fn host(&self) -> Option<&str> {
        self.host.as_deref()
    }
}

/// Host that a message names as its destination: a request by its first Route or else its Request-URI (RFC 3261 §16.6),
/// a response by its Via (§18.2.2). The address of the peer was found by this name (RFC 3263 §4).
fn next_host(bytes: &[u8]) -> Option<Box<str>> {
    let message = wire::scan(bytes).ok()?;
    let host = match message.uri() {
        Some(uri) => requested(&message, uri)?,
        None => message.top_via().host,
    };
    let Host::Name(name) = host else { return None };
    let name = str::from_utf8(name.strip_suffix(b".").unwrap_or(name)).ok()?;
    Some(name.to_ascii_lowercase().into())
}

fn requested<'a>(message: &Message<'a>, uri: &'a [u8]) -> Option<Host<'a>> {
    let uri = match message.routes().next() {
        Some(route) => route.sip?,
        None => SipUri::parse(uri).ok()?,
    };
    match uri.param("maddr").flatten() {
        Some(maddr) => Host::parse(maddr),
        None => Some(uri.host),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(start: &str, more: &str) -> Option<String> {
        let text = format!(
            "{start}\r\nVia: SIP/2.0/TLS Phone.example:5061;branch=z9hG4bK1\r\n{more}From: <sip:a@x>;tag=1\r\n\
             To: <sip:b@x>\r\nCall-ID: c\r\nCSeq: 1 BYE\r\nContent-Length: 0\r\n\r\n"
        );
        next_host(text.as_bytes()).map(String::from)
    }

    #[test]
    fn the_next_host_is_read_from_the_message() {
        let bye = |uri: &str, more: &str| host(&format!("BYE {uri} SIP/2.0"), more);
        let is = |name: &str| Some(name.to_owned());
        assert_eq!(bye("sips:b@Other.EXAMPLE.", ""), is("other.example"));
        let route = "Route: <sip:edge.example;transport=tls;lr>, <sip:second.example;lr>\r\n";
        assert_eq!(bye("sips:b@other.example", route), is("edge.example"));
        assert_eq!(bye("sips:b@other.example;maddr=relay.example", ""), is("relay.example"));
        for address in
            ["sips:b@192.0.2.1", "sips:b@[2001:db8::1]", "sips:b@x.example;maddr=192.0.2.1", "tel:1"]
        {
            assert_eq!(bye(address, ""), None, "{address}");
        }
        assert_eq!(host("SIP/2.0 200 OK", ""), is("phone.example"));
    }
}
