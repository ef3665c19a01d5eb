//! Requests whose credentials were verified here lately: their copies have the same nonce count, and are no replays.
//!
//! Where the transaction of a request is kept here, its copies meet that. Where state is shared out, the
//! transaction may be at another proxy.

use crate::arrival::{Arrival, Inbound};
use crate::edge::Edge;
use crate::progress::User;
use crate::token::copies::copies_key;
use base::{Instant, Recent};
use core::hash::Hasher;
use core::time::Duration;

/// How long copies come: 64*T1 (RFC 3261 §17.1.1.2).
const COPIES: Duration = Duration::from_secs(32);

/// Most requests that are remembered, twice, about 100 bytes each: those of 32 s at 1,000 a second.
const REQUESTS: usize = 32_768;

/// Verified requests, and when that was.
pub(crate) struct Verified(Recent<u64, (Instant, User)>);

impl Default for Verified {
    fn default() -> Self {
        Self(Recent::new(REQUESTS))
    }
}

impl Verified {
    /// The credentials of a request are this user's.
    pub(super) fn note(&mut self, edge: &Edge, inbound: Inbound<'_>, user: &User) {
        self.0.insert(key(edge, inbound), (edge.now, user.clone()));
    }

    /// The user that has sent a request, if it is a copy.
    pub(super) fn user(&self, edge: &Edge, arrival: &Arrival<'_>) -> Option<User> {
        if !edge.shares_state() {
            return None;
        }
        let (since, user) = self.0.get(&key(edge, arrival.inbound()))?;
        (edge.now.saturating_since(*since) < COPIES).then(|| user.clone())
    }
}

/// What copies have in common with each other, and with nothing else that a sender could use the credentials for.
fn key(edge: &Edge, Inbound { flow, message }: Inbound<'_>) -> u64 {
    let mut hasher = edge.tokens.kept_hasher();
    hasher.write_u64(copies_key(&edge.tokens, message, flow.peer));
    let credentials = message.headers("Proxy-Authorization");
    for text in [message.from(), message.to(), message.body()].into_iter().chain(credentials) {
        hasher.write_usize(text.len());
        hasher.write(text);
    }
    hasher.finish()
}
