//! Reassembles fragments of IP datagrams (RFC 791 §3.2, RFC 8200 §4.5), in bounded memory.

use super::bounded::Bounded;
use crate::counts::Counts;
use base::Instant;
use core::net::IpAddr;
use core::time::Duration;
use etherparse::{IpFragOffset, IpNumber, defrag::IpDefragBuf};

/// Time for which a datagram may be incomplete. A monitor beside the server sees all parts in quick succession. The
/// minute of RFC 8200 is for receivers, and would only keep more datagrams that never become complete.
const PATIENCE: Duration = Duration::from_secs(5);
/// Most incomplete datagrams at a time.
const MOST: usize = 1024;
/// Most bytes of all incomplete datagrams; each takes at most 64 KiB.
const MOST_BYTES: usize = 8 << 20;

/// Fields that identify the datagram of a fragment.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Id {
    pub(super) from: IpAddr,
    pub(super) to: IpAddr,
    pub(super) protocol: u8,
    pub(super) number: u32,
}

/// One fragment.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fragment<'a> {
    pub(super) offset: IpFragOffset,
    pub(super) more: bool,
    pub(super) payload: &'a [u8],
}

/// Incomplete datagrams.
#[derive(Debug)]
pub(super) struct Fragments {
    datagrams: Bounded<Id, IpDefragBuf>,
    bytes: usize,
}

impl Fragments {
    pub(super) fn new() -> Self {
        Self { datagrams: Bounded::new(), bytes: 0 }
    }

    /// Takes a fragment. Returns the payload of the datagram if it is complete.
    pub(super) fn take(
        &mut self,
        now: Instant,
        id: &Id,
        fragment: Fragment<'_>,
        counts: &mut Counts,
    ) -> Option<Vec<u8>> {
        self.forget(now, counts);
        if self.datagrams.get(now, id).is_none() {
            let datagram = IpDefragBuf::new(IpNumber(id.protocol), Vec::new(), Vec::new());
            self.datagrams.insert(now, id.clone(), datagram);
        }
        let datagram = self.datagrams.get(now, id)?;
        let before = datagram.data().len();
        let added = datagram.add(fragment.offset, fragment.more, fragment.payload);
        // The last fragment may end the datagram before bytes of earlier ones.
        self.bytes = self.bytes + datagram.data().len() - before;
        if added.is_ok() && !datagram.is_complete() {
            return None;
        }
        let datagram = self.datagrams.remove(id)?;
        self.bytes -= datagram.data().len();
        if added.is_err() {
            // The parts contradict each other, and receivers treat such datagrams in different ways.
            counts.fragments_lost += 1;
            return None;
        }
        Some(datagram.take_bufs().0)
    }

    /// Drops datagrams that are too old, and makes room for one more.
    fn forget(&mut self, now: Instant, counts: &mut Counts) {
        while let Some(oldest) = self.datagrams.oldest()
            && (now.saturating_since(oldest) > PATIENCE
                || self.datagrams.len() >= MOST
                || self.bytes > MOST_BYTES)
        {
            let datagram = self.datagrams.pop_oldest();
            self.bytes -= datagram.map_or(0, |datagram| datagram.data().len());
            counts.fragments_lost += 1;
        }
    }

    #[cfg(test)]
    pub(super) fn held(&self) -> (usize, usize) {
        (self.datagrams.len(), self.bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn id(number: u32) -> Id {
        let [from, to] = ["10.0.0.1", "10.0.0.2"].map(|text| text.parse().expect("an address"));
        Id { from, to, protocol: 17, number }
    }

    fn fragment(data: &[u8], start: usize, end: usize) -> Fragment<'_> {
        let offset = IpFragOffset::try_new((start / 8) as u16).expect("13 bits");
        Fragment { offset, more: end < data.len(), payload: &data[start..end] }
    }

    proptest! {
        #[test]
        fn fragments_are_reassembled_in_any_order(
            data in prop::collection::vec(any::<u8>(), 9..600),
            size in 1..9_usize,
            order in prop::collection::vec(any::<prop::sample::Index>(), 0..80),
        ) {
            let size = size * 8;
            let parts = data.len().div_ceil(size);
            let (mut fragments, mut counts) = (Fragments::new(), Counts::default());
            let mut seen = BTreeSet::new();
            let rest = (0..parts).map(|part| part * size);
            for start in order.iter().map(|index| index.index(parts) * size).chain(rest) {
                seen.insert(start);
                let part = fragment(&data, start, data.len().min(start + size));
                let whole = fragments.take(Instant::ZERO, &id(1), part, &mut counts);
                prop_assert_eq!(whole.is_some(), seen.len() == parts);
                if let Some(whole) = whole {
                    prop_assert_eq!(whole, data);
                    break;
                }
            }
            prop_assert_eq!(fragments.held(), (0, 0));
            prop_assert_eq!(counts, Counts::default());
        }
    }

    #[test]
    fn incomplete_datagrams_expire() {
        let (mut fragments, mut counts) = (Fragments::new(), Counts::default());
        let data = [7; 64];
        for number in 0..10 {
            fragments.take(Instant::ZERO, &id(number), fragment(&data, 0, 32), &mut counts);
        }
        let late = Instant::ZERO + PATIENCE + Duration::from_nanos(1);
        fragments.take(late, &id(99), fragment(&data, 0, 32), &mut counts);
        assert_eq!((fragments.held(), counts.fragments_lost), ((1, 32), 10));
    }

    #[test]
    fn memory_is_bounded() {
        let (mut fragments, mut counts) = (Fragments::new(), Counts::default());
        let data = vec![7; 65_000];
        for number in 0..3_000 {
            fragments.take(Instant::ZERO, &id(number), fragment(&data, 64_000, 64_800), &mut counts);
            let (datagrams, bytes) = fragments.held();
            assert!(datagrams <= MOST && bytes <= MOST_BYTES + (64 << 10));
        }
        assert_eq!(counts.fragments_lost + fragments.held().0 as u64, 3_000);
    }

    #[test]
    fn contradictory_fragments_are_no_datagram() {
        let (mut fragments, mut counts) = (Fragments::new(), Counts::default());
        let data = [7; 64];
        let last = fragment(&data, 32, 64);
        fragments.take(Instant::ZERO, &id(1), last, &mut counts);
        let beyond = Fragment { more: true, ..fragment(&[7; 128], 64, 128) };
        assert_eq!(fragments.take(Instant::ZERO, &id(1), beyond, &mut counts), None);
        assert_eq!((fragments.held(), counts.fragments_lost), ((0, 0), 1));
    }
}
