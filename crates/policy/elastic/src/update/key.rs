//! Shared keys of sender and receiver, and the codes made with them.

use super::{ServerName, Update};
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;
use std::collections::BTreeMap;
use std::net::SocketAddr;

/// Bytes of a code, the output of SHA-256.
pub(super) const CODE_BYTES: usize = 32;

/// Shared secret of both ends. Never printed.
#[derive(Clone, PartialEq, Eq)]
pub struct Key([u8; 16]);

impl Key {
    /// Creates a key from 16 random bytes, enough to make a search hopeless.
    pub const fn new(bytes: &[u8; 16]) -> Self {
        Self(*bytes)
    }

    /// Code of an update on the connection with this greeting.
    pub(super) fn code(&self, greeting: &str, update: &str) -> [u8; CODE_BYTES] {
        self.over(greeting, update).finalize().into_bytes().into()
    }

    /// Whether the code is right, checked in constant time.
    pub(super) fn is_code(&self, greeting: &str, update: &str, code: &[u8; CODE_BYTES]) -> bool {
        self.over(greeting, update).verify_slice(code).is_ok()
    }

    /// A greeting contains no line end, so its end is unambiguous.
    fn over(&self, greeting: &str, update: &str) -> Hmac<Sha256> {
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.0).expect("HMAC takes keys of any length");
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

/// Keys of a receiver. The key of a server is valid for that server only.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UpdateKeys {
    /// Key of every server without its own; `None`: updates of such a server are refused.
    pub shared: Option<Key>,
    /// Keys of single servers, by the names that their monitors use.
    pub own: BTreeMap<ServerName, Key>,
}

/// Kind of key among the [`UpdateKeys`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyKind {
    /// Key of all servers without their own.
    Shared,
    /// The server's own key.
    Own,
}

impl UpdateKeys {
    /// Whether an update may set the capacity of the member at this address. Each of the member's configured names (an
    /// address may be one) must have the key of the update. The key of the address itself takes precedence over keys of
    /// names, since DNS may resolve a name to any address.
    ///
    /// So two names with different keys for one address are both unusable, and an attacker who can change the address
    /// of one server cannot update another.
    pub fn permit(&self, update: &Update, at: SocketAddr, names: &[String]) -> bool {
        let is_own = |server: &ServerName| update.key == KeyKind::Own && update.server == *server;
        let address = ServerName::Address(at);
        if self.own.contains_key(&address) {
            return is_own(&address);
        }
        let is_its = |name: &String| {
            let named = name.parse().ok().filter(|server| self.own.contains_key(server));
            named.map_or(update.key == KeyKind::Shared, |server| is_own(&server))
        };
        !names.is_empty() && names.iter().all(is_its)
    }

    /// Verifies an update with the key for this server. `None` as the server: the line contains no readable server.
    ///
    /// Without a key, a publicly known one is checked, so that the time is the same; the update is refused in any case.
    pub(super) fn verify(
        &self,
        server: Option<&ServerName>,
        is_code_of: impl FnOnce(&Key) -> bool,
    ) -> Option<KeyKind> {
        const UNUSABLE: Key = Key::new(&[0; 16]);
        let own = server.and_then(|server| self.own.get(server)).map(|key| (key, KeyKind::Own));
        let known = own.or_else(|| self.shared.as_ref().map(|key| (key, KeyKind::Shared)));
        let is_code = is_code_of(known.map_or(&UNUSABLE, |(key, _)| key));
        known.filter(|_| is_code).map(|(_, kind)| kind)
    }
}
