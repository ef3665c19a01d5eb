//! A captured message, and the side of the server on which it was captured.

use base::{Instant, Transport};
use core::net::{IpAddr, SocketAddr};

/// A SIP message with its time, addresses and transport.
#[derive(Clone, Copy, Debug)]
pub struct Captured<'a> {
    /// Time at which its last byte passed.
    pub at: Instant,
    /// Its source.
    pub from: SocketAddr,
    /// Its destination.
    pub to: SocketAddr,
    /// Its transport.
    pub transport: Transport,
    /// The message. From a stream the header is enough.
    pub bytes: &'a [u8],
}

/// A side of the server.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Side {
    /// Towards the server.
    In,
    /// From the server.
    Out,
}

/// The addresses of the server that is measured.
#[derive(Clone, Debug, Default)]
pub struct Servers {
    addresses: Vec<SocketAddr>,
}

impl Servers {
    /// A server that takes requests at these addresses.
    pub fn new(mut addresses: Vec<SocketAddr>) -> Self {
        addresses.sort_unstable();
        addresses.dedup();
        Self { addresses }
    }

    /// The addresses, in order.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// Sides on which a message passes. Both, outgoing first, if the server sends to itself; none, if it is between
    /// other hosts.
    ///
    /// Datagrams leave from an address at which the server listens. Its own connections leave from any port of its
    /// host. So for streams the host counts, unless the other end is at one of the addresses.
    pub(crate) fn sides(&self, captured: &Captured<'_>) -> impl Iterator<Item = Side> + use<> {
        let Captured { from, to, transport, .. } = *captured;
        let (listens_from, listens_to) = (self.listens(from), self.listens(to));
        let stream = transport != Transport::Udp;
        let out = listens_from || (stream && !listens_to && self.is_host(from.ip()));
        let into = listens_to || (stream && !listens_from && !out && self.is_host(to.ip()));
        [out.then_some(Side::Out), into.then_some(Side::In)].into_iter().flatten()
    }

    fn listens(&self, address: SocketAddr) -> bool {
        // There are only a few.
        self.addresses.iter().any(|own| own.ip() == address.ip() && own.port() == address.port())
    }

    fn is_host(&self, ip: IpAddr) -> bool {
        self.addresses.iter().any(|own| own.ip() == ip)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sides(from: &str, to: &str, transport: Transport) -> Vec<Side> {
        let addresses = ["10.0.0.1:5060", "10.0.0.1:5080", "[2001:db8::1]:5060"];
        let servers = Servers::new(addresses.iter().map(|text| text.parse().expect("an address")).collect());
        let [from, to] = [from, to].map(|text| text.parse().expect("an address"));
        servers.sides(&Captured { at: Instant::ZERO, from, to, transport, bytes: b"" }).collect()
    }

    #[test]
    fn datagrams_go_by_address_and_port() {
        use Side::{In, Out};
        let udp = |from, to| sides(from, to, Transport::Udp);
        assert_eq!(udp("10.0.0.2:5060", "10.0.0.1:5060"), [In]);
        assert_eq!(udp("10.0.0.1:5080", "10.0.0.2:5060"), [Out]);
        assert_eq!(udp("[2001:db8::2]:5060", "[2001:db8::1]:5060"), [In]);
        assert_eq!(udp("10.0.0.1:5060", "10.0.0.1:5080"), [Out, In], "the server sends to itself");
        assert_eq!(udp("10.0.0.1:40000", "10.0.0.2:5060"), [], "another program of the same host");
        assert_eq!(udp("10.0.0.2:5060", "10.0.0.3:5060"), []);
    }

    #[test]
    fn connections_that_the_server_opens_leave_from_any_port() {
        use Side::{In, Out};
        let tcp = |from, to| sides(from, to, Transport::Tcp);
        assert_eq!(tcp("10.0.0.2:40000", "10.0.0.1:5060"), [In]);
        assert_eq!(tcp("10.0.0.1:5060", "10.0.0.2:40000"), [Out]);
        assert_eq!(tcp("10.0.0.1:40000", "10.0.0.2:5060"), [Out]);
        assert_eq!(tcp("10.0.0.2:5060", "10.0.0.1:40000"), [In]);
        assert_eq!(tcp("10.0.0.1:40000", "10.0.0.1:5060"), [In], "a client on the server's host");
        assert_eq!(tcp("10.0.0.1:5060", "10.0.0.1:40000"), [Out]);
    }
}
