//! What is remembered of failures, so that people hear of each once.

use balance::PoolId;
use base::Instant;
use core::time::Duration;
use std::collections::BTreeMap;

/// How often it is told that no member takes new calls. Each shard reports every second.
const REFUSALS_EACH: Duration = Duration::from_secs(10);

/// Why new calls to a pool were refused.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Why {
    NoneTook,
    AtLimit,
}

/// The failures that are told of later, and when they were told of last.
#[derive(Debug, Default)]
pub(super) struct Failures(BTreeMap<(PoolId, Why), Count>);

/// A count that is told now and then.
#[derive(Debug, Default)]
struct Count {
    refused: u64,
    told: Option<Instant>,
}

impl Failures {
    /// Counts new calls that were refused. Returns how many there have been since this was last told, when it is to be
    /// told now.
    pub(super) fn refused(&mut self, now: Instant, pool: PoolId, why: Why, refused: u64) -> Option<u64> {
        let count = self.0.entry((pool, why)).or_default();
        count.refused += refused;
        if count.told.is_some_and(|told| now.saturating_since(told) < REFUSALS_EACH) {
            return None;
        }
        count.told = Some(now);
        Some(core::mem::take(&mut count.refused))
    }
}
