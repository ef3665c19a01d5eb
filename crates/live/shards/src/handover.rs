//! Rings that carry messages from the receiving thread to the thread that owns the call, each with its flow.

use super::listen::MOST;
use arrayvec::ArrayVec;
use base::{Connection, Flow, Transport};
use rtrb::{Consumer, Producer, RingBuffer};
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::num::NonZeroU32;

/// Size of a ring in bytes. A datagram takes its length and 24 bytes: room for some thousand usual messages.
const CAPACITY: usize = 1 << 20;
/// Bytes of a head: number of our port with flags, port and address of the peer.
const HEAD: usize = 2 + 2 + 16;
/// Bytes of a connection's number, if the flow has a connection.
const NUMBER: usize = 4;
/// Longest head of a message.
pub(crate) const HEAD_MAX: usize = HEAD + NUMBER;
/// Bytes of the length of head and message, which precedes both in a ring.
const LENGTH: usize = 4;

/// Bits of the transport in the port's number, as its index in [`Transport::ALL`].
const TRANSPORT: u16 = 0x0700;
/// Bit of the port's number: the number of a connection follows.
const CONNECTED: u16 = 0x0800;
/// Bit of the port's number: the first bytes of a message that did not arrive follow.
const LOST: u16 = 0x1000;
/// Bit of the port's number: the message is to be sent by a connection of the receiving thread.
const SEND: u16 = 0x2000;
/// Port's number of a datagram that did not arrive.
const LOST_DATAGRAM: u16 = u16::MAX;
const _: () =
    assert!(MOST <= 256 && Transport::ALL.len() <= 8, "a port takes a byte, a transport three bits");

/// Returns a ring from one thread to another, which needs no lock and no allocation.
pub(crate) fn ring() -> (Sender, Receiver) {
    let (producer, consumer) = RingBuffer::new(CAPACITY);
    (Sender { ring: producer, pushed: false }, Receiver { ring: consumer, buffer: Vec::new() })
}

/// The sending end of a ring.
pub(crate) struct Sender {
    ring: Producer<u8>,
    pushed: bool,
}

/// The receiving end of a ring.
pub(crate) struct Receiver {
    ring: Consumer<u8>,
    buffer: Vec<u8>,
}

/// A message in a ring.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[expect(missing_docs, reason = "flow and bytes of the message")]
pub enum Handed<'a> {
    /// A message that arrived by this flow.
    Message { flow: Flow, bytes: &'a [u8] },
    /// A sent message that did not arrive, because of an ICMP error or a closed connection, with its first bytes.
    Unreachable { to: Flow, quoted: &'a [u8] },
    /// A message to be sent by this flow, whose connection belongs to the receiving thread.
    Send { flow: Flow, bytes: &'a [u8] },
}

impl Sender {
    /// Appends a message. Returns `false` if the ring is full; the message is then lost, as with a full socket.
    pub(crate) fn push(&mut self, handed: &Handed<'_>) -> bool {
        let (head, bytes) = (head(handed), handed.bytes());
        // Head and body are one chunk, so the other side sees both or neither.
        let Ok(mut chunk) = self.ring.write_chunk(LENGTH + head.len() + bytes.len()) else { return false };
        let length = ((head.len() + bytes.len()) as u32).to_ne_bytes();
        let (mut first, mut second) = chunk.as_mut_slices();
        for mut part in [&length[..], &head[..], bytes] {
            // A part may wrap around the end of the ring.
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

    /// Returns whether anything was pushed since the last call.
    pub(crate) fn take_pushed(&mut self) -> bool {
        core::mem::take(&mut self.pushed)
    }
}

impl Receiver {
    pub(crate) fn is_empty(&self) -> bool {
        self.ring.is_empty()
    }

    /// Returns the next message.
    pub(crate) fn pop(&mut self) -> Option<Handed<'_>> {
        let mut length = [0; LENGTH];
        self.ring.pop_entire_slice(&mut length).ok()?;
        self.buffer.resize(u32::from_ne_bytes(length) as usize, 0);
        self.ring.pop_entire_slice(&mut self.buffer).expect("length, head and body were committed together");
        parse(&self.buffer)
    }
}

impl<'a> Handed<'a> {
    /// Returns the flow of the message.
    pub fn flow(&self) -> Flow {
        match *self {
            Self::Message { flow, .. } | Self::Unreachable { to: flow, .. } | Self::Send { flow, .. } => flow,
        }
    }

    /// Returns the message, or its first bytes.
    pub fn bytes(&self) -> &'a [u8] {
        match *self {
            Self::Message { bytes, .. }
            | Self::Unreachable { quoted: bytes, .. }
            | Self::Send { bytes, .. } => bytes,
        }
    }
}

/// Returns the bytes that precede the message.
pub(crate) fn head(handed: &Handed<'_>) -> ArrayVec<u8, HEAD_MAX> {
    let (flow, kind) = match *handed {
        Handed::Message { flow, .. } => (flow, 0),
        Handed::Unreachable { to, .. } => (to, LOST),
        Handed::Send { flow, .. } => (flow, SEND),
    };
    let transport = Transport::ALL.iter().position(|known| *known == flow.transport).unwrap_or_default();
    let connected = if flow.connection.is_some() { CONNECTED } else { 0 };
    let port = match (flow.transport, kind) {
        (Transport::Udp, LOST) => LOST_DATAGRAM,
        _ => flow.listener & 0xff | (transport as u16) << 8 | connected | kind,
    };
    let ip = match flow.peer.ip() {
        IpAddr::V4(ip) => ip.to_ipv6_mapped(),
        IpAddr::V6(ip) => ip,
    };
    let mut head = ArrayVec::from([0; HEAD_MAX]);
    head[..2].copy_from_slice(&port.to_ne_bytes());
    head[2..4].copy_from_slice(&flow.peer.port().to_ne_bytes());
    head[4..HEAD].copy_from_slice(&ip.octets());
    match flow.connection {
        Some(Connection(number)) => head[HEAD..].copy_from_slice(&number.get().to_ne_bytes()),
        None => head.truncate(HEAD),
    }
    head
}

/// Parses a head from [`head`] and the bytes that follow it; `None` if it is malformed.
pub(crate) fn parse(whole: &[u8]) -> Option<Handed<'_>> {
    let ([l0, l1, p0, p1, ip @ ..], mut rest) = whole.split_first_chunk::<HEAD>()?;
    let peer = SocketAddr::new(Ipv6Addr::from(*ip).to_canonical(), u16::from_ne_bytes([*p0, *p1]));
    let port = u16::from_ne_bytes([*l0, *l1]);
    if port == LOST_DATAGRAM {
        let to = Flow { transport: Transport::Udp, listener: 0, peer, connection: None };
        return Some(Handed::Unreachable { to, quoted: rest });
    }
    let transport = *Transport::ALL.get(usize::from((port & TRANSPORT) >> 8))?;
    let mut connection = None;
    if port & CONNECTED != 0 {
        let (number, after) = rest.split_first_chunk::<NUMBER>()?;
        (connection, rest) = (NonZeroU32::new(u32::from_ne_bytes(*number)).map(Connection), after);
    }
    let flow = Flow { transport, listener: port & 0xff, peer, connection };
    Some(match port & (LOST | SEND) {
        0 => Handed::Message { flow, bytes: rest },
        SEND => Handed::Send { flow, bytes: rest },
        _ => Handed::Unreachable { to: flow, quoted: rest },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_of_all_sizes_come_out_as_they_went_in() {
        let (mut sender, mut receiver) = ring();
        let peers: [SocketAddr; 2] =
            ["192.0.2.1:5060".parse().unwrap(), "[2001:db8::1]:5061".parse().unwrap()];
        for turn in 0..200_usize {
            let bytes: Vec<u8> = (0..turn * turn * 7 % 65_507).map(|at| (at ^ turn) as u8).collect();
            let datagram = Flow::udp(turn as u16, peers[turn % 2]);
            let connection = NonZeroU32::new(turn as u32 * 0x0101_0101 + 1).map(Connection);
            let transport = Transport::ALL[1 + turn % 4];
            let stream = Flow { transport, listener: 255 - turn as u16, peer: peers[1], connection };
            for flow in [datagram, stream] {
                let first = Handed::Message { flow, bytes: &bytes };
                let to = Flow { listener: if flow == datagram { 0 } else { flow.listener }, ..flow };
                let second = Handed::Unreachable { to, quoted: b"x" };
                let third = Handed::Send { flow: stream, bytes: b"y" };
                assert!(sender.push(&first) && sender.push(&second) && sender.push(&third));
                assert!(receiver.pop().unwrap() == first);
                assert_eq!(receiver.pop().unwrap(), second);
                assert_eq!(receiver.pop().unwrap(), third);
                assert!(receiver.pop().is_none() && receiver.is_empty());
            }
        }
    }

    #[test]
    fn a_full_ring_refuses_and_recovers() {
        let (mut sender, mut receiver) = ring();
        let flow = Flow::udp(0, "192.0.2.1:5060".parse().unwrap());
        let handed = Handed::Message { flow, bytes: &[7; 1_000] };
        let pushed = (0..2_000).filter(|_| sender.push(&handed)).count();
        assert_eq!(pushed, CAPACITY / (1_000 + LENGTH + HEAD));
        assert!(receiver.pop().is_some());
        assert!(sender.push(&handed));
    }
}
