//! Requests whose credentials were verified here recently. Their copies have the same nonce count, and are no replays.
//!
//! Needed if state is shared out: the transaction, which would absorb the copies, may be at another proxy.

use crate::read::arrival::{Arrival, Inbound};
use crate::read::progress::User;
use crate::seen::COPIES_LAST;
use crate::site::Site;
use crate::site::marks::shares_state;
use base::{Instant, Recent};
use core::hash::Hasher;

/// Number of requests in each of two generations, about 100 bytes each: as many as come in 32 s at 1,000 requests a
/// second.
const REQUESTS: usize = 32_768;

pub(crate) struct Verified(Recent<u64, (Instant, User)>);

impl Default for Verified {
    fn default() -> Self {
        Self(Recent::new(REQUESTS))
    }
}

impl Verified {
    /// Records that the credentials of a request are this user's.
    pub(super) fn note(&mut self, site: &Site, inbound: Inbound<'_>, user: &User) {
        self.0.insert(key(site, inbound), (site.now, user.clone()));
    }

    /// Returns the user that sent a request, if the request is a copy.
    pub(super) fn user(&self, site: &Site, arrival: &Arrival<'_>) -> Option<User> {
        if !shares_state(site) {
            return None;
        }
        let (since, user) = self.0.get(&key(site, arrival.inbound()))?;
        (site.now.saturating_since(*since) < COPIES_LAST).then(|| user.clone())
    }
}

/// Returns a hash of the properties that all copies share. Another request in which a sender could use the same
/// credentials has another hash.
fn key(site: &Site, Inbound { flow, message }: Inbound<'_>) -> u64 {
    let mut hasher = site.tokens.kept_hasher();
    // The method is in the upper half of the key.
    hasher.write_u128(site.seen.key(&site.tokens, message, None, flow.peer).0);
    let credentials = message.headers("Authorization").chain(message.headers("Proxy-Authorization"));
    let uri = message.uri().unwrap_or_default();
    for text in [uri, message.from(), message.to(), message.body()].into_iter().chain(credentials) {
        hasher.write_usize(text.len());
        hasher.write(text);
    }
    hasher.finish()
}
