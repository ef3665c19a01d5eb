//! The store in memory: ordered, bounded.

use crate::{Aor, Record, Replaced, Store, StoreError};
use base::UnixTime;
use core::ops::Bound;
use std::collections::BTreeMap;

/// How much a store in memory keeps.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MemoryLimits {
    /// Bindings.
    pub bindings: usize,
    /// Bytes of keys and records; what the map itself takes is about a third more.
    pub bytes: usize,
}

impl Default for MemoryLimits {
    /// A million bindings of usual size.
    fn default() -> Self {
        Self { bindings: 1 << 20, bytes: 512 << 20 }
    }
}

/// Records looked at for each that is replaced: the store is swept as it is used. At any time at most a few in a
/// hundred are too old if all are refreshed once in their time.
const SWEPT: usize = 4;

/// A map of records. The cost of everything grows with the logarithm of their number.
#[derive(Clone, Debug, Default)]
pub struct MemoryStore {
    records: BTreeMap<Aor, Record>,
    limits: MemoryLimits,
    bindings: usize,
    bytes: usize,
    /// The sweep goes on behind this one.
    swept: Option<Aor>,
}

impl MemoryStore {
    /// An empty store.
    pub fn new(limits: MemoryLimits) -> Self {
        Self { limits, ..Self::default() }
    }

    /// How many bindings there are, those that have expired and are not swept yet too.
    pub fn bindings(&self) -> usize {
        self.bindings
    }

    /// Bytes of keys and records.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// All records, in the order of their keys.
    pub fn iter(&self) -> impl Iterator<Item = (&Aor, &Record)> {
        self.records.iter()
    }

    /// The record of an address-of-record.
    pub fn get(&self, aor: &Aor) -> Option<&Record> {
        self.records.get(aor)
    }

    /// Whether `new` can take the place of the record that is there.
    pub fn has_room(&self, aor: &Aor, new: &Record) -> bool {
        let (bindings, bytes) = self.records.get(aor).map_or((0, 0), |old| (old.len(), size(aor, old)));
        // What takes less than before has room even where the limits were lowered.
        let fits = |had: usize, old: usize, new: usize, limit: usize| had - old + new <= limit || new <= old;
        fits(self.bindings, bindings, new.len(), self.limits.bindings)
            && fits(self.bytes, bytes, size(aor, new), self.limits.bytes)
    }

    /// Sets a record, or removes it, whatever is there.
    pub fn set(&mut self, aor: &Aor, new: Option<Record>) {
        if let Some(old) = self.records.remove(aor) {
            self.bindings -= old.len();
            self.bytes -= size(aor, &old);
        }
        if let Some(new) = new {
            self.bindings += new.len();
            self.bytes += size(aor, &new);
            self.records.insert(aor.clone(), new);
        }
    }

    /// Looks at so many records behind the key `from`, and names those of which all bindings have expired. Gives
    /// their keys, and the key that was looked at last, where the next call goes on. Takes nothing out.
    pub fn expired(&self, now: UnixTime, from: Option<&Aor>, steps: usize) -> (Vec<Aor>, Option<Aor>) {
        // Round: at the end it goes on at the start at once, else keys that are added at the end would hold it there.
        let behind = from.map_or(Bound::Unbounded, Bound::Excluded);
        let rest = self.records.range((behind, Bound::Unbounded));
        let start = from.into_iter().flat_map(|from| self.records.range(..=from));
        let (mut expired, mut last) = (Vec::new(), None);
        for (aor, record) in rest.chain(start).take(steps) {
            last = Some(aor);
            if !record.is_live(now) {
                expired.push(aor.clone());
            }
        }
        (expired, last.cloned())
    }

    /// Looks at so many records, where the last sweep ended, and takes out those of which all bindings have expired.
    /// Gives their keys.
    pub fn sweep(&mut self, now: UnixTime, steps: usize) -> Vec<Aor> {
        let (expired, last) = self.expired(now, self.swept.as_ref(), steps);
        self.swept = last;
        for aor in &expired {
            self.set(aor, None);
        }
        expired
    }
}

fn size(aor: &Aor, record: &Record) -> usize {
    aor.key().len() + record.as_bytes().len()
}

impl Store for MemoryStore {
    fn read(&mut self, aor: &Aor) -> Result<Option<Record>, StoreError> {
        Ok(self.get(aor).cloned())
    }

    fn replace(
        &mut self,
        now: UnixTime,
        aor: &Aor,
        expected: Option<&Record>,
        new: Option<&Record>,
    ) -> Result<Replaced, StoreError> {
        if self.get(aor) != expected {
            return Ok(Replaced::Conflict);
        }
        self.sweep(now, SWEPT);
        if new.is_some_and(|new| !self.has_room(aor, new)) {
            return Err(StoreError::Full);
        }
        self.set(aor, new.cloned());
        Ok(Replaced::Done)
    }
}
