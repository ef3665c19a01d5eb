use core::ops::{Index, IndexMut};

/// Entries a chunk. A power of two; small enough that a new chunk is a matter of microseconds.
const CHUNK: usize = 1 << 10;

/// Storage with stable `u32` keys that grows chunk by chunk: an entry never moves,
/// so growth costs the same at a million entries as at a thousand.
#[derive(Debug)]
pub struct Slab<T> {
    /// Of a length that is known, so that only the number of the chunk needs to be compared with a bound.
    chunks: Vec<Box<[Option<T>; CHUNK]>>,
    free: Vec<u32>,
    /// The first key that has never been used.
    fresh: u32,
    len: usize,
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Self { chunks: Vec::new(), free: Vec::new(), fresh: 0, len: 0 }
    }
}

impl<T> Slab<T> {
    /// Stores a value and returns its key. Keys of removed entries are used again.
    ///
    /// # Panics
    /// When 2^32 - 1 entries are stored.
    pub fn insert(&mut self, value: T) -> u32 {
        self.len += 1;
        let key = self.free.pop().unwrap_or_else(|| self.grow());
        self.chunks[key as usize / CHUNK][key as usize % CHUNK] = Some(value);
        key
    }

    /// A key that has not been used yet.
    #[cold]
    fn grow(&mut self) -> u32 {
        let key = self.fresh;
        assert!(key < u32::MAX, "a slab holds at most 2^32 - 1 entries");
        self.fresh += 1;
        if key as usize == self.chunks.len() * CHUNK {
            let chunk: Box<[Option<T>]> = core::iter::repeat_with(|| None).take(CHUNK).collect();
            self.chunks.push(chunk.try_into().unwrap_or_else(|_| unreachable!("it has this length")));
        }
        key
    }

    /// Takes an entry out; `None` when there is none.
    pub fn remove(&mut self, key: u32) -> Option<T> {
        let value = self.chunks.get_mut(key as usize / CHUNK)?[key as usize % CHUNK].take()?;
        self.free.push(key);
        self.len -= 1;
        Some(value)
    }

    /// The entry of this key.
    pub fn get(&self, key: u32) -> Option<&T> {
        self.chunks.get(key as usize / CHUNK)?[key as usize % CHUNK].as_ref()
    }

    /// The entry of this key, to be changed.
    pub fn get_mut(&mut self, key: u32) -> Option<&mut T> {
        self.chunks.get_mut(key as usize / CHUNK)?[key as usize % CHUNK].as_mut()
    }

    /// How many entries are stored.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether nothing is stored.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// All entries in the order of their keys.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        self.iter_from(0)
    }

    /// The entries with keys from `key` on, in order: for walks that stop and go on later.
    pub fn iter_from(&self, key: u32) -> impl Iterator<Item = (u32, &T)> {
        let (first, within) = (key as usize / CHUNK, key as usize % CHUNK);
        self.chunks
            .iter()
            .enumerate()
            .skip(first)
            .flat_map(|(chunk, entries)| (chunk * CHUNK..).zip(entries.iter()))
            .skip(within)
            .filter_map(|(key, entry)| Some((key as u32, entry.as_ref()?)))
    }
}

impl<T> Index<u32> for Slab<T> {
    type Output = T;

    fn index(&self, key: u32) -> &T {
        self.get(key).expect("a key is kept only while its entry is stored")
    }
}

impl<T> IndexMut<u32> for Slab<T> {
    fn index_mut(&mut self, key: u32) -> &mut T {
        self.get_mut(key).expect("a key is kept only while its entry is stored")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_reused_and_entries_stay() {
        let mut slab = Slab::default();
        let keys: Vec<_> = (0..3 * CHUNK).map(|n| slab.insert(n)).collect();
        assert_eq!(slab.remove(keys[CHUNK]), Some(CHUNK));
        assert_eq!(slab.remove(keys[CHUNK]), None);
        assert_eq!(slab.insert(7), keys[CHUNK]);
        assert_eq!((slab[keys[CHUNK]], slab[keys[2 * CHUNK]], slab.len()), (7, 2 * CHUNK, 3 * CHUNK));
        assert!(slab.iter().map(|(key, _)| key).eq(keys.iter().copied()));
        assert!(slab.iter_from(keys[CHUNK + 5]).map(|(key, _)| key).eq(keys[CHUNK + 5..].iter().copied()));
    }
}
