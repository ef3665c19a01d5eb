//! Decides whether a request is new. A source is charged once for a new request. It is not charged for retransmissions,
//! or if it repeats the request with credentials.

use crate::token::Tokens;
use balance::{CallKey, RequestFacts};
use base::{Instant, Recent};
use core::hash::Hasher;
use wire::{Message, Method};

/// The relation of a request to earlier ones.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Novelty {
    /// A request that belongs to a dialog or to another request.
    Part,
    /// A retransmission of a request that was charged and forwarded, and has no final response.
    Copy,
    /// A retransmission of a request that was charged and then dropped without a response. No server has received it.
    CopyOfDropped,
    /// A request that follows a challenge (401, 407) or a 422 to a charged request, with the same method and
    /// Request-URI.
    Retry(Challenger),
    /// A new request, for which its source is charged.
    New,
}

/// The element whose challenge or 422 a request follows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Challenger {
    /// This proxy.
    Here,
    /// A member or next hop.
    Behind,
}

impl Novelty {
    /// Returns whether no server has received the request yet, so that it may wait in a queue. If a server asked for a
    /// retry, the retry goes to that server.
    pub(crate) fn is_unserved(self) -> bool {
        matches!(self, Self::New | Self::CopyOfDropped | Self::Retry(Challenger::Here))
    }
}

/// The key that a retry shares with the challenged request, hashed with a secret. A request with another Request-URI
/// has another key, since it is another transaction at the next hop.
#[derive(Clone, Copy, Debug)]
pub(super) struct RetryKey {
    /// Hash of method and Request-URI.
    asks: u64,
    call: CallKey,
    cseq: u32,
}

impl RetryKey {
    pub(super) fn new(tokens: &Tokens, message: &Message<'_>, request: &RequestFacts<'_>) -> Self {
        let mut hasher = tokens.kept_hasher();
        hasher.write(message.cseq().method_name.of(message.bytes()));
        hasher.write_u8(b' ');
        hasher.write(message.uri().unwrap_or_default());
        let call = call(request.key, request.method, request.tags.from);
        Self { asks: hasher.finish(), call, cseq: request.cseq }
    }
}

/// Returns the key of a call, from the Call-ID and, for INVITE, the tag of the caller. For other methods the tag is
/// left out, since some clients change it before they repeat a REGISTER with credentials.
fn call(key: CallKey, method: Method, from: u64) -> CallKey {
    key.with_initiator(if method == Method::Invite { from } else { 0 })
}

/// Number of free requests after a charged request: one with credentials for this proxy, and one that also has
/// credentials for the server behind it. If that server also answers 422 (RFC 4028 §7.3), the third request is charged.
const FOLLOWERS: u8 = 2;

/// Number of calls in each of a shard's two generations: as many as come in 32 s at 2,000 calls a second.
const GENERATION: usize = 65_536;

/// The last request of a call that was new, or followed a charged request.
#[derive(Clone, Copy, Debug)]
struct Last {
    cseq: u32,
    /// Hash of method and Request-URI, as in [`RetryKey`].
    asks: u64,
    /// Number of further free requests.
    followers: u8,
    /// The element that last challenged the request.
    asked_by: Option<Challenger>,
}

/// Recent requests that retries may follow, in bounded memory. The retry of an evicted request is charged, so no sender
/// gains by evicting entries.
#[derive(Debug)]
pub(super) struct Retries {
    calls: Recent<CallKey, Last>,
    /// Time since when requests are remembered; `None` if they are not.
    since: Option<Instant>,
}

impl Default for Retries {
    fn default() -> Self {
        Self { calls: Recent::new(GENERATION), since: None }
    }
}

impl Retries {
    /// Remembers requests as of the time `from`; if they are remembered already, changes nothing. With `None`, stops to
    /// remember requests.
    pub(super) fn remember(&mut self, from: Option<Instant>) {
        self.since = from.map(|from| self.since.unwrap_or(from));
    }

    /// Returns the time since when requests are remembered; `None` if they are not.
    pub(super) fn since(&self) -> Option<Instant> {
        self.since
    }

    /// Returns the element whose challenge or 422 this request follows. The request must be the challenged one, now
    /// with credentials or a longer session (RFC 3261 §22.2, RFC 4028 §7.3). Otherwise a different request would escape
    /// its charge.
    pub(super) fn followed(&self, key: &RetryKey) -> Option<Challenger> {
        let last = self.calls.get(&key.call)?;
        let is_same = key.asks == last.asks && key.cseq > last.cseq;
        last.asked_by.filter(|_| last.followers > 0 && is_same)
    }

    /// Records an admitted request.
    pub(super) fn take(&mut self, key: &RetryKey, novelty: Novelty) {
        let followers = match novelty {
            Novelty::Part | Novelty::Copy | Novelty::CopyOfDropped => return,
            Novelty::Retry(_) => self.calls.get(&key.call).map_or(0, |last| last.followers.saturating_sub(1)),
            Novelty::New => FOLLOWERS,
        };
        let RetryKey { asks, call, cseq } = *key;
        self.calls.insert(call, Last { cseq, asks, followers, asked_by: None });
    }

    /// Records a response with this status to a request.
    pub(super) fn answered(&mut self, tokens: &Tokens, message: &Message<'_>, by: Challenger, status: u16) {
        if self.calls.is_empty() || !matches!(status, 401 | 407 | 422) {
            return;
        }
        let key = tokens.call_key(message.call_id());
        let call = call(key, message.cseq().method, tokens.tag_hash(message.from_tag()));
        if let Some(last) = self.calls.get_mut(&call).filter(|last| last.cseq == message.cseq().number) {
            last.asked_by = Some(by);
        }
    }
}
