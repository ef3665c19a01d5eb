//! `[token]`, and secrets that may be in files.

use std::path::Path;

use crate::kind::{BearerText, KeyPath, KeyText, Kind, key_from_bytes};
use crate::raw::{RawToken, Secret};
use crate::report::Report;
use crate::setting::{Entry, Setting};
use crate::typed::{Bearer, Token};

pub(super) fn check(raw: &RawToken, directory: &Path, report: &mut Report<'_>) -> Option<Token> {
    let key = raw.key.as_ref().map(|key| secret("token.key", key, directory, report));
    let previous: Vec<_> = raw.previous_keys.iter().map(Setting::value).collect();
    let previous_keys: Option<Vec<_>> = previous.into_iter().collect();
    let key = key.map_or(Some(None), |key| key.map(Some));
    Some(Token { key: key?, previous_keys: previous_keys?, lifetime: raw.lifetime.value()? })
}

/// A secret that may be in a file of its own.
pub(super) trait InFile: Kind {
    /// Describes the content of the file.
    const HOLDS: &str;
    /// Describes other errors of the file.
    const OR: &str;

    fn from_bytes(bytes: &[u8]) -> Option<Self::Value>;
}

impl InFile for KeyText {
    const HOLDS: &str = "16 bytes, as they are, as 32 hex digits or in base64";
    const OR: &str = "bytes in another form";

    fn from_bytes(bytes: &[u8]) -> Option<[u8; 16]> {
        key_from_bytes(bytes)
    }
}

impl InFile for BearerText {
    const HOLDS: &str = "a token of 16 or more letters, digits and -._~+/";
    const OR: &str = "bytes in another form";

    fn from_bytes(bytes: &[u8]) -> Option<Bearer> {
        Bearer::from_bytes(bytes)
    }
}

/// Returns the secret of the key at `path`, from the text or the file that it names.
pub(super) fn secret<K: InFile>(
    path: &str,
    raw: &Secret<K>,
    directory: &Path,
    report: &mut Report<'_>,
) -> Option<K::Value> {
    match raw {
        Entry::Plain(setting) => setting.value(),
        Entry::Table(table) => {
            if table.file.is_none() {
                report.missing(
                    &format!("{path}.file"),
                    "expected the file with the secret: { file = \"sip.key\" }",
                );
            }
            secret_file::<K>(table.file.as_ref()?, directory, report)
        }
    }
}

/// Reads a secret from its file, relative to the directory of the configuration.
fn secret_file<K: InFile>(
    setting: &Setting<KeyPath>,
    directory: &Path,
    report: &mut Report<'_>,
) -> Option<K::Value> {
    let path = directory.join(setting.value()?);
    let place = path.display();
    match std::fs::read(&path) {
        Err(error) => {
            report.conflict(setting, format!("{place} cannot be read: {error}"));
            None
        }
        Ok(bytes) => {
            let read = K::from_bytes(&bytes);
            if read.is_none() {
                let remedy = format!(
                    "expected {place} to hold {}; it holds {} {}; make one with `openssl rand -hex 16`",
                    K::HOLDS,
                    bytes.len(),
                    K::OR
                );
                report.conflict(setting, remedy);
            }
            read
        }
    }
}
