//! What is remembered of failures, so that people hear of each once.

use base::Instant;
use core::time::Duration;

/// How often it is told that no member takes new calls. Each shard reports every second.
const REFUSALS_EACH: Duration = Duration::from_secs(10);

/// The failures that are told of later, and when they were told of last.
#[derive(Debug, Default)]
pub(super) struct Failures {
    /// New calls refused because no member took any, since this was last told.
    refused: u64,
    told: Option<Instant>,
}

impl Failures {
    /// Counts new calls that no member took. Returns how many there have been since this was last told, when it is to
    /// be told now.
    pub(super) fn refused(&mut self, now: Instant, refused: u64) -> Option<u64> {
        self.refused += refused;
        if self.told.is_some_and(|told| now.saturating_since(told) < REFUSALS_EACH) {
            return None;
        }
        self.told = Some(now);
        Some(core::mem::take(&mut self.refused))
    }
}
