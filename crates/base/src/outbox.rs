use core::ops::Range;
use std::net::SocketAddr;

/// One datagram to be sent: its bytes are a range of [`Outbox::bytes`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transmit {
    /// Index of the local socket it leaves from.
    pub listener: u16,
    /// Where it goes.
    pub to: SocketAddr,
    /// Its bytes, as a range of [`Outbox::bytes`].
    pub range: Range<usize>,
}

/// Bytes of the arena that are kept from batch to batch: a batch of 64 usual messages takes some 100 kB.
const KEPT: usize = 4 << 20;

/// All effects of a step, in order: datagrams to send and events to tell.
///
/// One byte arena holds every datagram of a batch, so a step allocates nothing once the arena is warm.
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
    /// Adds a datagram; `write` appends its bytes to the arena.
    pub fn send(&mut self, listener: u16, to: SocketAddr, write: impl FnOnce(&mut Vec<u8>)) {
        self.send_at_most(usize::MAX, listener, to, write);
    }

    /// Adds a datagram unless it is longer than `most` bytes; returns whether it was added.
    pub fn send_at_most(
        &mut self,
        most: usize,
        listener: u16,
        to: SocketAddr,
        write: impl FnOnce(&mut Vec<u8>),
    ) -> bool {
        let start = self.bytes.len();
        write(&mut self.bytes);
        let fits = self.bytes.len() - start <= most;
        if fits {
            self.transmits.push(Transmit { listener, to, range: start..self.bytes.len() });
        } else {
            self.bytes.truncate(start);
        }
        fits
    }

    /// Adds an event.
    pub fn event(&mut self, event: E) {
        self.events.push(event);
    }

    /// The datagrams to send, in order.
    pub fn transmits(&self) -> &[Transmit] {
        &self.transmits
    }

    /// The arena that the ranges of [`Self::transmits`] point into.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The bytes of one datagram.
    pub fn datagram(&self, transmit: &Transmit) -> &[u8] {
        &self.bytes[transmit.range.clone()]
    }

    /// Takes the events out, in order.
    pub fn drain_events(&mut self) -> impl Iterator<Item = E> + '_ {
        self.events.drain(..)
    }

    /// The events told so far.
    pub fn events(&self) -> &[E] {
        &self.events
    }

    /// Forgets everything and keeps the memory.
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
    fn datagrams_keep_their_order_and_bytes() {
        let to: SocketAddr = "127.0.0.1:5060".parse().unwrap();
        let mut out = Outbox::<u8>::default();
        out.send(0, to, |b| b.extend(b"one"));
        out.send(1, to, |b| b.extend(b"three"));
        let sent: Vec<_> = out.transmits().iter().map(|t| (t.listener, out.datagram(t))).collect();
        assert_eq!(sent, [(0, &b"one"[..]), (1, &b"three"[..])]);
        assert!(!out.send_at_most(3, 2, to, |b| b.extend(b"four")));
        assert!(out.send_at_most(4, 2, to, |b| b.extend(b"four")));
        assert_eq!(out.datagram(&out.transmits()[2]), b"four");
        out.clear();
        assert!(out.transmits().is_empty() && out.bytes().is_empty());
    }
}
