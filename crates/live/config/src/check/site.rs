//! Where files and servers are that a configuration names.

use crate::typed::ServerUrl;
use std::path::{Path, PathBuf};

/// What paths and URLs are read with.
pub(super) struct Site<'a> {
    /// Where relative paths begin.
    pub(super) directory: &'a Path,
    /// File of those who are trusted to vouch for servers: `authorities` of `[tls]`.
    pub(super) authorities: Option<PathBuf>,
}

impl Site<'_> {
    /// The server at this URL.
    pub(super) fn server(&self, url: String) -> ServerUrl {
        ServerUrl { url, authorities: self.authorities.clone() }
    }
}
