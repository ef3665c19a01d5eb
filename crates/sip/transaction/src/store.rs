//! Storage of transactions and their kept messages.

use crate::counted::Counted;
use crate::effects::{KeptMessage, UNLIMITED_REPEATS};
use crate::key::{ServerKey, Tag, TransactionKey};
use crate::machine::{Machine, Timer, TransportKind};
use crate::queues::{Interval, Purpose};
use base::{Instant, LaneTimer, Slab};
use hashbrown::HashTable;

/// Identifier of a transaction. It becomes invalid when the transaction ends, even if its place is reused.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Id {
    pub(crate) at: u32,
    pub(crate) generation: u32,
}

/// Place of a kept message, or [`Self::NONE`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Kept(u32);

impl Kept {
    const NONE: Self = Self(u32::MAX);
}

/// Messages kept for retransmission. They are stored separately, since few transactions keep a message for long.
#[derive(Debug)]
pub(crate) struct Messages<M> {
    kept: Slab<M>,
    /// Memory that the messages take besides their own size, in bytes.
    memory: usize,
    /// Limit of `memory`.
    most: usize,
}

impl<M: KeptMessage> Messages<M> {
    pub(crate) fn get(&self, kept: Kept) -> Option<&M> {
        self.kept.get(kept.0)
    }

    /// Keeps this message in place of the last one. If the limit of memory is reached, keeps neither.
    #[inline]
    pub(crate) fn keep(&mut self, kept: &mut Kept, message: M) {
        let memory = self.memory + message.memory();
        if memory > self.most {
            return self.forget(kept);
        }
        self.memory = memory;
        match self.kept.get_mut(kept.0) {
            Some(before) => self.memory -= core::mem::replace(before, message).memory(),
            None => *kept = Kept(self.kept.insert(message)),
        }
    }

    /// Drops the kept message.
    #[inline]
    pub(crate) fn forget(&mut self, kept: &mut Kept) {
        if *kept == Kept::NONE {
            return;
        }
        if let Some(message) = self.kept.remove(kept.0) {
            self.memory -= message.memory();
        }
        *kept = Kept::NONE;
    }
}

/// Deadline of a timer that does not run.
pub(crate) const NEVER: Instant = Instant::from_nanos(u64::MAX);

/// One transaction. It takes little more than a cache line, since most live transactions only wait for their end.
#[derive(Debug)]
pub(crate) struct Entry<T> {
    /// The key in two halves; a `u128` would be aligned to 16 bytes.
    key: [u64; 2],
    /// To tags of the request and of its final response, for a server transaction with an RFC 2543 peer.
    pub(crate) tag: Tag,
    pub(crate) answer_tag: Tag,
    generation: u32,
    pub(crate) machine: Machine,
    pub(crate) transport: TransportKind,
    /// Timer that ends the state, if such a timer runs.
    pub(crate) life: Timer,
    pub(crate) life_at: Instant,
    /// Time of the next retransmission, and the interval before it.
    pub(crate) resend_at: Instant,
    pub(crate) interval: Interval,
    /// Number of further starts of the retransmission timer, or [`UNLIMITED_REPEATS`].
    pub(crate) repeats: u8,
    /// Message that may have to be retransmitted.
    pub(crate) kept: Kept,
    pub(crate) user: T,
}

impl<T> Entry<T> {
    /// Whether any timer runs.
    pub(crate) fn has_timer(&self) -> bool {
        self.life_at.min(self.resend_at) != NEVER
    }

    fn key(&self) -> TransactionKey {
        TransactionKey::from_halves(self.key)
    }

    fn matches(&self, wanted: &ServerKey) -> bool {
        self.key() == wanted.key && wanted.tag == if wanted.is_ack { self.answer_tag } else { self.tag }
    }
}

/// A part of the index with at most this capacity is not shrunk.
const SHORT: usize = 64;

/// Number of parts of the index. Each part grows separately, so a step of growth moves only a 256th of a large table.
const PARTS: usize = 256;

/// All transactions, found by place and by key.
#[derive(Debug)]
pub(crate) struct Store<T, M> {
    entries: Slab<Entry<T>>,
    messages: Messages<M>,
    /// Index of hashed keys.
    index: Box<[HashTable<u32>; PARTS]>,
    /// Index of keys that are consecutive numbers.
    counted: Counted,
    generation: u32,
}

impl<T, M> Default for Store<T, M> {
    fn default() -> Self {
        let index = Box::new([const { HashTable::new() }; PARTS]);
        let messages = Messages { kept: Slab::default(), memory: 0, most: usize::MAX };
        Self { entries: Slab::default(), messages, index, counted: Counted::default(), generation: 0 }
    }
}

/// The key is already a hash. Its low half selects the bucket, and one byte of this half selects the part.
fn hash_of(key: TransactionKey) -> u64 {
    key.0 as u64
}

fn part_of(key: TransactionKey) -> usize {
    (key.0 >> 40) as u8 as usize
}

impl<T, M: KeptMessage> Store<T, M> {
    pub(crate) fn find(&self, wanted: &ServerKey) -> Option<Id> {
        if let Some(number) = wanted.key.number() {
            let at = self.counted.get(number)?;
            let entry = &self.entries[at];
            return entry.matches(wanted).then_some(Id { at, generation: entry.generation });
        }
        let part = &self.index[part_of(wanted.key)];
        let mut generation = 0;
        let &at = part.find(hash_of(wanted.key), |&at| {
            let entry = &self.entries[at];
            generation = entry.generation;
            entry.matches(wanted)
        })?;
        Some(Id { at, generation })
    }

    /// Finds a transaction whose key differs only in the method. The method is in the high half of a hashed key.
    pub(crate) fn find_other_method(&self, wanted: &ServerKey) -> Option<Id> {
        let [_, low] = wanted.key.halves();
        let part = &self.index[part_of(wanted.key)];
        let &at = part.find(hash_of(wanted.key), |&at| {
            let entry = &self.entries[at];
            entry.key[1] == low && entry.tag == wanted.tag
        })?;
        Some(Id { at, generation: self.entries[at].generation })
    }

    pub(crate) fn get(&self, id: Id) -> Option<&Entry<T>> {
        self.entries.get(id.at).filter(|entry| entry.generation == id.generation)
    }

    pub(crate) fn get_mut(&mut self, id: Id) -> Option<&mut Entry<T>> {
        self.entries.get_mut(id.at).filter(|entry| entry.generation == id.generation)
    }

    /// Adds a transaction without timers and messages.
    pub(crate) fn insert(
        &mut self,
        key: TransactionKey,
        tag: Tag,
        machine: Machine,
        transport: TransportKind,
        user: T,
    ) -> Id {
        self.generation = self.generation.wrapping_add(1);
        let generation = self.generation;
        let at = self.entries.insert(Entry {
            key: key.halves(),
            tag,
            answer_tag: tag,
            generation,
            machine,
            transport,
            life: Timer::Expire,
            life_at: NEVER,
            resend_at: NEVER,
            interval: Interval::default(),
            repeats: UNLIMITED_REPEATS,
            kept: Kept::NONE,
            user,
        });
        if let Some(number) = key.number() {
            self.counted.insert(number, at);
        } else {
            let entries = &self.entries;
            self.index[part_of(key)].insert_unique(hash_of(key), at, |&other| hash_of(entries[other].key()));
        }
        Id { at, generation }
    }

    /// Mutable entry of a live transaction, with the kept messages.
    pub(crate) fn open(&mut self, id: Id) -> Option<(&mut Entry<T>, &mut Messages<M>)> {
        let entry = self.entries.get_mut(id.at).filter(|entry| entry.generation == id.generation)?;
        Some((entry, &mut self.messages))
    }

    /// Message kept for retransmission.
    pub(crate) fn message(&self, id: Id) -> Option<&M> {
        self.messages.get(self.get(id)?.kept)
    }

    pub(crate) fn remove(&mut self, id: Id) -> Entry<T> {
        let mut entry = self.entries.remove(id.at).expect("only a live transaction ends");
        self.messages.forget(&mut entry.kept);
        let key = entry.key();
        if let Some(number) = key.number() {
            self.counted.remove(number);
        } else {
            let part = &mut self.index[part_of(key)];
            part.find_entry(hash_of(key), |&other| other == id.at)
                .expect("a transaction is indexed as long as it lives")
                .remove();
            // Frees memory after a peak of transactions.
            if part.capacity() > SHORT && part.len() < part.capacity() / 8 {
                let entries = &self.entries;
                part.shrink_to(part.capacity() / 4, |&other| hash_of(entries[other].key()));
            }
        }
        entry
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (Id, &Entry<T>)> {
        self.entries.iter().map(|(at, entry)| (Id { at, generation: entry.generation }, entry))
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Memory of transactions and messages in bytes, without the index and the timers.
    pub(crate) fn memory(&self) -> usize {
        self.own_size() + self.messages.memory
    }

    /// Part of [`Self::memory`] that does not depend on the length of messages.
    fn own_size(&self) -> usize {
        self.len() * size_of::<Entry<T>>() + self.messages.kept.len() * size_of::<M>()
    }

    pub(crate) fn limit_memory(&mut self, most: usize) {
        self.messages.most = most.saturating_sub(self.own_size());
    }

    /// Number of transactions with a running timer.
    pub(crate) fn timers(&self) -> usize {
        self.entries.iter().filter(|(_, entry)| entry.has_timer()).count()
    }

    /// Whether the transaction of a timer is alive and still waits for it.
    pub(crate) fn waits(&self, timer: &LaneTimer, purpose: Purpose) -> bool {
        let id = Id { at: timer.place, generation: timer.generation };
        self.get(id).is_some_and(|entry| match purpose {
            Purpose::Life(life) => entry.life == life && entry.life_at == timer.deadline,
            Purpose::Resend => entry.resend_at == timer.deadline,
        })
    }
}
