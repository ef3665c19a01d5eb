//! Where a URI leads, and over which transport (RFC 3263 §4).

use base::{Peer, Transport};
use core::hash::Hasher;
use siphasher::sip::SipHasher13;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use wire::{Scheme, SipUri};

/// A host that a URI names by a name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct NamedHost<'a> {
    pub(crate) host: &'a [u8],
    /// As the URI has it.
    pub(crate) port: Option<u16>,
    /// What the URI asks to be reached over, or the usual transport of its scheme.
    pub(crate) transport: Transport,
    /// Whether it names neither transport nor port: the DNS says what it is reached over (RFC 3263 §4.1).
    pub(crate) by_dns: bool,
}

/// Where a URI leads: its `maddr`, else its host (RFC 3263 §4).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Target<'a> {
    Address(Peer),
    Name(NamedHost<'a>),
    /// It asks for a transport that this program does not know.
    OtherTransport,
    /// It is no SIP URI, or a datagram may not be sent there.
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

    /// Whether it is where this came from. A name never is: who it belongs to may make it lead elsewhere at any time.
    pub(crate) fn is_at(&self, source: SocketAddr) -> bool {
        matches!(self, Self::Address(at) if at.address.ip().to_canonical() == source.ip().to_canonical())
    }

    /// Everything that decides where it leads.
    pub(crate) fn put(&self, hasher: &mut SipHasher13) {
        match *self {
            Self::Address(Peer { transport, address }) => {
                let ip = match address.ip() {
                    IpAddr::V4(ip) => ip.to_ipv6_mapped(),
                    IpAddr::V6(ip) => ip,
                };
                // In one piece: the hasher is slow with small ones.
                let mut text = [0; 19];
                text[0] = mark(transport);
                text[1..17].copy_from_slice(&ip.octets());
                text[17..].copy_from_slice(&address.port().to_be_bytes());
                hasher.write(&text);
            }
            Self::Name(NamedHost { host, port, transport, .. }) => {
                // Without a port SRV records come first (RFC 3263 §4.2), so that is another place than port 5060.
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

/// What a URI asks to be reached over (RFC 3263 §4.1); `None`: a transport that this program does not know, or one that
/// cannot be secured. The transport that a URI names SHOULD be used: one that listens for TCP need not for UDP. Without
/// any it is UDP, unless the DNS says another one of its name ([`NamedHost::by_dns`]). SIPS is that of TLS: over TCP, or over
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

/// What tells targets of other transports from those of UDP, whose hashes are what they were before there were others.
const fn mark(transport: Transport) -> u8 {
    match transport {
        Transport::Udp => 0,
        Transport::Tcp => 0x10,
        Transport::Tls => 0x20,
        Transport::Ws => 0x30,
        Transport::Wss => 0x40,
    }
}

/// Whether a datagram may be sent there.
pub(crate) fn is_unicast(ip: IpAddr) -> bool {
    let ip = ip.to_canonical();
    !ip.is_unspecified() && !ip.is_multicast() && ip != Ipv4Addr::BROADCAST
}
