//! HEP version 3, by which servers and capture agents copy their messages to a collector such as Homer (`HEP3_rev11`,
//! github.com/sipcapture/HEP). A packet consists of chunks of vendor, type, length and value.

use base::{Instant, Transport};
use core::fmt;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use crate::captured::Captured;

/// First bytes of a packet.
const MAGIC: &[u8; 4] = b"HEP3";
/// Length of the header of a chunk: vendor, type and length.
const CHUNK: usize = 6;
/// Protocol type of SIP.
const SIP: u8 = 1;
/// Protocol numbers of IP.
const UDP: u8 = 17;
const TCP: u8 = 6;
/// Longest packet: the payload of a UDP datagram over IPv4. heplify-server ends a connection with a longer one.
const LONGEST: usize = 65_507;

/// Types of the chunks of the generic vendor.
mod chunk {
    pub(super) const FAMILY: u16 = 1;
    pub(super) const PROTOCOL: u16 = 2;
    pub(super) const FROM_V4: u16 = 3;
    pub(super) const TO_V4: u16 = 4;
    pub(super) const FROM_V6: u16 = 5;
    pub(super) const TO_V6: u16 = 6;
    pub(super) const FROM_PORT: u16 = 7;
    pub(super) const TO_PORT: u16 = 8;
    pub(super) const SECONDS: u16 = 9;
    pub(super) const MICROSECONDS: u16 = 10;
    pub(super) const KIND: u16 = 11;
    pub(super) const AGENT: u16 = 12;
    pub(super) const PASSWORD: u16 = 14;
    pub(super) const PAYLOAD: u16 = 15;
    pub(super) const COMPRESSED: u16 = 16;
    pub(super) const CORRELATION: u16 = 17;
    pub(super) const NODE: u16 = 19;
}

/// The reason why a packet cannot be used.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HepError {
    /// It does not start like version 3.
    NotHep3,
    /// A length points past its end.
    Truncated,
    /// It does not contain SIP.
    NotSip,
    /// A required chunk is missing, or has a wrong size.
    Incomplete,
    /// The payload is compressed, an option of capture agents.
    Compressed,
}

impl fmt::Display for HepError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotHep3 => "not HEP version 3",
            Self::Truncated => "a length points beyond the packet",
            Self::NotSip => "no SIP content",
            Self::Incomplete => "an address, the time or the payload is missing",
            Self::Compressed => "the payload is compressed",
        })
    }
}

/// Contents of the chunks of a packet.
#[derive(Default)]
struct Chunks<'a> {
    protocol: Option<u8>,
    from: Option<IpAddr>,
    to: Option<IpAddr>,
    ports: [Option<u16>; 2],
    secs: Option<u32>,
    micros: Option<u32>,
    kind: Option<u8>,
    payload: Option<&'a [u8]>,
    compressed: bool,
}

impl<'a> Chunks<'a> {
    /// Reads a chunk of the generic vendor; unknown types are skipped.
    fn take(&mut self, kind: u16, value: &'a [u8]) {
        let v4 = || <[u8; 4]>::try_from(value).ok().map(|octets| Ipv4Addr::from(octets).into());
        let v6 = || <[u8; 16]>::try_from(value).ok().map(|octets| Ipv6Addr::from(octets).into());
        let short = || value.try_into().ok().map(u16::from_be_bytes);
        let long = || value.try_into().ok().map(u32::from_be_bytes);
        match kind {
            chunk::PROTOCOL => self.protocol = value.first().copied(),
            chunk::FROM_V4 => self.from = v4(),
            chunk::TO_V4 => self.to = v4(),
            chunk::FROM_V6 => self.from = v6(),
            chunk::TO_V6 => self.to = v6(),
            chunk::FROM_PORT => self.ports[0] = short(),
            chunk::TO_PORT => self.ports[1] = short(),
            chunk::SECONDS => self.secs = long(),
            chunk::MICROSECONDS => self.micros = long(),
            chunk::KIND => self.kind = value.first().copied(),
            chunk::PAYLOAD => self.payload = Some(value),
            chunk::COMPRESSED => self.compressed = true,
            _ => {}
        }
    }

    fn captured(self) -> Option<Captured<'a>> {
        let nanos = u64::from(self.secs?) * 1_000_000_000 + u64::from(self.micros?) * 1_000;
        Some(Captured {
            at: Instant::from_nanos(nanos),
            from: SocketAddr::new(self.from?, self.ports[0]?),
            to: SocketAddr::new(self.to?, self.ports[1]?),
            // All transports but UDP have connections, and the addresses of TLS and WebSocket are used in the same way.
            transport: if self.protocol? == UDP { Transport::Udp } else { Transport::Tcp },
            bytes: self.payload?,
        })
    }
}

/// Reads a packet. Times are since 1970, by the clock of its sender.
///
/// # Errors
/// It is no complete packet of version 3 with SIP.
pub fn read(packet: &[u8]) -> Result<Captured<'_>, HepError> {
    let rest = packet.strip_prefix(MAGIC).ok_or(HepError::NotHep3)?;
    let (length, _) = rest.split_first_chunk().ok_or(HepError::Truncated)?;
    let length = usize::from(u16::from_be_bytes(*length));
    let mut rest = packet.get(MAGIC.len() + 2..length).ok_or(HepError::Truncated)?;
    let mut chunks = Chunks::default();
    while !rest.is_empty() {
        let (head, _) = rest.split_first_chunk::<CHUNK>().ok_or(HepError::Truncated)?;
        let [vendor, kind, length] = [0, 2, 4].map(|at| u16::from_be_bytes([head[at], head[at + 1]]));
        let value = rest.get(CHUNK..usize::from(length)).ok_or(HepError::Truncated)?;
        if vendor == 0 {
            chunks.take(kind, value);
        }
        rest = &rest[usize::from(length)..];
    }
    if chunks.kind != Some(SIP) {
        return Err(HepError::NotSip);
    }
    if chunks.compressed && chunks.payload.is_none() {
        return Err(HepError::Compressed);
    }
    chunks.captured().ok_or(HepError::Incomplete)
}

/// The sender of packets, as the collector shows it. Empty texts are left out.
#[derive(Clone)]
pub struct Agent {
    /// Number of the capture agent.
    pub id: u32,
    /// Name of the node.
    pub node: String,
    /// Password of the collector.
    pub password: String,
}

/// Appends a packet. `correlation` joins the messages of a call. Returns whether the message fits; otherwise nothing is
/// appended. Both addresses are given as IPv6 if one of them is.
pub fn write(agent: &Agent, message: &Captured<'_>, correlation: &[u8], out: &mut Vec<u8>) -> bool {
    let start = out.len();
    out.extend(MAGIC);
    out.extend([0; 2]);
    let mut add = |kind: u16, value: &[u8]| {
        // A length that does not fit makes the whole too long as well.
        let length = (CHUNK + value.len()) as u16;
        for number in [0, kind, length] {
            out.extend(number.to_be_bytes());
        }
        out.extend(value);
    };
    let Captured { at, from, to, transport, bytes } = *message;
    let protocol = if transport == Transport::Udp { UDP } else { TCP };
    // Numbers of the address families as Linux has them.
    if let (IpAddr::V4(from), IpAddr::V4(to)) = (from.ip().to_canonical(), to.ip().to_canonical()) {
        add(chunk::FAMILY, &[2]);
        add(chunk::FROM_V4, &from.octets());
        add(chunk::TO_V4, &to.octets());
    } else {
        let octets = |address: IpAddr| match address {
            IpAddr::V4(address) => address.to_ipv6_mapped().octets(),
            IpAddr::V6(address) => address.octets(),
        };
        add(chunk::FAMILY, &[10]);
        add(chunk::FROM_V6, &octets(from.ip()));
        add(chunk::TO_V6, &octets(to.ip()));
    }
    add(chunk::PROTOCOL, &[protocol]);
    add(chunk::FROM_PORT, &from.port().to_be_bytes());
    add(chunk::TO_PORT, &to.port().to_be_bytes());
    let micros = at.as_nanos() / 1_000;
    add(chunk::SECONDS, &((micros / 1_000_000) as u32).to_be_bytes());
    add(chunk::MICROSECONDS, &((micros % 1_000_000) as u32).to_be_bytes());
    add(chunk::KIND, &[SIP]);
    add(chunk::AGENT, &agent.id.to_be_bytes());
    let texts = [
        (chunk::NODE, agent.node.as_bytes()),
        (chunk::PASSWORD, agent.password.as_bytes()),
        (chunk::CORRELATION, correlation),
    ];
    for (kind, text) in texts.into_iter().filter(|(_, text)| !text.is_empty()) {
        add(kind, text);
    }
    add(chunk::PAYLOAD, bytes);
    let length = out.len() - start;
    if length > LONGEST {
        out.truncate(start);
        return false;
    }
    out[start + MAGIC.len()..][..2].copy_from_slice(&(length as u16).to_be_bytes());
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn packet(chunks: &[(u16, u16, &[u8])]) -> Vec<u8> {
        let mut body = Vec::new();
        for (vendor, kind, value) in chunks {
            for number in [*vendor, *kind, (value.len() + CHUNK) as u16] {
                body.extend(number.to_be_bytes());
            }
            body.extend(*value);
        }
        let length = (body.len() + 6) as u16;
        [&MAGIC[..], &length.to_be_bytes(), &body].concat()
    }

    const SIP_OVER_UDP: [(u16, u16, &[u8]); 10] = [
        (0, 1, &[2]),
        (0, 2, &[17]),
        (0, 3, &[10, 0, 0, 1]),
        (0, 4, &[10, 0, 0, 2]),
        (0, 7, &[0x13, 0xc4]),
        (0, 8, &[0x13, 0xd8]),
        (0, 9, &[0, 0, 0, 5]),
        (0, 10, &[0, 0, 0, 7]),
        (0, 11, &[1]),
        (0, 15, b"OPTIONS"),
    ];

    #[test]
    fn a_packet_of_an_agent() {
        let mut chunks = SIP_OVER_UDP.to_vec();
        // A chunk of another vendor, and one with the number of the capture agent.
        chunks.splice(2..2, [(0x1234, 15, &b"other"[..]), (0, 12, &[0, 0, 0, 9])]);
        let bytes = packet(&chunks);
        let captured = read(&bytes).expect("a packet");
        assert_eq!(captured.at.as_nanos(), 5_000_007_000);
        assert_eq!(
            (captured.from, captured.to),
            (([10, 0, 0, 1], 5060).into(), ([10, 0, 0, 2], 5080).into())
        );
        assert_eq!((captured.transport, captured.bytes), (Transport::Udp, &b"OPTIONS"[..]));
    }

    #[test]
    fn ipv6_and_connections() {
        let mut chunks = SIP_OVER_UDP.to_vec();
        let (mut from, mut to) = ([0; 16], [0; 16]);
        (from[15], to[15]) = (1, 2);
        chunks[1] = (0, 2, &[6]);
        chunks[2] = (0, 5, &from);
        chunks[3] = (0, 6, &to);
        let bytes = packet(&chunks);
        let captured = read(&bytes).expect("a packet");
        assert_eq!(
            (captured.from.to_string(), captured.transport),
            ("[::1]:5060".to_owned(), Transport::Tcp)
        );
    }

    #[test]
    fn faults_are_reported() {
        let error = |bytes: &[u8]| read(bytes).expect_err("no packet");
        let whole = packet(&SIP_OVER_UDP);
        for end in 0..whole.len() {
            let expected = if end < MAGIC.len() { HepError::NotHep3 } else { HepError::Truncated };
            assert_eq!(error(&whole[..end]), expected, "{end} bytes");
        }
        let without = |at: usize| {
            let mut chunks = SIP_OVER_UDP.to_vec();
            chunks.remove(at);
            chunks
        };
        for at in 1..8 {
            assert_eq!(error(&packet(&without(at))), HepError::Incomplete);
        }
        assert_eq!(error(&packet(&without(8))), HepError::NotSip);
        let mut compressed = without(9);
        compressed.push((0, 16, b"x"));
        assert_eq!(error(&packet(&compressed)), HepError::Compressed);
        let mut odd = SIP_OVER_UDP.to_vec();
        odd[2] = (0, 3, &[10, 0, 0]);
        assert_eq!(error(&packet(&odd)), HepError::Incomplete);
    }

    proptest! {
        #[test]
        fn a_message_is_read_as_it_was_written(
            ips in any::<[IpAddr; 2]>(),
            ports in any::<[u16; 2]>(),
            micros in 0..4_000_000_000_000_000_u64,
            body in prop_oneof![prop::collection::vec(any::<u8>(), 1..90), (65_000..65_536_usize).prop_map(|length| vec![b'x'; length])],
            is_udp in any::<bool>(),
            node in any::<String>(),
        ) {
            let [from, to] = [0, 1].map(|at| SocketAddr::new(ips[at], ports[at]));
            let transport = if is_udp { Transport::Udp } else { Transport::Tcp };
            let at = Instant::from_nanos(micros * 1_000);
            let message = Captured { at, from, to, transport, bytes: &body };
            let agent = Agent { id: 7, node, password: "secret".to_owned() };
            let mut out = b"before".to_vec();
            if write(&agent, &message, b"call", &mut out) {
                prop_assert!(out.len() - 6 <= LONGEST);
                let back = read(&out[6..]).expect("a packet");
                prop_assert_eq!((back.at, back.transport, back.bytes), (at, transport, &body[..]));
                let plain = |address: SocketAddr| (address.ip().to_canonical(), address.port());
                prop_assert_eq!([back.from, back.to].map(plain), [from, to].map(plain));
                for chunk in [&b"\0\0\0\x0c\0\x0a\0\0\0\x07"[..], b"\0\0\0\x0e\0\x0csecret", b"\0\0\0\x11\0\x0acall"] {
                    prop_assert!(out.windows(chunk.len()).any(|there| there == chunk));
                }
            } else {
                prop_assert!(body.len() > 60_000 && out == b"before");
            }
        }

        #[test]
        fn any_bytes_are_read(bytes in prop::collection::vec(any::<u8>(), 0..80), whole in any::<bool>()) {
            let mut packet = [&MAGIC[..], &((bytes.len() + 6) as u16).to_be_bytes(), &bytes].concat();
            if !whole {
                packet.drain(..3);
            }
            prop_assert_eq!(read(&packet).is_ok(), false);
        }
    }
}
