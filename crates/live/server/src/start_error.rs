//! Why a server does not start.

use std::io;
use streams::tls::TlsError;

/// Why a server does not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// An address cannot be bound, or a system resource is missing.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The admin interface cannot listen: says where, why, and what helps.
    #[error("[admin] {0}")]
    Admin(io::Error),
    /// Updates of capacity cannot be listened for: says where, why, and what helps.
    #[error("[capacity] {0}")]
    Capacity(io::Error),
    /// Certificates or keys are wrong: says which, and what was expected.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// No address to listen on is left.
    #[error("the configured listeners match no address of this machine; see `ip addr`")]
    NoListener,
    /// Bindings or users cannot be read: says what, and why.
    #[error("[registrar] {0}")]
    Stores(String),
    /// Where records of calls go cannot be opened: says what, and why.
    #[error("{0}")]
    Records(String),
}
