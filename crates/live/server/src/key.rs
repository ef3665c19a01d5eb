//! Secrets that the configuration does not name: made once and kept beside it. That of the route tokens, so that
//! calls outlive a restart without any setting, and that of the admin interface.

use crate::{state, whole};
use rand::TryRngCore;
use rand::rngs::OsRng;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// Where the secret of the configuration at `path` is kept. In earlier versions it had the name of many a TLS key,
/// `NAME.key`. A file of this name that holds a secret is still used, so that an upgrade breaks no call.
pub(crate) fn beside(path: &Path) -> PathBuf {
    let file = state::place(path, "token-key");
    let earlier = state::places(path, "key").into_iter().rev().find(|earlier| read(earlier).is_ok());
    earlier.filter(|_| !file.exists()).unwrap_or(file)
}

/// A secret from the operating system.
pub(crate) fn random() -> io::Result<[u8; 16]> {
    let mut key = [0; 16];
    OsRng.try_fill_bytes(&mut key).map_err(io::Error::other)?;
    Ok(key)
}

/// Reads the kept secret, or makes and keeps one that only the owner can read.
pub(crate) fn keep(file: &Path) -> io::Result<[u8; 16]> {
    match read(file) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        read => return read,
    }
    let key = random()?;
    let draft = whole::draft(file, &format!("{:032x}", u128::from_be_bytes(key)))?;
    let kept = std::fs::hard_link(&draft, file);
    let _ = std::fs::remove_file(&draft);
    match kept {
        // Another process was faster: both are to use the same.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => read(file),
        Err(error) => Err(error),
        Ok(()) => {
            whole::settle(file);
            Ok(key)
        }
    }
}

/// Reads a kept secret.
pub(crate) fn read(file: &Path) -> io::Result<[u8; 16]> {
    let mut bytes = Vec::new();
    File::open(file)?.take(256).read_to_end(&mut bytes)?;
    let text = String::from_utf8_lossy(&bytes);
    let digits = text.trim();
    let whole = digits.len() == 32 && digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    let key = whole.then(|| u128::from_str_radix(digits, 16).ok()).flatten();
    key.map(u128::to_be_bytes).ok_or_else(|| {
        let file = file.display();
        let what = format!("{file} does not hold 32 hexadecimal digits; remove it to have a new one made");
        io::Error::new(io::ErrorKind::InvalidData, what)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_secret_of_the_earlier_name_is_used_and_a_tls_key_is_not() {
        let path = std::env::temp_dir().join(format!("sarabande-key-name-test-{}.toml", std::process::id()));
        let (own, earlier) = (path.with_extension("token-key"), path.with_extension("key"));
        std::fs::write(&earlier, "-----BEGIN PRIVATE KEY-----\n").unwrap();
        assert_eq!(beside(&path), own);
        std::fs::write(&earlier, "000102030405060708090a0b0c0d0e0f").unwrap();
        assert_eq!(beside(&path), earlier);
        keep(&own).unwrap();
        assert_eq!(beside(&path), own);
        std::fs::remove_file(&own).unwrap();
        std::fs::remove_file(&earlier).unwrap();
    }

    #[test]
    fn the_secret_is_made_once_and_kept_for_the_owner_only() {
        let file = std::env::temp_dir().join(format!("sarabande-key-test-{}.key", std::process::id()));
        let _ = std::fs::remove_file(&file);
        let first = keep(&file).unwrap();
        assert_eq!(keep(&file).unwrap(), first);
        let name = file.file_stem().unwrap().to_string_lossy().into_owned();
        let all = std::fs::read_dir(file.parent().unwrap()).unwrap().map(|entry| entry.unwrap().file_name());
        let left: Vec<_> = all.filter(|other| other.to_string_lossy().starts_with(&name)).collect();
        assert_eq!(left, [file.file_name().unwrap()], "no draft is left");
        assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
        std::fs::write(&file, [0xff; 32]).unwrap();
        assert!(
            keep(&file).unwrap_err().to_string().contains("hexadecimal"),
            "what is no text is no key either"
        );
        std::fs::write(&file, "abc").unwrap();
        assert_eq!(keep(&file).unwrap_err().kind(), io::ErrorKind::InvalidData);
        std::fs::remove_file(&file).unwrap();
    }
}
