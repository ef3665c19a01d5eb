//! Which of our certificates the other side gets.

use rustls::SignatureScheme;
use rustls::client::ResolvesClientCert;
use rustls::pki_types::ServerName;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use std::sync::Arc;
use webpki::EndEntityCert;

/// The first certificate for the name that a client asks for (RFC 6066 §3), or else the first one.
#[derive(Debug)]
pub(super) struct ByName(Vec<Arc<CertifiedKey>>);

impl ByName {
    pub(super) fn new(keys: Vec<Arc<CertifiedKey>>) -> Self {
        Self(keys)
    }
}

fn is_for(key: &CertifiedKey, name: &ServerName<'_>) -> bool {
    let leaf = key.cert.first().and_then(|leaf| EndEntityCert::try_from(leaf).ok());
    leaf.is_some_and(|leaf| leaf.verify_is_valid_for_subject_name(name).is_ok())
}

impl ResolvesServerCert for ByName {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let Self(keys) = self;
        let name = hello.server_name().and_then(|name| ServerName::try_from(name).ok());
        let named = name.and_then(|name| keys.iter().find(|key| is_for(key, &name)));
        named.or(keys.first()).cloned()
    }
}

/// Our certificate, whoever asks for one.
#[derive(Debug)]
pub(super) struct OwnCertificate(pub(super) Arc<CertifiedKey>);

impl ResolvesClientCert for OwnCertificate {
    fn resolve(&self, _: &[&[u8]], schemes: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        let Self(key) = self;
        key.key.choose_scheme(schemes).map(|_| Arc::clone(key))
    }

    fn has_certs(&self) -> bool {
        true
    }
}
