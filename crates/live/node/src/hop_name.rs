//! Names that URIs give as next hops, and the answers of the DNS.

use base::Transport;
use core::fmt;
use core::time::Duration;
use std::net::SocketAddr;

/// A name that a URI gives as the next hop.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HopName {
    /// The transport of the request.
    pub transport: Transport,
    /// In lower case, without a final dot.
    pub host: String,
    /// As the URI has it. Without one SRV records come first (RFC 3263 §4.2).
    pub port: Option<u16>,
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
    /// The addresses found, each with its weight among them (RFC 2782), always in the same order.
    pub addresses: Vec<(SocketAddr, f64)>,
    /// The look-up failed, or a part of it: there may be others. If it did not, these are all.
    pub partial: bool,
    /// After how long to ask again.
    pub fresh_for: Duration,
}
