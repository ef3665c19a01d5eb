//! Counts of connections and updates.

use elastic::update::UpdateRefusal;
use std::sync::atomic::{AtomicU64, Ordering};

/// Reason for which this side closed a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Closed {
    Refused(UpdateRefusal),
    /// The client's network is not allowed to connect.
    NotAdmitted,
    /// There were too many connections.
    Crowded,
    /// No update came in time, or the client did not read an answer in time.
    Silent,
}

impl Closed {
    const OTHERS: [Self; 3] = [Self::NotAdmitted, Self::Crowded, Self::Silent];

    pub(super) fn all() -> impl Iterator<Item = Self> {
        UpdateRefusal::ALL.into_iter().map(Self::Refused).chain(Self::OTHERS)
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Refused(refusal) => refusal.name(),
            Self::NotAdmitted => "not_admitted",
            Self::Crowded => "crowded",
            Self::Silent => "silent",
        }
    }
}

const REASONS: usize = UpdateRefusal::ALL.len() + Closed::OTHERS.len();

/// Counters that many tasks increment.
#[derive(Debug, Default)]
pub(super) struct Counts {
    pub(super) connections: AtomicU64,
    pub(super) open: AtomicU64,
    pub(super) accepted: AtomicU64,
    closed: [AtomicU64; REASONS],
}

/// The counts at one moment.
#[derive(Clone, Debug)]
pub(crate) struct CapacityCounts {
    /// Connections since the start.
    pub(crate) connections: u64,
    pub(crate) open: u64,
    /// Updates that were accepted.
    pub(crate) accepted: u64,
    /// Connections that this side closed, by reason.
    pub(crate) closed: Vec<(&'static str, u64)>,
}

impl Counts {
    pub(super) fn closed(&self, why: Closed) {
        let at = Closed::all().position(|other| other == why).expect("all of them are there");
        self.closed[at].fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn read(&self) -> CapacityCounts {
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        CapacityCounts {
            connections: read(&self.connections),
            open: read(&self.open),
            accepted: read(&self.accepted),
            closed: Closed::all().zip(&self.closed).map(|(why, count)| (why.name(), read(count))).collect(),
        }
    }
}
