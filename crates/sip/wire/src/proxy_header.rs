//! Header of the PROXY protocol, versions 1 and 2 (`doc/proxy-protocol.txt` of `HAProxy`). A load balancer in front of
//! this process sends the header at the start of a connection, to name the client. Section numbers refer to this
//! document.
//!
//! The caller must expect a header from each trusted sender, and from no other sender. This module does not guess
//! whether there is a header (section 2).

use core::fmt;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use core::str::FromStr;

/// Longest line of version 1 with its CRLF (section 2.1).
pub const V1_MAX: usize = 107;

/// Longest header of version 2. Addresses take at most 36 bytes. The other bytes are room for fields that are skipped,
/// such as names of certificates. A sender must fit the header into one segment (section 2.2), and every host accepts
/// segments of 536 bytes (RFC 9293 §3.7.1).
pub const V2_MAX: usize = 536;

const V1_PREFIX: &[u8] = b"PROXY ";
const V2_SIGNATURE: &[u8] = b"\r\n\r\n\0\r\nQUIT\n";
/// Length of signature, version and command, family and protocol, length.
const V2_FIXED: usize = 16;

/// Result of reading the start of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Read {
    /// The header is incomplete.
    More,
    /// A complete header.
    Whole {
        /// Length in bytes. The bytes after the header come from the client.
        length: usize,
        /// Ends of the client's connection. `None` if the load balancer itself uses the connection (LOCAL), or if the
        /// header names no addresses (UNKNOWN, UNSPEC, datagrams, Unix sockets). Then the addresses of the present
        /// connection are used.
        ends: Option<ConnectionEnds>,
    },
}

/// Ends of the connection from a client to the load balancer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ConnectionEnds {
    /// Address of the client.
    pub source: SocketAddr,
    /// Address to which the client connected.
    pub destination: SocketAddr,
}

/// Reason to close the connection (section 2: a header that violates the specification).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ProxyHeaderError {
    /// The bytes do not start like a header of version 1 or 2.
    Missing,
    /// The header is longer than [`V1_MAX`] or [`V2_MAX`].
    TooLong,
    /// Malformed header; the text names the problem.
    Malformed(&'static str),
}

impl ProxyHeaderError {
    /// A label for the log.
    pub fn reason(self) -> &'static str {
        match self {
            Self::Missing => "proxy_header_missing",
            Self::TooLong => "proxy_header_too_long",
            Self::Malformed(_) => "proxy_header_malformed",
        }
    }
}

impl fmt::Display for ProxyHeaderError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing => f.write_str("the connection does not begin with a PROXY header"),
            Self::TooLong => write!(
                f,
                "the PROXY header is longer than {V1_MAX} bytes in version 1, or {V2_MAX} in version 2"
            ),
            Self::Malformed(problem) => write!(f, "malformed PROXY header: {problem}"),
        }
    }
}

impl core::error::Error for ProxyHeaderError {}

/// Reads the header at the start of a connection; `bytes` are all bytes received so far.
///
/// # Errors
/// As soon as the bytes cannot be the start of a header.
pub fn read(bytes: &[u8]) -> Result<Read, ProxyHeaderError> {
    let begins = |with: &[u8]| bytes.iter().zip(with).all(|(byte, expected)| byte == expected);
    if begins(V2_SIGNATURE) {
        read_v2(bytes)
    } else if begins(V1_PREFIX) {
        read_v1(bytes)
    } else {
        Err(ProxyHeaderError::Missing)
    }
}

/// Section 2.1: one line of text.
fn read_v1(bytes: &[u8]) -> Result<Read, ProxyHeaderError> {
    let bytes = &bytes[..bytes.len().min(V1_MAX)];
    let more = if bytes.len() == V1_MAX { Err(ProxyHeaderError::TooLong) } else { Ok(Read::More) };
    let Some(end) = memchr::memchr2(b'\r', b'\n', bytes) else { return more };
    match bytes[end..] {
        [b'\r', b'\n', ..] => {}
        [b'\r'] => return more,
        _ => return Err(ProxyHeaderError::Malformed("the line does not end with CRLF")),
    }
    Ok(Read::Whole { length: end + 2, ends: v1_ends(&bytes[V1_PREFIX.len()..end])? })
}

/// Reads the text after `PROXY `.
fn v1_ends(text: &[u8]) -> Result<Option<ConnectionEnds>, ProxyHeaderError> {
    let mut words = text.split(|&byte| byte == b' ').map(|word| str::from_utf8(word).unwrap_or_default());
    let mut word = || words.next().unwrap_or_default();
    let address: fn(&str) -> Option<IpAddr> = match word() {
        "TCP4" => |text| Ipv4Addr::from_str(text).ok().map(IpAddr::V4),
        "TCP6" => |text| Ipv6Addr::from_str(text).ok().map(IpAddr::V6),
        // The rest of the line must be ignored.
        "UNKNOWN" => return Ok(None),
        _ => return Err(ProxyHeaderError::Malformed("neither TCP4 nor TCP6 nor UNKNOWN")),
    };
    let (source, destination, source_port, destination_port) = (word(), word(), word(), word());
    if words.next().is_some() {
        return Err(ProxyHeaderError::Malformed("more than two addresses and two ports"));
    }
    let end = |ip, number| Some(SocketAddr::new(address(ip)?, port(number)?));
    match (end(source, source_port), end(destination, destination_port)) {
        (Some(source), Some(destination)) => Ok(Some(ConnectionEnds { source, destination })),
        _ => Err(ProxyHeaderError::Malformed("an address or a port cannot be read")),
    }
}

/// Reads a number without sign and without leading zeros.
fn port(text: &str) -> Option<u16> {
    let is_plain = text.bytes().all(|byte| byte.is_ascii_digit()) && (text == "0" || !text.starts_with('0'));
    text.parse().ok().filter(|_| is_plain)
}

/// Section 2.2: sixteen bytes, whose last two give the number of further bytes.
fn read_v2(bytes: &[u8]) -> Result<Read, ProxyHeaderError> {
    let is_local = match bytes.get(12) {
        None => return Ok(Read::More),
        Some(0x20) => true,
        Some(0x21) => false,
        Some(_) => return Err(ProxyHeaderError::Malformed("a version other than 2, or an unknown command")),
    };
    let Some(&[kind, high, low]) = bytes.get(13..V2_FIXED) else { return Ok(Read::More) };
    let length = V2_FIXED + usize::from(u16::from_be_bytes([high, low]));
    if length > V2_MAX {
        return Err(ProxyHeaderError::TooLong);
    }
    let Some(block) = bytes.get(V2_FIXED..length) else { return Ok(Read::More) };
    // With LOCAL the family is ignored as well.
    let ends = if is_local { None } else { v2_ends(kind, block)? };
    Ok(Read::Whole { length, ends })
}

/// Reads the ends from a block of addresses. Bytes after the addresses are skipped.
fn v2_ends(kind: u8, block: &[u8]) -> Result<Option<ConnectionEnds>, ProxyHeaderError> {
    let short = ProxyHeaderError::Malformed("the length is too short for the addresses");
    let ends = match kind {
        0x11 => ends::<4>(block).ok_or(short)?,
        0x21 => ends::<16>(block).ok_or(short)?,
        _ if kind >> 4 <= 3 && kind & 15 <= 2 => return Ok(None),
        _ => return Err(ProxyHeaderError::Malformed("an unknown address family or protocol")),
    };
    Ok(Some(ends))
}

/// Two addresses of `N` bytes, then two ports.
fn ends<const N: usize>(block: &[u8]) -> Option<ConnectionEnds>
where
    IpAddr: From<[u8; N]>,
{
    let (source, rest) = block.split_first_chunk::<N>()?;
    let (destination, rest) = rest.split_first_chunk::<N>()?;
    let (source_port, rest) = rest.split_first_chunk::<2>()?;
    let (destination_port, _) = rest.split_first_chunk::<2>()?;
    let end = |ip: &[u8; N], port: &[u8; 2]| SocketAddr::new((*ip).into(), u16::from_be_bytes(*port));
    Some(ConnectionEnds { source: end(source, source_port), destination: end(destination, destination_port) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Section 2.2, with any fields after the addresses.
    fn v2(source: SocketAddr, destination: SocketAddr, fields: &[u8]) -> Vec<u8> {
        let (kind, ips) = match (source.ip(), destination.ip()) {
            (IpAddr::V4(from), IpAddr::V4(to)) => (0x11, [from.octets(), to.octets()].concat()),
            (IpAddr::V6(from), IpAddr::V6(to)) => (0x21, [from.octets(), to.octets()].concat()),
            _ => panic!("two families"),
        };
        let ports = [source.port().to_be_bytes(), destination.port().to_be_bytes()].concat();
        let block = [&ips[..], &ports, fields].concat();
        [V2_SIGNATURE, &[0x21, kind], &(block.len() as u16).to_be_bytes(), &block].concat()
    }

    fn v1(source: SocketAddr, destination: SocketAddr) -> Vec<u8> {
        let family = if source.is_ipv4() { 4 } else { 6 };
        let (from, to) = (source.ip(), destination.ip());
        format!("PROXY TCP{family} {from} {to} {} {}\r\n", source.port(), destination.port()).into_bytes()
    }

    fn ends_of_one_family() -> impl Strategy<Value = ConnectionEnds> {
        let address = |ip: BoxedStrategy<IpAddr>| (ip, any::<u16>()).prop_map(SocketAddr::from);
        let v4 = || any::<[u8; 4]>().prop_map(IpAddr::from).boxed();
        let v6 = || any::<[u8; 16]>().prop_map(IpAddr::from).boxed();
        prop_oneof![(address(v4()), address(v4())), (address(v6()), address(v6()))]
            .prop_map(|(source, destination)| ConnectionEnds { source, destination })
    }

    fn read_line(line: &str) -> Result<Read, ProxyHeaderError> {
        read(format!("PROXY {line}\r\nINVITE").as_bytes())
    }

    proptest! {
        /// This holds for any bytes after the header, and for a header that is cut at any byte.
        #[test]
        fn both_versions_give_the_ends_at_their_last_byte(
            ends in ends_of_one_family(),
            fields in prop::collection::vec(any::<u8>(), 0..80),
            behind in prop::collection::vec(any::<u8>(), 0..20),
        ) {
            for header in [v1(ends.source, ends.destination), v2(ends.source, ends.destination, &fields)] {
                for cut in 0..header.len() {
                    prop_assert_eq!(read(&header[..cut]), Ok(Read::More));
                }
                let stream = [&header[..], &behind].concat();
                prop_assert_eq!(read(&stream), Ok(Read::Whole { length: header.len(), ends: Some(ends) }));
            }
        }
    }

    fn malformed(bytes: &[u8]) -> bool {
        matches!(read(bytes), Err(ProxyHeaderError::Malformed(_)))
    }

    #[test]
    fn example_of_the_specification() {
        let read = read(b"PROXY TCP4 192.168.0.1 192.168.0.11 56324 443\r\nGET / HTTP/1.1\r\n");
        let ends = ConnectionEnds {
            source: "192.168.0.1:56324".parse().expect("an address"),
            destination: "192.168.0.11:443".parse().expect("an address"),
        };
        assert_eq!(read, Ok(Read::Whole { length: 47, ends: Some(ends) }));
    }

    #[test]
    fn headers_without_addresses_give_no_ends() {
        for line in ["UNKNOWN", "UNKNOWN ", "UNKNOWN ffff::1 ffff::2 65535 x"] {
            let length = "PROXY ".len() + line.len() + 2;
            assert_eq!(read_line(line), Ok(Read::Whole { length, ends: None }), "{line}");
        }
        // The cases are LOCAL with any family and any block, and PROXY with a family that is not supported.
        for (command, kind, block) in
            [(0x20, 0x00, 0), (0x20, 0xff, 9), (0x21, 0x00, 5), (0x21, 0x31, 216), (0x21, 0x12, 12)]
        {
            let header = [V2_SIGNATURE, &[command, kind, 0, block], &vec![7; block.into()]].concat();
            assert_eq!(read(&header), Ok(Read::Whole { length: header.len(), ends: None }), "{header:?}");
        }
    }

    #[test]
    fn a_version_1_line_is_read_strictly() {
        for line in [
            "TCP4 1.2.3.4 1.2.3.5 1",
            "TCP4 1.2.3.4 1.2.3.5 1 2 ",
            "TCP4 1.2.3.4 1.2.3.5 1 2 3",
            "TCP4  1.2.3.4 1.2.3.5 1 2",
            "TCP4 1.2.3.4 1.2.3.5 01 2",
            "TCP4 1.2.3.4 1.2.3.5 1 +2",
            "TCP4 1.2.3.4 1.2.3.5 1 65536",
            "TCP4 1.2.3.04 1.2.3.5 1 2",
            "TCP4 ::1 ::2 1 2",
            "TCP6 1.2.3.4 1.2.3.5 1 2",
            "TCP4 1.2.3.4 ::2 1 2",
            "TCP4",
            "TCP5 1.2.3.4 1.2.3.5 1 2",
            "UNKNOWNS",
            "unknown",
            "",
        ] {
            assert!(matches!(read_line(line), Err(ProxyHeaderError::Malformed(_))), "{line}");
        }
        assert!(malformed(b"PROXY UNKNOWN\n"));
        assert!(malformed(b"PROXY UNKNOWN\r\r\n"));
        assert!(malformed(b"PROXY TCP4 \xff.2.3.4 1.2.3.5 1 2\r\n"));
    }

    #[test]
    fn a_wrong_first_byte_is_refused_at_once() {
        for bytes in
            [&b"INVITE sip:b@x SIP/2.0\r\n"[..], b"\x16\x03\x01", b"PROXY\t", b"proxy ", b"\r\n\r\nI"]
        {
            assert_eq!(read(bytes), Err(ProxyHeaderError::Missing), "{}", bytes.escape_ascii());
        }
        let signed = |rest: &[u8]| [V2_SIGNATURE, rest].concat();
        assert!(malformed(&signed(&[0x11])), "version 1");
        assert!(malformed(&signed(&[0x22])), "command 2");
        assert!(malformed(&signed(&[0x21, 0x41, 0, 0])), "family 4");
        assert!(malformed(&signed(&[0x21, 0x13, 0, 0])), "protocol 3");
        assert!(
            malformed(&signed(&[[0x21, 0x11, 0, 11], [1; 4], [1; 4], [1; 4]].concat())),
            "addresses of 11 bytes"
        );
    }

    #[test]
    fn the_length_is_limited() {
        let line = |rest: usize| format!("PROXY UNKNOWN {}\r\n", "f".repeat(rest));
        let longest = V1_MAX - line(0).len();
        assert_eq!(read(line(longest).as_bytes()), Ok(Read::Whole { length: V1_MAX, ends: None }));
        assert_eq!(read(line(longest + 1).as_bytes()), Err(ProxyHeaderError::TooLong));
        let block = |length: usize| [V2_SIGNATURE, &[0x20, 0], &(length as u16).to_be_bytes()].concat();
        assert_eq!(read(&block(V2_MAX - V2_FIXED)), Ok(Read::More));
        assert_eq!(read(&block(V2_MAX - V2_FIXED + 1)), Err(ProxyHeaderError::TooLong));
        assert!(
            ProxyHeaderError::TooLong.to_string().contains("107")
                && !ProxyHeaderError::TooLong.reason().contains(' ')
        );
    }
}
