//! Targets of URIs and their transports (RFC 3263 §4).

use base::{Peer, SipHash, Transport};
use core::hash::Hasher;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use wire::{Scheme, SipUri};

/// A host that a URI gives by name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct NamedHost<'a> {
    pub(crate) host: &'a [u8],
    /// Port of the URI.
    pub(crate) port: Option<u16>,
    /// Transport of the URI, or the default of its scheme.
    pub(crate) transport: Transport,
    /// Whether the DNS determines the transport, since the URI names neither transport nor port (RFC 3263 §4.1).
    pub(crate) by_dns: bool,
}

/// The target of a URI: its `maddr` if it has one, otherwise its host (RFC 3263 §4).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Target<'a> {
    Address(Peer),
    Name(NamedHost<'a>),
    /// The URI asks for an unknown transport.
    OtherTransport,
    /// The URI is no SIP URI, or its address is not unicast.
    Nowhere,
}

impl<'a> Target<'a> {
    pub(crate) fn of(uri: &'a [u8]) -> Self {
        let Ok(uri) = SipUri::parse(uri) else { return Self::Nowhere };
        let Some(transport) = transport_of(&uri) else { return Self::OtherTransport };
        let host = match uri.param("maddr").flatten() {
            Some(maddr) => wire::Host::parse(maddr),
            None => Some(uri.host),
        };
        match host {
            Some(wire::Host::Name(host)) => {
                let by_dns = uri.port.is_none() && uri.param("transport").is_none();
                Self::Name(NamedHost { host, port: uri.port, transport, by_dns })
            }
            Some(host) => {
                let port = uri.port.unwrap_or(transport.default_port());
                let address = host.ip().map(|ip| SocketAddr::new(ip, port));
                let address = address.filter(|address| is_unicast(address.ip()));
                address.map_or(Self::Nowhere, |address| Self::Address(Peer::new(transport, address)))
            }
            None => Self::Nowhere,
        }
    }

    /// Returns whether the target has the IP address of `source`. The result for a name is always `false`, since its
    /// owner may change its address at any time.
    pub(crate) fn is_at(&self, source: SocketAddr) -> bool {
        matches!(self, Self::Address(at) if at.address.ip().to_canonical() == source.ip().to_canonical())
    }

    /// Adds everything that determines the target to a hash.
    pub(crate) fn put(&self, hasher: &mut SipHash) {
        match *self {
            Self::Address(Peer { transport, address }) => {
                let ip = match address.ip() {
                    IpAddr::V4(ip) => ip.to_ipv6_mapped(),
                    IpAddr::V6(ip) => ip,
                };
                // All bytes go in one write, since the hasher is slow with small writes.
                let mut text = [0; 19];
                text[0] = mark(transport);
                text[1..17].copy_from_slice(&ip.octets());
                text[17..].copy_from_slice(&address.port().to_be_bytes());
                hasher.write(&text);
            }
            Self::Name(NamedHost { host, port, transport, .. }) => {
                // Without a port, SRV records come first (RFC 3263 §4.2), so the target differs from port 5060.
                hasher.write_u8(1 | mark(transport));
                hasher.write_u16(port.unwrap_or(0));
                for byte in host.strip_suffix(b".").unwrap_or(host) {
                    hasher.write_u8(byte.to_ascii_lowercase());
                }
            }
            Self::OtherTransport | Self::Nowhere => {}
        }
    }
}

/// Returns the transport of a URI (RFC 3263 §4.1). `None` for an unknown transport, or for a transport that cannot be
/// secured.
///
/// The transport that a URI names SHOULD be used, since a server that listens for TCP may not listen for UDP. The
/// default is UDP, unless the DNS gives another transport ([`NamedHost::by_dns`]). SIPS means TLS, over TCP or over
/// `WebSocket` (RFC 5630 §3.1.2, RFC 7118 §5).
pub(crate) fn transport_of(uri: &SipUri<'_>) -> Option<Transport> {
    let named = match uri.param("transport") {
        Some(name) => Some(Transport::parse(name?)?),
        None => None,
    };
    match (uri.scheme, named) {
        (Scheme::Sip, named) => Some(named.unwrap_or_default()),
        (Scheme::Sips, None | Some(Transport::Tcp | Transport::Tls)) => Some(Transport::Tls),
        (Scheme::Sips, Some(Transport::Ws | Transport::Wss)) => Some(Transport::Wss),
        (Scheme::Sips, Some(Transport::Udp)) => None,
    }
}

/// Returns the byte that stands for a transport in hashes. Zero for UDP keeps the hashes of versions that had only UDP.
const fn mark(transport: Transport) -> u8 {
    match transport {
        Transport::Udp => 0,
        Transport::Tcp => 0x10,
        Transport::Tls => 0x20,
        Transport::Ws => 0x30,
        Transport::Wss => 0x40,
    }
}

/// Returns whether a datagram may be sent to this address.
pub(crate) fn is_unicast(ip: IpAddr) -> bool {
    let ip = ip.to_canonical();
    !ip.is_unspecified() && !ip.is_multicast() && ip != Ipv4Addr::BROADCAST
}
