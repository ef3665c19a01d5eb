//! From packets to messages: link layer, VLAN tags, IP and its fragments, UDP, TCP.
//!
//! - `fragments`: datagrams from fragments,
//! - `streams`: byte streams from segments, `framing`: messages from byte streams,
//! - `bounded`: the map of limited size of both.
//!
//! Checksums are ignored: network cards fill them in after the capture.

mod bounded;
mod fragments;
mod framing;
mod streams;

use crate::captured::Captured;
use crate::counts::Counts;
use base::{Instant, Transport};
use core::net::{IpAddr, SocketAddr};
use etherparse::{
    EtherType, IpNumber, Ipv6FragmentHeader, Ipv6FragmentHeaderSlice, LaxNetSlice, LaxSlicedPacket, TcpSlice,
    UdpSlice, ip_number,
};
use fragments::{Fragment, Fragments, Id};
use streams::{Segment, Streams};

/// Link layer of a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LinkLayer {
    /// Ethernet, with VLAN tags or without.
    Ethernet,
    /// No link layer: IPv4 or IPv6.
    Ip,
    /// Linux "cooked" capture, as `tcpdump -i any` writes it.
    Cooked,
    /// Version 2 of it.
    Cooked2,
    /// BSD loopback: four bytes that name the protocol.
    Loopback,
}

impl LinkLayer {
    /// Returns the link layer with this number in capture files (`LINKTYPE_` of tcpdump.org).
    pub const fn of_file(number: i32) -> Option<Self> {
        match number {
            0 | 108 => Some(Self::Loopback),
            1 => Some(Self::Ethernet),
            // Some systems wrote 12 and 14 for raw IP.
            12 | 14 | 101 | 228 | 229 => Some(Self::Ip),
            113 => Some(Self::Cooked),
            276 => Some(Self::Cooked2),
            _ => None,
        }
    }
}

/// Makes messages of packets.
#[derive(Debug)]
pub(crate) struct Decoder {
    fragments: Fragments,
    streams: Streams,
}

impl Decoder {
    pub(crate) fn new() -> Self {
        Self { fragments: Fragments::new(), streams: Streams::new() }
    }

    /// Takes a packet, and calls `message` with each message that it completes. Packets other than UDP and TCP over IP
    /// are ignored.
    pub(crate) fn packet(
        &mut self,
        at: Instant,
        link: LinkLayer,
        bytes: &[u8],
        counts: &mut Counts,
        message: &mut impl FnMut(&Captured<'_>, &mut Counts),
    ) {
        let Some(packet) = slice(link, bytes) else { return };
        let Some(net) = &packet.net else { return };
        let (id, fragment) = match net {
            LaxNetSlice::Ipv4(ip) => {
                let header = ip.header();
                let [from, to] = [header.source_addr(), header.destination_addr()].map(IpAddr::V4);
                let fragment = (header.fragments_offset(), header.more_fragments());
                let number = header.identification().into();
                (Id { from, to, protocol: ip.payload().ip_number.0, number }, fragment)
            }
            LaxNetSlice::Ipv6(ip) => {
                let header = ip.header();
                let [from, to] = [header.source_addr(), header.destination_addr()].map(IpAddr::V6);
                let parts = fragment_header(ip.extensions().first_header(), ip.extensions().slice());
                let fragment = parts
                    .as_ref()
                    .map_or_else(Default::default, |part| (part.fragment_offset, part.more_fragments));
                let number = parts.map_or(0, |part| part.identification);
                (Id { from, to, protocol: ip.payload().ip_number.0, number }, fragment)
            }
            LaxNetSlice::Arp(_) => return,
        };
        let Some(payload) = net.ip_payload_ref() else { return };
        if payload.incomplete {
            counts.truncated += 1;
        }
        if payload.fragmented {
            let (offset, more) = fragment;
            let fragment = Fragment { offset, more, payload: payload.payload };
            if let Some(whole) = self.fragments.take(at, &id, fragment, counts) {
                self.transport(at, &id, &whole, counts, message);
            }
        } else {
            self.transport(at, &id, payload.payload, counts, message);
        }
    }

    fn transport(
        &mut self,
        at: Instant,
        id: &Id,
        bytes: &[u8],
        counts: &mut Counts,
        message: &mut impl FnMut(&Captured<'_>, &mut Counts),
    ) {
        let ends = |from, to| (SocketAddr::new(id.from, from), SocketAddr::new(id.to, to));
        match IpNumber(id.protocol) {
            ip_number::UDP => {
                // A truncated message is still useful, because the header comes first.
                let Ok(udp) = UdpSlice::from_slice_lax(bytes) else { return };
                let (from, to) = ends(udp.source_port(), udp.destination_port());
                let captured = Captured { at, from, to, transport: Transport::Udp, bytes: udp.payload() };
                message(&captured, counts);
            }
            ip_number::TCP => {
                let Ok(tcp) = TcpSlice::from_slice(bytes) else { return };
                let (from, to) = ends(tcp.source_port(), tcp.destination_port());
                let segment = Segment {
                    sequence: tcp.sequence_number(),
                    syn: tcp.syn(),
                    end: tcp.fin() || tcp.rst(),
                    payload: tcp.payload(),
                };
                // The headers are counted after the stream, which borrows the counts.
                let mut found = Vec::new();
                self.streams.take(at, (from, to), segment, counts, |header| found.push(header.to_vec()));
                for bytes in &found {
                    message(&Captured { at, from, to, transport: Transport::Tcp, bytes }, counts);
                }
            }
            _ => {}
        }
    }
}

/// Returns the IP packet that an `EtherType` announces, after VLAN tags, if there are any.
pub fn ip_packet(kind: u16, bytes: &[u8]) -> Option<&[u8]> {
    let (mut kind, mut rest) = (kind, bytes);
    // The number of tags that `etherparse` accepts.
    for _ in 0..4 {
        match EtherType(kind) {
            EtherType::IPV4 | EtherType::IPV6 => return Some(rest),
            EtherType::VLAN_TAGGED_FRAME
            | EtherType::PROVIDER_BRIDGING
            | EtherType::VLAN_DOUBLE_TAGGED_FRAME => {
                let (tag, behind) = rest.split_first_chunk::<4>()?;
                (kind, rest) = (u16::from_be_bytes([tag[2], tag[3]]), behind);
            }
            _ => return None,
        }
    }
    None
}

/// Returns the fragment header among the extension headers of IPv6 (RFC 8200 §4); `first` is the kind of the first one.
/// The iterator of `etherparse` 0.21 reads beyond the end of headers that do not fit.
fn fragment_header(first: Option<IpNumber>, headers: &[u8]) -> Option<Ipv6FragmentHeader> {
    let (mut kind, mut rest) = (first?, headers);
    while let [next, length, ..] = rest {
        let length = usize::from(*length);
        let whole = match kind {
            ip_number::IPV6_FRAG => {
                return Ipv6FragmentHeaderSlice::from_slice(rest).ok().map(|part| part.to_header());
            }
            ip_number::AUTH => (length + 2) * 4,
            ip_number::IPV6_HOP_BY_HOP
            | ip_number::IPV6_ROUTE
            | ip_number::IPV6_DEST_OPTIONS
            | ip_number::MOBILITY
            | ip_number::HIP
            | ip_number::SHIM6 => (length + 1) * 8,
            _ => return None,
        };
        (kind, rest) = (IpNumber(*next), rest.get(whole..)?);
    }
    None
}

/// Splits a packet into its parts.
fn slice(link: LinkLayer, bytes: &[u8]) -> Option<LaxSlicedPacket<'_>> {
    let typed = |number: &[u8], payload| {
        let number = EtherType(u16::from_be_bytes(number.try_into().ok()?));
        Some(LaxSlicedPacket::from_ether_type(number, payload))
    };
    match link {
        LinkLayer::Ethernet => LaxSlicedPacket::from_ethernet(bytes).ok(),
        LinkLayer::Ip => LaxSlicedPacket::from_ip(bytes).ok(),
        LinkLayer::Cooked => typed(bytes.get(14..16)?, bytes.get(16..)?),
        LinkLayer::Cooked2 => typed(bytes.get(..2)?, bytes.get(20..)?),
        LinkLayer::Loopback => LaxSlicedPacket::from_ip(bytes.get(4..)?).ok(),
    }
}

#[cfg(test)]
mod tests;
