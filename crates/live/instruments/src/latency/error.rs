//! Errors of a monitor.

use crate::capture;
use std::io;
use std::path::PathBuf;
use thiserror::Error;

/// The reason why a monitor does not start, or has ended.
#[derive(Debug, Error)]
pub enum LatencyError {
    /// The capability is missing.
    #[error(
        "capturing needs the capability CAP_NET_RAW: run as root, or give it to the program by `setcap cap_net_raw+ep \
         PROGRAM`, to a systemd unit by `AmbientCapabilities=CAP_NET_RAW`, to a container by `capabilities: add: [NET_RAW]`. \
         Without it, --hep receives copies that the server sends, and --read reads a capture file"
    )]
    NotPermitted,
    /// There is no such interface.
    #[error("there is no interface {0}: `ip link` lists those of this host")]
    NoInterface(String),
    /// There are more addresses than a filter has room for.
    #[error("{0} addresses of the server are more than {most}: name those that matter with --server", most = capture::SERVERS_MAX)]
    TooManyServers(usize),
    /// A file cannot be written.
    #[error("{}: cannot be written: {error}", path.display())]
    File {
        /// Path of the file.
        path: PathBuf,
        /// Cause.
        error: io::Error,
    },
    /// Another error.
    #[error(transparent)]
    Other(#[from] io::Error),
}
