//! The addresses at which a server on this host listens, by its port.

use crate::proc::Socket;
use crate::socket::local_addresses;
use std::collections::BTreeSet;
use std::io;
use std::net::SocketAddr;

/// Where a socket of this host takes requests at this port, over UDP or TCP; one for all addresses of the host is at
/// each of them. Of the network namespace that this process is in, which containers of one pod have in common.
///
/// # Errors
/// Where the system does not tell.
pub(crate) fn listening(port: u16) -> io::Result<Vec<SocketAddr>> {
    let mut bound = Vec::new();
    // A host without IPv6 has no table of it.
    for table in ["udp", "udp6"].map(Socket::table).into_iter().flatten() {
        bound.extend(table.iter().filter(|socket| socket.remote.port() == 0).map(|socket| socket.local));
    }
    for table in ["tcp", "tcp6"].map(Socket::table).into_iter().flatten() {
        bound.extend(table.iter().filter(|socket| socket.is_listening).map(|socket| socket.local));
    }
    bound.retain(|address| address.port() == port);
    spread(&bound)
}

/// The addresses that these stand for, each once.
fn spread(bound: &[SocketAddr]) -> io::Result<Vec<SocketAddr>> {
    let mut found = BTreeSet::new();
    for address in bound {
        if !address.ip().is_unspecified() {
            found.insert(SocketAddr::new(address.ip().to_canonical(), address.port()));
            continue;
        }
        // One for all of IPv6 may be one for IPv4, too (`ipv6(7)`, IPV6_V6ONLY); if it is not, nothing comes of it.
        let mut hosts = local_addresses(false)?;
        if address.is_ipv6() {
            hosts.extend(local_addresses(true)?);
        }
        found.extend(hosts.into_iter().map(|ip| SocketAddr::new(ip, address.port())));
    }
    Ok(found.into_iter().collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, UdpSocket};

    #[test]
    fn sockets_of_both_kinds_are_found_by_their_port() {
        let datagrams = UdpSocket::bind("127.0.0.1:0").unwrap();
        let address = datagrams.local_addr().unwrap();
        assert_eq!(listening(address.port()).unwrap(), [address]);
        let streams = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = streams.local_addr().unwrap();
        assert_eq!(listening(address.port()).unwrap(), [address]);
        let anywhere = UdpSocket::bind("0.0.0.0:0").unwrap();
        let port = anywhere.local_addr().unwrap().port();
        assert!(listening(port).unwrap().contains(&SocketAddr::from(([127, 0, 0, 1], port))));
    }
}
