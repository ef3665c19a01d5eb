//! Members in the form of the configuration.

use balance::PoolId;
use base::{Peer, Transport};
use core::fmt;

/// A server, or a name of several servers.
#[derive(Clone, PartialEq, Debug)]
pub struct MemberSettings {
    /// Address or name of the member.
    pub address: Address,
    /// Name for display; `None`: the address.
    pub name: Option<String>,
    /// Relative capacity, above 0.
    pub capacity: f64,
    /// Limit of calls in progress; 0 for no limit.
    pub max_calls: u32,
    /// Limit of new calls a second; 0 for no limit.
    pub max_rate: u32,
    /// Pool of the member.
    pub pool: PoolId,
}

impl MemberSettings {
    /// A member of the first pool, of capacity 1 and without limits.
    pub fn new(address: Address) -> Self {
        Self { address, name: None, capacity: 1.0, max_calls: 0, max_rate: 0, pool: PoolId::default() }
    }
}

/// Returns the address of a member, after its name if the name is another text.
pub fn name_and_address(name: &str, address: Peer) -> String {
    match address.to_string() {
        address if address == name => address,
        address => format!("{name} {address}"),
    }
}

/// Address or name of a member.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Address {
    /// An address with transport and port.
    Socket(Peer),
    /// A name with A and AAAA records.
    Host {
        /// Transport of the messages to it.
        transport: Transport,
        /// The name in lower case, without a final dot.
        name: String,
        /// Port of the configuration; `None`: the default port of the transport.
        port: Option<u16>,
    },
    /// A name with SRV records (RFC 2782), in lower case: `_sip._udp.example.com`.
    Srv(String),
}

impl Address {
    /// Returns the transport of messages to the member. An SRV name implies the transport.
    pub fn transport(&self) -> Transport {
        match self {
            Self::Socket(peer) => peer.transport,
            Self::Host { transport, .. } => *transport,
            Self::Srv(name) => service(name).map_or(Transport::Udp, |(transport, _)| transport),
        }
    }

    /// Returns the domain that the server's certificate must be for (RFC 5922 §4.3): the domain in the configuration,
    /// not a host from the DNS. `None` if the configuration has an address.
    pub fn domain(&self) -> Option<&str> {
        match self {
            Self::Socket(_) => None,
            Self::Host { name, .. } => Some(name),
            Self::Srv(name) => service(name).map(|(_, domain)| domain),
        }
    }
}

/// Returns the transport and the domain of an SRV name.
fn service(name: &str) -> Option<(Transport, &str)> {
    Transport::ALL.into_iter().find_map(|transport| {
        let domain = name.strip_prefix(transport.service()?)?.strip_prefix('.')?;
        Some((transport, domain))
    })
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Socket(peer) => peer.fmt(f),
            Self::Srv(name) => f.write_str(name),
            Self::Host { transport, name, port } => {
                f.write_str(name)?;
                if let Some(port) = port {
                    write!(f, ":{port}")?;
                }
                f.write_str(transport.uri_param())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_service_of_an_srv_name_determines_its_transport() {
        for (name, transport) in [
            ("_sip._udp.example.com", Transport::Udp),
            ("_sip._tcp.example.com", Transport::Tcp),
            ("_sips._tcp.example.com", Transport::Tls),
        ] {
            let address = Address::Srv(name.to_owned());
            assert_eq!((address.transport(), address.domain()), (transport, Some("example.com")), "{name}");
        }
        let name = "_sip._tcp.example.com".to_owned();
        let host = Address::Host { transport: Transport::Udp, name, port: None };
        assert_eq!(host.transport(), Transport::Udp);
    }

    #[test]
    fn other_transports_than_udp_are_shown() {
        let host = |transport, port| Address::Host { transport, name: "a.example".to_owned(), port };
        assert_eq!(host(Transport::Udp, Some(5060)).to_string(), "a.example:5060");
        assert_eq!(host(Transport::Tls, Some(5071)).to_string(), "a.example:5071;transport=tls");
        assert_eq!(host(Transport::Tcp, None).to_string(), "a.example;transport=tcp");
        let peer = Peer::new(Transport::Tcp, "192.0.2.1:5060".parse().unwrap());
        assert_eq!(Address::Socket(peer).to_string(), "192.0.2.1:5060;transport=tcp");
    }
}
