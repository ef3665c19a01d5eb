//! Reuse of connections that peers have opened (RFC 5923). A server that asks for it gets requests on its own
//! connection, if its certificate is valid for the name that the requests go to.
//!
//! Only over TLS: without a certificate, a program could open a connection and get the requests meant for another
//! program of its host (§9).

use super::connection::{Connection, Stage};
use base::{Peer, Transport};
use rustls::client::verify_server_name;
use rustls::pki_types::ServerName;
use rustls::server::ParsedCertificate;
use std::net::SocketAddr;

/// Use of a connection that the peer has opened.
#[derive(Debug, Default)]
pub(super) struct Alias {
    /// Port that the peer says it listens on, at its address.
    port: Option<u16>,
    /// Name that its certificate was found valid for.
    name: Option<ServerName<'static>>,
}

impl Alias {
    /// Whether the peer has named no port so far.
    pub(super) fn is_open(&self) -> bool {
        self.port.is_none()
    }

    /// Reads a request for `alias`.
    pub(super) fn hear(&mut self, message: &[u8]) {
        self.port = advertised(message);
    }
}

/// Port of the sent-by in the topmost Via, if the Via has the parameter `alias` (RFC 5923 §8.2).
fn advertised(message: &[u8]) -> Option<u16> {
    const ALIAS: &[u8] = b"alias";
    if !message.windows(ALIAS.len()).any(|part| part.eq_ignore_ascii_case(ALIAS)) {
        return None;
    }
    let request = wire::scan(message).ok().filter(|message| message.status().is_none())?;
    let via = request.top_via();
    let has_it = via.params(message).any(|param| param.name.eq_ignore_ascii_case(ALIAS));
    has_it.then(|| via.port.unwrap_or(Transport::Tls.default_port()))
}

impl Connection {
    /// The server that opened the connection, as a destination.
    pub(super) fn alias(&self) -> Option<Peer> {
        let address = SocketAddr::new(self.flow.peer.ip(), self.alias.port?);
        Some(Peer::new(self.flow.transport, address))
    }

    /// Whether requests to the server of this name may use the connection: the peer's certificate must be valid for the
    /// name (§8.2, RFC 5922 §7).
    pub(super) fn may_carry_for(&mut self, name: ServerName<'static>) -> bool {
        if self.stage != Stage::Open {
            return false;
        }
        if self.alias.name.as_ref() == Some(&name) {
            return true;
        }
        let Some(shown) = self.carrier().and_then(|carrier| carrier.tls()?.peer_certificates()?.first())
        else {
            return false;
        };
        let is_for =
            ParsedCertificate::try_from(shown).is_ok_and(|shown| verify_server_name(&shown, &name).is_ok());
        if is_for {
            self.alias.name = Some(name);
        }
        is_for
    }
}
