//! The bearer token of the admin interface (RFC 6750 §2.1), required if other machines can reach the interface.

use crate::key;
use config::{Admin, Bearer};
use shards::state;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

const EXTENSION: &str = "admin-token";

/// Returns the file of the generated token of the configuration at `path`: `sarabande.admin-token` for
/// `sarabande.toml`.
fn file_beside(path: &Path) -> PathBuf {
    state::place(path, EXTENSION)
}

/// Returns whether only this machine can reach a listener at this address.
pub fn is_private(address: SocketAddr) -> bool {
    address.ip().to_canonical().is_loopback()
}

/// Returns the token that requests must carry; `None`: no token is needed. If the configuration needs a token and names
/// none, it is generated once and kept in a file that only its owner can read.
///
/// # Errors
/// If the generated token cannot be stored, since no client could learn it.
pub(crate) fn required(admin: &Admin, path: Option<&Path>) -> io::Result<Option<Bearer>> {
    let Some(address) = admin.listen else { return Ok(None) };
    if is_private(address) {
        return Ok(admin.token.clone());
    }
    let (token, from) = match (&admin.token, path.map(file_beside)) {
        (Some(token), _) => (token.clone(), "[admin]".to_owned()),
        (None, Some(file)) => (made(&file, address)?, file.display().to_string()),
        (None, None) => {
            return Err(cannot_keep(address, "there is no configuration file to keep it beside"));
        }
    };
    tracing::warn!(
        %address,
        token = from,
        "other machines can reach the admin interface: it requires the token, which is sent unencrypted"
    );
    Ok(Some(token))
}

fn made(file: &Path, address: SocketAddr) -> io::Result<Bearer> {
    match key::keep(file) {
        Ok(key) => {
            let digits = format!("{:032x}", u128::from_be_bytes(key));
            Ok(Bearer::parse(&digits).expect("32 hexadecimal digits are a token"))
        }
        Err(error) if error.kind() == io::ErrorKind::InvalidData => Err(error),
        Err(error) => Err(cannot_keep(address, &format!("{}: {error}", file.display()))),
    }
}

/// Returns the file of the generated token, if the configuration at `path` needs a token and names none.
pub(crate) fn kept(admin: &Admin, path: &Path) -> Option<PathBuf> {
    let is_made = admin.token.is_none() && admin.listen.is_some_and(|listen| !is_private(listen));
    is_made.then(|| file_beside(path))
}

/// Returns the token of the server whose configuration is at `path`; `None` if it requires none.
///
/// # Errors
/// If the file of the generated token cannot be read.
pub fn of(admin: &Admin, path: &Path) -> io::Result<Option<Bearer>> {
    match kept(admin, path) {
        Some(_) => read(&state::find(path, EXTENSION)).map(Some),
        None => Ok(admin.token.clone()),
    }
}

/// Reads a token from a file.
///
/// # Errors
/// If the file cannot be read or holds no token.
pub fn read(file: &Path) -> io::Result<Bearer> {
    let bytes = std::fs::read(file)
        .map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", file.display())))?;
    Bearer::from_bytes(&bytes).ok_or_else(|| {
        let text =
            format!("{} does not hold a token of 16 or more letters, digits and -._~+/", file.display());
        io::Error::new(io::ErrorKind::InvalidData, text)
    })
}

fn cannot_keep(address: SocketAddr, why: &str) -> io::Error {
    let text = format!(
        "[admin] listens on {address}, which other machines can reach, so it needs a token, and a generated token \
         cannot be \
         kept: {why}. Set [admin] token, or listen on 127.0.0.1"
    );
    io::Error::other(text)
}

/// Compares in constant time, so that the duration does not show where the two differ.
pub(super) fn is_same(token: &Bearer, shown: &[u8]) -> bool {
    let token = token.text().as_bytes();
    let differing = token.iter().zip(shown).fold(0, |all, (a, b)| all | (a ^ b));
    token.len() == shown.len() && std::hint::black_box(differing) == 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use config::AdminPage;
    use std::os::unix::fs::PermissionsExt;

    fn admin(listen: &str, token: Option<&str>) -> Admin {
        let listen = Some(listen.parse().unwrap());
        let token = token.and_then(Bearer::parse);
        Admin { listen, token, page: AdminPage::ReadOnly, member_histograms: false }
    }

    #[test]
    fn loopback_requires_only_a_configured_token() {
        for listen in ["127.0.0.1:8060", "[::1]:8060", "[::ffff:127.0.0.1]:8060"] {
            assert_eq!(required(&admin(listen, None), None).unwrap(), None, "{listen}");
            let set = admin(listen, Some("0123456789abcdef"));
            assert_eq!(required(&set, None).unwrap(), set.token, "{listen}");
        }
        assert_eq!(required(&Admin { listen: None, ..admin("[::]:1", None) }, None).unwrap(), None);
    }

    #[test]
    fn a_reachable_interface_has_a_generated_token() {
        let path = std::env::temp_dir().join(format!("sarabande-admin-{}.toml", std::process::id()));
        let file = file_beside(&path);
        for listen in ["0.0.0.0:8060", "[::]:8060", "192.0.2.1:8060"] {
            let made = required(&admin(listen, None), Some(&path)).unwrap().expect("a token is needed");
            assert_eq!(made.text().len(), 32);
            let kept = std::fs::read_to_string(&file).unwrap();
            assert_eq!(kept.trim(), made.text());
            assert_eq!(of(&admin(listen, None), &path).unwrap(), Some(made.clone()));
            let set = admin(listen, Some("0123456789abcdef"));
            assert_eq!(of(&set, &path).unwrap(), set.token, "the configured token is used");
            assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
            let error = required(&admin(listen, None), None).unwrap_err().to_string();
            assert!(error.contains("[admin] token"), "{error}");
        }
        std::fs::remove_file(file).unwrap();
        let nowhere = Path::new("/proc/nowhere/sarabande.toml");
        let error = required(&admin("[::]:8060", None), Some(nowhere)).unwrap_err().to_string();
        assert!(
            error.contains("/proc/nowhere/sarabande.admin-token") && error.contains("127.0.0.1"),
            "{error}"
        );
    }

    #[test]
    fn tokens_are_compared_as_a_whole() {
        let token = Bearer::parse("0123456789abcdef").unwrap();
        assert!(is_same(&token, b"0123456789abcdef"));
        for other in
            [&b""[..], b"0123456789abcde", b"0123456789abcdeF", b"0123456789abcdef0", b"x123456789abcdef"]
        {
            assert!(!is_same(&token, other), "{other:?}");
        }
    }
}
