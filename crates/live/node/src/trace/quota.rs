//! Limits on how many failures of one kind get an entry of their own, so that a flood of one kind does not push out
//! everything else.

use crate::outcome::failure::FailureCause;
use base::Instant;
use core::time::Duration;
use std::collections::BTreeMap;
use std::net::IpAddr;

/// Period of the limits.
const PERIOD: Duration = Duration::from_mins(1);

/// Sources that are counted at the same time. A source that shares its place with another one is counted anew.
const SOURCES: usize = 64;

/// Status (0 without one) and label of a cause. There are finitely many, since strangers choose no label.
pub(super) type Kind = (u16, &'static str);

pub(super) fn kind_of(cause: FailureCause) -> Kind {
    match cause {
        FailureCause::Refused { status, reason } => (status, reason),
        FailureCause::Answered { status } => (status, ""),
        FailureCause::Dropped(drop) => (0, drop.reason()),
        FailureCause::Handshake(reason) => (0, reason),
    }
}

/// Entries of one kind in the present period.
#[derive(Clone, Copy, Debug, Default)]
struct Quota {
    since: Instant,
    entries: u16,
    /// Number of the last entry.
    last: u64,
}

impl Quota {
    /// Returns the last entry if there are `most` in this period.
    fn exhausted(&mut self, now: Instant, most: u16) -> Option<u64> {
        if self.entries == 0 || now.saturating_since(self.since) >= PERIOD {
            (self.since, self.entries) = (now, 0);
        }
        (self.entries >= most).then_some(self.last)
    }

    fn add(&mut self, entry: u64) {
        (self.entries, self.last) = (self.entries.saturating_add(1), entry);
    }
}

/// Quotas of one part of the ring: of each cause, and of each source and cause.
#[derive(Debug)]
pub(super) struct Quotas {
    most_of_source: u16,
    most_of_kind: u16,
    /// Empty until the first failure.
    sources: Vec<(Option<(IpAddr, Kind)>, Quota)>,
    kinds: BTreeMap<Kind, Quota>,
}

/// Result of a look at the quotas.
pub(super) enum Room {
    /// The failure gets an entry.
    Free,
    /// The failure is counted at this entry of the same source.
    AsBefore(u64),
    /// The failure is counted at this entry of perhaps another source.
    AsElsewhere(u64),
}

impl Quotas {
    pub(super) fn new(most_of_source: u16, most_of_kind: u16) -> Self {
        Self { most_of_source, most_of_kind, sources: Vec::new(), kinds: BTreeMap::new() }
    }

    pub(super) fn room(&mut self, now: Instant, source: IpAddr, kind: Kind) -> Room {
        let most_of_source = self.most_of_source;
        let (key, quota) = self.place(source, kind);
        if *key == Some((source, kind)) {
            if let Some(entry) = quota.exhausted(now, most_of_source) {
                return Room::AsBefore(entry);
            }
        } else {
            (*key, *quota) = (Some((source, kind)), Quota::default());
        }
        match self.kinds.get_mut(&kind).and_then(|quota| quota.exhausted(now, self.most_of_kind)) {
            Some(entry) => Room::AsElsewhere(entry),
            None => Room::Free,
        }
    }

    /// Counts an entry.
    pub(super) fn add(&mut self, now: Instant, source: IpAddr, kind: Kind, entry: u64) {
        self.place(source, kind).1.add(entry);
        self.kinds.entry(kind).or_insert(Quota { since: now, ..Quota::default() }).add(entry);
    }

    fn place(&mut self, source: IpAddr, kind: Kind) -> &mut (Option<(IpAddr, Kind)>, Quota) {
        if self.sources.is_empty() {
            self.sources = vec![(None, Quota::default()); SOURCES];
        }
        let address = match source {
            IpAddr::V4(address) => u128::from(address.to_bits()),
            IpAddr::V6(address) => address.to_bits(),
        };
        let mixed = (address ^ (address >> 64)) as u64 ^ (u64::from(kind.0) << 32) ^ kind.1.len() as u64;
        // Fibonacci hashing: the upper bits of the product depend on all bits.
        let place = mixed.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (u64::BITS - SOURCES.ilog2());
        &mut self.sources[place as usize]
    }
}
