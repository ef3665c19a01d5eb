//! Keyed, versioned tokens: state of this proxy that messages carry (RFC 3261 §16.6 steps 4 and 8).
//!
//! - [`dialog`]: in the Record-Route URI; names the node of a dialog and the target of its requests.
//! - [`branch`]: in the Via; names the node and the ingress flow of a transaction.
//! - [`flow`]: in the Path URI; names the connection of a client that registers with another registrar.
//! - [`vouch`]: in the Via for a neighbour; says that the caller is authenticated.
//!
//! All are authenticated by `SipHash` with keys derived from one secret, and bound to the dialog or the transaction. A
//! token of another dialog or site, or with a changed bit, is invalid. Tokens are written in lower-case base 32, since
//! branches and URI parameters compare case-insensitively (RFC 3261 §7.3.1, §19.1.4).

pub(crate) mod branch;
pub(crate) mod dialog;
mod flow;
pub(crate) mod owner;
pub(crate) mod shard_hash;
mod text;
pub(crate) mod vouch;

use balance::{CallKey, Tags};
use base::{SipHash, SipHash128};
use core::hash::Hasher;
use core::time::Duration;
use digest_auth::{NonceKey, NonceKeys};
use shard_hash::ShardHash;
use wire::Message;

/// The 16 secret bytes that the proxies of a site share.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct TokenKey(pub [u8; 16]);

impl core::fmt::Debug for TokenKey {
    /// Never prints the secret.
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("Key(..)")
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
struct Derived {
    route: [u64; 2],
    target: [u64; 2],
    branch: [u64; 2],
    routing: [u64; 2],
    nonce: [u64; 2],
    flow: [u64; 2],
    vouch: [u64; 2],
}

impl Derived {
    fn new(key: TokenKey) -> Self {
        let [route, target, branch, routing, nonce, flow, vouch] =
            [&b"route"[..], b"target", b"branch", b"routing", b"nonce", b"flow", b"vouch"]
                .map(|label| derive(key, label));
        Self { route, target, branch, routing, nonce, flow, vouch }
    }

    fn nonce_key(&self) -> NonceKey {
        let [one, other] = self.nonce.map(u64::to_le_bytes);
        let key: [u8; 16] = core::array::from_fn(|at| if at < 8 { one[at] } else { other[at - 8] });
        // The key's id in a nonce identifies the key, and reveals nothing of it.
        NonceKey { id: keyed_hash(self.nonce, &[b"id"]) as u8, key }
    }
}

pub(crate) fn derive(TokenKey(key): TokenKey, label: &[u8]) -> [u64; 2] {
    let halves = u128::from_le_bytes(key);
    let mut hasher = SipHash128::new([halves as u64, (halves >> 64) as u64]);
    hasher.write(label);
    let hash = hasher.finish();
    [hash as u64, (hash >> 64) as u64]
}

/// Maps Call-IDs to call keys under a secret, so that no sender can choose Call-IDs that collide in a table. Also maps
/// them to shards.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct CallHash {
    secret: [u64; 2],
    shard_hash: ShardHash,
}

impl core::fmt::Debug for CallHash {
    /// Never prints the secret.
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("CallHash(..)")
    }
}

impl CallHash {
    fn new(key: TokenKey) -> Self {
        Self::from_words(derive(key, b"call"))
    }

    /// Returns the secret, for a process that takes over the calls of this one.
    pub fn words(self) -> [u64; 2] {
        self.secret
    }

    /// Creates the hash of another process from its secret.
    pub fn from_words(secret: [u64; 2]) -> Self {
        Self { secret, shard_hash: ShardHash::new(secret) }
    }

    /// Returns the key of the call with this Call-ID. Call-IDs compare byte by byte (RFC 3261 §20.8).
    pub fn call_key(self, call_id: &[u8]) -> CallKey {
        let mut hasher = SipHash128::new(self.secret);
        hasher.write(call_id);
        CallKey(hasher.finish())
    }

    /// Returns the hash that assigns calls to shards.
    pub fn shard_hash(self) -> ShardHash {
        self.shard_hash
    }
}

/// Index of the key in [`Tokens`] with which a token or hash is made. A reload changes the indices.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct KeyIndex(usize);

impl KeyIndex {
    /// The key of new tokens.
    pub(crate) const CURRENT: Self = Self(0);
}

/// Writes and verifies tokens, and maps Call-IDs to call keys.
#[derive(Clone, PartialEq, Eq)]
pub struct Tokens {
    call: CallHash,
    /// Key for hashes about dialogs in memory.
    kept: [u64; 2],
    /// Key for the To tags of this process.
    tag: [u64; 2],
    current: Derived,
    previous: Vec<Derived>,
    /// The previous key, if this process has changed the key and still accepts the previous one; otherwise the current
    /// key.
    before: KeyIndex,
    lifetime: Duration,
}

impl core::fmt::Debug for Tokens {
    /// Never prints the secrets.
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Tokens").field("lifetime", &self.lifetime).finish_non_exhaustive()
    }
}

impl Tokens {
    /// Creates tokens with `key`. Tokens made with a key of `previous` are still accepted. A route token older than
    /// `lifetime` is refused.
    pub fn new(key: TokenKey, previous: &[TokenKey], lifetime: Duration) -> Self {
        Self {
            call: CallHash::new(key),
            kept: derive(key, b"kept"),
            tag: derive(key, b"tag"),
            current: Derived::new(key),
            previous: previous.iter().map(|&key| Derived::new(key)).collect(),
            before: KeyIndex::CURRENT,
            lifetime,
        }
    }

    /// Returns whether a token made at `made` is valid at `unix`, both in Unix time by the wall clock. A token may be
    /// up to a lifetime old, or up to a lifetime early: the clocks of a site may differ or may be set. Only proxies of
    /// the site can make tokens. If the clock is set by more than a lifetime during a call, only the session table
    /// knows the call.
    pub(crate) fn is_fresh(&self, made: u32, unix: u32) -> bool {
        u64::from(unix.abs_diff(made)) <= self.lifetime.as_secs()
    }

    /// Returns the tokens of `newer`, but with the call keys and To tags of `self`. So calls in the table are still found
    /// after a reload has changed the secret.
    #[must_use]
    pub fn rekeyed(&self, newer: &Self) -> Self {
        let before = self.key(if self.same_key(newer) { self.before } else { KeyIndex::CURRENT });
        let before = newer.all().position(|key| key == before).map_or(KeyIndex::CURRENT, KeyIndex);
        Self { call: self.call, kept: self.kept, tag: self.tag, before, ..newer.clone() }
    }

    pub(crate) fn same_key(&self, other: &Self) -> bool {
        self.current == other.current
    }

    /// Returns the key of the call with this Call-ID. Call-IDs compare byte by byte (RFC 3261 §20.8).
    pub fn call_key(&self, call_id: &[u8]) -> CallKey {
        self.call.call_key(call_id)
    }

    /// Returns the hash of Call-IDs.
    pub fn call_hash(&self) -> CallHash {
        self.call
    }

    pub(crate) fn nonce_keys(&self) -> NonceKeys {
        let older = self.previous.iter().map(Derived::nonce_key).collect();
        NonceKeys { newest: self.current.nonce_key(), older }
    }

    /// Returns hashes of the tags of a message, for use in memory.
    pub(crate) fn tags(&self, message: &Message<'_>) -> Tags {
        Tags { from: self.tag_hash(message.from_tag()), to: self.tag_hash(message.to_tag()) }
    }

    /// Returns the hash of a tag, for use in memory; 0 without a tag.
    pub(crate) fn tag_hash(&self, tag: Option<&[u8]>) -> u64 {
        tag.map_or(0, |tag| {
            let mut hasher = self.kept_hasher();
            hasher.write(tag);
            hasher.finish().max(1)
        })
    }

    /// Returns a key for the request of a caller, for use in memory. The request has the same key when it is repeated
    /// with credentials.
    pub(crate) fn dialog_key(&self, message: &Message<'_>) -> u64 {
        let from_tag = message.from_tag().unwrap_or_default();
        keyed_hash(self.kept, &[&(from_tag.len() as u32).to_be_bytes(), from_tag, message.call_id()])
    }

    /// Returns the hash for the To tag of this process's response to a request. `here` is an address of this process.
    pub(crate) fn own_tag(&self, cseq: u32, call_id: &[u8], here: &str) -> u64 {
        let mut fixed = [0; 8];
        fixed[..4].copy_from_slice(&cseq.to_be_bytes());
        fixed[4..].copy_from_slice(&(here.len() as u32).to_be_bytes());
        keyed_hash(self.tag, &[&fixed, here.as_bytes(), call_id])
    }

    /// Returns a hasher whose hashes stay the same even when a reload changes the secret.
    pub(crate) fn kept_hasher(&self) -> SipHash {
        SipHash::new(self.kept)
    }

    /// Returns the number of the shard that owns the call of this datagram. `None` if it has no Call-ID: any shard may
    /// refuse it.
    pub fn shard_of(&self, datagram: &[u8], shards: usize) -> Option<usize> {
        Some(self.call.shard_hash.shard_of(wire::peek_call_id(datagram)?, shards))
    }

    /// Returns the key for requests and sessions that began before this process changed the key.
    pub(crate) fn before(&self) -> KeyIndex {
        self.before
    }

    fn key(&self, KeyIndex(index): KeyIndex) -> &Derived {
        index.checked_sub(1).and_then(|index| self.previous.get(index)).unwrap_or(&self.current)
    }

    fn all(&self) -> impl Iterator<Item = &Derived> {
        core::iter::once(&self.current).chain(&self.previous)
    }
}

/// Returns a hash of `parts` under `key`. The first part contains the lengths of all other parts except one, so that no
/// two lists have the same bytes.
pub fn keyed_hash(key: [u64; 2], parts: &[&[u8]]) -> u64 {
    let mut hasher = SipHash::new(key);
    for part in parts {
        hasher.write(part);
    }
    hasher.finish()
}
