//! Storage with stable number keys that grows and shrinks without moving entries.

use core::ops::{Index, IndexMut};

/// Entries of a chunk. A power of two; small enough that a new chunk takes microseconds.
const CHUNK: usize = 1 << 10;

/// Free places at which a full chunk is filled again. With fewer, a full chunk would enter and leave the search for
/// room with each entry that is removed and added.
const WORTH: usize = 32;

/// Storage with stable `u32` keys that grows and shrinks chunk by chunk. An entry never moves, so growth costs the same
/// at a million entries as at a thousand, and memory is freed after a peak.
///
/// The lowest chunk with room is filled first, so that higher chunks become empty. One empty chunk is kept, so that
/// adding and removing entries at the edge of a chunk does not allocate.
#[derive(Debug)]
pub struct Slab<T> {
    chunks: Vec<Chunk<T>>,
    /// A bit for each chunk to fill, 64 in each word. The other chunks have fewer than [`WORTH`] free places.
    open: Vec<u64>,
    /// Number of the lowest chunk to fill; the number of chunks if none is.
    lowest: usize,
    /// Number of chunks without entries that have memory.
    empty: usize,
    len: usize,
}

#[derive(Debug)]
struct Chunk<T> {
    /// An array, so that only the number of the chunk needs a bounds check. `None` after its memory was freed.
    entries: Option<Box<[Option<T>; CHUNK]>>,
    /// Free places, of which the first `room` are valid; the last of these is taken next.
    free: Box<[u16; CHUNK]>,
    room: usize,
}

impl<T> Chunk<T> {
    fn new() -> Self {
        let entries: Box<[Option<T>]> = core::iter::repeat_with(|| None).take(CHUNK).collect();
        let entries =
            entries.try_into().unwrap_or_else(|_| unreachable!("the vector has the length of the array"));
        let free = Box::new(core::array::from_fn(|at| (CHUNK - 1 - at) as u16));
        Self { entries: Some(entries), free, room: CHUNK }
    }
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Self { chunks: Vec::new(), open: Vec::new(), lowest: 0, empty: 0, len: 0 }
    }
}

impl<T> Slab<T> {
    /// Stores a value and returns its key. Keys of removed entries are reused.
    ///
    /// # Panics
    /// When nearly 2^32 entries are stored.
    #[inline]
    pub fn insert(&mut self, value: T) -> u32 {
        if self.chunks.get(self.lowest).is_none_or(|chunk| chunk.entries.is_none()) {
            self.grow();
        }
        let number = self.lowest;
        let chunk = &mut self.chunks[number];
        let Some(entries) = &mut chunk.entries else { unreachable!("an open chunk has memory") };
        // Chunk `lowest` has room.
        chunk.room -= 1;
        let left = chunk.room;
        let at = usize::from(chunk.free[left % CHUNK]);
        entries[at % CHUNK] = Some(value);
        self.len += 1;
        if left == CHUNK - 1 {
            self.empty -= 1;
        } else if left == 0 {
            self.filled(number);
        }
        (number * CHUNK) as u32 | at as u32
    }

    /// Gives memory to the lowest chunk with room, or to a new one.
    #[cold]
    fn grow(&mut self) {
        let number = self.lowest;
        // No key is u32::MAX, which means "none" in many lists of keys.
        assert!(number < u32::MAX as usize / CHUNK, "a slab holds nearly 2^32 entries at most");
        if number == self.chunks.len() {
            self.chunks.push(Chunk::new());
            self.open.resize(self.chunks.len().div_ceil(64), 0);
        } else {
            self.chunks[number] = Chunk::new();
        }
        self.open[number / 64] |= 1 << (number % 64);
        self.empty += 1;
    }

    /// Notes that a chunk is full.
    #[cold]
    fn filled(&mut self, number: usize) {
        self.open[number / 64] &= !(1 << (number % 64));
        let first = self.open.iter().skip(number / 64).position(|&word| word != 0);
        self.lowest = match first {
            Some(ahead) => {
                let word = number / 64 + ahead;
                word * 64 + self.open[word].trailing_zeros() as usize
            }
            None => self.chunks.len(),
        };
    }

    /// Removes an entry and returns it; `None` if the key has none.
    #[inline]
    pub fn remove(&mut self, key: u32) -> Option<T> {
        let number = key as usize / CHUNK;
        let chunk = self.chunks.get_mut(number)?;
        let value = chunk.entries.as_mut()?[key as usize % CHUNK].take()?;
        chunk.free[chunk.room % CHUNK] = (key as usize % CHUNK) as u16;
        chunk.room += 1;
        self.len -= 1;
        let room = chunk.room;
        if room == WORTH {
            self.open[number / 64] |= 1 << (number % 64);
            self.lowest = self.lowest.min(number);
        } else if room == CHUNK {
            self.emptied(number);
        }
        Some(value)
    }

    /// Frees the memory of a chunk that has become empty, unless it is the only empty chunk with memory.
    #[cold]
    fn emptied(&mut self, number: usize) {
        if self.empty == 0 {
            self.empty = 1;
            return;
        }
        self.chunks[number].entries = None;
        while self.chunks.last().is_some_and(|last| last.entries.is_none()) {
            self.chunks.pop();
            let last = self.chunks.len();
            self.open[last / 64] &= !(1 << (last % 64));
        }
        self.lowest = self.lowest.min(self.chunks.len());
    }

    /// Entry of this key.
    #[inline]
    pub fn get(&self, key: u32) -> Option<&T> {
        self.chunks.get(key as usize / CHUNK)?.entries.as_ref()?[key as usize % CHUNK].as_ref()
    }

    /// Mutable entry of this key.
    #[inline]
    pub fn get_mut(&mut self, key: u32) -> Option<&mut T> {
        self.chunks.get_mut(key as usize / CHUNK)?.entries.as_mut()?[key as usize % CHUNK].as_mut()
    }

    /// Number of entries.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether no entry is stored.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Number of entries that fit into the memory allocated now.
    pub fn capacity(&self) -> usize {
        self.chunks.iter().filter(|chunk| chunk.entries.is_some()).count() * CHUNK
    }

    /// All entries in the order of their keys.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        self.iter_from(0)
    }

    /// Entries with keys from `key` on, in order: for walks that pause and continue later.
    pub fn iter_from(&self, key: u32) -> impl Iterator<Item = (u32, &T)> {
        let (first, within) = (key as usize / CHUNK, key as usize % CHUNK);
        let chunks = self.chunks.iter().enumerate().skip(first);
        chunks
            .flat_map(move |(number, chunk)| {
                let skipped = if number == first { within } else { 0 };
                let entries = chunk.entries.as_ref().map_or(&[][..], |entries| &entries[..]);
                (number * CHUNK..).zip(entries).skip(skipped)
            })
            .filter_map(|(key, entry)| Some((key as u32, entry.as_ref()?)))
    }
}

impl<T> Index<u32> for Slab<T> {
    type Output = T;

    #[inline]
    fn index(&self, key: u32) -> &T {
        self.get(key).expect("a key is kept only while its entry is stored")
    }
}

impl<T> IndexMut<u32> for Slab<T> {
    #[inline]
    fn index_mut(&mut self, key: u32) -> &mut T {
        self.get_mut(key).expect("a key is kept only while its entry is stored")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    #[test]
    fn keys_are_reused_and_entries_stay() {
        let mut slab = Slab::default();
        let keys: Vec<_> = (0..3 * CHUNK).map(|n| slab.insert(n)).collect();
        // As many as make a full chunk fill again.
        let some = &keys[CHUNK..CHUNK + WORTH];
        for (number, &key) in (CHUNK..).zip(some) {
            assert_eq!(slab.remove(key), Some(number));
            assert_eq!(slab.remove(key), None);
        }
        let last = CHUNK + WORTH - 1;
        for (before, &key) in some.iter().rev().enumerate() {
            assert_eq!(slab.insert(last - before + 1), key);
        }
        assert_eq!((slab[keys[CHUNK]], slab[keys[2 * CHUNK]]), (CHUNK + 1, 2 * CHUNK));
        assert_eq!((slab.len(), slab.capacity()), (3 * CHUNK, 3 * CHUNK));
        assert!(slab.iter().map(|(key, _)| key).eq(keys.iter().copied()));
        assert!(slab.iter_from(keys[CHUNK + 5]).map(|(key, _)| key).eq(keys[CHUNK + 5..].iter().copied()));
    }

    /// After a peak, memory remains for the live entries and one chunk.
    #[test]
    fn memory_goes_back_after_a_peak() {
        let mut slab = Slab::default();
        let mut keys: Vec<_> = (0..200 * CHUNK).map(|n| slab.insert(n)).collect();
        assert_eq!(slab.capacity(), 200 * CHUNK);
        let mut living = Vec::new();
        for (count, key) in keys.drain(..).enumerate() {
            slab.remove(key);
            // A few long-lived entries are added meanwhile.
            if count % 1_000 == 0 {
                living.push(slab.insert(count));
            }
        }
        assert!(slab.capacity() <= 3 * CHUNK, "{} places for {} entries", slab.capacity(), slab.len());
        assert!(living.iter().all(|&key| slab.get(key).is_some()));
        living.drain(..).for_each(|key| assert!(slab.remove(key).is_some()));
        assert_eq!((slab.len(), slab.capacity()), (0, CHUNK));
    }

    /// At the edge of a chunk, memory is not allocated and freed again and again.
    #[test]
    fn an_empty_chunk_is_kept() {
        let mut slab = Slab::default();
        for n in 0..CHUNK {
            slab.insert(n);
        }
        let next = slab.insert(0);
        assert_eq!(slab.capacity(), 2 * CHUNK);
        slab.remove(next);
        assert_eq!((slab.len(), slab.capacity()), (CHUNK, 2 * CHUNK));
        assert_eq!(slab.insert(0), next);
    }

    proptest! {
        /// Behaves like a map in any sequence of operations.
        #[test]
        fn it_is_a_map(steps in prop::collection::vec((0..6_u8, any::<prop::sample::Index>()), 1..60)) {
            let mut slab = Slab::default();
            let mut map = BTreeMap::new();
            let mut next = 0_u64;
            for (step, which) in steps {
                // Many at a time, so that chunks fill and become empty.
                for _ in 0..700 {
                    if step < 3 {
                        next += 1;
                        let key = slab.insert(next);
                        prop_assert_eq!(map.insert(key, next), None, "a key in use was handed out");
                    } else if !map.is_empty() {
                        let at = map.range(which.index(map.len()) as u32 * 3..).next().map(|(&key, _)| key);
                        let key = at.unwrap_or_else(|| *map.keys().next().unwrap());
                        prop_assert_eq!(slab.remove(key), map.remove(&key));
                        prop_assert_eq!(slab.get(key), None);
                    }
                }
                prop_assert_eq!(slab.len(), map.len());
                prop_assert!(slab.iter().eq(map.iter().map(|(&key, value)| (key, value))));
                let used = map.keys().map(|key| key / CHUNK as u32).collect::<std::collections::BTreeSet<_>>();
                prop_assert!(slab.capacity() <= (used.len() + 1) * CHUNK);
            }
        }
    }
}
