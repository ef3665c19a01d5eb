//! Members as the configuration names them.

use balance::PoolId;
use base::{Peer, Transport};
use core::fmt;

/// One server, or one name that stands for several.
#[derive(Clone, PartialEq, Debug)]
pub struct MemberSettings {
    /// Where it is.
    pub address: Address,
    /// Relative capacity, above 0.
    pub capacity: f64,
    /// Most calls at a time; 0 = no limit.
    pub max_calls: u32,
    /// Most new calls a second; 0 = no limit.
    pub max_rate: u32,
    /// The pool that names it.
    pub pool: PoolId,
}

impl MemberSettings {
    /// A member of the first pool, of capacity 1 and without limits.
    pub fn new(address: Address) -> Self {
        Self { address, capacity: 1.0, max_calls: 0, max_rate: 0, pool: PoolId::default() }
    }
}

/// Where a member is.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Address {
    /// An address with its transport, the port filled in.
    Socket(Peer),
    /// A name with A and AAAA records.
    Host {
        /// What carries messages there.
        transport: Transport,
        /// Lower-case, without a final dot.
        name: String,
        /// Port, where the configuration gives one; otherwise the default one of the transport.
        port: Option<u16>,
    },
    /// A name with SRV records (RFC 2782), lower-case: `_sip._udp.example.com`.
    Srv(String),
}

impl Address {
    /// What carries messages to it: of an SRV name the transport of its service.
    pub fn transport(&self) -> Transport {
        match self {
            Self::Socket(peer) => peer.transport,
            Self::Host { transport, .. } => *transport,
            Self::Srv(name) => service(name).map_or(Transport::Udp, |(transport, _)| transport),
        }
    }

    /// The domain that the certificate of such a server has to be for (RFC 5922 §4.3): that which the configuration
    /// names, and not a host that the DNS says. `None`: it is named by its address.
    pub fn domain(&self) -> Option<&str> {
        match self {
            Self::Socket(_) => None,
            Self::Host { name, .. } => Some(name),
            Self::Srv(name) => service(name).map(|(_, domain)| domain),
        }
    }
}

/// The transport that an SRV name is about, and the domain in it.
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
    fn the_service_of_an_srv_name_says_its_transport() {
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
    fn what_is_not_udp_is_written_with_its_transport() {
        let host = |transport, port| Address::Host { transport, name: "a.example".to_owned(), port };
        assert_eq!(host(Transport::Udp, Some(5060)).to_string(), "a.example:5060");
        assert_eq!(host(Transport::Tls, Some(5071)).to_string(), "a.example:5071;transport=tls");
        assert_eq!(host(Transport::Tcp, None).to_string(), "a.example;transport=tcp");
        let peer = Peer::new(Transport::Tcp, "192.0.2.1:5060".parse().unwrap());
        assert_eq!(Address::Socket(peer).to_string(), "192.0.2.1:5060;transport=tcp");
    }
}
