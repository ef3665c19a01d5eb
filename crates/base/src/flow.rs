//! Transports, peers, and flows: the path of a message between this process and a peer.

use core::fmt;
use core::num::NonZeroU32;
use core::str::FromStr;
use std::net::SocketAddr;

/// Transport protocol of SIP messages (RFC 3261 §18, RFC 7118).
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
    /// All transports.
    pub const ALL: [Self; 5] = [Self::Udp, Self::Tcp, Self::Tls, Self::Ws, Self::Wss];

    /// Name in a Via header field (RFC 3261 §20.42, RFC 7118 §5.2).
    pub const fn name(self) -> &'static str {
        match self {
            Self::Udp => "UDP",
            Self::Tcp => "TCP",
            Self::Tls => "TLS",
            Self::Ws => "WS",
            Self::Wss => "WSS",
        }
    }

    /// Transport named in a Via or a `transport` parameter. In a URI, the scheme `sips` names TLS as well.
    pub fn parse(name: &[u8]) -> Option<Self> {
        Self::ALL.into_iter().find(|transport| name.eq_ignore_ascii_case(transport.name().as_bytes()))
    }

    /// Port of an address that names none (RFC 3261 §19.1.2, RFC 7118 §5.3).
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

    /// Parameter of a URI that names the transport (RFC 3261 §19.1.1), with its semicolon. Empty for UDP, which a URI
    /// with an IP address and without the parameter means (RFC 3263 §4.1). RFC 7118 has one name for `WebSocket` with
    /// and without TLS.
    pub const fn uri_param(self) -> &'static str {
        match self {
            Self::Udp => "",
            Self::Tcp => ";transport=tcp",
            Self::Tls => ";transport=tls",
            Self::Ws | Self::Wss => ";transport=ws",
        }
    }

    /// Whether the transport delivers each message or reports a failure, so that nothing is retransmitted (RFC 3261
    /// §17).
    pub const fn is_reliable(self) -> bool {
        !matches!(self, Self::Udp)
    }

    /// Whether messages are encrypted on the way.
    pub const fn is_secure(self) -> bool {
        matches!(self, Self::Tls | Self::Wss)
    }

    /// Longest message, in bytes: the payload of a UDP datagram over IPv4, which is 65,535 less the headers of IP and
    /// UDP. The same limit holds for IPv6 and for the other transports, since a proxy may forward their messages over
    /// IPv4 UDP.
    pub const fn longest(self) -> usize {
        65_507
    }
}

/// Remote end of a flow. Two transports at one address are two peers.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Peer {
    /// Transport to the peer.
    pub transport: Transport,
    /// Address of the peer.
    pub address: SocketAddr,
}

impl Peer {
    /// Makes a peer from its transport and address.
    pub const fn new(transport: Transport, address: SocketAddr) -> Self {
        Self { transport, address }
    }
}

/// As written in configurations: `10.0.0.1:5060` over UDP, `10.0.0.1:5060;transport=tcp` over another transport.
impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.transport == Transport::Udp {
            // Keeps the width of the formatter.
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

/// Error: the text is not the address of a peer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NoPeer;

impl fmt::Display for NoPeer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("expected an address such as 10.0.0.1:5060, or 10.0.0.1:5060;transport=tcp")
    }
}

/// Number of a connection of this process, used once in the life of the process. Another process may have used the same
/// number, so a sender checks that the connection leads to the IP address of the flow's peer.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Connection(pub NonZeroU32);

/// Path of a message between this process and a peer: its ingress or egress.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Flow {
    /// Transport of the message.
    pub transport: Transport,
    /// Index of the local port, whose address is ours.
    pub listener: u16,
    /// Address of the peer.
    pub peer: SocketAddr,
    /// Connection that the message came by, or has to leave by. A response leaves by the connection of its request, or
    /// by a new connection to `peer` if that is closed (RFC 3261 §18.2.2). `None`: any connection to `peer`, or the
    /// transport has none.
    pub connection: Option<Connection>,
}

impl Flow {
    /// Makes a flow over UDP.
    pub const fn udp(listener: u16, peer: SocketAddr) -> Self {
        Self { transport: Transport::Udp, listener, peer, connection: None }
    }

    /// The peer with its transport.
    pub const fn remote(&self) -> Peer {
        Peer::new(self.transport, self.peer)
    }

    /// Whether a message on this flow is lost if `failed` leads nowhere: both have the same peer, and the same
    /// connection if both name one. A link-local address matches with or without its interface.
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
