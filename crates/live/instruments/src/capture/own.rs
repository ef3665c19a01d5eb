//! Finds the addresses at which a server on this host listens, by its port.

use sockets::local_addresses;
use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::{fs, io};

/// Returns the addresses at which sockets of this host take requests at this port, over UDP or TCP. A wildcard stands
/// for all addresses of the host. Only sockets of this network namespace are found; containers of one pod share one.
pub(crate) fn listening(port: u16) -> io::Result<Vec<SocketAddr>> {
    let mut bound = Vec::new();
    // A host without IPv6 has no such table.
    for table in ["udp", "udp6"].map(Socket::table).into_iter().flatten() {
        bound.extend(table.iter().filter(|socket| socket.remote.port() == 0).map(|socket| socket.local));
    }
    for table in ["tcp", "tcp6"].map(Socket::table).into_iter().flatten() {
        bound.extend(table.iter().filter(|socket| socket.is_listening).map(|socket| socket.local));
    }
    bound.retain(|address| address.port() == port);
    spread(&bound)
}

/// Replaces wildcards by addresses, and removes duplicates.
fn spread(bound: &[SocketAddr]) -> io::Result<Vec<SocketAddr>> {
    let mut found = BTreeSet::new();
    for address in bound {
        if !address.ip().is_unspecified() {
            found.insert(SocketAddr::new(address.ip().to_canonical(), address.port()));
            continue;
        }
        // An IPv6 wildcard may also accept IPv4 (`ipv6(7)`, IPV6_V6ONLY). If it does not, the additional addresses do
        // no harm.
        let mut hosts = local_addresses(false)?;
        if address.is_ipv6() {
            hosts.extend(local_addresses(true)?);
        }
        found.extend(hosts.into_iter().map(|ip| SocketAddr::new(ip, address.port())));
    }
    Ok(found.into_iter().collect())
}

/// A socket of this network namespace.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Socket {
    local: SocketAddr,
    /// Port 0 if the socket is not connected.
    remote: SocketAddr,
    /// Whether it is a TCP socket that accepts connections.
    is_listening: bool,
}

impl Socket {
    /// Reads the sockets in a table of `/proc/net`: `tcp`, `tcp6`, `udp` or `udp6`.
    fn table(name: &str) -> io::Result<Vec<Self>> {
        let file = fs::read_to_string(format!("/proc/net/{name}"))?;
        // The first line names the columns.
        Ok(file.lines().skip(1).filter_map(Self::parse).collect())
    }

    fn parse(line: &str) -> Option<Self> {
        /// `TCP_LISTEN` of the kernel.
        const LISTEN: &str = "0A";
        let mut fields = line.split_whitespace().skip(1);
        let (local, remote) = (address(fields.next()?)?, address(fields.next()?)?);
        Some(Self { local, remote, is_listening: fields.next()? == LISTEN })
    }
}

/// An address as four-byte words in the host's byte order, each as eight digits, and a port: `0100007F:13C4`.
fn address(text: &str) -> Option<SocketAddr> {
    let (ip, port) = text.split_once(':')?;
    let word = |at: usize| Some(u32::from_str_radix(ip.get(at..at + 8)?, 16).ok()?.to_ne_bytes());
    let ip = match ip.len() {
        8 => IpAddr::from(Ipv4Addr::from(word(0)?)),
        32 => {
            let words = [word(0)?, word(8)?, word(16)?, word(24)?];
            IpAddr::from(Ipv6Addr::from(<[u8; 16]>::try_from(words.as_flattened()).ok()?))
        }
        _ => return None,
    };
    Some(SocketAddr::new(ip, u16::from_str_radix(port, 16).ok()?))
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

    #[cfg(target_endian = "little")]
    #[test]
    fn sockets_are_read_with_their_addresses() {
        let line = "   1: 0100007F:13C4 00000000:0000 0A 00000000:00000000 00:00000000 00000000  0  0 99 1 0";
        let expected = Socket {
            local: "127.0.0.1:5060".parse().unwrap(),
            remote: "0.0.0.0:0".parse().unwrap(),
            is_listening: true,
        };
        assert_eq!(Socket::parse(line), Some(expected));
        let line =
            "  22: B80D0120000000000000000001000000:13C5 B80D0120000000000000000002000000:C001 01 0:0 0";
        let expected = Socket {
            local: "[2001:db8::1]:5061".parse().unwrap(),
            remote: "[2001:db8::2]:49153".parse().unwrap(),
            is_listening: false,
        };
        assert_eq!(Socket::parse(line), Some(expected));
        for broken in
            ["", "1:", "1: 0100007F 0:0 0A", "1: 0100007:13C4 00000000:0000 0A", "1: é000007:1 0:0 0A"]
        {
            assert_eq!(Socket::parse(broken), None, "{broken:?}");
        }
    }
}
