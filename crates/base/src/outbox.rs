//! Effects of a step: messages to send, and events.

use crate::Flow;
use core::ops::Range;

/// Message to send; its bytes are a range of [`Outbox::bytes`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transmit {
    /// Flow by which the message leaves.
    pub flow: Flow,
    /// Its bytes, as a range of [`Outbox::bytes`].
    pub range: Range<usize>,
}

/// Bytes of the arena that are kept between batches: a batch of 64 usual messages takes some 100 kB.
const KEPT: usize = 4 << 20;

/// All effects of a step: messages to send, and events, each list in order.
///
/// One byte arena holds every message of a batch, so a step allocates nothing once the arena is warm.
#[derive(Debug)]
pub struct Outbox<E> {
    bytes: Vec<u8>,
    transmits: Vec<Transmit>,
    events: Vec<E>,
}

impl<E> Default for Outbox<E> {
    fn default() -> Self {
        Self { bytes: Vec::new(), transmits: Vec::new(), events: Vec::new() }
    }
}

impl<E> Outbox<E> {
    /// Adds a message; `write` appends its bytes to the arena.
    pub fn send(&mut self, flow: Flow, write: impl FnOnce(&mut Vec<u8>)) {
        self.send_at_most(usize::MAX, flow, write);
    }

    /// Adds a message unless it is longer than `most` bytes; returns whether it was added.
    pub fn send_at_most(&mut self, most: usize, flow: Flow, write: impl FnOnce(&mut Vec<u8>)) -> bool {
        let start = self.bytes.len();
        write(&mut self.bytes);
        let fits = self.bytes.len() - start <= most;
        if fits {
            self.transmits.push(Transmit { flow, range: start..self.bytes.len() });
        } else {
            self.bytes.truncate(start);
        }
        fits
    }

    /// Adds an event.
    pub fn event(&mut self, event: E) {
        self.events.push(event);
    }

    /// The messages to send, in order.
    pub fn transmits(&self) -> &[Transmit] {
        &self.transmits
    }

    /// The arena that the ranges of [`Self::transmits`] point into.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The bytes of one message.
    pub fn message(&self, transmit: &Transmit) -> &[u8] {
        &self.bytes[transmit.range.clone()]
    }

    /// Removes and returns the events, in order.
    pub fn drain_events(&mut self) -> impl Iterator<Item = E> + '_ {
        self.events.drain(..)
    }

    /// The events so far, in order.
    pub fn events(&self) -> &[E] {
        &self.events
    }

    /// Removes all effects. Keeps their memory for the next step, of the arena at most 4 MiB.
    pub fn clear(&mut self) {
        self.bytes.clear();
        // One burst of huge messages must not hold its memory for ever.
        self.bytes.shrink_to(KEPT);
        self.transmits.clear();
        self.events.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_keep_their_order_and_bytes() {
        let to = |listener| Flow::udp(listener, "127.0.0.1:5060".parse().unwrap());
        let mut out = Outbox::<u8>::default();
        out.send(to(0), |b| b.extend(b"one"));
        out.send(to(1), |b| b.extend(b"three"));
        let sent: Vec<_> = out.transmits().iter().map(|t| (t.flow.listener, out.message(t))).collect();
        assert_eq!(sent, [(0, &b"one"[..]), (1, &b"three"[..])]);
        assert!(!out.send_at_most(3, to(2), |b| b.extend(b"four")));
        assert!(out.send_at_most(4, to(2), |b| b.extend(b"four")));
        assert_eq!(out.message(&out.transmits()[2]), b"four");
        out.clear();
        assert!(out.transmits().is_empty() && out.bytes().is_empty());
    }
}
