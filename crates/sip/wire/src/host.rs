//! Host part of URIs and Vias (RFC 3261 §25.1 `host`).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::chars::{self, HOST};

/// Host as written: an IP address, or a name to be resolved.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Host<'a> {
    /// IPv4 address, a dotted quad.
    V4(Ipv4Addr),
    /// IPv6 address, written in brackets.
    V6(Ipv6Addr),
    /// A name; compare case-insensitively.
    Name(&'a [u8]),
}

impl<'a> Host<'a> {
    /// Reads a whole host; `None` if the text is not a host.
    pub fn parse(text: &'a [u8]) -> Option<Self> {
        if let Some(inner) = text.strip_prefix(b"[") {
            return ipv6(inner.strip_suffix(b"]")?).map(Self::V6);
        }
        if let Some(address) = ipv4(text) {
            return Some(Self::V4(address));
        }
        if !text.iter().all(|&b| chars::is(b, HOST)) {
            return None;
        }
        // The last label of a name starts with a letter (`toplabel`), so 1.2.3.400 is not a name. One trailing dot is
        // allowed.
        let relative = text.strip_suffix(b".").unwrap_or(text);
        let label = relative.rsplit(|&b| b == b'.').next().unwrap_or_default();
        label.first().is_some_and(u8::is_ascii_alphabetic).then_some(Self::Name(text))
    }

    /// IP address; `None` for a name.
    pub fn ip(&self) -> Option<IpAddr> {
        match *self {
            Self::V4(address) => Some(IpAddr::V4(address)),
            Self::V6(address) => Some(IpAddr::V6(address)),
            Self::Name(_) => None,
        }
    }
}

/// Reads an IP address, with or without brackets around an IPv6 address. By its grammar `received` has none, but some
/// senders write them (RFC 5118 §4.5).
pub(crate) fn ip(text: &[u8]) -> Option<IpAddr> {
    if let Some(address) = ipv4(text) {
        return Some(IpAddr::V4(address));
    }
    let bare = text.strip_prefix(b"[").map_or(Some(text), |inner| inner.strip_suffix(b"]"))?;
    ipv6(bare).map(IpAddr::V6)
}

/// Reads a dotted quad, as strictly as the parser of [`Ipv4Addr`] (no leading zeros), but straight from bytes.
fn ipv4(text: &[u8]) -> Option<Ipv4Addr> {
    let mut octets = [0u8; 4];
    let mut filled = 0;
    // Value and number of digits of the current octet.
    let (mut value, mut digits) = (0u32, 0);
    for &b in text {
        match b {
            b'0'..=b'9' if digits == 0 || value != 0 => {
                value = value * 10 + u32::from(b - b'0');
                digits += 1;
                if value > 255 {
                    return None;
                }
            }
            b'.' if digits > 0 && filled < 3 => {
                octets[filled] = value as u8;
                filled += 1;
                (value, digits) = (0, 0);
            }
            _ => return None,
        }
    }
    if digits == 0 || filled != 3 {
        return None;
    }
    octets[3] = value as u8;
    Some(octets.into())
}

fn ipv6(text: &[u8]) -> Option<Ipv6Addr> {
    let text = std::str::from_utf8(text).ok()?;
    if let Ok(address) = text.parse() {
        return Some(address);
    }
    // RFC 3261's grammar allowed three colons before an embedded IPv4 address (RFC 5118 §4.10); read as two.
    let at = text.find(":::")?;
    let mut fixed = arrayvec::ArrayString::<64>::new();
    fixed.try_push_str(&text[..at]).ok()?;
    fixed.try_push_str(&text[at + 1..]).ok()?;
    fixed.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts() {
        assert_eq!(Host::parse(b"192.0.2.1"), Some(Host::V4(Ipv4Addr::new(192, 0, 2, 1))));
        assert_eq!(Host::parse(b"[2001:db8::1]"), Some(Host::V6("2001:db8::1".parse().unwrap())));
        assert_eq!(Host::parse(b"[::ffff:192.0.2.1]"), Some(Host::V6("::ffff:192.0.2.1".parse().unwrap())));
        assert_eq!(Host::parse(b"[2001:db8:::192.0.2.1]"), Host::parse(b"[2001:db8::192.0.2.1]"));
        for name in [&b"a"[..], b"3com.example.com.", b"my_host-1", b"1.2.3.x"] {
            assert_eq!(Host::parse(name), Some(Host::Name(name)));
        }
        let bad: [&[u8]; 12] = [
            b"",
            b".",
            b"1.2.3",
            b"1.2.3.256",
            b"1.2.3.04",
            b"1.2.3.4.5",
            b"2001:db8::1",
            b"[2001:db8::1",
            b"[]",
            b"a b",
            b"[1.2.3.4]",
            b"[:::::::]",
        ];
        for host in bad {
            assert_eq!(Host::parse(host), None, "{}", host.escape_ascii());
        }
    }

    #[test]
    fn dotted_quads_as_the_standard_library_reads_them() {
        for text in
            ["0.0.0.0", "255.255.255.255", "01.2.3.4", "1..2.3", "1.2.3.", ".1.2.3", "00.0.0.0", "10.0.0.1"]
        {
            assert_eq!(ipv4(text.as_bytes()), text.parse().ok(), "{text}");
        }
    }

    #[test]
    fn received_with_or_without_brackets() {
        let address = Some("2001:db8::9:255".parse().unwrap());
        assert_eq!(ip(b"[2001:db8::9:255]"), address);
        assert_eq!(ip(b"2001:db8::9:255"), address);
        assert_eq!(ip(b"[2001:db8::9:255"), None);
        assert_eq!(ip(b"192.0.2.7"), Some("192.0.2.7".parse().unwrap()));
    }
}
