//! Destination of responses: writes the mark into the topmost Via, and reads it.

use std::io::Write as _;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use arrayvec::ArrayVec;

use crate::Span;
use crate::header::via::{Rport, Via};
use crate::text;

/// Destination of a response by RFC 3261 §18.2.2 with RFC 3581 §4. `via` is its topmost Via, after the own Via was
/// removed.
///
/// `maddr` comes first, then `received` with `rport`, then the sent-by. `None` if the result is a name, which would
/// have to be looked up. Also `None` for an address that must not get responses: an unspecified or multicast address,
/// or the IPv4 broadcast address (RFC 4475 §3.3.10).
pub fn response_target(via: &Via<'_>) -> Option<SocketAddr> {
    let port = via.sent_by_port();
    if let Some(maddr) = via.maddr {
        return unicast(maddr.ip()?, port);
    }
    let port = match via.rport {
        Rport::Port(port) => port,
        Rport::Absent | Rport::Flag => port,
    };
    unicast(via.received.or(via.host.ip())?, port)
}

/// Result of [`response_target`] for a request from `source`, as if the request were already marked
/// ([`crate::Edits::mark_received`]).
pub fn request_source_target(via: &Via<'_>, source: SocketAddr) -> Option<SocketAddr> {
    let port = via.sent_by_port();
    match (via.maddr, via.rport) {
        (Some(maddr), _) => unicast(maddr.ip()?, port),
        (None, Rport::Absent) => unicast(source.ip().to_canonical(), port),
        (None, Rport::Flag | Rport::Port(_)) => unicast(source.ip().to_canonical(), source.port()),
    }
}

/// The address, if it is a unicast address.
fn unicast(ip: IpAddr, port: u16) -> Option<SocketAddr> {
    let ip = ip.to_canonical();
    let one = !ip.is_unspecified() && !ip.is_multicast() && ip != IpAddr::V4(Ipv4Addr::BROADCAST);
    (one && port != 0).then_some(SocketAddr::new(ip, port))
}

/// Text that replaces a range. `;received=` and the longest IPv6 address take 55 bytes, `=65535` takes six.
pub(crate) type Piece = (Span, ArrayVec<u8, 64>);

/// Edits of the topmost Via of a request from `source`: at most two pieces, in order.
///
/// RFC 3261 §18.2.1: `received` is added if the sent-by is a name or differs from the source. RFC 3581 §4: `rport`, if
/// present, gets the source port, and `received` is always added. Values that the sender wrote are replaced. Otherwise
/// the sender could direct responses to any address.
pub(crate) fn mark(via: &Via<'_>, source: SocketAddr) -> ArrayVec<Piece, 2> {
    let ip = source.ip().to_canonical();
    let differs = via.host.ip().is_none_or(|host| host.to_canonical() != ip);
    let added = via.received_at.is_none() && (differs || via.rport_at.is_some());
    let mut pieces = ArrayVec::new();
    if let Some(at) = via.rport_at {
        let mut text = ArrayVec::new();
        text.push(b'=');
        push_number(source.port(), &mut text);
        if added {
            push_received(ip, &mut text);
        }
        pieces.push((at, text));
    } else if added {
        let mut text = ArrayVec::new();
        push_received(ip, &mut text);
        pieces.push((Span { start: via.value.end, end: via.value.end }, text));
    }
    if let Some(at) = via.received_at {
        let mut text = ArrayVec::new();
        push_ip(ip, &mut text);
        pieces.push((at, text));
    }
    pieces.sort_unstable_by_key(|(at, _)| at.start);
    pieces
}

fn push_received(ip: IpAddr, text: &mut ArrayVec<u8, 64>) {
    push(b";received=", text);
    push_ip(ip, text);
}

/// Writes an address as the `Display` of [`IpAddr`] does, but without the formatter, which takes longer than the other
/// work for the mark.
fn push_ip(ip: IpAddr, text: &mut ArrayVec<u8, 64>) {
    match ip {
        IpAddr::V4(ip) => {
            for (index, octet) in ip.octets().into_iter().enumerate() {
                push(if index == 0 { b"" } else { b"." }, text);
                push_number(octet.into(), text);
            }
        }
        IpAddr::V6(ip) => write!(text, "{ip}").expect(ENOUGH),
    }
}

fn push_number(n: u16, text: &mut ArrayVec<u8, 64>) {
    push(text::decimal(n.into(), &mut [0; text::DIGITS_MAX]), text);
}

fn push(bytes: &[u8], text: &mut ArrayVec<u8, 64>) {
    text.try_extend_from_slice(bytes).expect(ENOUGH);
}

const ENOUGH: &str = "64 bytes hold a port and an address";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::header::via;

    fn parse(text: &str) -> Via<'_> {
        via::parse_strict(text.as_bytes(), Span::new(0, text.len())).unwrap_or_else(|_| panic!("{text}")).0
    }

    fn marked(text: &str, source: &str) -> String {
        let via = parse(text);
        let mut out = String::new();
        let mut at = 0;
        for (span, piece) in mark(&via, source.parse().unwrap()) {
            out += &text[at..span.start as usize];
            out += std::str::from_utf8(&piece).unwrap();
            at = span.end as usize;
        }
        out + &text[at..]
    }

    #[test]
    fn marks() {
        let cases = [
            ("SIP/2.0/UDP 10.0.0.1;branch=b", "10.0.0.1:9", "SIP/2.0/UDP 10.0.0.1;branch=b"),
            ("SIP/2.0/UDP a.b;branch=b", "10.0.0.1:9", "SIP/2.0/UDP a.b;branch=b;received=10.0.0.1"),
            ("SIP/2.0/UDP 10.0.0.2 ", "10.0.0.1:9", "SIP/2.0/UDP 10.0.0.2;received=10.0.0.1 "),
            (
                "SIP/2.0/UDP 10.0.0.1;rport;x",
                "10.0.0.1:9",
                "SIP/2.0/UDP 10.0.0.1;rport=9;received=10.0.0.1;x",
            ),
            (
                "SIP/2.0/UDP 10.0.0.1;x;rport",
                "10.0.0.1:9",
                "SIP/2.0/UDP 10.0.0.1;x;rport=9;received=10.0.0.1",
            ),
            ("SIP/2.0/UDP a;rport = 5 ;x", "10.0.0.1:9", "SIP/2.0/UDP a;rport=9;received=10.0.0.1 ;x"),
            ("SIP/2.0/UDP a;received=6.6.6.6;rport", "10.0.0.1:9", "SIP/2.0/UDP a;received=10.0.0.1;rport=9"),
            (
                "SIP/2.0/UDP 10.0.0.1;rport;received=6.6.6.6",
                "10.0.0.1:9",
                "SIP/2.0/UDP 10.0.0.1;rport=9;received=10.0.0.1",
            ),
            (
                "SIP/2.0/UDP [2001:db8::1]",
                "[2001:db8::2]:9",
                "SIP/2.0/UDP [2001:db8::1];received=2001:db8::2",
            ),
            ("SIP/2.0/UDP 10.0.0.1", "[::ffff:10.0.0.1]:9", "SIP/2.0/UDP 10.0.0.1"),
        ];
        for (text, source, expected) in cases {
            assert_eq!(marked(text, source), expected);
        }
    }

    #[test]
    fn longest_address_fits() {
        let source = "[2001:db81:1111:2222:3333:4444:5555:6666]:65535";
        assert!(
            marked("SIP/2.0/UDP a;rport", source)
                .ends_with("rport=65535;received=2001:db81:1111:2222:3333:4444:5555:6666")
        );
    }

    #[test]
    fn targets() {
        let cases = [
            ("SIP/2.0/UDP 192.0.2.1", Some("192.0.2.1:5060")),
            ("SIP/2.0/TLS 192.0.2.1", Some("192.0.2.1:5061")),
            ("SIP/2.0/UDP 192.0.2.1:7;rport", Some("192.0.2.1:7")),
            ("SIP/2.0/UDP 192.0.2.1:7;rport=9;received=192.0.2.2", Some("192.0.2.2:9")),
            ("SIP/2.0/UDP a.b:7;received=192.0.2.2", Some("192.0.2.2:7")),
            ("SIP/2.0/UDP a.b:7;received=192.0.2.2;rport=9;maddr=192.0.2.3", Some("192.0.2.3:7")),
            ("SIP/2.0/UDP [2001:db8::9:1]:6050;received=[2001:db8::1]", Some("[2001:db8::1]:6050")),
            ("SIP/2.0/UDP a.b", None),
            ("SIP/2.0/UDP 192.0.2.1;maddr=a.b", None),
            ("SIP/2.0/UDP 0.0.0.0", None),
            ("SIP/2.0/UDP 255.255.255.255", None),
            ("SIP/2.0/UDP [::ffff:255.255.255.255]", None),
            ("SIP/2.0/UDP 192.0.2.1;maddr=224.0.1.75", None),
            ("SIP/2.0/UDP [ff02::1]", None),
        ];
        for (text, target) in cases {
            assert_eq!(response_target(&parse(text)), target.map(|t| t.parse().unwrap()), "{text}");
        }
    }

    #[test]
    fn the_source_target_is_the_target_of_the_marked_via() {
        for text in [
            "SIP/2.0/UDP 10.0.0.1",
            "SIP/2.0/UDP 10.0.0.1:7;rport",
            "SIP/2.0/TLS a.b",
            "SIP/2.0/UDP a.b;rport=5;received=6.6.6.6",
            "SIP/2.0/UDP a.b;received=10.0.0.1",
            "SIP/2.0/UDP a.b:9;maddr=192.0.2.3;rport",
            "SIP/2.0/UDP a.b;maddr=224.0.1.75",
        ] {
            for source in ["10.0.0.1:1234", "[2001:db8::5]:1234", "[::ffff:10.0.0.1]:5"] {
                let after = marked(text, source);
                assert_eq!(
                    request_source_target(&parse(text), source.parse().unwrap()),
                    response_target(&parse(&after)),
                    "{text} from {source}"
                );
            }
        }
    }
}
