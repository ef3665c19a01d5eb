//! Secrets of users: a password, or its hash.

use crate::SecretHash;

/// Secret to verify a user's claim. It must belong exactly to the requested user name: a database that finds `alice`
/// for `ALICE` would make two users of one.
#[derive(Clone)]
pub enum Secret {
    /// The password; serves every algorithm.
    Clear(Box<[u8]>),
    /// `H(user:realm:password)`, the hash of `A1` in RFC 7616 §3.4.2; serves the algorithm that made it.
    Ha1(SecretHash),
}

impl core::fmt::Debug for Secret {
    /// Never prints the password.
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Clear(_) => f.write_str("Clear"),
            Self::Ha1(hash) => write!(f, "Ha1({})", hash.algorithm().name()),
        }
    }
}
