//! What is remembered of messages that went on without a transaction.

use super::recent_copies::RecentCopies;
use super::removed::Unacknowledged;
use super::searches::{SearchLimits, Searches};
use crate::forward::contacts::Contact;
use balance::Slot;
use std::sync::Arc;

/// Requests to next hops that are remembered, in each of two generations: of 32 s (64*T1) at 2,000 a second.
const HOPS: usize = 65_536;
/// Requests to users that are remembered, likewise at 500 a second. A contact takes some 300 bytes.
const CONTACTS: usize = 16_384;

/// The memory of a stateless proxy: it keeps no transactions, but a few things for as long as copies of a message may
/// come.
pub(crate) struct Stateless {
    pub(super) searches: Searches,
    pub(crate) search_limits: SearchLimits,
    pub(crate) unacknowledged: Unacknowledged,
    pub(crate) recent_hops: RecentCopies<Slot>,
    pub(crate) recent_contacts: RecentCopies<Arc<Contact>>,
    pub(crate) recent_relays: RecentCopies<()>,
}

impl Default for Stateless {
    fn default() -> Self {
        Self {
            searches: Searches::default(),
            search_limits: SearchLimits::default(),
            unacknowledged: Unacknowledged::default(),
            recent_hops: RecentCopies::new(HOPS),
            recent_contacts: RecentCopies::new(CONTACTS),
            recent_relays: RecentCopies::new(HOPS),
        }
    }
}
