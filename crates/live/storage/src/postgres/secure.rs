//! TLS with PostgreSQL, in which the server must prove that it is the host of the URL.

use super::guard::Guarded;
use core::pin::Pin;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use streams::tls::{client_of, in_plain_words};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_postgres::tls::{MakeTlsConnect, TlsConnect};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// Maker of TLS streams.
pub(super) struct Secure {
    pub(super) authorities: Option<PathBuf>,
    /// Whether the server may request the password in clear text.
    pub(super) clear_text: bool,
}

/// Reads the settings. The file is read again for each connection, as it may have been replaced.
pub(super) fn settings(authorities: Option<&Path>) -> Result<ClientConfig, String> {
    let mut settings = client_of(authorities).map_err(|error| format!("[tls] authorities: {error}"))?;
    // Required if TLS starts at once (`sslnegotiation=direct`).
    settings.alpn_protocols = vec![b"postgresql".to_vec()];
    Ok(settings)
}

/// TLS with one host.
pub(super) struct SecureConnect {
    connector: TlsConnector,
    name: ServerName<'static>,
    clear_text: bool,
}

impl<S: AsyncRead + AsyncWrite + Unpin + Send + 'static> MakeTlsConnect<S> for Secure {
    type Stream = Guarded<TlsStream<S>>;
    type TlsConnect = SecureConnect;
    type Error = io::Error;

    fn make_tls_connect(&mut self, host: &str) -> io::Result<SecureConnect> {
        let settings = settings(self.authorities.as_deref()).map_err(io::Error::other)?;
        let name = ServerName::try_from(host.to_owned()).map_err(io::Error::other)?;
        Ok(SecureConnect {
            connector: TlsConnector::from(Arc::new(settings)),
            name,
            clear_text: self.clear_text,
        })
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin + Send + 'static> TlsConnect<S> for SecureConnect {
    type Stream = Guarded<TlsStream<S>>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Self::Stream>> + Send>>;

    fn connect(self, stream: S) -> Self::Future {
        Box::pin(async move {
            let connected = self.connector.connect(self.name, stream).await;
            let stream = connected.map_err(|error| io::Error::other(in_plain_words(&error)))?;
            Ok(Guarded::new(stream, self.clear_text))
        })
    }
}
