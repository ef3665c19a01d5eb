//! State of a stateless proxy.

use super::searches::{SearchLimits, Searches};
use crate::decide::removed::Unacknowledged;

/// State of a stateless proxy. It keeps no transactions, but remembers some facts about a message as long as copies of
/// it may come.
#[derive(Default)]
pub(crate) struct Stateless {
    pub(super) searches: Searches,
    pub(crate) search_limits: SearchLimits,
    pub(crate) unacknowledged: Unacknowledged,
}
