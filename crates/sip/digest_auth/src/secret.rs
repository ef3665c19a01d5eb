//! What is known of a user: a password, or the hash that stands for it.

use crate::Hash;

/// What a user's claim is judged by. Answer exactly for the user name that was asked for, to the letter: a database
/// that finds `alice` for `ALICE` would make two users of one.
#[derive(Clone)]
pub enum Secret {
    /// The password itself; serves every algorithm.
    Clear(Box<[u8]>),
    /// `H(user:realm:password)`, RFC 7616 §3.4.2's `A1` hashed; serves the algorithm that made it.
    Ha1(Hash),
}

impl core::fmt::Debug for Secret {
    /// Never the password.
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Clear(_) => f.write_str("Clear"),
            Self::Ha1(hash) => write!(f, "Ha1({})", hash.algorithm().name()),
        }
    }
}
