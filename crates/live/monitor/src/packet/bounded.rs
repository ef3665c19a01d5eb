//! A map of limited size that evicts the least recently used entry.

use base::Instant;
use std::collections::BTreeMap;

/// A map that evicts the least recently used entry. To limit something else than the number of entries, the caller
/// removes the oldest.
#[derive(Debug)]
pub(super) struct Bounded<K, V> {
    entries: BTreeMap<K, Entry<V>>,
    /// Keys by the number of their last use.
    order: BTreeMap<u64, K>,
    uses: u64,
}

#[derive(Debug)]
struct Entry<V> {
    used: u64,
    at: Instant,
    value: V,
}

impl<K: Ord + Clone, V> Bounded<K, V> {
    pub(super) fn new() -> Self {
        Self { entries: BTreeMap::new(), order: BTreeMap::new(), uses: 0 }
    }

    /// Returns the entry of a key, and marks it as used now.
    pub(super) fn get(&mut self, now: Instant, key: &K) -> Option<&mut V> {
        let entry = self.entries.get_mut(key)?;
        self.uses += 1;
        self.order.remove(&entry.used);
        self.order.insert(self.uses, key.clone());
        (entry.used, entry.at) = (self.uses, now);
        Some(&mut entry.value)
    }

    /// Sets the entry of a key, and marks it as used now.
    pub(super) fn insert(&mut self, now: Instant, key: K, value: V) {
        self.remove(&key);
        self.uses += 1;
        self.order.insert(self.uses, key.clone());
        self.entries.insert(key, Entry { used: self.uses, at: now, value });
    }

    pub(super) fn remove(&mut self, key: &K) -> Option<V> {
        let entry = self.entries.remove(key)?;
        self.order.remove(&entry.used);
        Some(entry.value)
    }

    /// Removes the least recently used entry.
    pub(super) fn pop_oldest(&mut self) -> Option<V> {
        let (_, key) = self.order.pop_first()?;
        self.entries.remove(&key).map(|entry| entry.value)
    }

    /// Time of the last use of the least recently used entry.
    pub(super) fn oldest(&self) -> Option<Instant> {
        let (_, key) = self.order.first_key_value()?;
        self.entries.get(key).map(|entry| entry.at)
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_oldest_entry_is_the_least_recently_used(
            steps in prop::collection::vec((0..4_u8, 0..6_u8), 0..100)
        ) {
            let mut map = Bounded::new();
            // The last element was used last.
            let mut list: Vec<(u8, usize)> = Vec::new();
            for (at, (step, key)) in steps.into_iter().enumerate() {
                let now = Instant::from_millis(at as u64);
                let found = list.iter().position(|(known, _)| *known == key);
                match step {
                    0 => {
                        found.map(|place| list.remove(place));
                        list.push((key, at));
                        map.insert(now, key, at);
                    }
                    1 => {
                        let moved = found.map(|place| list.remove(place));
                        list.extend(moved);
                        prop_assert_eq!(map.get(now, &key).copied(), moved.map(|(_, value)| value));
                    }
                    2 => {
                        prop_assert_eq!(map.remove(&key), found.map(|place| list.remove(place).1));
                    }
                    _ => {
                        let oldest = (!list.is_empty()).then(|| list.remove(0).1);
                        prop_assert_eq!(map.pop_oldest(), oldest);
                    }
                }
                prop_assert_eq!((map.len(), map.order.len()), (list.len(), list.len()));
                prop_assert_eq!(map.oldest().is_some(), !list.is_empty());
            }
        }
    }
}
