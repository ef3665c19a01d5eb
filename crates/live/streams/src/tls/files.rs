//! Certificates and keys in PEM files.

use super::CertificateFiles;
use core::fmt;
use rustls::RootCertStore;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;
use std::path::Path;

/// Authorities that Debian and other distributions install for all programs.
const SYSTEM: &str = "/etc/ssl/certs/ca-certificates.crt";

/// Error text with the fault, its place, and the expected content.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TlsError(String);

impl fmt::Display for TlsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for TlsError {}

impl TlsError {
    pub(super) fn file(path: &Path, fault: &dyn fmt::Display, expected: &str) -> Self {
        Self(format!("{}: {fault}; expected {expected}", path.display()))
    }

    pub(super) fn general(error: &dyn fmt::Display) -> Self {
        Self(format!("[tls]: {error}"))
    }

    fn pem(path: &Path, error: &pem::Error, expected: &str) -> Self {
        match error {
            pem::Error::Io(error) => Self::file(path, error, expected),
            error => Self::file(path, error, expected),
        }
    }
}

/// All certificates of a file.
fn certificates_of(path: &Path, expected: &str) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let read = CertificateDer::pem_file_iter(path).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    let read = read.map_err(|error| TlsError::pem(path, &error, expected))?;
    if read.is_empty() { Err(TlsError::file(path, &"no certificate in it", expected)) } else { Ok(read) }
}

/// Reads a certificate with its chain of issuers.
pub(super) fn chain_of(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    certificates_of(path, "a file with the certificate and its chain of issuers, in PEM")
}

/// Loads the private key of a chain.
pub(super) fn key_of(
    files: &CertificateFiles,
    chain: Vec<CertificateDer<'static>>,
    provider: &CryptoProvider,
) -> Result<CertifiedKey, TlsError> {
    let path = &files.key;
    let expected = "the private key of the certificate, in PEM, without a passphrase";
    let key = PrivateKeyDer::from_pem_file(path).map_err(|error| TlsError::pem(path, &error, expected))?;
    let key = provider.key_provider.load_private_key(key);
    let key = CertifiedKey::new(chain, key.map_err(|error| TlsError::file(path, &error, expected))?);
    match key.keys_match() {
        Ok(()) | Err(rustls::Error::InconsistentKeys(rustls::InconsistentKeys::Unknown)) => Ok(key),
        Err(_) => {
            let fault = format!("this key is not that of the first certificate in {}", files.chain.display());
            Err(TlsError::file(path, &fault, "a key and a certificate that belong together"))
        }
    }
}

/// Reads the authorities of a file.
pub(super) fn roots_of(path: &Path) -> Result<RootCertStore, TlsError> {
    let expected = "certificates of authorities, in PEM";
    let mut roots = RootCertStore::empty();
    for certificate in certificates_of(path, expected)? {
        roots.add(certificate).map_err(|error| TlsError::file(path, &error, expected))?;
    }
    Ok(roots)
}

/// All known authorities: those of these files, and the system's.
pub(super) fn known<'a>(files: impl Iterator<Item = &'a Path>) -> Vec<CertificateDer<'static>> {
    files.chain([Path::new(SYSTEM)]).flat_map(|file| certificates_of(file, "").unwrap_or_default()).collect()
}

/// Authorities that the system trusts; possibly none.
pub(super) fn system_roots() -> RootCertStore {
    let mut roots = RootCertStore::empty();
    let certificates = certificates_of(Path::new(SYSTEM), "").unwrap_or_default();
    roots.add_parsable_certificates(certificates);
    roots
}
