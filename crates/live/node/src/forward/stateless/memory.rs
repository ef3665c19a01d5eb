//! What is remembered of messages that went on without a transaction.

use super::recent_contacts::RecentContacts;
use super::recent_hops::RecentHops;
use super::removed::Unacknowledged;
use super::searches::{SearchLimits, Searches};

/// The memory of a stateless proxy: it keeps no transactions, but a few things for as long as copies of a message may
/// come.
#[derive(Default)]
pub(crate) struct Stateless {
    pub(super) searches: Searches,
    pub(crate) search_limits: SearchLimits,
    pub(crate) unacknowledged: Unacknowledged,
    pub(crate) recent_hops: RecentHops,
    pub(crate) recent_contacts: RecentContacts,
}
