//! What is remembered of failures, so that people hear of each once.

use balance::PoolId;
use base::Instant;
use core::time::Duration;
use std::collections::BTreeMap;

/// How often it is told that no member takes new calls. Each shard reports every second.
const REFUSALS_EACH: Duration = Duration::from_secs(10);

/// The failures that are told of later, and when they were told of last.
#[derive(Debug, Default)]
pub(super) struct Failures {
    /// New calls refused because no member of a pool took any, since this was last told.
    none_took: BTreeMap<PoolId, Count>,
    /// The same of new calls refused because all members of a pool were at a limit.
    at_limit: BTreeMap<PoolId, Count>,
}

/// A count that is told now and then.
#[derive(Debug, Default)]
struct Count {
    refused: u64,
    told: Option<Instant>,
}

impl Count {
    /// Adds some. Returns how many there have been since this was last told, when it is to be told now.
    fn add(&mut self, now: Instant, refused: u64) -> Option<u64> {
        self.refused += refused;
        if self.told.is_some_and(|told| now.saturating_since(told) < REFUSALS_EACH) {
            return None;
        }
        self.told = Some(now);
        Some(core::mem::take(&mut self.refused))
    }
}

impl Failures {
    /// Counts new calls that no member of a pool took. Returns how many there have been since this was last told, when
    /// it is to be told now.
    pub(super) fn refused(&mut self, now: Instant, pool: PoolId, refused: u64) -> Option<u64> {
        self.none_took.entry(pool).or_default().add(now, refused)
    }

    /// The same of new calls to a pool whose members were at a limit.
    pub(super) fn at_limit(&mut self, now: Instant, pool: PoolId, refused: u64) -> Option<u64> {
        self.at_limit.entry(pool).or_default().add(now, refused)
    }
}
