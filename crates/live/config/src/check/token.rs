//! `[token]`

use std::path::Path;

use crate::kind::{KeyPath, key_from_bytes};
use crate::raw::RawToken;
use crate::report::Report;
use crate::setting::Setting;
use crate::typed::Token;

pub(super) fn check(raw: &RawToken, directory: &Path, report: &mut Report<'_>) -> Option<Token> {
    let key = match (&raw.key, &raw.key_file) {
        (None, None) => Some(None),
        (Some(key), None) => key.value().map(Some),
        (None, Some(path)) => secret_file(path, directory, &KEY, report).map(Some),
        (Some(key), Some(_)) => {
            report.secret_conflict(key, "expected either `key` or `key_file`, not both; remove one");
            None
        }
    };
    let previous: Vec<_> = raw.previous_keys.iter().map(Setting::value).collect();
    let previous_keys: Option<Vec<_>> = previous.into_iter().collect();
    Some(Token { key: key?, previous_keys: previous_keys?, lifetime: raw.lifetime.value()? })
}

/// A secret that may stand in a file of its own.
pub(super) struct InFile<T> {
    pub(super) read: fn(&[u8]) -> Option<T>,
    /// What the file has to hold.
    pub(super) holds: &'static str,
    /// What may be wrong with it instead.
    pub(super) or: &'static str,
}

pub(super) const KEY: InFile<[u8; 16]> = InFile {
    read: key_from_bytes,
    holds: "16 bytes, as they are, as 32 hex digits or in base64",
    or: "bytes that are none of these",
};

/// Reads a secret from its file, which is found from the configuration's own directory.
pub(super) fn secret_file<T>(
    setting: &Setting<KeyPath>,
    directory: &Path,
    secret: &InFile<T>,
    report: &mut Report<'_>,
) -> Option<T> {
    let path = directory.join(setting.value()?);
    let place = path.display();
    match std::fs::read(&path) {
        Err(error) => {
            report.conflict(setting, format!("{place} cannot be read: {error}"));
            None
        }
        Ok(bytes) => {
            let read = (secret.read)(&bytes);
            if read.is_none() {
                let InFile { holds, or, .. } = secret;
                let remedy = format!(
                    "expected {place} to hold {holds}; it holds {} {or}; make one with `openssl rand -hex 16`",
                    bytes.len()
                );
                report.conflict(setting, remedy);
            }
            read
        }
    }
}
