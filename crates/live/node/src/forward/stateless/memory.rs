//! What is remembered of messages that went on without a transaction.

use super::searches::{SearchLimits, Searches};
use crate::decide::removed::Unacknowledged;

/// The memory of a stateless proxy: it keeps no transactions, but a few things for as long as copies of a message may
/// come.
#[derive(Default)]
pub(crate) struct Stateless {
    pub(super) searches: Searches,
    pub(crate) search_limits: SearchLimits,
    pub(crate) unacknowledged: Unacknowledged,
}
