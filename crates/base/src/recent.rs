//! Map that remembers its last used entries, in bounded memory.

use core::borrow::Borrow;
use std::collections::BTreeMap;

/// Map of two generations. When the young generation is full, it becomes the old one, and the entries of the old one
/// are dropped. A use moves an old entry to the young generation. So, unless [`age`](Self::age) is called, the last
/// `generation` used entries are always present. The map never holds more than `2 * generation` entries.
#[derive(Clone, Debug)]
pub struct Recent<K, V> {
    young: BTreeMap<K, V>,
    old: BTreeMap<K, V>,
    generation: usize,
}

impl<K: Ord, V> Recent<K, V> {
    /// An empty map.
    pub fn new(generation: usize) -> Self {
        Self { young: BTreeMap::new(), old: BTreeMap::new(), generation: generation.max(1) }
    }

    /// Value of a key, which counts as used now.
    pub fn get_mut<Q: Ord + ?Sized>(&mut self, key: &Q) -> Option<&mut V>
    where
        K: Borrow<Q>,
    {
        if let Some((key, value)) = self.old.remove_entry(key) {
            self.insert(key, value);
        }
        self.young.get_mut(key)
    }

    /// Value of a key, without counting as a use.
    pub fn get<Q: Ord + ?Sized>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
    {
        self.young.get(key).or_else(|| self.old.get(key))
    }

    /// Sets the value of a key, which counts as used now.
    pub fn insert(&mut self, key: K, value: V) {
        if !self.old.is_empty() {
            self.old.remove(&key);
        }
        if self.young.len() >= self.generation && !self.young.contains_key(&key) {
            self.age();
        }
        self.young.insert(key, value);
    }

    /// Starts another generation, and drops the entries that were old and not used since.
    pub fn age(&mut self) {
        self.old = core::mem::take(&mut self.young);
    }

    /// Number of entries.
    pub fn len(&self) -> usize {
        self.young.len() + self.old.len()
    }

    /// Whether the map is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn recently_used_entries_stay_and_memory_is_bounded(
            steps in prop::collection::vec((0..12_u8, any::<bool>()), 0..200),
            generation in 1..6_usize,
        ) {
            let mut map = Recent::new(generation);
            // All keys with their latest values, in order of use.
            let mut used: Vec<(u8, usize)> = Vec::new();
            for (at, (key, insert)) in steps.into_iter().enumerate() {
                let before = used.iter().position(|(known, _)| *known == key);
                if insert {
                    map.insert(key, at);
                    before.map(|index| used.remove(index));
                    used.push((key, at));
                } else if let Some(found) = map.get_mut(&key).copied() {
                    let entry = used.remove(before.expect("a used key was inserted before"));
                    prop_assert_eq!(entry, (key, found));
                    used.push(entry);
                }
                prop_assert!(map.len() <= 2 * generation);
                for (key, value) in used.iter().rev().take(generation) {
                    prop_assert_eq!(map.get(key), Some(value));
                }
            }
        }
    }
}
