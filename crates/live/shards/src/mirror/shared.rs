//! Counters and packets that the traffic threads and the collector's thread use together.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize};

/// Counts of copies.
#[derive(Clone, Copy, Debug, Default)]
pub struct MirrorCounts {
    /// Copies that were sent.
    pub sent: u64,
    /// Copies that were discarded.
    pub lost: u64,
}

/// The counts, of this mirror and of those before it.
#[derive(Default)]
pub(super) struct Counters {
    pub(super) sent: AtomicU64,
    pub(super) lost: AtomicU64,
}

#[derive(Default)]
pub(super) struct Shared {
    pub(super) counters: Arc<Counters>,
    /// Bytes in the queue.
    pub(super) waiting: AtomicUsize,
    /// Whether the queue is no longer used.
    pub(super) is_closed: AtomicBool,
}

/// Packets of HEP.
#[derive(Default)]
pub(super) struct Packets {
    pub(super) bytes: Vec<u8>,
    pub(super) ends: Vec<usize>,
}

impl Packets {
    pub(super) fn iter(&self) -> impl Iterator<Item = &[u8]> {
        let starts = [0].into_iter().chain(self.ends.iter().copied());
        starts.zip(&self.ends).map(|(start, end)| &self.bytes[start..*end])
    }

    pub(super) fn push(&mut self, packet: &[u8]) {
        self.bytes.extend_from_slice(packet);
        self.ends.push(self.bytes.len());
    }

    pub(super) fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
    }
}
