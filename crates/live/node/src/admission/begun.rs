//! Which requests have begun something here of late: a source is charged for each once, not for its retransmissions,
//! nor for the same request once more with credentials.

use crate::token::Tokens;
use balance::{CallKey, Request};
use base::{Instant, Recent};
use core::hash::Hasher;
use core::time::Duration;
use std::net::{IpAddr, SocketAddr};
use wire::{Message, Method, response_target};

/// What a request begins, as far as limits of what a source may begin are concerned.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Begins {
    /// Nothing: it belongs to a dialog or to another request.
    Nothing,
    /// Nothing: it is the retransmission of a request that was charged and forwarded, and has no final answer.
    Again,
    /// Nothing: it is the retransmission of a request that was charged and then dropped without an answer. No server
    /// has had the request.
    Anew,
    /// Nothing: it follows a challenge (401, 407) or a 422 to a request that was charged, of the same method and to
    /// the same Request-URI.
    Follows(Asker),
    /// Something: its source is charged.
    New,
}

/// Whose challenge or 422 a request follows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Asker {
    /// This proxy's.
    Here,
    /// That of a member or next hop.
    Behind,
}

impl Begins {
    /// Whether a request has been to no server yet: it takes its turn in a queue. One that a server has asked for is
    /// served by that server.
    pub(crate) fn is_unserved(self) -> bool {
        matches!(self, Self::New | Self::Anew | Self::Follows(Asker::Here))
    }
}

/// The keys of a request: keyed hashes, so that nobody can find two requests with the same.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RequestKeys {
    /// Of its transaction.
    request: u64,
    /// Of its method and Request-URI: another Request-URI makes it another transaction at the next hop.
    asks: u64,
    /// Of its call.
    call: CallKey,
    cseq: u32,
}

impl RequestKeys {
    /// Those of a request whose responses go to `target`.
    pub(crate) fn new(
        tokens: &Tokens,
        message: &Message<'_>,
        request: &Request<'_>,
        target: SocketAddr,
    ) -> Self {
        let call = call(request.key, request.method, request.tags.from);
        let branch = message.top_via().branch;
        Self {
            request: transaction(tokens, message, branch, target),
            asks: asks(tokens, message),
            call,
            cseq: request.cseq,
        }
    }
}

/// The name of what all requests with this branch are one transaction of, and their responses.
fn transaction(tokens: &Tokens, message: &Message<'_>, branch: Option<&[u8]>, target: SocketAddr) -> u64 {
    let ip = match target.ip() {
        IpAddr::V4(ip) => ip.to_ipv6_mapped(),
        IpAddr::V6(ip) => ip,
    };
    let cseq = message.cseq();
    let mut hasher = tokens.kept_hasher();
    for text in [
        cseq.method_name.of(message.bytes()),
        branch.unwrap_or_default(),
        &ip.octets(),
        message.call_id(),
        message.from_tag().unwrap_or_default(),
    ] {
        hasher.write_usize(text.len());
        hasher.write(text);
    }
    hasher.write_u64(u64::from(target.port()) << 32 | u64::from(cseq.number));
    hasher.finish()
}

fn asks(tokens: &Tokens, message: &Message<'_>) -> u64 {
    let mut hasher = tokens.kept_hasher();
    hasher.write(message.cseq().method_name.of(message.bytes()));
    hasher.write_u8(b' ');
    hasher.write(message.uri().unwrap_or_default());
    hasher.finish()
}

/// A call is a Call-ID and the tag of its caller. Some clients change their tag between a REGISTER and the same one
/// with credentials.
fn call(key: CallKey, method: Method, from: u64) -> CallKey {
    key.begun_by(if method == Method::Invite { from } else { 0 })
}

/// How often a client may send a request again: an INVITE six times (RFC 3261 §17.1.1.2), another one ten times
/// (§17.1.2.2).
const COPIES: u8 = 10;

/// For how long (64*T1, RFC 3261 §17.1.1.2).
pub(super) const LATEST: Duration = Duration::from_secs(32);

/// Requests that may follow one that was charged: one with credentials for this proxy, and one with those for the
/// server behind it as well. Where that server answers 422, too (RFC 4028 §7.3), the third one is charged.
const FOLLOWERS: u8 = 2;

/// Requests and calls of a shard that are remembered, in each of two generations: of 32 s at 2,000 a second.
const GENERATION: usize = 65_536;

/// What became of a request that was charged.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Fate {
    Forwarded,
    /// It went nowhere, and its sender was told nothing.
    Dropped,
}

/// A request that was forwarded, or dropped without an answer.
#[derive(Clone, Copy, Debug)]
struct Charged {
    since: Instant,
    fate: Fate,
    /// How many more copies are free.
    copies: u8,
    /// Its method and Request-URI ([`RequestKeys::asks`]).
    asks: u64,
}

/// The last request of a call that began something or followed.
#[derive(Clone, Copy, Debug)]
struct Last {
    cseq: u32,
    /// Its method and Request-URI ([`RequestKeys::asks`]).
    asks: u64,
    /// How many more may follow.
    followers: u8,
    /// Who has answered it so that one may.
    asked_by: Option<Asker>,
}

/// Which requests have begun something of late, in bounded memory. A request that is forgotten is charged when it
/// comes again, so no sender gains by pushing entries out. An entry is of a request that was charged, or of one that
/// followed it for nothing: there are at most [`FOLLOWERS`] of these for each that was charged.
#[derive(Debug)]
pub(crate) struct Begun {
    charged: Recent<u64, Charged>,
    calls: Recent<CallKey, Last>,
    /// Since when sources are charged; `None`: they are not.
    since: Option<Instant>,
}

impl Default for Begun {
    fn default() -> Self {
        Self::of_size(GENERATION)
    }
}

impl Begun {
    fn of_size(generation: usize) -> Self {
        Self { charged: Recent::new(generation), calls: Recent::new(generation), since: None }
    }

    /// Sources are charged from now on, if not before; or, with `None`, not at all.
    pub(super) fn charge(&mut self, from: Option<Instant>) {
        self.since = from.map(|from| self.since.unwrap_or(from));
    }

    /// Since when sources are charged; `None`: they are not.
    pub(super) fn since(&self) -> Option<Instant> {
        self.since
    }

    /// What a request begins that is part of no dialog and no other request.
    pub(crate) fn of(&self, now: Instant, keys: &RequestKeys) -> Begins {
        let is_copy = |charged: &&Charged| {
            charged.copies > 0 && charged.asks == keys.asks && now.saturating_since(charged.since) < LATEST
        };
        // The same request with credentials, or with a longer session (RFC 3261 §22.2, RFC 4028 §7.3): who could ask
        // for anything else would have that for nothing.
        let is_same = |last: &Last| keys.asks == last.asks && keys.cseq > last.cseq;
        let follows = |last: &Last| last.asked_by.filter(|_| last.followers > 0 && is_same(last));
        match self.charged.get(&keys.request).filter(is_copy).map(|charged| charged.fate) {
            Some(Fate::Forwarded) => Begins::Again,
            Some(Fate::Dropped) => Begins::Anew,
            None => self.calls.get(&keys.call).and_then(follows).map_or(Begins::New, Begins::Follows),
        }
    }

    /// A request is taken that begins this.
    pub(crate) fn take(&mut self, keys: &RequestKeys, begins: Begins) {
        let followers = match begins {
            Begins::Nothing | Begins::Again | Begins::Anew => return,
            Begins::Follows(_) => {
                self.calls.get(&keys.call).map_or(0, |last| last.followers.saturating_sub(1))
            }
            Begins::New => FOLLOWERS,
        };
        self.calls.insert(keys.call, Last { cseq: keys.cseq, asks: keys.asks, followers, asked_by: None });
    }

    /// This becomes of a request that begins this.
    pub(super) fn end(&mut self, now: Instant, keys: &RequestKeys, begins: Begins, fate: Fate) {
        let charged = match (begins, self.charged.get(&keys.request)) {
            (Begins::Nothing, _) => return,
            (Begins::Again, Some(charged)) => {
                Charged { copies: charged.copies.saturating_sub(1), ..*charged }
            }
            (Begins::Anew, Some(charged)) => {
                Charged { fate, copies: charged.copies.saturating_sub(1), ..*charged }
            }
            _ => Charged { since: now, fate, copies: COPIES, asks: keys.asks },
        };
        self.charged.insert(keys.request, charged);
    }

    /// A response from behind goes back. After the final one a client sends no more copies, but for those of which an
    /// answer was lost: they are charged.
    pub(crate) fn heard(&mut self, tokens: &Tokens, response: &Message<'_>) {
        let status = response.status().unwrap_or_default();
        if status >= 200
            && !self.charged.is_empty()
            && let Some(via) = response.second_via()
            && let Some(target) = response_target(&via)
            && let Some(charged) = self.charged.get_mut(&transaction(tokens, response, via.branch, target))
        {
            charged.copies = 0;
        }
        self.answered(tokens, response, (Asker::Behind, status));
    }

    /// A response goes back to the request with this CSeq number of a call.
    pub(crate) fn answered(&mut self, tokens: &Tokens, message: &Message<'_>, (by, status): (Asker, u16)) {
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
