//! Dialogs and bindings that depend on a client's connection. Requests to the client can use only this connection, so
//! it is not closed while there are any.

use base::Instant;
use core::time::Duration;
use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use wire::{Message, Method, NameAddr, Peek};

/// Calls, subscriptions and addresses-of-record that are remembered for a connection. If there are more, it may be
/// closed before all of them end.
const MOST: usize = 4_096;
/// Lifetime of a call after the last 2xx to its INVITE, since its BYE may never come. It is the default time for which
/// pools remember a call.
const CALL_LIFETIME: Duration = Duration::from_hours(4);

/// Dialogs and bindings named by the messages of a connection that a client opened. A peer may keep its connection open
/// by false messages of this kind; it could do so by keep-alives just as well.
#[derive(Debug, Default)]
pub(super) struct Dialogs {
    /// Whether requests to the peer can use only this connection: a client opened it.
    is_way_to_client: bool,
    /// Latest end of each call, subscription and registration, by its hash.
    until: HashMap<u64, Instant>,
}

impl Dialogs {
    pub(super) fn new(is_way_to_client: bool) -> Self {
        Self { is_way_to_client, ..Self::default() }
    }

    /// Notes a received or sent message.
    pub(super) fn note(&mut self, now: Instant, message: &[u8]) {
        if !self.is_way_to_client {
            return;
        }
        if message.starts_with(b"BYE ") && !self.until.is_empty() {
            if let Ok(message) = wire::scan(message) {
                self.remove(key(Method::Invite, &message));
            }
        } else if message.starts_with(b"SIP/2.0 2") {
            let Some((_, cseq)) = Peek::call_id_and_cseq(message) else { return };
            let method = cseq.rsplit(u8::is_ascii_whitespace).next().unwrap_or_default();
            let method = Method::parse(method);
            if !matches!(method, Method::Invite | Method::Register | Method::Subscribe) {
                return;
            }
            let Ok(message) = wire::scan(message) else { return };
            let lifetime = match method {
                Method::Invite => CALL_LIFETIME,
                _ => Duration::from_secs(message.longest_expires().unwrap_or_default().into()),
            };
            let key = key(method, &message);
            // Without Record-Route no proxy is on the path of the dialog (RFC 3261 §16.6), and its BYE will not pass.
            // Responses within a dialog may have none.
            let comes_by = method == Method::Register || message.has_record_routes();
            if lifetime.is_zero() {
                self.remove(key);
            } else if comes_by || self.until.contains_key(&key) {
                self.insert(now, key, now + lifetime);
            }
        }
    }

    fn insert(&mut self, now: Instant, key: u64, until: Instant) {
        // Only at the limit, or before the map would grow.
        if self.until.len() >= self.until.capacity().min(MOST) {
            self.until.retain(|_, until| now < *until);
        }
        if self.until.len() < MOST || self.until.contains_key(&key) {
            self.until.insert(key, until);
        }
    }

    fn remove(&mut self, key: u64) {
        self.until.remove(&key);
        if self.until.is_empty() {
            // Thousands of idle connections must not keep the memory of one moment.
            self.until = HashMap::new();
        }
    }

    /// Whether there are any.
    pub(super) fn is_any(&self, now: Instant) -> bool {
        self.until.values().any(|until| now < *until)
    }

    /// Memory in bytes.
    pub(super) fn held(&self) -> usize {
        self.until.capacity() * size_of::<(u64, Instant)>()
    }
}

/// Key of a dialog, equal for the messages of both sides (RFC 3261 §12). Calls and subscriptions that share a dialog
/// have different keys. For a REGISTER the key is of the address-of-record, since a 2xx lists all its bindings (§10.3).
fn key(method: Method, message: &Message<'_>) -> u64 {
    let mut hasher = DefaultHasher::new();
    if method == Method::Register {
        NameAddr::parse(message.to()).map(|to| to.uri).hash(&mut hasher);
    } else {
        let mut tags = [message.from_tag(), message.to_tag()];
        tags.sort_unstable();
        (method == Method::Invite, message.call_id(), tags).hash(&mut hasher);
    }
    hasher.finish()
}
