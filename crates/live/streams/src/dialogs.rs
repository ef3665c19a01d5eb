//! The dialogs and bindings that name a connection as the way to its client. Requests to the client go by this connection
//! alone, so it is not closed while there are any.

use base::Instant;
use core::time::Duration;
use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use wire::{Message, Method, NameAddr, Peek};

/// Calls, subscriptions and addresses-of-record that are remembered of a connection. One with more may be closed before all
/// of them end, once the remembered ones have.
const MOST: usize = 4_096;
/// How long a call counts after the last 2xx to its INVITE, since its BYE may never come: as long as pools remember a call
/// unless the configuration says otherwise.
const CALL_LIFETIME: Duration = Duration::from_hours(4);

/// What the messages of a connection that a client opened say of its dialogs and bindings. A peer may keep its connection
/// by false messages of this kind; it can do so by keep-alives just as well.
#[derive(Debug, Default)]
pub(super) struct Dialogs {
    /// Whether requests go by this connection alone: a client opened it.
    is_way_to_client: bool,
    /// When each call, subscription and registration ends at the latest, by a hash of it.
    until: HashMap<u64, Instant>,
}

impl Dialogs {
    pub(super) fn new(is_way_to_client: bool) -> Self {
        Self { is_way_to_client, ..Self::default() }
    }

    /// Notes a message that has come or gone.
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
            // Without Record-Route no proxy is on the way of the dialog (RFC 3261 §16.6), and no BYE comes by. Responses within
            // a dialog may have none.
            let comes_by = method == Method::Register || message.has_record_routes();
            if lifetime.is_zero() {
                self.remove(key);
            } else if comes_by || self.until.contains_key(&key) {
                self.insert(now, key, now + lifetime);
            }
        }
    }

    fn insert(&mut self, now: Instant, key: u64, until: Instant) {
        // Before there is no room, or more memory is taken.
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
            // Thousands of idle connections must not hold what one moment took.
            self.until = HashMap::new();
        }
    }

    /// Whether there are any.
    pub(super) fn is_any(&self, now: Instant) -> bool {
        self.until.values().any(|until| now < *until)
    }

    /// Bytes of memory.
    pub(super) fn held(&self) -> usize {
        self.until.capacity() * size_of::<(u64, Instant)>()
    }
}

/// A dialog as either side's messages have it (RFC 3261 §12), apart for calls and subscriptions, which may share one. Of a
/// REGISTER the address-of-record: a 2xx lists all bindings that it has left (§10.3).
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
