//! Settings of the connections of all threads.

use crate::admission::Admission;
use crate::tls::TlsSetup;
use core::time::Duration;
use std::sync::Arc;

/// Time limits and bounds of connections.
#[derive(Clone, Debug)]
pub struct StreamSettings {
    /// Time without messages after which a connection is closed.
    pub idle: Duration,
    /// Time limit of TLS, `WebSocket` and PROXY header together. It also limits a message from its first byte to its
    /// last, and the time in which the peer reads nothing.
    pub handshake: Duration,
    /// Maximum number of bytes that may wait to be sent on a connection.
    pub send_buffer: usize,
    /// Whether `WebSocket` connections are opened as well: by a client, but not by a server, whose clients connect to
    /// it.
    pub opens_websocket: bool,
    /// Maximum number of bytes that all connections of a thread may hold: incomplete messages, and data to be sent.
    pub memory: usize,
    /// Web pages that may connect over `WebSocket`, by their `Origin` in lower case; `*`: all. Empty: pages of the host
    /// that they connect to.
    pub origins: Arc<[String]>,
    /// Access lists.
    pub admission: Arc<Admission>,
    /// Certificates and authorities.
    pub tls: Option<Arc<TlsSetup>>,
}
