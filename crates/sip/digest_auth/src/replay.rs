//! Detection of replays: counts of each nonce that were used.

use crate::Nonce;
use base::UnixTime;
use core::time::Duration;
use std::collections::BTreeMap;

/// Longest distance of a late count below the highest one: datagrams overtake each other.
const WINDOW: u32 = 64;

/// Used counts of one nonce.
#[derive(Clone, Copy, Debug)]
struct Seen {
    issued: UnixTime,
    highest: u32,
    /// Bit `n` is the count `highest - n`.
    counts: u64,
}

/// Refuses every count of a nonce that was used before (RFC 7616 §3.4: the same count twice is a replay).
///
/// An unused count below the highest is accepted, since UDP may reorder requests. A count that is 64 or more lower
/// counts as used.
///
/// Memory is bounded. Only counts with a right digest are entered, so outsiders take no room. When the table is full,
/// the nonce with the lowest number, the oldest, is removed. From then on every nonce with a lower number is refused
/// unless it is in the table. So a forgotten nonce can never be used again. Its client gets a new nonce with
/// `stale=true`.
#[derive(Clone, Debug)]
pub struct Replays {
    /// Used counts by the number of the nonce.
    seen: BTreeMap<u64, Seen>,
    nonces_max: usize,
    /// Lowest number of a nonce that is surely unused if it is not in the table.
    floor: u64,
}

impl Replays {
    /// Makes a table for this number of nonces, at least one; about 60 bytes each.
    pub fn new(nonces_max: usize) -> Self {
        Self { seen: BTreeMap::new(), nonces_max: nonces_max.max(1), floor: 0 }
    }

    /// Whether this count is still unused.
    pub fn may_use(&self, nonce: Nonce, count: u32) -> bool {
        let Some(seen) = self.seen.get(&nonce.number) else { return nonce.number >= self.floor };
        match seen.highest.checked_sub(count) {
            None => true,
            Some(back) => back < WINDOW && seen.counts >> back & 1 == 0,
        }
    }

    /// Marks a count as used; returns false if it already was. Nonces older than `lifetime` are forgotten.
    pub fn record(&mut self, date: UnixTime, lifetime: Duration, nonce: Nonce, count: u32) -> bool {
        if !self.may_use(nonce, count) {
            return false;
        }
        let seen =
            self.seen.entry(nonce.number).or_insert(Seen { issued: nonce.issued, highest: count, counts: 0 });
        if let Some(ahead) = count.checked_sub(seen.highest) {
            seen.counts = seen.counts.checked_shl(ahead).unwrap_or(0) | 1;
            seen.highest = count;
        } else {
            seen.counts |= 1 << (seen.highest - count);
        }
        // At most two nonces leave for each one entered, so the work is bounded and the table shrinks.
        for _ in 0..2 {
            let Some(first) = self.seen.first_entry() else { break };
            let is_old = date.saturating_since(first.get().issued) > lifetime;
            if is_old || self.seen.len() > self.nonces_max {
                self.forget_first();
            }
        }
        true
    }

    fn forget_first(&mut self) {
        if let Some((number, _)) = self.seen.pop_first() {
            self.floor = self.floor.max(number + 1);
        }
    }

    /// Number of nonces in the table.
    pub fn len(&self) -> usize {
        self.seen.len()
    }

    /// Whether the table is empty.
    pub fn is_empty(&self) -> bool {
        self.seen.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    const LIFETIME: Duration = Duration::from_mins(5);

    fn nonce(number: u64) -> Nonce {
        Nonce { number, issued: UnixTime::from_secs(1_000 + number) }
    }

    fn use_it(replays: &mut Replays, number: u64, count: u32) -> bool {
        replays.record(UnixTime::from_secs(1_100), LIFETIME, nonce(number), count)
    }

    #[test]
    fn a_count_is_used_once() {
        let mut replays = Replays::new(10);
        assert!(use_it(&mut replays, 1, 1));
        assert!(!use_it(&mut replays, 1, 1));
        assert!(use_it(&mut replays, 1, 100));
        assert!(use_it(&mut replays, 1, 99), "overtaken");
        assert!(!use_it(&mut replays, 1, 99));
        assert!(use_it(&mut replays, 1, 37));
        assert!(!use_it(&mut replays, 1, 36), "the count is below the window");
        assert!(use_it(&mut replays, 1, u32::MAX));
        assert!(!use_it(&mut replays, 1, 100));
        assert!(use_it(&mut replays, 2, 1), "another nonce");
    }

    #[test]
    fn a_forgotten_nonce_is_refused() {
        let mut replays = Replays::new(2);
        for number in [5, 9, 7] {
            assert!(use_it(&mut replays, number, 1));
        }
        assert_eq!(replays.len(), 2);
        assert!(!use_it(&mut replays, 5, 2), "the oldest nonce was removed");
        assert!(!use_it(&mut replays, 3, 1), "a count below the floor may have been used");
        assert!(use_it(&mut replays, 9, 2) && use_it(&mut replays, 7, 2));
        // Old ones leave by themselves.
        let late = UnixTime::from_secs(1_310);
        assert!(replays.record(late, LIFETIME, nonce(20), 1));
        assert_eq!(replays.len(), 1);
    }

    proptest! {
        /// For any sequence: no count passes twice, memory is bounded, and with enough room a new count that is not far
        /// behind passes.
        #[test]
        fn no_count_passes_twice(
            steps in prop::collection::vec((0..6_u64, 1..100_u32), 1..300),
            room in 1..8_usize,
        ) {
            let mut replays = Replays::new(room);
            let mut passed = BTreeSet::new();
            for (number, count) in steps {
                let highest = passed.range((number, 0)..(number + 1, 0)).next_back().map_or(0, |(_, count)| *count);
                let passes = use_it(&mut replays, number, count);
                prop_assert!(replays.len() <= room);
                if passes {
                    prop_assert!(passed.insert((number, count)));
                } else if room >= 6 {
                    prop_assert!(passed.contains(&(number, count)) || count + WINDOW <= highest);
                }
            }
        }
    }
}
