//! Host names of next hops in URIs, and the answers of the DNS.

use crate::address::target::NamedHost;
use base::Transport;
use core::fmt;
use core::time::Duration;
use std::net::SocketAddr;

/// A host name that a URI gives as the next hop.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HopName {
    /// Transport of the request. If the DNS determines the transport, this is the default transport of the URI's
    /// scheme.
    pub transport: Transport,
    /// Whether the DNS determines the transport, since the URI names neither transport nor port (RFC 3263 §4.1).
    pub by_dns: bool,
    /// Host name in lower case, without a final dot.
    pub host: String,
    /// Port of the URI. Without a port, SRV records come first (RFC 3263 §4.2).
    pub port: Option<u16>,
}

impl HopName {
    /// Returns the host as a URI names it.
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
    /// Transport to the addresses.
    pub transport: Transport,
    /// Addresses with their weights (RFC 2782), always in the same order.
    pub addresses: Vec<(SocketAddr, f64)>,
    /// Whether the look-up failed in whole or in part, so that there may be other addresses.
    pub partial: bool,
    /// Time after which to look up the name again.
    pub fresh_for: Duration,
}
