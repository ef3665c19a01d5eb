//! Counts of connections and updates.

use elastic::update::Refusal;
use std::sync::atomic::{AtomicU64, Ordering};

/// Why a connection was closed by this side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Closed {
    /// An update was refused.
    Refused(Refusal),
    /// Its sender is in no network that may connect.
    NotAdmitted,
    /// There were too many connections.
    Crowded,
    /// No update came in time, or no answer was taken.
    Silent,
}

impl Closed {
    const OTHERS: [Self; 3] = [Self::NotAdmitted, Self::Crowded, Self::Silent];

    pub(super) fn all() -> impl Iterator<Item = Self> {
        Refusal::ALL.into_iter().map(Self::Refused).chain(Self::OTHERS)
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

/// How many there are.
const REASONS: usize = Refusal::ALL.len() + Closed::OTHERS.len();

/// Counts that many tasks add to.
#[derive(Debug, Default)]
pub(super) struct Counts {
    pub(super) connections: AtomicU64,
    pub(super) open: AtomicU64,
    pub(super) accepted: AtomicU64,
    closed: [AtomicU64; REASONS],
}

/// The same at one moment.
#[derive(Clone, Debug)]
pub(crate) struct CapacityCounts {
    /// Connections that there have been.
    pub(crate) connections: u64,
    /// Connections that there are.
    pub(crate) open: u64,
    /// Updates that were accepted.
    pub(crate) accepted: u64,
    /// Connections that were closed, by the reason.
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
