//! A token bucket: a rate with a burst.

use crate::Instant;
use core::time::Duration;

/// Rate and burst of a [`Bucket`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rate {
    /// Units a second in the long run; not 0.
    pub per_second: u32,
    /// Units that may come at once after a pause.
    pub burst: u32,
}

impl Rate {
    /// Time in which this number of units is refilled.
    fn time_of(self, units: u32) -> Duration {
        Duration::from_nanos(u64::from(units) * 1_000_000_000 / u64::from(self.per_second.max(1)))
    }
}

/// Token bucket, stored as the instant at which it is full again, as in the generic cell rate algorithm (ITU-T I.371).
///
/// A request may cost more than is left, as long as anything is left. The bucket is then overdrawn, and no request
/// passes until it is above zero again. So no request is too large for ever, and the rate holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Bucket {
    full_at: Instant,
}

impl Bucket {
    /// Whether any unit is left.
    pub fn has_some(&self, now: Instant, rate: Rate) -> bool {
        self.full_at.saturating_since(now) < rate.time_of(rate.burst)
    }

    /// Takes this number of units, even if fewer are left.
    pub fn take(&mut self, now: Instant, rate: Rate, units: u32) {
        self.full_at = self.full_at.max(now) + rate.time_of(units);
    }

    /// Returns units that were taken for work that turned out to cost nothing.
    pub fn put_back(&mut self, rate: Rate, units: u32) {
        let nanos = u64::try_from(rate.time_of(units).as_nanos()).unwrap_or(u64::MAX);
        self.full_at = Instant::from_nanos(self.full_at.as_nanos().saturating_sub(nanos));
    }

    /// Takes one unit, even if none is left, and overdraws the bucket by one unit at most. For a bucket with several
    /// takers, some of which may take from an empty bucket.
    pub fn take_one(&mut self, now: Instant, rate: Rate) {
        let one = rate.time_of(1);
        self.full_at = (self.full_at.max(now) + one).min(now + rate.time_of(rate.burst) + one);
    }
}

/// Fixed number of token buckets for any number of keys. Keys with colliding hashes share a bucket, so use a secret
/// hash.
#[derive(Clone, Debug)]
pub struct Buckets(Box<[Bucket]>);

impl Buckets {
    /// Makes `count` full buckets of 8 bytes each.
    pub fn new(count: usize) -> Self {
        Self(vec![Bucket::default(); count.max(1)].into())
    }

    /// Returns the bucket of the key with this hash.
    pub fn of(&mut self, hash: u64) -> &mut Bucket {
        let count = self.0.len() as u64;
        &mut self.0[(hash % count) as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RATE: Rate = Rate { per_second: 10, burst: 20 };

    /// Units that pass at this moment, each for `cost`.
    fn passes(bucket: &mut Bucket, at: u64, cost: u32) -> u32 {
        let now = Instant::from_millis(at);
        let mut count = 0;
        while bucket.has_some(now, RATE) {
            bucket.take(now, RATE, cost);
            count += 1;
        }
        count
    }

    #[test]
    fn a_burst_and_then_the_rate() {
        let mut bucket = Bucket::default();
        assert_eq!(passes(&mut bucket, 5_000, 1), 20);
        assert_eq!(passes(&mut bucket, 5_050, 1), 1, "half a unit counts as left");
        assert_eq!(passes(&mut bucket, 5_100, 1), 0);
        assert_eq!(passes(&mut bucket, 6_100, 1), 10);
        assert_eq!(passes(&mut bucket, 60_000, 1), 20, "the bucket holds no more than the burst");
    }

    #[test]
    fn a_request_larger_than_the_rest_passes_and_overdraws_the_bucket() {
        let mut bucket = Bucket::default();
        assert_eq!(passes(&mut bucket, 0, 50), 1);
        assert_eq!(passes(&mut bucket, 3_000, 50), 0, "the bucket is overdrawn by 30 units");
        assert_eq!(passes(&mut bucket, 3_001, 50), 1);
    }

    #[test]
    fn taking_single_units_overdraws_by_one_at_most() {
        let mut bucket = Bucket::default();
        let now = Instant::from_millis(1_000);
        (0..100).for_each(|_| bucket.take_one(now, RATE));
        assert!(!bucket.has_some(Instant::from_millis(1_100), RATE), "the bucket is overdrawn by one unit");
        assert_eq!(passes(&mut bucket, 1_200, 1), 1);
        let mut other = Bucket::default();
        (0..19).for_each(|_| other.take_one(now, RATE));
        assert_eq!(passes(&mut other, 1_000, 1), 1);
    }

    #[test]
    fn returned_units_can_be_taken_again() {
        let mut bucket = Bucket::default();
        let now = Instant::from_millis(5_000);
        for _ in 0..100 {
            assert!(bucket.has_some(now, RATE));
            bucket.take(now, RATE, 1);
            bucket.put_back(RATE, 1);
        }
        assert_eq!(passes(&mut bucket, 5_000, 1), 20);
        bucket.put_back(RATE, 1_000);
        assert_eq!(passes(&mut bucket, 6_000, 1), 20, "no more than the burst");
    }

    #[test]
    fn each_key_hash_selects_a_bucket() {
        let mut buckets = Buckets::new(7);
        let now = Instant::from_millis(1);
        buckets.of(1).take(now, RATE, 20);
        assert!(!buckets.of(8).has_some(now, RATE), "both hashes select one bucket");
        assert!(buckets.of(9).has_some(now, RATE));
    }
}
