use super::listen::MOST;
use rtrb::{Consumer, Producer, RingBuffer};
use std::net::{IpAddr, Ipv6Addr, SocketAddr};

/// Bytes a ring holds. A datagram takes its length and 24 bytes: some thousand usual messages.
const CAPACITY: usize = 1 << 20;
/// Length, listener, port, address.
const HEAD: usize = 4 + 2 + 2 + 16;

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
        match *handed {
            Handed::Datagram { listener, from, bytes } => self.write(listener, from, bytes),
            Handed::Unreachable { to, quoted } => self.write(UNREACHABLE, to, quoted),
        }
    }

    fn write(&mut self, listener: u16, from: SocketAddr, bytes: &[u8]) -> bool {
        // Head and body in one chunk: the other side sees both or neither.
        let Ok(mut chunk) = self.ring.write_chunk(HEAD + bytes.len()) else { return false };
        let ip = match from.ip() {
            IpAddr::V4(ip) => ip.to_ipv6_mapped(),
            IpAddr::V6(ip) => ip,
        };
        let mut head = [0; HEAD];
        head[..4].copy_from_slice(&(bytes.len() as u32).to_ne_bytes());
        head[4..6].copy_from_slice(&listener.to_ne_bytes());
        head[6..8].copy_from_slice(&from.port().to_ne_bytes());
        head[8..].copy_from_slice(&ip.octets());
        let (mut first, mut second) = chunk.as_mut_slices();
        for mut part in [&head[..], bytes] {
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
        let mut head = [0; HEAD];
        self.ring.pop_entire_slice(&mut head).ok()?;
        let length = u32::from_ne_bytes([head[0], head[1], head[2], head[3]]) as usize;
        self.buffer.resize(length, 0);
        self.ring.pop_entire_slice(&mut self.buffer).expect("head and body were committed together");
        let octets: [u8; 16] = head[8..].try_into().expect("the address is the last 16 bytes");
        let address =
            SocketAddr::new(Ipv6Addr::from(octets).to_canonical(), u16::from_ne_bytes([head[6], head[7]]));
        Some(match u16::from_ne_bytes([head[4], head[5]]) {
            UNREACHABLE => Handed::Unreachable { to: address, quoted: &self.buffer },
            listener => Handed::Datagram { listener, from: address, bytes: &self.buffer },
        })
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
        assert_eq!(pushed, CAPACITY / (1_000 + HEAD));
        assert!(receiver.pop().is_some());
        assert!(sender.push(&handed));
    }
}
