//! Host part of URIs and Vias (RFC 3261 §25.1 `host`).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::chars::{self, HOST};
use crate::vector;

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
        Self::at_start(text).filter(|(_, length)| *length == text.len()).map(|(host, _)| host)
    }

    /// Reads the host at the start of a text, up to the first byte that no host has. Returns its length as well.
    pub(crate) fn at_start(text: &'a [u8]) -> Option<(Self, usize)> {
        if text.first() == Some(&b'[') {
            let close = vector::find(text, 1, text.len(), b']');
            return ipv6(text.get(1..close).filter(|_| close < text.len())?)
                .map(|ip| (Self::V6(ip), close + 1));
        }
        let ends = |length: usize| !text.get(length).is_some_and(|&b| chars::is(b, HOST));
        if let Some((address, length)) = ipv4(text).filter(|(_, length)| ends(*length)) {
            return Some((Self::V4(address), length));
        }
        let length = text.iter().position(|&b| !chars::is(b, HOST)).unwrap_or(text.len());
        // The last label of a name starts with a letter (`toplabel`), so 1.2.3.400 is not a name. One trailing dot is
        // allowed.
        let name = &text[..length];
        let relative = name.strip_suffix(b".").unwrap_or(name);
        let label = relative.rsplit(|&b| b == b'.').next().unwrap_or_default();
        label.first().is_some_and(u8::is_ascii_alphabetic).then_some((Self::Name(name), length))
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
    if let Some((address, length)) = ipv4(text)
        && length == text.len()
    {
        return Some(IpAddr::V4(address));
    }
    let bare = text.strip_prefix(b"[").map_or(Some(text), |inner| inner.strip_suffix(b"]"))?;
    ipv6(bare).map(IpAddr::V6)
}

/// Reads a dotted quad at the start of a text, as strictly as the parser of [`Ipv4Addr`] (no leading zeros), but
/// straight from bytes. Returns its length as well.
#[inline]
fn ipv4(text: &[u8]) -> Option<(Ipv4Addr, usize)> {
    let (first, length) = octet(text, 0)?;
    let (second, length) = octet(text, length)?;
    let (third, length) = octet(text, length)?;
    let (fourth, length) = octet(text, length)?;
    let dots = [first, second, third].iter().all(|(_, after)| *after == b'.');
    dots.then(|| (Ipv4Addr::new(first.0, second.0, third.0, fourth.0), length - 1))
}

/// Reads 0 to 255 without leading zeros. Returns it with the byte after it, and the position of the next one.
#[inline]
fn octet(text: &[u8], from: usize) -> Option<((u8, u8), usize)> {
    let at = |at: usize| text.get(from + at).copied().unwrap_or_default();
    let digit = |at: u8| u32::from(at.wrapping_sub(b'0'));
    let (first, second) = (at(0), at(1));
    let (one, two) = (digit(first), digit(second));
    if one > 9 {
        return None;
    }
    if two > 9 || one == 0 {
        return Some(((one as u8, second), from + 2));
    }
    let (third, fourth) = (at(2), at(3));
    let (three, value) = (digit(third), one * 10 + two);
    if three > 9 {
        return Some(((value as u8, third), from + 3));
    }
    u8::try_from(value * 10 + three).ok().map(|value| ((value, fourth), from + 4))
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
            assert_eq!(Host::parse(text.as_bytes()).and_then(|host| host.ip()), text.parse().ok(), "{text}");
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
