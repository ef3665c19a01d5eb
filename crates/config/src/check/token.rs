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
        (Some(key), None) => report.read(key).map(Some),
        (None, Some(path)) => key_file(path, directory, report).map(Some),
        (Some(key), Some(_)) => {
            report.secret_conflict(key, "expected either `key` or `key_file`, not both; remove one");
            None
        }
    };
    let previous: Vec<_> = raw.previous_keys.iter().map(|setting| report.read(setting)).collect();
    let previous_keys: Option<Vec<_>> = previous.into_iter().collect();
    let lifetime = report.read(&raw.lifetime);
    Some(Token { key: key?, previous_keys: previous_keys?, lifetime: lifetime? })
}

/// Reads the key from its file, which is found from the configuration's own directory.
fn key_file(setting: &Setting<KeyPath>, directory: &Path, report: &mut Report<'_>) -> Option<[u8; 16]> {
    let path = directory.join(report.read(setting)?);
    let place = path.display();
    match std::fs::read(&path) {
        Err(error) => {
            report.conflict(setting, format!("{place} cannot be read: {error}"));
            None
        }
        Ok(bytes) => {
            let key = key_from_bytes(&bytes);
            if key.is_none() {
                let remedy = format!(
                    "expected {place} to hold 16 bytes, as they are, as 32 hex digits or in base64; it holds {} bytes \
                     that are none of these; make one with `openssl rand -hex 16`",
                    bytes.len()
                );
                report.conflict(setting, remedy);
            }
            key
        }
    }
}
