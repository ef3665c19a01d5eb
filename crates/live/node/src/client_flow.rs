//! The connections by which clients are reached that nobody can connect to (RFC 5626).

use crate::ports::Ports;
use crate::topology::Topology;
use base::{Connection, Flow};
use core::num::NonZeroU32;
use std::net::{IpAddr, SocketAddr};

/// Bytes of a flow in a token, of each address family.
pub(crate) const LENGTHS: [usize; 2] = [10, 22];

/// The connection of a client, and its other end. The transport is that of the port that it came to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct ClientFlow {
    connection: Connection,
    port: u16,
    /// In network order; an IPv4 address as an IPv6 one.
    ip: [u8; 16],
}

impl ClientFlow {
    /// The client that this came from. `None`: over UDP; and a node, which is reached at its address.
    pub(crate) fn of(flow: Flow, topology: &Topology) -> Option<Self> {
        let connection = flow.connection?;
        let ip = match flow.peer.ip().to_canonical() {
            IpAddr::V4(ip) => ip.to_ipv6_mapped(),
            IpAddr::V6(ip) => ip,
        };
        let port = flow.peer.port();
        topology.slot_of(flow).is_none().then_some(Self { connection, port, ip: ip.octets() })
    }

    /// The number of the connection.
    pub(crate) fn number(self) -> u32 {
        self.connection.0.get()
    }

    /// The other end.
    pub(crate) fn peer(self) -> SocketAddr {
        SocketAddr::new(IpAddr::from(self.ip).to_canonical(), self.port)
    }

    /// The way there, by a connection to this port; `None` where that has no connections.
    pub(crate) fn way(self, ports: &Ports, listener: u16) -> Option<Flow> {
        let transport = ports.get(listener)?.transport;
        let (peer, connection) = (self.peer(), Some(self.connection));
        transport.is_reliable().then_some(Flow { transport, listener, peer, connection })
    }

    /// As a token has it; the second value says how many of the bytes count.
    pub(crate) fn bytes(self) -> ([u8; 22], usize) {
        let mut bytes = [0; 22];
        bytes[..4].copy_from_slice(&self.number().to_be_bytes());
        bytes[4..6].copy_from_slice(&self.port.to_be_bytes());
        match self.peer().ip() {
            IpAddr::V4(ip) => {
                bytes[6..10].copy_from_slice(&ip.octets());
                (bytes, LENGTHS[0])
            }
            IpAddr::V6(ip) => {
                bytes[6..].copy_from_slice(&ip.octets());
                (bytes, LENGTHS[1])
            }
        }
    }

    /// From what a token has.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (number, rest) = bytes.split_first_chunk()?;
        let (port, ip) = rest.split_first_chunk()?;
        let connection = Connection(NonZeroU32::new(u32::from_be_bytes(*number))?);
        let ip = match ip.first_chunk::<16>() {
            Some(ip) => *ip,
            None => std::net::Ipv4Addr::from(*ip.first_chunk::<4>()?).to_ipv6_mapped().octets(),
        };
        Some(Self { connection, port: u16::from_be_bytes(*port), ip })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::Transport;

    #[test]
    fn what_is_written_is_read() {
        for peer in ["192.0.2.7:40001", "[2001:db8::7]:40001", "[::ffff:192.0.2.7]:1"] {
            let connection = NonZeroU32::new(0x0102_0304).map(Connection);
            let peer: SocketAddr = peer.parse().unwrap();
            let flow = Flow { transport: Transport::Wss, listener: 3, peer, connection };
            let client = ClientFlow::of(flow, &Topology::default()).unwrap();
            let (bytes, length) = client.bytes();
            assert_eq!(ClientFlow::from_bytes(&bytes[..length]), Some(client));
            assert_eq!(client.peer(), SocketAddr::new(peer.ip().to_canonical(), peer.port()));
        }
    }
}
