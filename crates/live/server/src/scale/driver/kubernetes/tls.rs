//! TLS with an API server. Only the certificates of one file are trusted.

use std::io;
use std::path::Path;
use std::sync::Arc;
use streams::tls::client_of;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::rustls::{CertificateError, ClientConfig, Error};

/// Opens TLS with HOST:PORT, whose certificate must be signed by a certificate in `ca_file`. The file is read for each
/// connection, because it is replaced while this process runs.
pub(super) async fn connect(
    stream: TcpStream,
    authority: &str,
    ca_file: &Path,
) -> Result<TlsStream<TcpStream>, String> {
    let host = authority.rsplit_once(':').map_or(authority, |(host, _)| host);
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let name = ServerName::try_from(host.to_owned())
        .map_err(|error| format!("the API server: {host:?} is not a server name: {error}"))?;
    let connector = TlsConnector::from(Arc::new(settings(ca_file)?));
    connector.connect(name, stream).await.map_err(|error| refused(&error, authority, ca_file))
}

fn settings(ca_file: &Path) -> Result<ClientConfig, String> {
    let mut settings =
        client_of(Some(ca_file)).map_err(|error| format!("the certificates of the pod: {error}"))?;
    settings.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(settings)
}

/// Describes the fault and the remedy.
fn refused(error: &io::Error, authority: &str, ca_file: &Path) -> String {
    let of_tls = error.get_ref().and_then(|inner| inner.downcast_ref::<Error>());
    let Some(Error::InvalidCertificate(why)) = of_tls else {
        return format!("the API server: no TLS with {authority}: {error}");
    };
    match why {
        CertificateError::UnknownIssuer | CertificateError::BadSignature => format!(
            "the API server: the certificate of {authority} is not signed by one in {}; expected those of this cluster",
            ca_file.display()
        ),
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            format!(
                "the API server: the certificate is not for {authority}: {error}; set `api_server` to a name in the \
                 certificate"
            )
        }
        _ => format!("the API server: the certificate of {authority} cannot be verified: {error}"),
    }
}
