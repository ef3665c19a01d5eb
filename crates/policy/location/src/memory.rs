//! The store in memory: ordered, bounded.

use crate::{Aor, BindingsRecord, Replaced, Store, StoreError};
use base::UnixTime;
use core::ops::Bound;
use std::collections::BTreeMap;

/// Capacity of a store in memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MemoryLimits {
    /// Most bindings.
    pub bindings: usize,
    /// Most bytes of keys and records. The map itself takes about a third more.
    pub bytes: usize,
}

impl Default for MemoryLimits {
    /// A million bindings of usual size.
    fn default() -> Self {
        Self { bindings: 1 << 20, bytes: 512 << 20 }
    }
}

/// Number of records that are checked for each replaced record. So expired records are removed as the store is used. If
/// each record is refreshed once in its lifetime, at most a few percent of the records are expired at any time.
const SWEPT: usize = 4;

/// Ordered map of records. The time of each operation grows with the logarithm of the number of records.
#[derive(Clone, Debug, Default)]
pub struct MemoryStore {
    records: BTreeMap<Aor, BindingsRecord>,
    limits: MemoryLimits,
    bindings: usize,
    bytes: usize,
    /// Key at which the last sweep ended.
    swept: Option<Aor>,
}

impl MemoryStore {
    /// Creates an empty store.
    pub fn new(limits: MemoryLimits) -> Self {
        Self { limits, ..Self::default() }
    }

    /// Number of bindings, including expired ones that are not yet swept.
    pub fn bindings(&self) -> usize {
        self.bindings
    }

    /// Bytes of keys and records.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// All records, in the order of their keys.
    pub fn iter(&self) -> impl Iterator<Item = (&Aor, &BindingsRecord)> {
        self.records.iter()
    }

    /// Record of an address-of-record.
    pub fn get(&self, aor: &Aor) -> Option<&BindingsRecord> {
        self.records.get(aor)
    }

    /// Whether there is room to replace the present record by `new`.
    pub fn has_room(&self, aor: &Aor, new: &BindingsRecord) -> bool {
        let (bindings, bytes) = self.records.get(aor).map_or((0, 0), |old| (old.len(), size(aor, old)));
        // A record that does not grow always has room, even after the limits were lowered.
        let fits = |had: usize, old: usize, new: usize, limit: usize| had - old + new <= limit || new <= old;
        fits(self.bindings, bindings, new.len(), self.limits.bindings)
            && fits(self.bytes, bytes, size(aor, new), self.limits.bytes)
    }

    /// Sets or removes a record unconditionally.
    pub fn set(&mut self, aor: &Aor, new: Option<BindingsRecord>) {
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

    /// Checks up to `steps` records after the key `from`. Returns the keys of the records whose bindings have all
    /// expired, and the last key checked, from which the next call continues. Removes nothing.
    pub fn expired(&self, now: UnixTime, from: Option<&Aor>, steps: usize) -> (Vec<Aor>, Option<Aor>) {
        // The sweep continues from the start after the last key. Otherwise keys that are added at the end could keep
        // the sweep there.
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

    /// Checks up to `steps` records from the end of the last sweep on, and removes those whose bindings have all
    /// expired. Returns their keys.
    pub fn sweep(&mut self, now: UnixTime, steps: usize) -> Vec<Aor> {
        let (expired, last) = self.expired(now, self.swept.as_ref(), steps);
        self.swept = last;
        for aor in &expired {
            self.set(aor, None);
        }
        expired
    }
}

fn size(aor: &Aor, record: &BindingsRecord) -> usize {
    aor.key().len() + record.as_bytes().len()
}

impl Store for MemoryStore {
    fn read(&mut self, aor: &Aor) -> Result<Option<BindingsRecord>, StoreError> {
        Ok(self.get(aor).cloned())
    }

    fn replace(
        &mut self,
        now: UnixTime,
        aor: &Aor,
        expected: Option<&BindingsRecord>,
        new: Option<&BindingsRecord>,
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
