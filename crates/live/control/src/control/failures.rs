//! Counts of failures, so that each kind is logged only now and then.

use balance::PoolId;
use base::Instant;
use core::time::Duration;
use std::collections::BTreeMap;

/// Interval of log entries about refused calls of a pool. Each shard reports every second.
const REFUSALS_EACH: Duration = Duration::from_secs(10);

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Why {
    NoneTook,
    AtLimit,
}

/// Failures to log later, and when each was logged last.
#[derive(Debug, Default)]
pub(super) struct Failures(BTreeMap<(PoolId, Why), Count>);

/// A count that is logged now and then.
#[derive(Debug, Default)]
struct Count {
    refused: u64,
    last_entry: Option<Instant>,
}

impl Failures {
    /// Counts refused new calls. Returns their number since the last log entry if a new entry is due.
    pub(super) fn refused(&mut self, now: Instant, pool: PoolId, why: Why, refused: u64) -> Option<u64> {
        let count = self.0.entry((pool, why)).or_default();
        count.refused += refused;
        if count.last_entry.is_some_and(|logged| now.saturating_since(logged) < REFUSALS_EACH) {
            return None;
        }
        count.last_entry = Some(now);
        Some(core::mem::take(&mut count.refused))
    }
}
