//! Whether a request is new: a source is charged once for what it begins, not for retransmissions, nor for the same request once
//! more with credentials.

use crate::token::Tokens;
use balance::{CallKey, Request};
use base::{Instant, Recent};
use core::hash::Hasher;
use wire::{Message, Method};

/// The relation of a request to earlier ones.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Novelty {
    /// It belongs to a dialog or to another request.
    Part,
    /// It is the retransmission of a request that was charged and forwarded, and has no final answer.
    Copy,
    /// It is the retransmission of a request that was charged and then dropped without an answer. No server has had it.
    CopyOfDropped,
    /// It follows a challenge (401, 407) or a 422 to a request that was charged, of the same method and to the same
    /// Request-URI.
    Retry(Challenger),
    /// It is new: its source is charged.
    New,
}

/// The element whose challenge or 422 a request follows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Challenger {
    /// This proxy's.
    Here,
    /// That of a member or next hop.
    Behind,
}

impl Novelty {
    /// Whether a request has been to no server yet: it takes its turn in a queue. One that a server has asked for is
    /// served by that server.
    pub(crate) fn is_unserved(self) -> bool {
        matches!(self, Self::New | Self::CopyOfDropped | Self::Retry(Challenger::Here))
    }
}

/// The key that a retry shares with the request that was challenged, under a secret: another Request-URI makes it another
/// transaction at the next hop.
#[derive(Clone, Copy, Debug)]
pub(super) struct RetryKey {
    /// Of its method and Request-URI.
    asks: u64,
    call: CallKey,
    cseq: u32,
}

impl RetryKey {
    pub(super) fn new(tokens: &Tokens, message: &Message<'_>, request: &Request<'_>) -> Self {
        let mut hasher = tokens.kept_hasher();
        hasher.write(message.cseq().method_name.of(message.bytes()));
        hasher.write_u8(b' ');
        hasher.write(message.uri().unwrap_or_default());
        let call = call(request.key, request.method, request.tags.from);
        Self { asks: hasher.finish(), call, cseq: request.cseq }
    }
}

/// A call is a Call-ID and the tag of its caller. Some clients change their tag between a REGISTER and the same one
/// with credentials.
fn call(key: CallKey, method: Method, from: u64) -> CallKey {
    key.begun_by(if method == Method::Invite { from } else { 0 })
}

/// Requests that may follow one that was charged: one with credentials for this proxy, and one with those for the
/// server behind it as well. Where that server answers 422, too (RFC 4028 §7.3), the third one is charged.
const FOLLOWERS: u8 = 2;

/// Calls of a shard that are remembered, in each of two generations: of 32 s at 2,000 a second.
const GENERATION: usize = 65_536;

/// The last request of a call that was new or followed.
#[derive(Clone, Copy, Debug)]
struct Last {
    cseq: u32,
    /// As in [`RetryKey`].
    asks: u64,
    /// How many more may follow.
    followers: u8,
    /// The element that has challenged it last.
    asked_by: Option<Challenger>,
}

/// Recent requests that others may follow, in bounded memory. One that is forgotten is charged when it comes
/// again, so no sender gains by pushing entries out.
#[derive(Debug)]
pub(super) struct Retries {
    calls: Recent<CallKey, Last>,
    /// Since when requests are remembered; `None`: they are not.
    since: Option<Instant>,
}

impl Default for Retries {
    fn default() -> Self {
        Self { calls: Recent::new(GENERATION), since: None }
    }
}

impl Retries {
    /// Requests are remembered from now on, if not before; or, with `None`, not at all.
    pub(super) fn remember(&mut self, from: Option<Instant>) {
        self.since = from.map(|from| self.since.unwrap_or(from));
    }

    /// Since when requests are remembered; `None`: they are not.
    pub(super) fn since(&self) -> Option<Instant> {
        self.since
    }

    /// The element whose challenge or 422 this request follows: it is the same request with credentials, or with a longer session (RFC
    /// 3261 §22.2, RFC 4028 §7.3). Who could ask for anything else would have that for nothing.
    pub(super) fn followed(&self, key: &RetryKey) -> Option<Challenger> {
        let last = self.calls.get(&key.call)?;
        let is_same = key.asks == last.asks && key.cseq > last.cseq;
        last.asked_by.filter(|_| last.followers > 0 && is_same)
    }

    /// A request is taken.
    pub(super) fn take(&mut self, key: &RetryKey, novelty: Novelty) {
        let followers = match novelty {
            Novelty::Part | Novelty::Copy | Novelty::CopyOfDropped => return,
            Novelty::Retry(_) => self.calls.get(&key.call).map_or(0, |last| last.followers.saturating_sub(1)),
            Novelty::New => FOLLOWERS,
        };
        let RetryKey { asks, call, cseq } = *key;
        self.calls.insert(call, Last { cseq, asks, followers, asked_by: None });
    }

    /// A response goes back to the request with this CSeq number of a call.
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
