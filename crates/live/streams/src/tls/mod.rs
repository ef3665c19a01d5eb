//! TLS from files: certificates and keys, authorities, and faults in plain words.
//!
//! The cryptography is ring's. It is named explicitly, so that another provider in the dependency tree is never used by
//! chance.

mod certificate;
mod files;
mod key_log;
mod resolver;
mod words;

pub use certificate::{CertificateFacts, CertificateProblem};
pub use files::TlsError;
pub use words::in_plain_words;

use certificate::subjects;
use files::{chain_of, key_of, known, roots_of, system_roots};
use key_log::KeyLogFile;
use resolver::{ByName, OwnCertificate};
use rustls::client::{WantsClientCert, WebPkiServerVerifier};
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::ServerName;
use rustls::server::{ProducesTickets, WebPkiClientVerifier};
use rustls::sign::CertifiedKey;
use rustls::{ClientConfig, ClientConnection, ConfigBuilder, Connection, ServerConfig, ServerConnection};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Section `[tls]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tls {
    /// Certificates shown to peers; the first one if a client names no host of another one.
    pub certificates: Vec<CertificateFiles>,
    /// Authorities of servers; `None`: those of the system.
    pub authorities: Option<PathBuf>,
    /// Authorities of clients; `None`: clients are not asked for a certificate.
    pub client_authorities: Option<PathBuf>,
    /// Whether a client without a certificate is refused; only with `client_authorities`.
    pub require_client: bool,
    /// File for the secrets of connections, to decrypt captures.
    pub key_log: Option<PathBuf>,
}

/// A certificate and its key, in PEM.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CertificateFiles {
    /// The certificate, then its chain of issuers.
    pub chain: PathBuf,
    /// The private key.
    pub key: PathBuf,
}

/// Settings of TLS, ready for connections.
#[derive(Debug)]
pub struct TlsSetup {
    /// `None`: there is no certificate, and none is needed.
    server: Option<Arc<ServerConfig>>,
    client: Arc<ClientConfig>,
    tickets: Arc<dyn ProducesTickets>,
    /// Authorities of clients, and whether a certificate is required. A resumed session is not checked again.
    asks_clients: (Option<Vec<u8>>, bool),
    /// Facts about each certificate, in the order of the configuration.
    pub certificates: Vec<CertificateFacts>,
    /// Expected names in the certificates of members and next hops, by address. The name is the configured name (RFC
    /// 5922 §4.3), or the address if the configuration has no name.
    names: BTreeMap<SocketAddr, ServerName<'static>>,
}

/// The cryptography of every connection.
pub fn provider() -> Arc<CryptoProvider> {
    Arc::new(ring::default_provider())
}

impl TlsSetup {
    /// Reads the files. Sessions of the settings `before` can be resumed, unless the certificates required of clients
    /// have changed.
    pub fn read(tls: &Tls, before: Option<&Self>) -> Result<Self, TlsError> {
        let provider = provider();
        let (mut keys, mut certificates) = (Vec::new(), Vec::new());
        let authorities = tls.authorities.iter().chain(&tls.client_authorities).map(PathBuf::as_path);
        let known = subjects(&known(authorities));
        for files in &tls.certificates {
            let chain = chain_of(&files.chain)?;
            certificates.push(CertificateFacts::of(&files.chain, &chain, &known)?);
            keys.push(Arc::new(key_of(files, chain, &provider)?));
        }
        let authorities = tls.client_authorities.as_ref().map(std::fs::read).transpose();
        let asks_clients = (authorities.unwrap_or_default(), tls.require_client);
        let tickets = match before.filter(|before| before.asks_clients == asks_clients) {
            Some(before) => Arc::clone(&before.tickets),
            None => ring::Ticketer::new().map_err(|error| TlsError::general(&error))?,
        };
        let log = tls.key_log.as_deref().map(KeyLogFile::open).transpose()?.map(Arc::new);
        let server = if keys.is_empty() {
            None
        } else {
            let mut server = server(tls, &keys, &provider)?;
            server.ticketer = Arc::clone(&tickets);
            if let Some(log) = &log {
                server.key_log = Arc::clone(log) as Arc<_>;
            }
            Some(Arc::new(server))
        };
        let mut client = client(tls, keys.first(), &provider)?;
        if let Some(log) = log {
            client.key_log = log;
        }
        let names = before.map(|before| before.names.clone()).unwrap_or_default();
        Ok(Self { server, client: Arc::new(client), tickets, asks_clients, certificates, names })
    }

    /// Copy with these names of members; `None`: configured by its address.
    #[must_use]
    pub fn with_names(&self, names: impl Iterator<Item = (SocketAddr, Option<String>)>) -> Self {
        let named = |name: Option<String>| ServerName::try_from(name?).ok();
        let names = names.map(|(at, name)| (at, named(name).unwrap_or_else(|| by_address(at)))).collect();
        let (server, client) = (self.server.clone(), Arc::clone(&self.client));
        let (tickets, certificates) = (Arc::clone(&self.tickets), self.certificates.clone());
        let asks_clients = self.asks_clients.clone();
        Self { server, client, tickets, asks_clients, certificates, names }
    }

    /// Names of members.
    pub fn names(&self) -> &BTreeMap<SocketAddr, ServerName<'static>> {
        &self.names
    }

    /// Settings of connections that we open.
    pub fn client(&self) -> Arc<ClientConfig> {
        Arc::clone(&self.client)
    }

    /// Name that the certificate of this peer must be valid for. The configured name comes first, then the host named
    /// by messages, which the DNS resolved to this address, then the address.
    pub fn name_of(&self, peer: SocketAddr, host: Option<&str>) -> ServerName<'static> {
        let named = || ServerName::try_from(host?.to_owned()).ok();
        self.names.get(&peer).cloned().or_else(named).unwrap_or_else(|| by_address(peer))
    }

    /// Server's side of a new connection; `None`: there is no certificate.
    pub fn accept(&self) -> Option<Connection> {
        let server = self.server.clone()?;
        ServerConnection::new(server).ok().map(Connection::Server)
    }

    /// Client's side of a new connection to this peer, which must be this host if one is named.
    pub fn connect(&self, peer: SocketAddr, host: Option<&str>) -> Option<Connection> {
        ClientConnection::new(self.client(), self.name_of(peer, host)).ok().map(Connection::Client)
    }
}

fn by_address(peer: SocketAddr) -> ServerName<'static> {
    ServerName::IpAddress(peer.ip().into())
}

fn server(
    tls: &Tls,
    keys: &[Arc<CertifiedKey>],
    provider: &Arc<CryptoProvider>,
) -> Result<ServerConfig, TlsError> {
    let builder = ServerConfig::builder_with_provider(Arc::clone(provider))
        .with_safe_default_protocol_versions()
        .map_err(|error| TlsError::general(&error))?;
    let builder = match &tls.client_authorities {
        None => builder.with_no_client_auth(),
        Some(file) => {
            let roots = Arc::new(roots_of(file)?);
            let verifier = WebPkiClientVerifier::builder_with_provider(roots, Arc::clone(provider));
            let verifier = if tls.require_client { verifier } else { verifier.allow_unauthenticated() };
            builder.with_client_cert_verifier(verifier.build().map_err(|error| TlsError::general(&error))?)
        }
    };
    Ok(builder.with_cert_resolver(Arc::new(ByName::new(keys))))
}

/// Settings of a client without a certificate, which trusts the authorities in a file, or those of the system.
///
/// # Errors
/// If the file is faulty.
pub fn client_of(authorities: Option<&Path>) -> Result<ClientConfig, TlsError> {
    Ok(trusting(authorities, &provider())?.with_no_client_auth())
}

fn trusting(
    authorities: Option<&Path>,
    provider: &Arc<CryptoProvider>,
) -> Result<ConfigBuilder<ClientConfig, WantsClientCert>, TlsError> {
    let builder = ClientConfig::builder_with_provider(Arc::clone(provider))
        .with_safe_default_protocol_versions()
        .map_err(|error| TlsError::general(&error))?;
    let roots = authorities.map_or_else(|| Ok(system_roots()), roots_of)?;
    if roots.is_empty() {
        return Ok(builder.with_root_certificates(roots));
    }
    let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::clone(provider));
    Ok(builder.with_webpki_verifier(verifier.build().map_err(|error| TlsError::general(&error))?))
}

fn client(
    tls: &Tls,
    key: Option<&Arc<CertifiedKey>>,
    provider: &Arc<CryptoProvider>,
) -> Result<ClientConfig, TlsError> {
    let builder = trusting(tls.authorities.as_deref(), provider)?;
    Ok(match key {
        Some(key) => builder.with_client_cert_resolver(Arc::new(OwnCertificate(Arc::clone(key)))),
        None => builder.with_no_client_auth(),
    })
}
