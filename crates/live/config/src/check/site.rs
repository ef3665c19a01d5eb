//! Places of files and servers that a configuration names.

use crate::typed::ServerUrl;
use std::path::{Path, PathBuf};

/// Context for reading paths and URLs.
pub(super) struct Site<'a> {
    /// Directory that relative paths start from.
    pub(super) directory: &'a Path,
    /// File of the authorities that are trusted to certify servers: `authorities` of `[tls]`.
    pub(super) authorities: Option<PathBuf>,
}

impl Site<'_> {
    /// The server at this URL.
    pub(super) fn server(&self, url: String) -> ServerUrl {
        ServerUrl { url, authorities: self.authorities.clone() }
    }
}
