//! Packets of all kinds, made by the builder of `etherparse`.

use super::*;
use etherparse::{IpFragOffset, IpNumber, Ipv4Header, Ipv6FragmentHeader, PacketBuilder};
use proptest::prelude::*;

const TEXT: &[u8] = b"OPTIONS sip:a@b SIP/2.0\r\nCall-ID: x\r\nContent-Length: 0\r\n\r\n";

struct Bed {
    decoder: Decoder,
    counts: Counts,
    /// Sender, receiver, transport and bytes of each message.
    found: Vec<(String, String, Transport, Vec<u8>)>,
}

impl Bed {
    fn new() -> Self {
        Self { decoder: Decoder::new(), counts: Counts::default(), found: Vec::new() }
    }

    fn packet(&mut self, link: LinkLayer, bytes: &[u8]) -> &mut Self {
        let found = &mut self.found;
        self.decoder.packet(Instant::ZERO, link, bytes, &mut self.counts, &mut |captured, _| {
            let Captured { from, to, transport, bytes, .. } = captured;
            found.push((from.to_string(), to.to_string(), *transport, bytes.to_vec()));
        });
        self
    }

    /// Asserts that exactly this message was found.
    fn is(&self, from: &str, to: &str, transport: Transport, bytes: &[u8]) {
        assert_eq!(self.found, [(from.to_owned(), to.to_owned(), transport, bytes.to_vec())]);
    }
}

macro_rules! built {
    ($builder:expr, $payload:expr) => {{
        let builder = $builder;
        let mut packet = Vec::new();
        builder.write(&mut packet, $payload).expect("a Vec takes any packet");
        packet
    }};
}

const V4: [[u8; 4]; 2] = [[10, 0, 0, 1], [10, 0, 0, 2]];
const V6: [[u8; 16]; 2] = [
    [32, 1, 13, 184, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1],
    [32, 1, 13, 184, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2],
];

#[test]
fn datagrams_over_each_link_layer() {
    let ethernet = || PacketBuilder::ethernet2([1; 6], [2; 6]);
    let plain = built!(ethernet().ipv4(V4[0], V4[1], 9).udp(5060, 5070), TEXT);
    let ip = &plain[14..];
    let cooked = [&[0; 14][..], &[8, 0], ip].concat();
    let cooked2 = [&[8, 0][..], &[0; 18], ip].concat();
    let loopback = [&[2, 0, 0, 0][..], ip].concat();
    for (link, bytes) in [
        (LinkLayer::Ethernet, plain.clone()),
        (
            LinkLayer::Ethernet,
            built!(ethernet().single_vlan(7.try_into().unwrap()).ipv4(V4[0], V4[1], 9).udp(5060, 5070), TEXT),
        ),
        (
            LinkLayer::Ethernet,
            built!(
                ethernet()
                    .double_vlan(7.try_into().unwrap(), 8.try_into().unwrap())
                    .ipv4(V4[0], V4[1], 9)
                    .udp(5060, 5070),
                TEXT
            ),
        ),
        (LinkLayer::Ip, ip.to_vec()),
        (LinkLayer::Cooked, cooked),
        (LinkLayer::Cooked2, cooked2),
        (LinkLayer::Loopback, loopback),
    ] {
        Bed::new().packet(link, &bytes).is("10.0.0.1:5060", "10.0.0.2:5070", Transport::Udp, TEXT);
    }
    let v6 = built!(ethernet().ipv6(V6[0], V6[1], 9).udp(5060, 5070), TEXT);
    Bed::new().packet(LinkLayer::Ethernet, &v6).is(
        "[2001:db8::1]:5060",
        "[2001:db8::2]:5070",
        Transport::Udp,
        TEXT,
    );
    // Padded to the shortest Ethernet frame.
    let short = built!(ethernet().ipv4(V4[0], V4[1], 9).udp(1, 2), b"\r\n");
    let padded = [&short[..], &[0; 20]].concat();
    Bed::new().packet(LinkLayer::Ethernet, &padded).is("10.0.0.1:1", "10.0.0.2:2", Transport::Udp, b"\r\n");
}

#[test]
fn ip_is_found_behind_tags() {
    let tagged = [&[0, 7, 0x81, 0][..], &[0, 8, 8, 0], b"packet"].concat();
    assert_eq!(ip_packet(0x88a8, &tagged), Some(&b"packet"[..]));
    assert_eq!(ip_packet(0x86dd, b"packet"), Some(&b"packet"[..]));
    assert_eq!((ip_packet(0x0806, b"packet"), ip_packet(0x8100, b"abc")), (None, None));
    assert_eq!(ip_packet(0x8100, &[0, 7, 0x81, 0].repeat(9)), None, "more VLAN tags than are allowed");
}

#[test]
fn link_types_of_files() {
    assert_eq!(
        (LinkLayer::of_file(1), LinkLayer::of_file(276)),
        (Some(LinkLayer::Ethernet), Some(LinkLayer::Cooked2))
    );
    assert_eq!(LinkLayer::of_file(105), None, "802.11");
}

/// A UDP datagram with these ports, without IP.
fn udp(payload: &[u8]) -> Vec<u8> {
    built!(PacketBuilder::ipv4(V4[0], V4[1], 9).udp(5060, 5070), payload)[20..].to_vec()
}

#[test]
fn fragments_of_ipv4() {
    let payload = [TEXT, &[b'x'; 3000]].concat();
    let datagram = udp(&payload);
    let fragments = datagram.chunks(1480).enumerate().map(|(number, part)| {
        let mut header = Ipv4Header::new(part.len() as u16, 9, IpNumber::UDP, V4[0], V4[1]).unwrap();
        header.identification = 77;
        header.more_fragments = number < 2;
        header.dont_fragment = false;
        header.fragment_offset = IpFragOffset::try_new((number * 1480 / 8) as u16).unwrap();
        let mut packet = header.to_bytes().to_vec();
        packet.extend(part);
        packet
    });
    let mut bed = Bed::new();
    for fragment in fragments.collect::<Vec<_>>().iter().rev() {
        bed.packet(LinkLayer::Ip, fragment);
    }
    bed.is("10.0.0.1:5060", "10.0.0.2:5070", Transport::Udp, &payload);
}

#[test]
fn fragments_of_ipv6() {
    let datagram = udp(TEXT);
    let mut bed = Bed::new();
    for (number, part) in datagram.chunks(48).enumerate() {
        let offset = IpFragOffset::try_new((number * 6) as u16).unwrap();
        let more = (number + 1) * 48 < datagram.len();
        let fragment = Ipv6FragmentHeader::new(IpNumber::UDP, offset, more, 5).to_bytes();
        let payload = [&fragment[..], part].concat();
        let mut packet = vec![0x60, 0, 0, 0, 0, payload.len() as u8, 44, 9];
        packet.extend(V6[0]);
        packet.extend(V6[1]);
        packet.extend(payload);
        bed.packet(LinkLayer::Ip, &packet);
    }
    bed.is("[2001:db8::1]:5060", "[2001:db8::2]:5070", Transport::Udp, TEXT);
}

#[test]
fn segments_of_tcp() {
    let mut bed = Bed::new();
    let tcp = |sequence: u32| PacketBuilder::ipv4(V4[0], V4[1], 9).tcp(40_000, 5060, sequence, 1000);
    bed.packet(LinkLayer::Ip, &built!(tcp(9).syn(), b""));
    bed.packet(LinkLayer::Ip, &built!(tcp(30), &TEXT[20..]));
    bed.packet(LinkLayer::Ip, &built!(tcp(10), &TEXT[..20]));
    bed.is("10.0.0.1:40000", "10.0.0.2:5060", Transport::Tcp, TEXT);
}

#[test]
fn the_header_of_a_truncated_datagram_is_read() {
    let packet = built!(PacketBuilder::ipv4(V4[0], V4[1], 9).udp(5060, 5070), TEXT);
    let mut bed = Bed::new();
    bed.packet(LinkLayer::Ip, &packet[..packet.len() - 10]);
    bed.is("10.0.0.1:5060", "10.0.0.2:5070", Transport::Udp, &TEXT[..TEXT.len() - 10]);
    assert_eq!(bed.counts.truncated, 1);
}

/// The second extension header claims to be longer than the packet; bytes beyond the packet must not be read.
#[test]
fn extension_headers_end_with_the_packet() {
    let mut bed = Bed::new();
    let mut packet = vec![0x60, 0, 0, 0, 0, 16, 0, 64];
    packet.extend([1; 32]);
    packet.extend([60, 0, 0, 0, 0, 0, 0, 0]);
    packet.extend([44, 200, 0, 0, 0, 0, 0, 0]);
    bed.packet(LinkLayer::Ip, &packet);
    assert!(bed.found.is_empty());
}

proptest! {
    /// Random bytes, and packets with changed bytes.
    #[test]
    fn any_packet_is_accepted(
        noise in prop::collection::vec(any::<u8>(), 0..120),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..8),
        kind in 0..4_u8,
    ) {
        let mut bed = Bed::new();
        let mut packet = match kind {
            0 => noise,
            1 => built!(PacketBuilder::ethernet2([1; 6], [2; 6]).ipv4(V4[0], V4[1], 9).udp(5060, 5070), TEXT),
            2 => built!(PacketBuilder::ethernet2([1; 6], [2; 6]).ipv6(V6[0], V6[1], 9).tcp(1, 2, 3, 4), TEXT),
            _ => built!(PacketBuilder::ipv4(V4[0], V4[1], 9).udp(5060, 5070), &noise),
        };
        for (index, byte) in changes {
            if !packet.is_empty() {
                let at = index.index(packet.len());
                packet[at] = byte;
            }
        }
        for link in [LinkLayer::Ethernet, LinkLayer::Ip, LinkLayer::Cooked, LinkLayer::Cooked2, LinkLayer::Loopback] {
            bed.packet(link, &packet);
        }
        prop_assert!(bed.found.len() <= 5);
    }
}
