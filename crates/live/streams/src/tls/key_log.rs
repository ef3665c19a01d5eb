//! Log of TLS session secrets, to decrypt captures. Only if the configuration asks for it.

use super::files::TlsError;
use rustls::KeyLog;
use std::fmt::Write as _;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

/// A file in the format that Wireshark reads (`SSLKEYLOGFILE`).
#[derive(Debug)]
pub(super) struct KeyLogFile(Mutex<File>);

impl KeyLogFile {
    /// Opens the file, readable only by its owner.
    pub(super) fn open(path: &Path) -> Result<Self, TlsError> {
        let file = OpenOptions::new().create(true).append(true).mode(0o600).open(path);
        let file = file.map_err(|error| TlsError::file(path, &error, "a writable file"))?;
        tracing::warn!(file = %path.display(), "the secrets of all TLS sessions are written to this file: anyone who \
            reads it can decrypt the sessions");
        Ok(Self(Mutex::new(file)))
    }
}

impl KeyLog for KeyLogFile {
    fn log(&self, label: &str, client_random: &[u8], secret: &[u8]) {
        let mut line = format!("{label} ");
        let mut hex = |bytes: &[u8], end: char| {
            for byte in bytes {
                // Writing to a string cannot fail.
                let _ = write!(line, "{byte:02x}");
            }
            line.push(end);
        };
        hex(client_random, ' ');
        hex(secret, '\n');
        let mut file = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // A full disk must not end calls.
        let _ = file.write_all(line.as_bytes());
    }
}
