//! Reassembles TCP streams from captured segments (RFC 9293 §3.4), in bounded memory.
//!
//! The monitor acknowledges nothing, so a segment that the capture missed never arrives. After some time, or if too
//! much waits behind the gap, the stream continues after it.

use super::bounded::Bounded;
use super::framing::Framing;
use crate::counts::Counts;
use base::Instant;
use core::net::SocketAddr;
use core::time::Duration;

/// Memory of a waiting segment in addition to its bytes.
const SEGMENT: usize = 64;
/// Most directions of connections at a time.
const MOST: usize = 65_536;
/// Most bytes of all directions together.
const MOST_BYTES: usize = 32 << 20;
/// Most segments of one direction that may wait behind a gap.
const WAITING_MAX: usize = 64;
/// Longest time that they wait. A lost segment is sent again within a round trip or two, else after 1 s (RFC 6298 §2).
const PATIENCE: Duration = Duration::from_secs(2);

/// A direction of a connection: source and destination.
type Way = (SocketAddr, SocketAddr);

/// A captured segment.
#[derive(Clone, Copy, Debug)]
pub(super) struct Segment<'a> {
    pub(super) sequence: u32,
    /// Whether it starts the connection.
    pub(super) syn: bool,
    /// Whether it ends the connection, in order or not.
    pub(super) end: bool,
    pub(super) payload: &'a [u8],
}

/// State of a direction.
#[derive(Debug, Default)]
struct Stream {
    /// The next sequence number.
    next: u32,
    framing: Framing,
    /// Segments behind a gap, never empty: sequence number, time of arrival, payload.
    waiting: Vec<(u32, Instant, Vec<u8>)>,
}

impl Stream {
    fn held(&self) -> usize {
        self.framing.held()
            + self.waiting.iter().map(|(_, _, payload)| payload.len() + SEGMENT).sum::<usize>()
    }
}

/// State of all directions.
#[derive(Debug)]
pub(super) struct Streams {
    streams: Bounded<Way, Stream>,
    bytes: usize,
}

impl Streams {
    pub(super) fn new() -> Self {
        Self { streams: Bounded::new(), bytes: 0 }
    }

    /// Takes a segment, and calls `message` with each message that it completes.
    pub(super) fn take(
        &mut self,
        now: Instant,
        way: Way,
        segment: Segment<'_>,
        counts: &mut Counts,
        message: impl FnMut(&[u8]),
    ) {
        if segment.syn {
            self.remove(&way);
            let next = segment.sequence.wrapping_add(1);
            return self.insert(now, way, Stream { next, ..Stream::default() }, counts);
        }
        if !segment.payload.is_empty() {
            self.payload(now, way, segment, counts, message);
        }
        if segment.end {
            self.remove(&way);
        }
    }

    fn payload(
        &mut self,
        now: Instant,
        way: Way,
        segment: Segment<'_>,
        counts: &mut Counts,
        mut message: impl FnMut(&[u8]),
    ) {
        if self.streams.get(now, &way).is_none() {
            // The connection started before the capture, so bytes are skipped until a message starts.
            let mut framing = Framing::default();
            framing.lose();
            let stream = Stream { next: segment.sequence, framing, waiting: Vec::new() };
            self.insert(now, way, stream, counts);
        }
        let Some(stream) = self.streams.get(now, &way) else { return };
        let before = stream.held();
        stream.take(now, segment, counts, &mut message);
        self.bytes = self.bytes + stream.held() - before;
        while self.bytes > MOST_BYTES && self.evict(counts) {}
    }

    fn insert(&mut self, now: Instant, way: Way, stream: Stream, counts: &mut Counts) {
        while self.streams.len() >= MOST && self.evict(counts) {}
        self.streams.insert(now, way, stream);
    }

    fn remove(&mut self, way: &Way) {
        self.bytes -= self.streams.remove(way).map_or(0, |stream| stream.held());
    }

    fn evict(&mut self, counts: &mut Counts) -> bool {
        let Some(stream) = self.streams.pop_oldest() else { return false };
        self.bytes -= stream.held();
        counts.streams_evicted += 1;
        true
    }

    #[cfg(test)]
    pub(super) fn held(&self) -> (usize, usize) {
        (self.streams.len(), self.bytes)
    }
}

impl Stream {
    fn take(
        &mut self,
        now: Instant,
        segment: Segment<'_>,
        counts: &mut Counts,
        message: &mut impl FnMut(&[u8]),
    ) {
        if ahead(segment.sequence, self.next) > 0 {
            self.waiting.push((segment.sequence, now, segment.payload.to_vec()));
            let late = self.waiting.first().is_some_and(|(_, at, _)| now.saturating_since(*at) > PATIENCE);
            if self.waiting.len() < WAITING_MAX && !late {
                return;
            }
            let next = self.next;
            let nearest = self.waiting.iter().map(|(sequence, ..)| *sequence);
            self.next = nearest.min_by_key(|sequence| ahead(*sequence, next)).unwrap_or(next);
            self.framing.lose();
            counts.stream_gaps += 1;
        } else {
            self.deliver(segment.sequence, segment.payload, message);
        }
        while let Some(place) = self.waiting.iter().position(|(at, ..)| ahead(*at, self.next) <= 0) {
            let (sequence, _, payload) = self.waiting.remove(place);
            self.deliver(sequence, &payload, message);
        }
    }

    /// Passes on the part of a segment that is new.
    fn deliver(&mut self, sequence: u32, payload: &[u8], message: &mut impl FnMut(&[u8])) {
        let known = self.next.wrapping_sub(sequence) as usize;
        let Some(new) = payload.get(known..).filter(|new| !new.is_empty()) else { return };
        self.next = self.next.wrapping_add(new.len() as u32);
        self.framing.take(new, message);
    }
}

/// Distance of a sequence number from another; numbers wrap.
fn ahead(sequence: u32, of: u32) -> i32 {
    sequence.wrapping_sub(of).cast_signed()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn way() -> Way {
        ("10.0.0.1:40000".parse().expect("an address"), "10.0.0.2:5060".parse().expect("an address"))
    }

    struct Bed {
        streams: Streams,
        counts: Counts,
        found: Vec<String>,
        now: Instant,
    }

    impl Bed {
        fn new() -> Self {
            let (streams, counts) = (Streams::new(), Counts::default());
            Self { streams, counts, found: Vec::new(), now: Instant::ZERO }
        }

        fn send(&mut self, sequence: u32, payload: &[u8]) {
            self.take(Segment { sequence, syn: false, end: false, payload });
        }

        fn take(&mut self, segment: Segment<'_>) {
            let found = &mut self.found;
            self.streams.take(self.now, way(), segment, &mut self.counts, |header| {
                let header = String::from_utf8_lossy(header);
                let (_, rest) = header.split_once("Call-ID: ").expect("a Call-ID");
                found.push(rest.split("\r\n").next().unwrap_or_default().to_owned());
            });
        }

        fn syn(&mut self, sequence: u32) {
            self.take(Segment { sequence, syn: true, end: false, payload: b"" });
        }
    }

    fn message(number: usize) -> String {
        let body = "b".repeat(number * 7 % 60);
        format!("BYE sip:b@x SIP/2.0\r\nCall-ID: {number}\r\nContent-Length: {}\r\n\r\n{body}", body.len())
    }

    fn numbers(range: core::ops::Range<usize>) -> Vec<String> {
        range.map(|number| number.to_string()).collect()
    }

    proptest! {
        /// Segments are cut anywhere, swapped, sent twice, overlapping, and past the end of sequence numbers.
        #[test]
        fn segments_are_the_stream(
            count in 1..8_usize,
            sizes in prop::collection::vec(1..90_usize, 1..20),
            swaps in prop::collection::vec((any::<prop::sample::Index>(), 1..6_usize), 0..20),
            overlap in 0..40_usize,
        ) {
            let stream: String = (0..count).map(message).collect();
            let start = u32::MAX - 100;
            let mut segments = Vec::new();
            let mut at = 0;
            for size in sizes.iter().cycle() {
                if at >= stream.len() {
                    break;
                }
                let (from, to) = (at.saturating_sub(overlap), stream.len().min(at + size));
                segments.push((start.wrapping_add(from as u32).wrapping_add(1), &stream.as_bytes()[from..to]));
                at += size;
            }
            for (index, distance) in swaps {
                let one = index.index(segments.len());
                let other = (one + distance).min(segments.len() - 1);
                segments.swap(one, other);
                let again = segments[other];
                segments.insert(one, again);
            }
            let mut bed = Bed::new();
            bed.syn(start);
            for (sequence, payload) in segments.iter().take(WAITING_MAX - 1) {
                bed.send(*sequence, payload);
            }
            if segments.len() < WAITING_MAX {
                prop_assert_eq!(&bed.found, &numbers(0..count));
                prop_assert_eq!(bed.streams.held(), (1, 0));
            }
            prop_assert_eq!(bed.counts.stream_gaps, 0);
        }
    }

    #[test]
    fn a_stream_from_before_the_capture_is_joined_at_a_message() {
        let mut bed = Bed::new();
        let (first, second) = (message(5), message(6));
        bed.send(1_000, &first.as_bytes()[10..]);
        bed.send(1_000 + first.len() as u32 - 10, second.as_bytes());
        assert_eq!(bed.found, ["6"]);
    }

    #[test]
    fn a_stream_continues_behind_a_gap_after_a_while() {
        let mut bed = Bed::new();
        bed.syn(9);
        let mut sequence = 10;
        for number in 0..6 {
            let text = message(number);
            // The second message was not captured.
            if number != 1 {
                bed.send(sequence, text.as_bytes());
            }
            sequence += text.len() as u32;
            bed.now += Duration::from_millis(700);
        }
        assert_eq!(
            (bed.found.as_slice(), bed.counts.stream_gaps),
            (&["0", "2", "3", "4", "5"].map(str::to_owned)[..], 1)
        );
    }

    #[test]
    fn a_gap_is_skipped_if_too_much_waits_behind_it() {
        let mut bed = Bed::new();
        bed.syn(9);
        let mut sequence = 10 + 500;
        for number in 0..WAITING_MAX {
            let text = message(number);
            bed.send(sequence, text.as_bytes());
            sequence += text.len() as u32;
        }
        assert_eq!((bed.found, bed.counts.stream_gaps), (numbers(0..WAITING_MAX), 1));
        assert_eq!(bed.streams.held(), (1, 0));
    }

    #[test]
    fn the_end_or_a_new_start_discards_the_stream() {
        let mut bed = Bed::new();
        bed.syn(9);
        bed.send(10, b"BYE sip:b@x SIP/2.0\r\n");
        assert!(bed.streams.held().1 > 0);
        bed.syn(99);
        bed.send(100, message(1).as_bytes());
        bed.take(Segment { sequence: 0, syn: false, end: true, payload: b"" });
        assert_eq!((bed.found, bed.streams.held()), (numbers(1..2), (0, 0)));
    }

    #[test]
    fn memory_is_bounded_for_any_sender() {
        let mut bed = Bed::new();
        for port in 0..4_000_u32 {
            let from = SocketAddr::new([10, 0, (port >> 8) as u8, port as u8].into(), 5060);
            for part in 0..20 {
                // After a gap, so that all segments wait.
                let segment =
                    Segment { sequence: 5_000 + part * 1_500, syn: false, end: false, payload: &[65; 1_500] };
                if part == 0 {
                    bed.streams.take(
                        bed.now,
                        (from, way().1),
                        Segment { syn: true, sequence: 0, ..segment },
                        &mut bed.counts,
                        |_| {},
                    );
                }
                bed.streams.take(bed.now, (from, way().1), segment, &mut bed.counts, |_| {});
                assert!(bed.streams.held().1 <= MOST_BYTES);
            }
        }
        assert!(bed.counts.streams_evicted > 0);
    }
}
