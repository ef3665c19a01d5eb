//! The last failed requests of a shard, bounded in bytes.

use super::failed::FailedRequest;
use super::quota::{Quotas, Room, kind_of};
use crate::outcome::failure::FailureCause;
use base::Instant;
use std::collections::VecDeque;
use std::net::IpAddr;
use std::sync::Arc;

/// Maximum bytes of each of the two parts: 300 to 400 failed requests.
const PART_BYTES: usize = 128 << 10;

/// A failed request in the ring.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct KeptFailure {
    /// Number of the entry, unique in the shard: counted from 0, doubled, odd for a request that was sent to a target.
    pub number: u64,
    /// The first request.
    pub request: Arc<FailedRequest>,
    /// Number of requests that failed with this cause, the first one included.
    pub count: u64,
    /// Time of the last failure.
    pub last: Instant,
    /// Whether some of them came from other sources.
    pub is_mixed: bool,
}

impl KeptFailure {
    fn memory(&self) -> usize {
        size_of::<Self>() + self.request.memory()
    }
}

/// The last failed requests.
///
/// Requests that were refused at once and requests that were sent to a target have a part each. So strangers, whose
/// requests are refused, cannot push out the failures of admitted calls.
#[derive(Debug)]
pub(crate) struct FailureRing {
    refused: Part,
    tried: Part,
}

#[derive(Debug)]
struct Part {
    entries: VecDeque<KeptFailure>,
    /// Memory of the entries.
    bytes: usize,
    most_bytes: usize,
    /// Number of the next entry, in the order of this part.
    next: u64,
    quotas: Quotas,
}

impl Default for FailureRing {
    fn default() -> Self {
        Self::new(PART_BYTES)
    }
}

impl FailureRing {
    /// Creates a ring of two parts with at most `part_bytes` each.
    pub(crate) fn new(part_bytes: usize) -> Self {
        let part =
            |quotas| Part { entries: VecDeque::new(), bytes: 0, most_bytes: part_bytes, next: 0, quotas };
        // An entry takes 300 to 400 bytes. Of refusals, one source fills 3 KiB a minute with one cause, and all sources
        // together 24 KiB.
        Self { refused: part(Quotas::new(8, 64)), tried: part(Quotas::new(64, 256)) }
    }

    /// Records a failed request. `make` makes its entry, unless the request is only counted.
    pub(crate) fn note(
        &mut self,
        now: Instant,
        source: IpAddr,
        cause: FailureCause,
        was_tried: bool,
        make: impl FnOnce() -> FailedRequest,
    ) {
        let part = if was_tried { &mut self.tried } else { &mut self.refused };
        let kind = kind_of(cause);
        let (entry, is_mixed) = match part.quotas.room(now, source, kind) {
            Room::Free => (None, false),
            Room::AsBefore(entry) => (part.get(entry), false),
            Room::AsElsewhere(entry) => (part.get(entry), true),
        };
        if let Some(entry) = entry {
            (entry.count, entry.last) = (entry.count + 1, now);
            entry.is_mixed |= is_mixed;
            return;
        }
        let order = part.next;
        part.next += 1;
        part.quotas.add(now, source, kind, order);
        let number = 2 * order + u64::from(was_tried);
        part.push(KeptFailure { number, request: Arc::new(make()), count: 1, last: now, is_mixed: false });
    }

    /// Returns the entries: first the refused requests, then the requests that were sent to a target, each oldest first.
    pub(crate) fn entries(&self) -> impl Iterator<Item = &KeptFailure> {
        self.refused.entries.iter().chain(&self.tried.entries)
    }
}

impl Part {
    /// Returns an entry, unless it was pushed out.
    fn get(&mut self, order: u64) -> Option<&mut KeptFailure> {
        let first = self.next - self.entries.len() as u64;
        self.entries.get_mut(order.checked_sub(first)? as usize)
    }

    fn push(&mut self, entry: KeptFailure) {
        self.bytes += entry.memory();
        self.entries.push_back(entry);
        while self.bytes > self.most_bytes
            && let Some(oldest) = self.entries.pop_front()
        {
            self.bytes -= oldest.memory();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::{Peer, Transport};
    use core::time::Duration;
    use proptest::prelude::*;
    use std::net::SocketAddr;

    const KINDS: [FailureCause; 4] = [
        FailureCause::Refused { status: 404, reason: "No Route" },
        FailureCause::Refused { status: 503, reason: "Overloaded" },
        FailureCause::Answered { status: 486 },
        FailureCause::Handshake("tls"),
    ];

    fn source(number: u32) -> SocketAddr {
        SocketAddr::new(IpAddr::V4(number.into()), 5060)
    }

    fn fail(ring: &mut FailureRing, now: Instant, from: u32, kind: usize, detail: &str) {
        let (peer, cause) = (Peer::new(Transport::Udp, source(from)), KINDS[kind]);
        ring.note(now, peer.address.ip(), cause, kind == 2, || {
            FailedRequest::connection(now, peer, cause, detail)
        });
    }

    fn has(ring: &FailureRing, from: u32, kind: usize) -> bool {
        let is_it = |kept: &KeptFailure| {
            kept.request.source.address == source(from) && kept.request.cause == KINDS[kind]
        };
        ring.entries().any(is_it)
    }

    proptest! {
        /// The ring keeps its limit, counts every failure at most once, and shows the last one.
        #[test]
        fn the_ring_is_bounded_and_shows_the_last_failure(
            failures in prop::collection::vec((0_u64..90, 0_u32..40, 0_usize..4, 0_usize..90), 1..600),
        ) {
            let (mut ring, mut now) = (FailureRing::new(8 << 10), Instant::ZERO);
            let mut count = 0;
            for (wait, from, kind, length) in failures {
                now += Duration::from_secs(wait / 30);
                count += 1;
                fail(&mut ring, now, from, kind, &"x".repeat(length));
                let shows = |kept: &KeptFailure| kept.request.cause == KINDS[kind] && kept.last == now;
                prop_assert!(ring.entries().any(shows));
                for part in [&ring.refused, &ring.tried] {
                    let bytes: usize = part.entries.iter().map(KeptFailure::memory).sum();
                    prop_assert!(bytes == part.bytes && bytes <= 8 << 10);
                }
                prop_assert!(ring.entries().map(|kept| kept.count).sum::<u64>() <= count);
            }
            let numbers: std::collections::BTreeSet<_> = ring.entries().map(|kept| kept.number).collect();
            prop_assert_eq!(numbers.len(), ring.entries().count());
        }

        /// A flood of one kind, from one source or from many, pushes out neither another refusal nor a failed call.
        #[test]
        fn a_flood_pushes_out_nothing_else(sources in 1_u32..100_000, detail in 0_usize..90) {
            let mut ring = FailureRing::default();
            fail(&mut ring, Instant::ZERO, 1, 0, "");
            fail(&mut ring, Instant::ZERO, 1, 2, "");
            for number in 0..20_000 {
                fail(&mut ring, Instant::ZERO, 2 + number % sources, 1, &"x".repeat(detail));
            }
            prop_assert!(has(&ring, 1, 0) && has(&ring, 1, 2));
            let flood: Vec<_> = ring.entries().filter(|kept| kept.request.cause == KINDS[1]).collect();
            prop_assert_eq!(flood.iter().map(|kept| kept.count).sum::<u64>(), 20_000);
            prop_assert!(flood.len() <= 64);
            prop_assert!(sources <= 64 || flood.iter().any(|kept| kept.is_mixed));
        }
    }

    #[test]
    fn a_source_gets_entries_again_after_the_period() {
        let mut ring = FailureRing::default();
        for second in [0, 59, 60] {
            for _ in 0..20 {
                fail(&mut ring, Instant::ZERO + Duration::from_secs(second), 1, 0, "");
            }
        }
        let counts: Vec<_> = ring.entries().map(|kept| kept.count).collect();
        assert_eq!(counts, [[1; 7].as_slice(), &[33], &[1; 7], &[13]].concat());
    }
}
