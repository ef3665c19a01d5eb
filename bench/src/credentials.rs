//! Client side of digest authentication: MD5, `qop=auth`, each nonce used once. Independent of the product's code, so
//! that a fault there is not hidden here.

use crate::text;
use md5::{Digest as _, Md5};
use std::fmt::Write as _;
use std::io::Write as _;

/// A user with a password.
#[derive(Clone, Copy, Debug)]
pub struct BenchUser {
    /// The name.
    pub name: &'static str,
    /// The password.
    pub password: &'static str,
}

/// The realm of all users.
pub const REALM: &str = "example.com";

/// Returns the MD5 of the parts joined by colons, in 32 hexadecimal digits (RFC 2617 §3.2.1).
fn hash(parts: &[&[u8]]) -> String {
    let mut digits = String::new();
    for octet in Md5::digest(parts.join(&b':')) {
        write!(digits, "{octet:02x}").expect("writing to memory cannot fail");
    }
    digits
}

impl BenchUser {
    /// Returns H(A1), as in a file of users (RFC 2617 §3.2.2.2).
    pub fn secret(self) -> String {
        hash(&[self.name.as_bytes(), REALM.as_bytes(), self.password.as_bytes()])
    }

    /// Appends the header field `name` of a request that answers `challenge` (RFC 2617 §3.2.2).
    pub fn answer(self, name: &str, challenge: &[u8], (method, uri): (&str, &str), out: &mut Vec<u8>) {
        const COUNT: &str = "00000001";
        const OWN: &str = "0a4f113b";
        let nonce = text::auth_param(challenge, "nonce").unwrap_or_default();
        let of_request = hash(&[method.as_bytes(), uri.as_bytes()]);
        let parts = [COUNT.as_bytes(), OWN.as_bytes(), b"auth", of_request.as_bytes()];
        let response = hash(&[&[self.secret().as_bytes(), nonce][..], &parts].concat());
        write!(
            out,
            "{name}: Digest username=\"{}\", realm=\"{REALM}\", nonce=\"{}\", uri=\"{uri}\", response=\"{response}\", \
             algorithm=MD5, cnonce=\"{OWN}\", qop=auth, nc={COUNT}\r\n",
            self.name,
            nonce.escape_ascii(),
        )
        .expect("writing to memory cannot fail");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_example_of_the_rfc() {
        // RFC 2617 §3.5.
        let secret = hash(&[b"Mufasa", b"testrealm@host.com", b"Circle Of Life"]);
        let of_request = hash(&[b"GET", b"/dir/index.html"]);
        let nonce = b"dcd98b7102dd2f0e8b11d0f600bfb0c093";
        let parts = [secret.as_bytes(), nonce, b"00000001", b"0a4f113b", b"auth", of_request.as_bytes()];
        assert_eq!(hash(&parts), "6629fae49393a05397450978507c4ef1");
    }
}
