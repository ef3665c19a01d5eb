//! How messages are carried, and the way between this process and a peer.

use core::fmt;
use core::num::NonZeroU32;
use core::str::FromStr;
use std::net::SocketAddr;

/// What carries messages (RFC 3261 §18, RFC 7118).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub enum Transport {
    /// UDP.
    #[default]
    Udp,
    /// TCP.
    Tcp,
    /// TLS over TCP.
    Tls,
    /// `WebSocket` (RFC 7118).
    Ws,
    /// `WebSocket` over TLS (RFC 7118).
    Wss,
}

impl Transport {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Udp, Self::Tcp, Self::Tls, Self::Ws, Self::Wss];

    /// As a Via names it (RFC 3261 §20.42, RFC 7118 §5.2).
    pub const fn name(self) -> &'static str {
        match self {
            Self::Udp => "UDP",
            Self::Tcp => "TCP",
            Self::Tls => "TLS",
            Self::Ws => "WS",
            Self::Wss => "WSS",
        }
    }

    /// The one that a Via or a `transport` parameter names; in a URI, TLS is said by the scheme as well.
    pub fn parse(name: &[u8]) -> Option<Self> {
        Self::ALL.into_iter().find(|transport| name.eq_ignore_ascii_case(transport.name().as_bytes()))
    }

    /// The port of an address without one (RFC 3261 §19.1.2, RFC 7118 §5.3).
    pub const fn default_port(self) -> u16 {
        match self {
            Self::Udp | Self::Tcp => 5060,
            Self::Tls => 5061,
            Self::Ws => 80,
            Self::Wss => 443,
        }
    }

    /// The service and protocol labels of its SRV records (RFC 3263 §4.2): `_sip._udp`. `None`: WebSocket servers
    /// have none.
    pub const fn service(self) -> Option<&'static str> {
        match self {
            Self::Udp => Some("_sip._udp"),
            Self::Tcp => Some("_sip._tcp"),
            Self::Tls => Some("_sips._tcp"),
            Self::Ws | Self::Wss => None,
        }
    }

    /// The parameter of a URI that says how its address is reached (RFC 3261 §19.1.1), with its semicolon. A URI with
    /// an address and without the parameter means UDP (RFC 3263 §4.1): it is left out there. RFC 7118 has one name for
    /// `WebSocket` with and without TLS.
    pub const fn uri_param(self) -> &'static str {
        match self {
            Self::Udp => "",
            Self::Tcp => ";transport=tcp",
            Self::Tls => ";transport=tls",
            Self::Ws | Self::Wss => ";transport=ws",
        }
    }

    /// Whether what is sent arrives, or the sender learns that it did not: nothing is sent again (RFC 3261 §17).
    pub const fn is_reliable(self) -> bool {
        !matches!(self, Self::Udp)
    }

    /// Whether nobody on the way can read what is sent.
    pub const fn is_secure(self) -> bool {
        matches!(self, Self::Tls | Self::Wss)
    }

    /// The longest message, in bytes. Of UDP the payload of a datagram over IPv4: 65,535 less the headers of IP and
    /// UDP. It is the limit for IPv6 too, since whoever takes a request over the one may forward it over the other.
    /// The others have the same, since they may have to forward over UDP.
    pub const fn longest(self) -> usize {
        65_507
    }
}

/// The other end of a way: two transports at one address are two peers.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Peer {
    /// What carries messages to it.
    pub transport: Transport,
    /// Where it is.
    pub address: SocketAddr,
}

impl Peer {
    /// The peer at this address that is reached over this transport.
    pub const fn new(transport: Transport, address: SocketAddr) -> Self {
        Self { transport, address }
    }
}

/// As people and configurations have it: `10.0.0.1:5060` over UDP, and `10.0.0.1:5060;transport=tcp` over anything else.
impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.transport == Transport::Udp {
            // With the width that is asked for.
            return self.address.fmt(f);
        }
        let name = self.transport.name().to_ascii_lowercase();
        f.pad(&format!("{};transport={name}", self.address))
    }
}

impl FromStr for Peer {
    type Err = NoPeer;

    fn from_str(text: &str) -> Result<Self, NoPeer> {
        let (address, transport) = match text.split_once(";transport=") {
            Some((address, name)) => (address, Transport::parse(name.as_bytes()).ok_or(NoPeer)?),
            None => (text, Transport::Udp),
        };
        Ok(Self::new(transport, address.parse().map_err(|_| NoPeer)?))
    }
}

/// A text is no address of a peer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NoPeer;

impl fmt::Display for NoPeer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("expected an address such as 10.0.0.1:5060, or 10.0.0.1:5060;transport=tcp")
    }
}

/// A connection of this process. A number is given once in the life of a process. Another process may have given the
/// same, so who sends by it looks whether the other end has the IP address of the flow's peer.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Connection(pub NonZeroU32);

/// The way of a message between this process and a peer: what it came by, or leaves by.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Flow {
    /// What carries it.
    pub transport: Transport,
    /// Index of the local port: its address is ours.
    pub listener: u16,
    /// The other end.
    pub peer: SocketAddr,
    /// The connection that it came by, or has to leave by: a response goes back by the one of its request, and to
    /// `peer` by a new one where that is closed (RFC 3261 §18.2.2). `None`: any to `peer`, or the transport has none.
    pub connection: Option<Connection>,
}

impl Flow {
    /// One over UDP.
    pub const fn udp(listener: u16, peer: SocketAddr) -> Self {
        Self { transport: Transport::Udp, listener, peer, connection: None }
    }

    /// The other end with its transport.
    pub const fn remote(&self) -> Peer {
        Peer::new(self.transport, self.peer)
    }

    /// Whether what was sent this way is lost where `failed` leads nowhere: to the same peer, and by the same
    /// connection if both name one. A link-local address may come with its interface or without.
    pub fn meets(&self, failed: Self) -> bool {
        let is_same_connection = match (self.connection, failed.connection) {
            (Some(ours), Some(failed)) => ours == failed,
            _ => true,
        };
        is_same_connection
            && self.transport == failed.transport
            && (self.peer.ip(), self.peer.port()) == (failed.peer.ip(), failed.peer.port())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_is_read_as_it_is_written() {
        for transport in Transport::ALL {
            for address in ["192.0.2.1:5060", "[2001:db8::1]:5061"] {
                let peer = Peer::new(transport, address.parse().unwrap());
                assert_eq!(peer.to_string().parse(), Ok(peer));
            }
        }
        let peer = |text: &str| text.parse::<Peer>();
        let at = "192.0.2.1:5060".parse().unwrap();
        assert_eq!(Peer::new(Transport::Udp, at).to_string(), "192.0.2.1:5060");
        assert_eq!(Peer::new(Transport::Tcp, at).to_string(), "192.0.2.1:5060;transport=tcp");
        assert_eq!(format!("{:<30}|", Peer::new(Transport::Tcp, at)), "192.0.2.1:5060;transport=tcp  |");
        for wrong in ["", "192.0.2.1", "192.0.2.1:5060;transport=", "192.0.2.1:5060;transport=sctp"] {
            assert_eq!(peer(wrong), Err(NoPeer), "{wrong}");
        }
    }

    #[test]
    fn a_transport_is_known_by_its_name_in_any_case() {
        for transport in Transport::ALL {
            let name = transport.name();
            assert_eq!(Transport::parse(name.to_ascii_lowercase().as_bytes()), Some(transport));
            assert_eq!(Transport::parse(name.as_bytes()), Some(transport));
        }
        for unknown in ["", "SCTP", "UD", "UDPX"] {
            assert_eq!(Transport::parse(unknown.as_bytes()), None, "{unknown}");
        }
    }
}
