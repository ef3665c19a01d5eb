//! The rings that carry datagrams from the thread that received them to the one that owns the call.

use super::listen::MOST;
use rtrb::{Consumer, Producer, RingBuffer};
use std::net::{IpAddr, Ipv6Addr, SocketAddr};

/// Bytes a ring holds. A datagram takes its length and 24 bytes: some thousand usual messages.
const CAPACITY: usize = 1 << 20;
/// Listener, port, address.
pub(crate) const HEAD: usize = 2 + 2 + 16;
/// In a ring, the length comes first.
const LENGTH: usize = 4;

/// In place of a listener: what follows is the beginning of a datagram of ours that did not arrive.
const UNREACHABLE: u16 = u16::MAX;
const _: () = assert!((UNREACHABLE as usize) >= MOST, "it is no listener");

/// A ring from one thread to another: no lock, no allocation.
pub(crate) fn ring() -> (Sender, Receiver) {
    let (producer, consumer) = RingBuffer::new(CAPACITY);
    (Sender { ring: producer, pushed: false }, Receiver { ring: consumer, buffer: Vec::new() })
}

/// The end that hands over.
pub(crate) struct Sender {
    ring: Producer<u8>,
    pushed: bool,
}

/// The end that takes.
pub(crate) struct Receiver {
    ring: Consumer<u8>,
    buffer: Vec<u8>,
}

/// What was handed over.
#[derive(PartialEq, Eq, Debug)]
pub(crate) enum Handed<'a> {
    /// A datagram that came in.
    Datagram { listener: u16, from: SocketAddr, bytes: &'a [u8] },
    /// ICMP: what was sent to this address, and began with these bytes, did not arrive.
    Unreachable { to: SocketAddr, quoted: &'a [u8] },
}

impl Sender {
    /// Hands it over; `false` when the ring is full, and it is lost as on a full socket.
    pub(crate) fn push(&mut self, handed: &Handed<'_>) -> bool {
        let (Handed::Datagram { bytes, .. } | Handed::Unreachable { quoted: bytes, .. }) = *handed;
        // Head and body in one chunk: the other side sees both or neither.
        let Ok(mut chunk) = self.ring.write_chunk(LENGTH + HEAD + bytes.len()) else { return false };
        let (length, head) = ((bytes.len() as u32).to_ne_bytes(), head(handed));
        let (mut first, mut second) = chunk.as_mut_slices();
        for mut part in [&length[..], &head[..], bytes] {
            // A part may lie across the end of the ring.
            while !part.is_empty() {
                if first.is_empty() {
                    first = core::mem::take(&mut second);
                }
                let (now, later) = part.split_at(part.len().min(first.len()));
                let (filled, rest) = core::mem::take(&mut first).split_at_mut(now.len());
                filled.copy_from_slice(now);
                (first, part) = (rest, later);
            }
        }
        chunk.commit_all();
        self.pushed = true;
        true
    }

    /// Whether anything was pushed since the last time.
    pub(crate) fn take_pushed(&mut self) -> bool {
        core::mem::take(&mut self.pushed)
    }
}

impl Receiver {
    /// Whether nothing waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.ring.is_empty()
    }

    /// The next one.
    pub(crate) fn pop(&mut self) -> Option<Handed<'_>> {
        let (mut length, mut head) = ([0; LENGTH], [0; HEAD]);
        self.ring.pop_entire_slice(&mut length).ok()?;
        self.buffer.resize(u32::from_ne_bytes(length) as usize, 0);
        for part in [&mut head[..], &mut self.buffer[..]] {
            self.ring.pop_entire_slice(part).expect("length, head and body were committed together");
        }
        Some(parse(&head, &self.buffer))
    }
}

/// What goes before the bytes.
pub(crate) fn head(handed: &Handed<'_>) -> [u8; HEAD] {
    let (listener, address) = match *handed {
        Handed::Datagram { listener, from, .. } => (listener, from),
        Handed::Unreachable { to, .. } => (UNREACHABLE, to),
    };
    let ip = match address.ip() {
        IpAddr::V4(ip) => ip.to_ipv6_mapped(),
        IpAddr::V6(ip) => ip,
    };
    let mut head = [0; HEAD];
    head[..2].copy_from_slice(&listener.to_ne_bytes());
    head[2..4].copy_from_slice(&address.port().to_ne_bytes());
    head[4..].copy_from_slice(&ip.octets());
    head
}

/// The reverse of [`head`].
pub(crate) fn parse<'a>(head: &[u8; HEAD], bytes: &'a [u8]) -> Handed<'a> {
    let [l0, l1, p0, p1, ip @ ..] = *head;
    let address = SocketAddr::new(Ipv6Addr::from(ip).to_canonical(), u16::from_ne_bytes([p0, p1]));
    match u16::from_ne_bytes([l0, l1]) {
        UNREACHABLE => Handed::Unreachable { to: address, quoted: bytes },
        listener => Handed::Datagram { listener, from: address, bytes },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn datagrams_of_all_sizes_come_out_as_they_went_in() {
        let (mut sender, mut receiver) = ring();
        let from: [SocketAddr; 2] =
            ["192.0.2.1:5060".parse().unwrap(), "[2001:db8::1]:5061".parse().unwrap()];
        for turn in 0..200_usize {
            let bytes: Vec<u8> = (0..turn * turn * 7 % 65_507).map(|at| (at ^ turn) as u8).collect();
            let listener = turn as u16;
            let first = Handed::Datagram { listener, from: from[turn % 2], bytes: &bytes };
            let second = Handed::Unreachable { to: from[0], quoted: b"x" };
            assert!(sender.push(&first) && sender.push(&second));
            assert!(receiver.pop().unwrap() == first);
            assert_eq!(receiver.pop().unwrap(), second);
            assert!(receiver.pop().is_none() && receiver.is_empty());
        }
    }

    #[test]
    fn a_full_ring_refuses_and_recovers() {
        let (mut sender, mut receiver) = ring();
        let from = "192.0.2.1:5060".parse().unwrap();
        let handed = Handed::Datagram { listener: 0, from, bytes: &[7; 1_000] };
        let pushed = (0..2_000).filter(|_| sender.push(&handed)).count();
        assert_eq!(pushed, CAPACITY / (1_000 + LENGTH + HEAD));
        assert!(receiver.pop().is_some());
        assert!(sender.push(&handed));
    }
}
