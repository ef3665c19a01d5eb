//! INVITEs that were refused here without a transaction. A late copy of a refused INVITE gets the same response: a
//! caller that has acknowledged the 503 would not know of a call that began then.

use crate::rejection::Refused;
use base::Recent;
use transaction::{Keys, TransactionKey};
use wire::{Message, Method};

/// Refusals that are remembered, in each of two generations: of 32 s (64*T1, RFC 3261 §17.1.1.2) at 2,000 a second,
/// some 10 MB. How much time has passed does not matter: no other INVITE has the branch of one that was refused, and
/// after a standstill copies come later than their sender has meant.
const GENERATION: usize = 65_536;

pub(crate) struct Refusals {
    keys: Keys,
    refused: Recent<TransactionKey, Refused>,
}

impl Refusals {
    /// `secret` is of this process alone.
    pub(crate) fn new(secret: [u8; 16]) -> Self {
        Self { keys: Keys::new(secret), refused: Recent::new(GENERATION) }
    }

    /// A request is refused. Only refusals that may not repeat a moment later are kept: by load, by missing members,
    /// and by CANCEL.
    pub(crate) fn note(&mut self, message: &Message<'_>, refusal: Refused) {
        if message.method() == Some(Method::Invite) && matches!(refusal.status, 480 | 487 | 500..600) {
            self.refused.insert(self.keys.request(message).key, refusal);
        }
    }

    /// The refusal of an earlier copy of this request.
    pub(crate) fn of(&self, message: &Message<'_>) -> Option<Refused> {
        if self.refused.is_empty() || message.method() != Some(Method::Invite) {
            return None;
        }
        self.refused.get(&self.keys.request(message).key).copied()
    }
}
