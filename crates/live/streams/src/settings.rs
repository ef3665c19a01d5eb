//! What holds for the connections of all threads.

use crate::admission::Admission;
use crate::tls::TlsSetup;
use core::time::Duration;
use std::sync::Arc;

/// Times and bounds of connections.
#[derive(Clone, Debug)]
pub struct StreamSettings {
    /// A connection on which nothing was heard for so long is closed.
    pub idle: Duration,
    /// So long may TLS, `WebSocket` and PROXY header take together, a message from its first byte to its last, and the other
    /// side until it reads.
    pub handshake: Duration,
    /// So many bytes may wait for the other side of a connection.
    pub send_buffer: usize,
    /// Whether connections of `WebSocket` are opened as well: a client does that, while a server is called by its clients.
    pub opens_websocket: bool,
    /// So many bytes may all connections of a thread hold together: unfinished messages, and what waits for the other side.
    pub memory: usize,
    /// Web pages that may connect over `WebSocket`, by their `Origin` in lower case; `*`: all. Empty: those of the host
    /// that they connect to.
    pub origins: Arc<[String]>,
    /// Who may connect.
    pub admission: Arc<Admission>,
    /// Certificates, and whom we trust.
    pub tls: Option<Arc<TlsSetup>>,
}
