//! The keys that both ends have, and the codes that are made with them.

use super::{Server, Update};
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;
use std::collections::BTreeMap;
use std::net::SocketAddr;

/// Bytes of a code, the output of SHA-256.
pub(super) const CODE_BYTES: usize = 32;

/// The shared secret of both ends. Never printed.
#[derive(Clone, PartialEq, Eq)]
pub struct Key([u8; 16]);

impl Key {
    /// From 16 random bytes: as many as make a search hopeless.
    pub const fn new(bytes: &[u8; 16]) -> Self {
        Self(*bytes)
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

/// The keys of a receiver. The key of a server is good for that server alone.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Keys {
    /// The key for every server without one of its own; `None`: such a server has no key, and its updates are refused.
    pub shared: Option<Key>,
    /// Keys of single servers, by what their monitors call them.
    pub own: BTreeMap<Server, Key>,
}

/// Which of the [`Keys`] is good for a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyKind {
    /// That of every server without one of its own.
    Shared,
    /// That of the server alone.
    Own,
}

impl Keys {
    /// Whether an update may speak for the member at this address: every name that the configuration has for it (its
    /// address may be one) has the key with which the update was made. The key of the address itself goes before those
    /// of names, since the DNS may lead a name anywhere.
    ///
    /// Hence two names with different keys that lead to one address are of no use to either, and nobody who may change
    /// the address of one server speaks for another.
    pub fn permit(&self, update: &Update, at: SocketAddr, names: &[String]) -> bool {
        let is_own = |server: &Server| update.key == KeyKind::Own && update.server == *server;
        let address = Server::Address(at);
        if self.own.contains_key(&address) {
            return is_own(&address);
        }
        let is_its = |name: &String| {
            let named = name.parse().ok().filter(|server| self.own.contains_key(server));
            named.map_or(update.key == KeyKind::Shared, |server| is_own(&server))
        };
        !names.is_empty() && names.iter().all(is_its)
    }

    /// The key with which updates that name this server are made. `None` as the server: the line names none that can be
    /// read.
    ///
    /// Without a key the check is made all the same, with one that everybody knows, so that it takes as long; whatever
    /// its outcome, such an update is refused.
    pub(super) fn verify(
        &self,
        server: Option<&Server>,
        is_code_of: impl FnOnce(&Key) -> bool,
    ) -> Option<KeyKind> {
        const NOBODYS: Key = Key::new(&[0; 16]);
        let own = server.and_then(|server| self.own.get(server)).map(|key| (key, KeyKind::Own));
        let known = own.or_else(|| self.shared.as_ref().map(|key| (key, KeyKind::Shared)));
        let is_code = is_code_of(known.map_or(&NOBODYS, |(key, _)| key));
        known.filter(|_| is_code).map(|(_, kind)| kind)
    }
}
