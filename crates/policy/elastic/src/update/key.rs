//! The key that both ends have, and the codes that are made with it.

use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;

/// Bytes of a code, the output of SHA-256.
pub(super) const CODE_BYTES: usize = 32;

/// The shared secret of both ends. Never printed.
#[derive(Clone)]
pub struct Key(Hmac<Sha256>);

impl Key {
    /// From 16 random bytes: as many as make a search hopeless.
    pub fn new(bytes: &[u8; 16]) -> Self {
        Self(Hmac::new_from_slice(bytes).expect("HMAC takes keys of any length"))
    }

    /// The code of an update on the connection that was greeted so.
    pub(super) fn code(&self, greeting: &str, update: &str) -> [u8; CODE_BYTES] {
        self.over(greeting, update).finalize().into_bytes().into()
    }

    /// Whether it is the code, in a time that does not tell where it is wrong.
    pub(super) fn is_code(&self, greeting: &str, update: &str, code: &[u8; CODE_BYTES]) -> bool {
        self.over(greeting, update).verify_slice(code).is_ok()
    }

    /// A greeting has no line end in it, so where it ends is certain.
    fn over(&self, greeting: &str, update: &str) -> Hmac<Sha256> {
        let mut mac = self.0.clone();
        for part in [greeting, "\n", update] {
            mac.update(part.as_bytes());
        }
        mac
    }
}

impl core::fmt::Debug for Key {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("Key(..)")
    }
}
