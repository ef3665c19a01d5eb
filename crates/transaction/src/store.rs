use crate::key::{Key, ServerKey, Tag};
use crate::machine::{Machine, Timer, TransportKind};
use base::{Instant, Slab};
use core::time::Duration;
use hashbrown::HashTable;

/// Names a transaction for as long as it lives; after that it names nothing, even when its place is used again.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Id {
    pub(crate) at: u32,
    generation: u32,
}

/// No timer is set.
pub(crate) const NO_TIMER: u32 = u32::MAX;
/// A timer that does not run.
pub(crate) const NEVER: Instant = Instant::from_nanos(u64::MAX);

/// One transaction.
#[derive(Debug)]
pub(crate) struct Entry<T, M> {
    key: Key,
    /// Of a server transaction with an RFC 2543 peer: the To tag of its request, and of its final response.
    pub(crate) tag: Tag,
    pub(crate) answer_tag: Tag,
    generation: u32,
    pub(crate) machine: Machine,
    pub(crate) transport: TransportKind,
    /// Which timer ends the state, if one runs.
    pub(crate) life: Timer,
    pub(crate) life_at: Instant,
    /// When the message is sent again, and after which interval that is.
    pub(crate) resend_at: Instant,
    pub(crate) interval: Duration,
    /// The wheel's timer for whichever of the two comes first.
    pub(crate) timer: u32,
    /// What may have to be sent again.
    pub(crate) message: Option<M>,
    pub(crate) user: T,
}

impl<T, M> Entry<T, M> {
    /// When its next timer fires; [`NEVER`] if none runs.
    pub(crate) fn deadline(&self) -> Instant {
        self.life_at.min(self.resend_at)
    }

    fn matches(&self, wanted: &ServerKey) -> bool {
        self.key == wanted.key && wanted.tag == if wanted.is_ack { self.answer_tag } else { self.tag }
    }
}

/// Parts of the index. Each grows on its own, so growth moves a 256th of a large table at a time.
const PARTS: usize = 256;

/// All transactions, by place and by key.
#[derive(Debug)]
pub(crate) struct Store<T, M> {
    entries: Slab<Entry<T, M>>,
    index: Vec<HashTable<u32>>,
    generation: u32,
}

impl<T, M> Default for Store<T, M> {
    fn default() -> Self {
        let index = (0..PARTS).map(|_| HashTable::new()).collect();
        Self { entries: Slab::default(), index, generation: 0 }
    }
}

/// The key is a hash already: its low half selects the bucket, a byte in the middle of that the part.
fn hash_of(key: Key) -> u64 {
    key.0 as u64
}

fn part_of(key: Key) -> usize {
    (key.0 >> 40) as u8 as usize
}

impl<T, M> Store<T, M> {
    pub(crate) fn find(&self, wanted: &ServerKey) -> Option<Id> {
        let part = &self.index[part_of(wanted.key)];
        let &at = part.find(hash_of(wanted.key), |&at| self.entries[at].matches(wanted))?;
        Some(self.id(at))
    }

    /// The transaction at a place that is known to be taken.
    pub(crate) fn id(&self, at: u32) -> Id {
        Id { at, generation: self.entries[at].generation }
    }

    pub(crate) fn get(&self, id: Id) -> Option<&Entry<T, M>> {
        self.entries.get(id.at).filter(|entry| entry.generation == id.generation)
    }

    pub(crate) fn get_mut(&mut self, id: Id) -> Option<&mut Entry<T, M>> {
        self.entries.get_mut(id.at).filter(|entry| entry.generation == id.generation)
    }

    /// Enters a transaction without timers and messages.
    pub(crate) fn insert(
        &mut self,
        key: Key,
        tag: Tag,
        machine: Machine,
        transport: TransportKind,
        user: T,
    ) -> Id {
        self.generation = self.generation.wrapping_add(1);
        let generation = self.generation;
        let at = self.entries.insert(Entry {
            key,
            tag,
            answer_tag: tag,
            generation,
            machine,
            transport,
            life: Timer::Expire,
            life_at: NEVER,
            resend_at: NEVER,
            interval: Duration::ZERO,
            timer: NO_TIMER,
            message: None,
            user,
        });
        let entries = &self.entries;
        self.index[part_of(key)].insert_unique(hash_of(key), at, |&other| hash_of(entries[other].key));
        Id { at, generation }
    }

    pub(crate) fn remove(&mut self, id: Id) -> Entry<T, M> {
        let entry = self.entries.remove(id.at).expect("only a live transaction ends");
        self.index[part_of(entry.key)]
            .find_entry(hash_of(entry.key), |&other| other == id.at)
            .expect("a transaction is indexed as long as it lives")
            .remove();
        entry
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }
}
