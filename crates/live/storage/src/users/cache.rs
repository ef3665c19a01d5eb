//! What a database has answered, for a while: who is known, and who is not.

use base::Instant;
use core::hash::Hash;
use core::time::Duration;
use std::collections::HashMap;

/// How much is kept, and for how long.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Lifetimes {
    /// Entries of users, and as many again of names that nobody has.
    pub(crate) entries: usize,
    /// For how long a user is answered for without asking.
    pub(crate) known: Duration,
    /// The same for a name that nobody has.
    pub(crate) absent: Duration,
    /// For how long beyond that a user is answered for while the database cannot be asked.
    pub(crate) stale: Duration,
}

/// An answer of the database.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Answer<V> {
    /// What is known of the user.
    Known(V),
    /// Nobody has this name.
    Absent,
}

/// A bounded cache of answers. Users and names that nobody has are kept apart: strangers can invent names without
/// end, and must not push out users.
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

    /// The answer, if it is young enough.
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

    /// The user as last known, when the database cannot be asked.
    pub(crate) fn stale(&mut self, now: Instant, key: &K) -> Option<V> {
        let (at, value) = self.known.get(key)?;
        (now.saturating_since(at) < self.lifetimes.known + self.lifetimes.stale).then_some(value)
    }

    /// Takes over what the database has answered.
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

    /// Forgets everything.
    pub(crate) fn clear(&mut self) {
        *self = Self::new(self.lifetimes);
    }
}

/// Entries in two generations: what is used moves to the young one, and when that is full, it becomes the old one,
/// whose rest is forgotten. So what is used often stays, at a constant cost for each step.
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
    fn answers_are_good_for_their_time() {
        let mut cache = Cache::new(LIFETIMES);
        assert_eq!(cache.fresh(at(0), &"alice"), None);
        cache.insert(at(0), "alice", Known(1));
        cache.insert(at(0), "nobody", Absent);
        assert_eq!(cache.fresh(at(9), &"nobody"), Some(Absent));
        assert_eq!(cache.fresh(at(10), &"nobody"), None);
        assert_eq!(cache.fresh(at(59), &"alice"), Some(Known(1)));
        assert_eq!(cache.fresh(at(60), &"alice"), None, "a look-up does not make it younger");
        assert_eq!(cache.stale(at(159), &"alice"), Some(1));
        assert_eq!(cache.stale(at(160), &"alice"), None);
        assert_eq!(
            cache.stale(at(10), &"nobody"),
            None,
            "that nobody has a name is never taken from a stale answer"
        );
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
    fn it_is_bounded_and_keeps_what_is_used() {
        let mut cache = Cache::new(LIFETIMES);
        cache.insert(at(0), 0, Known(0));
        for n in 1..1000 {
            cache.insert(at(0), n, Known(n));
            cache.insert(at(0), 1000 + n, Absent);
            assert_eq!(cache.fresh(at(1), &0), Some(Known(0)), "used all the time");
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
        assert_eq!(none.fresh(at(0), &1), None, "no entries, no cache");
    }
}
