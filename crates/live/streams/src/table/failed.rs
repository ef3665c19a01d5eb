//! Handshakes that failed, for the reports of the thread.

use super::Streams;
use crate::connection::{Connection, Stage};
use crate::counts::CloseReason;
use base::{Instant, Peer, Transport};

/// A connection that failed before it was ready for messages: in TLS, the opening of `WebSocket` or the PROXY header.
#[derive(Debug, PartialEq, Eq)]
pub struct FailedHandshake {
    /// Time of the failure.
    pub at: Instant,
    /// The other end.
    pub peer: Peer,
    /// Reason of the end.
    pub reason: CloseReason,
    /// Error of TLS or of the socket, with the alert of TLS; empty if there is none.
    pub error: Box<str>,
}

/// Handshakes kept until the thread takes them. There are few between two turns; further ones are not reported.
const MOST: usize = 64;

impl Streams {
    /// Keeps the end of a connection if its handshake failed. Connections without TLS have nothing to fail but a PROXY
    /// header or `WebSocket`.
    pub(super) fn note_failed(&mut self, now: Instant, connection: &mut Connection, reason: CloseReason) {
        let is_secure = matches!(connection.flow.transport, Transport::Tls | Transport::Wss);
        let has_failed = match reason {
            CloseReason::Tls | CloseReason::Handshake | CloseReason::WebSocket | CloseReason::ProxyHeader => {
                true
            }
            CloseReason::Peer | CloseReason::Error => is_secure,
            _ => false,
        };
        if connection.stage != Stage::Opening || !has_failed || self.failed.len() >= MOST {
            return;
        }
        let error = connection.error.take().unwrap_or_default();
        self.failed.push(FailedHandshake { at: now, peer: connection.flow.remote(), reason, error });
    }

    /// Takes the handshakes that failed since the last call.
    pub fn take_failed(&mut self) -> Vec<FailedHandshake> {
        std::mem::take(&mut self.failed)
    }
}
