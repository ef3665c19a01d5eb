//! Reasons why a server does not start.

use std::io;
use streams::tls::TlsError;

/// Why a server does not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// An address cannot be bound, or a system resource is missing.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The admin interface cannot listen. The error has the address, the cause and a remedy.
    #[error("[admin] {0}")]
    Admin(io::Error),
    /// Capacity updates cannot be received. The error has the address, the cause and a remedy.
    #[error("[capacity] {0}")]
    Capacity(io::Error),
    /// A certificate or key is wrong. The error names it and what was expected.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// No listen address is left.
    #[error("the configured listeners match no address of this machine; see `ip addr`")]
    NoListener,
    /// Bindings or users cannot be read, with the cause.
    #[error("[registrar] {0}")]
    Stores(String),
    /// The destination of call records cannot be opened, with the cause.
    #[error("{0}")]
    Records(String),
}
