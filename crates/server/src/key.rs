//! The secret of the tokens when the configuration names none: made once and kept beside the configuration, so
//! that calls outlive a restart without anybody having to think of keys.

use rand::TryRngCore;
use rand::rngs::OsRng;
use std::fs::OpenOptions;
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// Where the secret of the configuration at `path` is kept: `sarabande.toml` has `sarabande.key`.
pub(crate) fn beside(path: &Path) -> PathBuf {
    path.with_extension("key")
}

/// A secret from the operating system.
pub(crate) fn random() -> io::Result<[u8; 16]> {
    let mut key = [0; 16];
    OsRng.try_fill_bytes(&mut key).map_err(io::Error::other)?;
    Ok(key)
}

/// Reads the kept secret, or makes and keeps one that only the owner can read.
pub(crate) fn keep(file: &Path) -> io::Result<[u8; 16]> {
    match OpenOptions::new().write(true).create_new(true).mode(0o600).open(file) {
        Ok(mut new) => {
            let key = random()?;
            writeln!(new, "{:032x}", u128::from_be_bytes(key))?;
            Ok(key)
        }
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => read(file),
        Err(error) => Err(error),
    }
}

fn read(file: &Path) -> io::Result<[u8; 16]> {
    let mut text = String::new();
    std::fs::File::open(file)?.take(256).read_to_string(&mut text)?;
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
    fn the_secret_is_made_once_and_kept_for_the_owner_only() {
        let file = std::env::temp_dir().join(format!("sarabande-key-test-{}.key", std::process::id()));
        let _ = std::fs::remove_file(&file);
        let first = keep(&file).unwrap();
        assert_eq!(keep(&file).unwrap(), first);
        assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
        std::fs::write(&file, "abc").unwrap();
        assert_eq!(keep(&file).unwrap_err().kind(), io::ErrorKind::InvalidData);
        std::fs::remove_file(&file).unwrap();
    }
}
