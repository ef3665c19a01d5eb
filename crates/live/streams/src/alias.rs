//! Connections that others have opened, as ways to them (RFC 5923): a server that asks for that, and has shown a
//! certificate for the name by which it is sent to, gets requests on its own connection.
//!
//! Over TLS alone: where nobody has shown a certificate, whoever has opened a connection could have the requests that
//! are meant for another program of its host (§9).

use super::connection::{Connection, Stage};
use base::{Peer, Transport};
use rustls::client::verify_server_name;
use rustls::pki_types::ServerName;
use rustls::server::ParsedCertificate;
use std::net::SocketAddr;

/// What a connection that somebody else has opened may be used for.
#[derive(Debug, Default)]
pub(super) struct Alias {
    /// Where its other end says that it listens: at its address, and this port.
    port: Option<u16>,
    /// The name that its certificate has been found to be for.
    name: Option<ServerName<'static>>,
}

impl Alias {
    /// Whether nothing has been said yet.
    pub(super) fn is_open(&self) -> bool {
        self.port.is_none()
    }

    /// Takes note of what a request says.
    pub(super) fn hear(&mut self, message: &[u8]) {
        self.port = advertised(message);
    }
}

/// The port of the sent-by in the topmost Via, if that has the parameter `alias` (RFC 5923 §8.2).
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
    /// The server that has opened it, as it is sent to.
    pub(super) fn alias(&self) -> Option<Peer> {
        let address = SocketAddr::new(self.flow.peer.ip(), self.alias.port?);
        Some(Peer::new(self.flow.transport, address))
    }

    /// Whether requests to the server of this name may go by it: the certificate that was shown there is for the name (§8.2,
    /// RFC 5922 §7).
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
