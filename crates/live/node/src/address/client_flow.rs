//! Flows to clients that accept no connections (RFC 5626): the client's own connection, or over UDP the source address
//! of its registration behind a NAT.

use crate::address::ports::Ports;
use crate::address::topology::AddressTable;
use base::{Connection, Flow, Transport};
use core::num::NonZeroU32;
use std::net::{IpAddr, SocketAddr};

/// Lengths of a flow in a token in bytes, for IPv4 and IPv6.
pub(crate) const LENGTHS: [usize; 2] = [10, 22];

/// The flow of a client: its connection and the connection's peer address, or its source over UDP. The transport is
/// that of the local port.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct ClientFlow {
    /// `None` over UDP.
    connection: Option<Connection>,
    port: u16,
    /// In network order. An IPv4 address is mapped to IPv6.
    ip: [u8; 16],
}

impl ClientFlow {
    /// Returns the client at the other end of a connection, or a client over UDP that `is_at_source`.
    /// `None` for any other sender over UDP, and for the connection of a node, which is reached at its address.
    pub(crate) fn of(flow: Flow, topology: &AddressTable, is_at_source: bool) -> Option<Self> {
        Self::seen(flow, topology).filter(|client| is_at_source || client.is_connection())
    }

    /// Returns the client, over UDP even without a registration. Then its source may be forged, or its Contact may name
    /// another address.
    pub(crate) fn seen(flow: Flow, topology: &AddressTable) -> Option<Self> {
        let connection = flow.connection;
        let is_node = || topology.slot_of(flow).is_some();
        if if connection.is_some() { is_node() } else { flow.transport != Transport::Udp } {
            return None;
        }
        let ip = match flow.peer.ip().to_canonical() {
            IpAddr::V4(ip) => ip.to_ipv6_mapped(),
            IpAddr::V6(ip) => ip,
        };
        Some(Self { connection, port: flow.peer.port(), ip: ip.octets() })
    }

    pub(crate) fn is_connection(self) -> bool {
        self.connection.is_some()
    }

    pub(crate) fn number(self) -> u32 {
        self.connection.map_or(0, |connection| connection.0.get())
    }

    pub(crate) fn peer(self) -> SocketAddr {
        SocketAddr::new(IpAddr::from(self.ip).to_canonical(), self.port)
    }

    /// Returns the flow to the client from this port. `None` if only one of the two, port or client, uses connections.
    pub(crate) fn way(self, ports: &Ports, listener: u16) -> Option<Flow> {
        let port = ports.get(listener)?;
        let (transport, connection, mut peer) = (port.transport, self.connection, self.peer());
        if let (IpAddr::V4(ip), true, None) = (peer.ip(), port.local.is_ipv6(), connection) {
            // A socket of both address families sends to an IPv4 host by its mapped IPv6 address.
            peer.set_ip(ip.to_ipv6_mapped().into());
        }
        let fits = transport.is_reliable() == connection.is_some();
        fits.then_some(Flow { transport, listener, peer, connection })
    }

    /// Returns the bytes for a token, and the number of bytes that are used.
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

    pub(crate) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (number, rest) = bytes.split_first_chunk()?;
        let (port, ip) = rest.split_first_chunk()?;
        let connection = NonZeroU32::new(u32::from_be_bytes(*number)).map(Connection);
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
    fn a_written_flow_is_read_back() {
        for peer in ["192.0.2.7:40001", "[2001:db8::7]:40001", "[::ffff:192.0.2.7]:1"] {
            let connection = NonZeroU32::new(0x0102_0304).map(Connection);
            let peer: SocketAddr = peer.parse().unwrap();
            for (transport, connection) in [(Transport::Wss, connection), (Transport::Udp, None)] {
                let flow = Flow { transport, listener: 3, peer, connection };
                let client = ClientFlow::seen(flow, &AddressTable::default()).unwrap();
                let (bytes, length) = client.bytes();
                assert_eq!(ClientFlow::from_bytes(&bytes[..length]), Some(client));
                assert_eq!(client.peer(), SocketAddr::new(peer.ip().to_canonical(), peer.port()));
            }
        }
    }
}
