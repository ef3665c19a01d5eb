//! Cache of a database's answers: known and unknown users.

use base::Instant;
use core::hash::Hash;
use core::time::Duration;
use std::collections::HashMap;

/// Size and lifetimes of the cache.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Lifetimes {
    /// Maximum number of users, and of unknown names.
    pub(crate) entries: usize,
    /// Lifetime of a user's entry.
    pub(crate) known: Duration,
    /// Lifetime of an unknown name's entry.
    pub(crate) absent: Duration,
    /// Additional lifetime of a user's entry while the database is unreachable.
    pub(crate) stale: Duration,
}

/// Answer of the database.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Answer<V> {
    /// Data of the user.
    Known(V),
    /// There is no user with this name.
    Absent,
}

/// Bounded cache of answers. Users and unknown names are kept apart: outsiders can invent any number of names, and must
/// not displace users.
pub(crate) struct Cache<K, V> {
    lifetimes: Lifetimes,
    known: Generations<K, V>,
    absent: Generations<K, ()>,
}

impl<K: Eq + Hash + Clone, V: Clone> Cache<K, V> {
    pub(crate) fn new(lifetimes: Lifetimes) -> Self {
        let entries = lifetimes.entries;
        Self { lifetimes, known: Generations::new(entries), absent: Generations::new(entries) }
    }

    /// Answer within its lifetime.
    pub(crate) fn fresh(&mut self, now: Instant, key: &K) -> Option<Answer<V>> {
        let young = |at: Instant, lifetime| now.saturating_since(at) < lifetime;
        if let Some((at, value)) = self.known.get(key)
            && young(at, self.lifetimes.known)
        {
            return Some(Answer::Known(value));
        }
        let (at, ()) = self.absent.get(key)?;
        young(at, self.lifetimes.absent).then_some(Answer::Absent)
    }

    /// Data of the user as last known, if the database is unreachable.
    pub(crate) fn stale(&mut self, now: Instant, key: &K) -> Option<V> {
        let (at, value) = self.known.get(key)?;
        (now.saturating_since(at) < self.lifetimes.known + self.lifetimes.stale).then_some(value)
    }

    /// Stores an answer of the database.
    pub(crate) fn insert(&mut self, now: Instant, key: K, answer: Answer<V>) {
        match answer {
            Answer::Known(value) => {
                self.absent.remove(&key);
                self.known.insert(now, key, value);
            }
            Answer::Absent => {
                self.known.remove(&key);
                self.absent.insert(now, key, ());
            }
        }
    }

    /// Removes all entries.
    pub(crate) fn clear(&mut self) {
        *self = Self::new(self.lifetimes);
    }
}

/// Entries in two generations. A used entry moves to the young one. When this is full, it becomes the old one, and the
/// remaining old entries are dropped. So frequently used entries stay, at a constant cost for each step.
struct Generations<K, V> {
    /// Entries of each generation.
    half: usize,
    young: HashMap<K, (Instant, V)>,
    old: HashMap<K, (Instant, V)>,
}

impl<K: Eq + Hash + Clone, V: Clone> Generations<K, V> {
    fn new(entries: usize) -> Self {
        Self { half: entries.div_ceil(2), young: HashMap::new(), old: HashMap::new() }
    }

    fn get(&mut self, key: &K) -> Option<(Instant, V)> {
        if let Some(entry) = self.young.get(key) {
            return Some(entry.clone());
        }
        let (at, value) = self.old.remove(key)?;
        self.insert(at, key.clone(), value.clone());
        Some((at, value))
    }

    fn insert(&mut self, at: Instant, key: K, value: V) {
        self.remove(&key);
        if self.half == 0 {
            return;
        }
        if self.young.len() >= self.half {
            self.old = core::mem::take(&mut self.young);
        }
        self.young.insert(key, (at, value));
    }

    fn remove(&mut self, key: &K) {
        self.young.remove(key);
        self.old.remove(key);
    }
}

#[cfg(test)]
mod tests {
    use super::Answer::{Absent, Known};
    use super::*;

    const LIFETIMES: Lifetimes = Lifetimes {
        entries: 10,
        known: Duration::from_mins(1),
        absent: Duration::from_secs(10),
        stale: Duration::from_secs(100),
    };

    fn at(secs: u64) -> Instant {
        Instant::ZERO + Duration::from_secs(secs)
    }

    #[test]
    fn answers_are_valid_for_their_lifetime() {
        let mut cache = Cache::new(LIFETIMES);
        assert_eq!(cache.fresh(at(0), &"alice"), None);
        cache.insert(at(0), "alice", Known(1));
        cache.insert(at(0), "nobody", Absent);
        assert_eq!(cache.fresh(at(9), &"nobody"), Some(Absent));
        assert_eq!(cache.fresh(at(10), &"nobody"), None);
        assert_eq!(cache.fresh(at(59), &"alice"), Some(Known(1)));
        assert_eq!(cache.fresh(at(60), &"alice"), None, "a look-up does not extend the lifetime");
        assert_eq!(cache.stale(at(159), &"alice"), Some(1));
        assert_eq!(cache.stale(at(160), &"alice"), None);
        assert_eq!(cache.stale(at(10), &"nobody"), None, "a stale answer never says that a user is unknown");
        cache.insert(at(60), "alice", Absent);
        assert_eq!(
            (cache.fresh(at(61), &"alice"), cache.stale(at(61), &"alice")),
            (Some(Absent), None),
            "removed"
        );
        cache.insert(at(62), "alice", Known(2));
        assert_eq!(cache.fresh(at(63), &"alice"), Some(Known(2)), "back");
        cache.clear();
        assert_eq!(cache.stale(at(63), &"alice"), None);
    }

    #[test]
    fn the_cache_is_bounded_and_keeps_used_entries() {
        let mut cache = Cache::new(LIFETIMES);
        cache.insert(at(0), 0, Known(0));
        for n in 1..1000 {
            cache.insert(at(0), n, Known(n));
            cache.insert(at(0), 1000 + n, Absent);
            assert_eq!(cache.fresh(at(1), &0), Some(Known(0)), "a frequently used entry stays");
            let sizes = [
                cache.known.young.len() + cache.known.old.len(),
                cache.absent.young.len() + cache.absent.old.len(),
            ];
            assert!(sizes.iter().all(|size| *size <= LIFETIMES.entries), "{sizes:?}");
        }
        assert_eq!(cache.fresh(at(1), &1), None);
        assert_eq!(cache.fresh(at(1), &999), Some(Known(999)));
        let mut none = Cache::new(Lifetimes { entries: 0, ..LIFETIMES });
        none.insert(at(0), 1, Known(1));
        assert_eq!(none.fresh(at(0), &1), None, "without entries nothing is cached");
    }
}
