//! The contact of each recent request that went to a user without a transaction. Its copies, CANCEL and ACK take the
//! same contact (RFC 3261 §16.11), even if the user has registered another one since.

use crate::edge::Edge;
use crate::forward::contacts::Contact;
use crate::token::copies::copies_key;
use base::{Instant, Recent};
use std::net::SocketAddr;
use std::sync::Arc;
use wire::Message;

/// Requests that are remembered, in each of two generations: of 32 s (64*T1) at 500 a second. A contact takes some
/// 300 bytes.
const GENERATION: usize = 16_384;

/// The contacts of recent requests by the key of their copies, and when the first copy went there.
pub(crate) struct RecentContacts(Recent<u64, (Arc<Contact>, Instant)>);

impl Default for RecentContacts {
    fn default() -> Self {
        Self(Recent::new(GENERATION))
    }
}

impl RecentContacts {
    /// The contact that a copy of a request, or its INVITE, went to.
    pub(crate) fn of(&self, edge: &Edge, message: &Message<'_>, from: SocketAddr) -> Option<Arc<Contact>> {
        if self.0.is_empty() {
            return None;
        }
        self.0.get(&copies_key(&edge.tokens, message, from)).map(|(contact, _)| Arc::clone(contact))
    }

    /// A request goes to this contact for the first time.
    pub(crate) fn note(
        &mut self,
        edge: &Edge,
        message: &Message<'_>,
        from: SocketAddr,
        contact: &Arc<Contact>,
    ) {
        self.0.insert(copies_key(&edge.tokens, message, from), (Arc::clone(contact), edge.now));
    }

    /// Whether the first copy of a request went on before the key of new tokens changed.
    pub(crate) fn is_older_than_key(&self, edge: &Edge, message: &Message<'_>, from: SocketAddr) -> bool {
        let Some(rekeyed) = edge.rekeyed.filter(|_| !self.0.is_empty()) else { return false };
        let noted = self.0.get(&copies_key(&edge.tokens, message, from));
        noted.is_some_and(|(_, since)| *since <= rekeyed)
    }
}
