//! Stores of a shard: bindings in memory, and the users of the [modes](crate::modes).

use crate::credentials::BenchUser;
use crate::modes::CALLER;
use crate::registration::SERVER;
use base::{Instant, UnixTime};
use digest_auth::{Algorithm, Secret, SecretHash};
use location::{MemoryLimits, MemoryStore};
use node::{StoreAnswer, StoreQuery};

/// Unix time of [`Instant::ZERO`] in seconds.
const EPOCH_UNIX: u64 = 1_800_000_000;

/// Stores that answer at once.
pub(super) struct Stores {
    bindings: MemoryStore,
}

impl Default for Stores {
    fn default() -> Self {
        Self { bindings: MemoryStore::new(MemoryLimits::default()) }
    }
}

impl Stores {
    /// Answers a query of the shard.
    pub(super) fn answer(&mut self, now: Instant, about: StoreQuery) -> StoreAnswer {
        let date = UnixTime::from_secs(EPOCH_UNIX) + now.saturating_since(Instant::ZERO);
        match about {
            StoreQuery::Location(ask) => StoreAnswer::Location(ask.send_to(&mut self.bindings, date), date),
            StoreQuery::User { name, .. } => {
                let user = [CALLER, SERVER].into_iter().find(|user| user.name.as_bytes() == &*name);
                StoreAnswer::User(Ok(user.and_then(secret)))
            }
        }
    }
}

/// Returns H(A1) of a user (RFC 2617 §3.2.2.2).
fn secret(user: BenchUser) -> Option<Secret> {
    SecretHash::from_hex(Algorithm::Md5, user.secret().as_bytes()).map(Secret::Ha1)
}
