//! Choice of our certificate for a connection.

use rustls::SignatureScheme;
use rustls::client::ResolvesClientCert;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use std::collections::HashMap;
use std::sync::Arc;
use webpki::EndEntityCert;

/// The first certificate for the name that a client asks for (RFC 6066 §3), or else the first one.
#[derive(Debug)]
pub(super) struct ByName {
    keys: Vec<Arc<CertifiedKey>>,
    /// Index of the certificate for each name, in lower case. A name may begin with `*`.
    places: HashMap<Box<str>, usize>,
}

impl ByName {
    /// Reads the names of the certificates once, instead of with each handshake.
    pub(super) fn new(keys: &[Arc<CertifiedKey>]) -> Self {
        let mut places = HashMap::new();
        for (place, key) in keys.iter().enumerate() {
            let leaf = key.cert.first().and_then(|leaf| EndEntityCert::try_from(leaf).ok());
            for name in leaf.iter().flat_map(|leaf| leaf.valid_dns_names()) {
                places.entry(name.to_ascii_lowercase().into()).or_insert(place);
            }
        }
        Self { keys: keys.to_vec(), places }
    }

    /// Index of the first certificate for this name. A `*` stands for one label (RFC 9525 §6.3).
    fn place(&self, name: &str) -> Option<usize> {
        let name = name.to_ascii_lowercase();
        let wildcard = name.split_once('.').map(|(_, domain)| format!("*.{domain}"));
        let found = [Some(&name), wildcard.as_ref()].into_iter().flatten();
        found.filter_map(|name| self.places.get(name.as_str()).copied()).min()
    }
}

impl ResolvesServerCert for ByName {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let place = hello.server_name().and_then(|name| self.place(name));
        self.keys.get(place.unwrap_or_default()).cloned()
    }
}

/// Our certificate for any server that asks for one.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_certificate_for_a_name_is_found_in_any_form() {
        let places = [("sip.example", 1), ("*.example", 2), ("*.sip.example", 0)];
        let places = places.into_iter().map(|(name, place)| (name.into(), place)).collect();
        let by_name = ByName { keys: Vec::new(), places };
        let found = |name: &str| by_name.place(name);
        assert_eq!((found("SIP.example"), found("other.example")), (Some(1), Some(2)));
        assert_eq!((found("a.sip.example"), found("b.a.sip.example")), (Some(0), None));
        assert_eq!((found("example"), found("")), (None, None));
    }
}
