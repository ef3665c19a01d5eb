//! Members as the configuration names them.

use balance::PoolId;
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

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Socket(socket) => write!(f, "{socket}"),
            Self::Host { name, port: Some(port) } => write!(f, "{name}:{port}"),
            Self::Host { name, port: None } | Self::Srv(name) => f.write_str(name),
        }
    }
}
