//! Names that URIs give as next hops, and the answers of the DNS.

use crate::address::target::NamedHost;
use base::Transport;
use core::fmt;
use core::time::Duration;
use std::net::SocketAddr;

/// A name that a URI gives as the next hop.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HopName {
    /// The transport of the request. Where the DNS is to say it: the usual one of the URI's scheme.
    pub transport: Transport,
    /// Whether the DNS is to say over which transport the name is reached: the URI names neither transport nor port (RFC
    /// 3263 §4.1).
    pub by_dns: bool,
    /// In lower case, without a final dot.
    pub host: String,
    /// As the URI has it. Without one SRV records come first (RFC 3263 §4.2).
    pub port: Option<u16>,
}

impl HopName {
    /// The host as a URI names it.
    pub(crate) fn named(&self) -> NamedHost<'_> {
        let Self { transport, by_dns, ref host, port } = *self;
        NamedHost { host: host.as_bytes(), port, transport, by_dns }
    }
}

impl fmt::Display for HopName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.port {
            Some(port) => write!(f, "{}:{port}", self.host),
            None => f.write_str(&self.host),
        }
    }
}

/// The result of a look-up.
#[derive(Clone, PartialEq, Debug)]
pub struct Resolved {
    /// What the addresses are reached over.
    pub transport: Transport,
    /// The addresses found, each with its weight among them (RFC 2782), always in the same order.
    pub addresses: Vec<(SocketAddr, f64)>,
    /// The look-up failed, or a part of it: there may be others. If it did not, these are all.
    pub partial: bool,
    /// After how long to ask again.
    pub fresh_for: Duration,
}
