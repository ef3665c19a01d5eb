//! Secrets that the configuration does not name. They are generated once and stored beside it. The key of the route
//! tokens lets calls survive a restart; the other secret is the token of the admin interface.

use rand::TryRngCore;
use rand::rngs::OsRng;
use shards::state;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

/// Returns the file of the token key for the configuration at `path`.
pub(crate) fn beside(path: &Path) -> PathBuf {
    state::place(path, "token-key")
}

/// Returns a random secret from the operating system.
pub(crate) fn random() -> io::Result<[u8; 16]> {
    let mut key = [0; 16];
    OsRng.try_fill_bytes(&mut key).map_err(io::Error::other)?;
    Ok(key)
}

/// Reads the stored secret, or generates one in a file that only the owner can read.
pub(crate) fn keep(file: &Path) -> io::Result<[u8; 16]> {
    match read(file) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        read => return read,
    }
    let key = random()?;
    let draft = draft(file, &format!("{:032x}", u128::from_be_bytes(key)))?;
    let kept = std::fs::hard_link(&draft, file);
    let _ = std::fs::remove_file(&draft);
    match kept {
        // Another process was faster. Both must use the same secret.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => read(file),
        Err(error) => Err(error),
        Ok(()) => {
            settle(file);
            Ok(key)
        }
    }
}

pub(crate) fn read(file: &Path) -> io::Result<[u8; 16]> {
    let mut bytes = Vec::new();
    File::open(file)?.take(256).read_to_end(&mut bytes)?;
    let text = String::from_utf8_lossy(&bytes);
    let digits = text.trim();
    let whole = digits.len() == 32 && digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    let key = whole.then(|| u128::from_str_radix(digits, 16).ok()).flatten();
    key.map(u128::to_be_bytes).ok_or_else(|| {
        let file = file.display();
        let fault =
            format!("{file} does not hold 32 hexadecimal digits; remove it so that a new one is generated");
        io::Error::new(io::ErrorKind::InvalidData, fault)
    })
}

/// Writes a line to a temporary file beside `file` that only the owner can read, and returns its path. The caller links
/// or renames it, so that `file` is never incomplete.
fn draft(file: &Path, line: &str) -> io::Result<PathBuf> {
    let draft = file.with_added_extension(std::process::id().to_string());
    // Left by a process that had the same process ID.
    let _ = std::fs::remove_file(&draft);
    let mut new = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&draft)?;
    let written = writeln!(new, "{line}").and_then(|()| new.sync_all());
    if written.is_err() {
        let _ = std::fs::remove_file(&draft);
    }
    written.map(|()| draft)
}

/// Syncs the directory entry. File systems that cannot do that have the file nevertheless.
fn settle(file: &Path) {
    let _ = file.parent().map(|parent| File::open(parent).and_then(|parent| parent.sync_all()));
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn the_secret_is_made_once_and_kept_for_the_owner_only() {
        let file = std::env::temp_dir().join(format!("sarabande-key-test-{}.key", std::process::id()));
        let _ = std::fs::remove_file(&file);
        let first = keep(&file).unwrap();
        assert_eq!(keep(&file).unwrap(), first);
        let name = file.file_stem().unwrap().to_string_lossy().into_owned();
        let all = std::fs::read_dir(file.parent().unwrap()).unwrap().map(|entry| entry.unwrap().file_name());
        let left: Vec<_> = all.filter(|other| other.to_string_lossy().starts_with(&name)).collect();
        assert_eq!(left, [file.file_name().unwrap()], "no temporary file remains");
        assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
        std::fs::write(&file, [0xff; 32]).unwrap();
        assert!(keep(&file).unwrap_err().to_string().contains("hexadecimal"), "a binary file holds no key");
        std::fs::write(&file, "abc").unwrap();
        assert_eq!(keep(&file).unwrap_err().kind(), io::ErrorKind::InvalidData);
        std::fs::remove_file(&file).unwrap();
    }
}
