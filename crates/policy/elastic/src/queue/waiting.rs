//! Waiting calls, first in, first out; each can be removed by its key, and has a deadline.

use base::Instant;
use std::collections::BTreeMap;

#[derive(Debug)]
pub(super) struct Entry<K, T> {
    pub(super) key: K,
    pub(super) item: T,
    pub(super) since: Instant,
    deadline: Instant,
    /// Random number for a Retry-After.
    pub(super) random: u64,
}

/// The time of each operation grows logarithmically with the number of waiting calls.
#[derive(Debug)]
pub(super) struct Waiting<K, T> {
    /// By turn, which is also the order of deadlines, since all calls may wait equally long.
    entries: BTreeMap<u64, Entry<K, T>>,
    turns: BTreeMap<K, u64>,
    next: u64,
}

impl<K: Ord + Clone, T> Waiting<K, T> {
    pub(super) fn new() -> Self {
        Self { entries: BTreeMap::new(), turns: BTreeMap::new(), next: 0 }
    }

    /// Copy without the calls' items.
    pub(super) fn without_items(&self) -> Waiting<K, ()> {
        let bare = |(&turn, entry): (&u64, &Entry<K, T>)| {
            let Entry { key, since, deadline, random, .. } = entry;
            let (key, since, deadline, random) = (key.clone(), *since, *deadline, *random);
            (turn, Entry { key, item: (), since, deadline, random })
        };
        Waiting {
            entries: self.entries.iter().map(bare).collect(),
            turns: self.turns.clone(),
            next: self.next,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(super) fn contains(&self, key: &K) -> bool {
        self.turns.contains_key(key)
    }

    pub(super) fn items(&self) -> impl Iterator<Item = &T> {
        self.entries.values().map(|entry| &entry.item)
    }

    /// Adds a call. The key must not be waiting, and no other deadline may be later.
    pub(super) fn push(&mut self, key: K, item: T, since: Instant, deadline: Instant, random: u64) {
        let turn = self.next;
        self.next += 1;
        self.turns.insert(key.clone(), turn);
        self.entries.insert(turn, Entry { key, item, since, deadline, random });
    }

    pub(super) fn first_deadline(&self) -> Option<Instant> {
        self.entries.first_key_value().map(|(_, entry)| entry.deadline)
    }

    pub(super) fn pop_first(&mut self) -> Option<Entry<K, T>> {
        let (_, entry) = self.entries.pop_first()?;
        self.turns.remove(&entry.key);
        Some(entry)
    }

    /// Removes and returns the next entry whose deadline has come.
    pub(super) fn pop_expired(&mut self, now: Instant) -> Option<Entry<K, T>> {
        self.first_deadline().filter(|deadline| *deadline <= now)?;
        self.pop_first()
    }

    pub(super) fn remove(&mut self, key: &K) -> Option<Entry<K, T>> {
        let turn = self.turns.remove(key)?;
        self.entries.remove(&turn)
    }
}
