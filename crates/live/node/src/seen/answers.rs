//! Responses of this process that copies of a request get again (RFC 3261 §17.2.2). They are kept for requests that
//! must be processed only once: a REGISTER because of its CSeq, and credentials because of their nonce count.

use base::{Flow, Instant};
use core::time::Duration;
use std::collections::{BTreeMap, VecDeque};
use std::net::{IpAddr, SocketAddr};
use transaction::TransactionKey;

/// Time in which a client retransmits a request (64*T1, RFC 3261 §17.1.1.2).
pub(crate) const COPIES_LAST: Duration = Duration::from_secs(32);

/// Maximum bytes of the responses of a shard. Above this limit the oldest responses are removed. Retransmissions of
/// their requests then count as new requests.
const BYTES_MAX: usize = 16 << 20;

/// Memory of a response besides its bytes.
const ENTRY: usize = 160;

/// The properties in which a retransmission equals its request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct RequestPrint {
    key: TransactionKey,
    /// Length of the message in bytes.
    length: usize,
    source: IpAddr,
}

impl RequestPrint {
    pub(crate) fn new(key: TransactionKey, length: usize, source: SocketAddr) -> Self {
        Self { key, length, source: source.ip().to_canonical() }
    }
}

struct Kept {
    of: RequestPrint,
    flow: Flow,
    answer: Box<[u8]>,
}

/// Responses of the last 32 s.
#[derive(Default)]
pub(crate) struct Answers {
    kept: BTreeMap<TransactionKey, Kept>,
    /// In order of time.
    given: VecDeque<(Instant, TransactionKey)>,
    bytes: usize,
}

impl Answers {
    /// Keeps the response to a request.
    pub(crate) fn keep(&mut self, now: Instant, of: RequestPrint, flow: Flow, answer: &[u8]) {
        self.bytes += answer.len() + ENTRY;
        if let Some(old) = self.kept.insert(of.key, Kept { of, flow, answer: answer.into() }) {
            self.bytes -= old.answer.len() + ENTRY;
        } else {
            self.given.push_back((now, of.key));
        }
        while self.bytes > BYTES_MAX && self.forget() {}
    }

    /// Returns the flow of the response kept under a request's key, and the response. The response is `None` if the
    /// request has another length or source. Such a request is no retransmission, and must not have a long response
    /// sent to an authenticated user.
    pub(crate) fn get(&mut self, now: Instant, of: RequestPrint) -> Option<(Flow, Option<&[u8]>)> {
        while self.given.front().is_some_and(|&(given, _)| now.saturating_since(given) >= COPIES_LAST) {
            self.forget();
        }
        let kept = self.kept.get(&of.key)?;
        Some((kept.flow, (kept.of == of).then_some(&*kept.answer)))
    }

    /// Removes the oldest response; returns `false` if there is none.
    fn forget(&mut self) -> bool {
        let Some((_, key)) = self.given.pop_front() else { return false };
        if let Some(kept) = self.kept.remove(&key) {
            self.bytes -= kept.answer.len() + ENTRY;
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_kept_for_their_time_and_within_bounds() {
        let from = "127.0.0.1:5060".parse().expect("an address");
        let flow = Flow::udp(0, from);
        let of = |key, length, source| RequestPrint::new(TransactionKey(key), length, source);
        let (mut repeats, answer) = (Answers::default(), vec![0; 1 << 20]);
        let at = |second: u64| Instant::from_millis(second * 1_000);
        for number in 0..20 {
            repeats.keep(at(number), of(number.into(), 9, from), flow, &answer);
        }
        assert!(repeats.bytes <= BYTES_MAX);
        assert!(repeats.get(at(20), of(0, 9, from)).is_none(), "removed for lack of room");
        assert!(repeats.get(at(20), of(19, 9, from)).is_some());
        assert!(repeats.get(at(51), of(19, 9, from)).is_none(), "removed after 32 s");
        assert_eq!((repeats.bytes, repeats.given.len(), repeats.kept.len()), (0, 0, 0));
        repeats.keep(at(60), of(1, 7, from), flow, b"one");
        repeats.keep(at(61), of(1, 9, from), flow, b"three");
        assert_eq!(repeats.get(at(62), of(1, 9, from)), Some((flow, Some(&b"three"[..]))));
        assert_eq!(repeats.get(at(62), of(1, 8, from)), Some((flow, None)), "a request of another length");
        let other = "127.0.0.2:5060".parse().expect("an address");
        assert_eq!(repeats.get(at(62), of(1, 9, other)), Some((flow, None)), "a request from another source");
        assert_eq!((repeats.given.len(), repeats.bytes), (1, 5 + ENTRY));
    }
}
