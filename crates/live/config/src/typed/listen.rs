//! `[listen]`, `[connections]` and `[tls]`: listeners, and limits of connections.

use base::Transport;
use node::LargeRequests;
use route::Network;
use std::net::SocketAddr;
use std::time::Duration;

pub use streams::tls::{CertificateFiles, Tls};

/// `[listen]`
#[derive(Debug, Clone, PartialEq)]
pub struct Listen {
    /// At least one listener: first UDP, then TCP, TLS, WebSocket and secure WebSocket, each in the order of the file.
    /// No two listeners of one transport have the same `bind`, and no two listeners whose transports use TCP.
    pub listeners: Vec<Listener>,
    /// Lower-case `host` or `host:port` forms that mean this process in a Request-URI or Route; no IP addresses.
    pub names: Vec<String>,
    /// Worker threads; 0: one for each core.
    pub threads: usize,
    /// Time between two keep-alives to a client behind a NAT over UDP. Zero: none are sent.
    pub keep_alive: Duration,
}

/// One listener.
#[derive(Debug, Clone, PartialEq)]
pub struct Listener {
    /// Transport of its messages.
    pub transport: Transport,
    /// Local address; may be a wildcard, never port 0.
    pub bind: SocketAddr,
    /// Address that peers see in Via and Record-Route; never a wildcard, never port 0.
    pub advertise: Option<SocketAddr>,
    /// Networks whose connections must begin with a PROXY header; empty for UDP.
    pub proxy_protocol: Vec<Network>,
}

impl Listener {
    /// A listener that peers reach at `bind`, without PROXY headers.
    pub const fn new(transport: Transport, bind: SocketAddr) -> Self {
        Self { transport, bind, advertise: None, proxy_protocol: Vec::new() }
    }
}

/// `[connections]`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Connections {
    /// Most connections at a time, over all threads.
    pub most: usize,
    /// Most connections from one IPv4 address or one IPv6 network of 64 bits.
    pub most_per_address: usize,
    /// New connections a second from one source; 0: no limit. Twice as many may come at once.
    pub new_per_second: u32,
    /// Time without a message after which a connection is closed.
    pub idle: Duration,
    /// Longest time for a handshake, and for the rest of a message after its first byte.
    pub handshake: Duration,
    /// Most bytes that all connections hold together.
    pub memory: usize,
    /// Transport of requests that are too long for UDP.
    pub large_requests: LargeRequests,
    /// Web pages that may connect over WebSocket, in lower case; `*`: all. Empty: pages of the host that they connect
    /// to.
    pub origins: Vec<String>,
}
