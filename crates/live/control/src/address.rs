//! Members as the configuration names them.

use balance::PoolId;
use base::Transport;
use core::fmt;
use std::net::SocketAddr;

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

/// Where a member is.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Address {
    /// An address, the port filled in.
    Socket(SocketAddr),
    /// A name with A and AAAA records.
    Host {
        /// Lower-case, without a final dot.
        name: String,
        /// Port, where the configuration gives one; otherwise the default one of SIP.
        port: Option<u16>,
    },
    /// A name with SRV records (RFC 2782), lower-case: `_sip._udp.example.com`.
    Srv(String),
}

impl Address {
    /// What carries messages to it: of an SRV name the transport of its service; otherwise UDP, since an address or a
    /// host without a transport means UDP (RFC 3263 §4.1).
    pub fn transport(&self) -> Transport {
        let Self::Srv(name) = self else { return Transport::Udp };
        let is_of = |transport: &Transport| {
            let rest = transport.service().and_then(|service| name.strip_prefix(service));
            rest.is_some_and(|rest| rest.starts_with('.'))
        };
        Transport::ALL.into_iter().find(is_of).unwrap_or_default()
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Socket(socket) => write!(f, "{socket}"),
            Self::Host { name, port: Some(port) } => write!(f, "{name}:{port}"),
            Self::Host { name, port: None } | Self::Srv(name) => f.write_str(name),
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
            assert_eq!(Address::Srv(name.to_owned()).transport(), transport, "{name}");
        }
        let host = Address::Host { name: "_sip._tcp.example.com".to_owned(), port: None };
        assert_eq!(host.transport(), Transport::Udp);
    }
}
