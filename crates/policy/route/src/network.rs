//! Networks of IP addresses in CIDR notation (RFC 4632, RFC 4291 §2.3), and sets of them.

use core::fmt;
use core::str::FromStr;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// An address as its family and its bits from the left, so that both families are handled in the same way.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Bits {
    is_v6: bool,
    /// An IPv4 address uses the upper 32 bits.
    bits: u128,
}

impl Bits {
    /// An IPv4-mapped IPv6 address, as a dual-stack socket shows it, counts as the IPv4 address.
    fn of(ip: IpAddr) -> Self {
        match ip.to_canonical() {
            IpAddr::V4(ip) => Self { is_v6: false, bits: u128::from(ip.to_bits()) << 96 },
            IpAddr::V6(ip) => Self { is_v6: true, bits: ip.to_bits() },
        }
    }
}

/// All addresses that start with the same bits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Network {
    start: Bits,
    length: u8,
}

impl Network {
    /// Network of `length` bits around an address. If `length` is greater than the number of bits of the address, the
    /// network contains only this address.
    pub fn around(ip: IpAddr, length: u8) -> Self {
        let Bits { is_v6, bits } = Bits::of(ip);
        let length = length.min(if is_v6 { 128 } else { 32 });
        let mask = u128::MAX.checked_shl(128 - u32::from(length)).unwrap_or(0);
        Self { start: Bits { is_v6, bits: bits & mask }, length }
    }

    /// Network of one address.
    pub fn host(ip: IpAddr) -> Self {
        Self::around(ip, 128)
    }

    /// First address.
    pub fn first(&self) -> IpAddr {
        if self.start.is_v6 {
            Ipv6Addr::from_bits(self.start.bits).into()
        } else {
            Ipv4Addr::from_bits((self.start.bits >> 96) as u32).into()
        }
    }

    /// Number of bits that all addresses share.
    pub fn length(&self) -> u8 {
        self.length
    }

    /// Whether it contains the address.
    pub fn contains(&self, ip: IpAddr) -> bool {
        self.has(Bits::of(ip))
    }

    /// Whether it contains every address of `other`.
    pub fn covers(&self, other: &Self) -> bool {
        self.length <= other.length && self.has(other.start)
    }

    fn has(&self, Bits { is_v6, bits }: Bits) -> bool {
        // A shift by all bits would overflow. A network of length 0 contains every address of its family.
        self.start.is_v6 == is_v6
            && (self.start.bits ^ bits).checked_shr(128 - u32::from(self.length)).unwrap_or(0) == 0
    }
}

impl FromStr for Network {
    type Err = String;

    /// Parses `10.0.0.0/8`, `2001:db8::/32`, or a single address. Bits after the prefix must be 0, since otherwise the
    /// author may have meant another network. The error describes the expected text.
    fn from_str(text: &str) -> Result<Self, String> {
        let expected =
            || "expected a network or an address, such as \"10.0.0.0/8\", \"2001:db8::/32\" or \"10.0.0.1\"";
        let (address, length) = match text.split_once('/') {
            Some((address, length)) => (address, Some(length)),
            None => (text, None),
        };
        let ip: IpAddr = address.parse().map_err(|_| expected())?;
        if ip != ip.to_canonical() {
            return Err("expected an IPv4 network to be written as IPv4".to_owned());
        }
        let Some(length) = length else { return Ok(Self::host(ip)) };
        let most = if ip.is_ipv4() { 32 } else { 128 };
        let digits = !length.is_empty() && length.bytes().all(|byte| byte.is_ascii_digit());
        let length = length.parse().ok().filter(|length| digits && *length <= most);
        let Some(length) = length else {
            return Err(format!("expected a length from 0 to {most} after the /"));
        };
        let network = Self::around(ip, length);
        if network.first() != ip {
            return Err(format!(
                "expected only zero bits after the first {length}; did you mean \"{network}\"?"
            ));
        }
        Ok(network)
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.first(), self.length)
    }
}

impl fmt::Debug for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Networks, each with a value, found by an address in them.
///
/// The networks are sorted by first address, then by length, so that a network precedes the networks inside it. Each
/// entry links to the smallest other network that contains it. A binary search finds the last entry that does not sort
/// after the address. The networks that contain the address are among this entry and the entries to which it links.
#[derive(Clone, PartialEq)]
pub(crate) struct NetworkIndex<V> {
    entries: Vec<NetworkEntry<V>>,
}

#[derive(Clone, PartialEq)]
struct NetworkEntry<V> {
    network: Network,
    outer: Option<u32>,
    value: V,
}

impl<V> Default for NetworkIndex<V> {
    fn default() -> Self {
        Self { entries: Vec::new() }
    }
}

impl<V: fmt::Debug> fmt::Debug for NetworkIndex<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.entries.iter().map(|entry| (entry.network, &entry.value))).finish()
    }
}

impl<V> NetworkIndex<V> {
    /// Builds the index. `join` merges several values for one network.
    pub(crate) fn new(
        pairs: impl IntoIterator<Item = (Network, V)>,
        mut join: impl FnMut(&mut V, V),
    ) -> Self {
        let mut pairs: Vec<_> = pairs.into_iter().collect();
        pairs.sort_by_key(|(network, _)| *network);
        let mut entries: Vec<NetworkEntry<V>> = Vec::with_capacity(pairs.len());
        for (network, value) in pairs {
            let mut outer = entries.len().checked_sub(1);
            if let Some(last) = entries.last_mut()
                && last.network == network
            {
                join(&mut last.value, value);
                continue;
            }
            while let Some(index) = outer
                && !entries[index].network.covers(&network)
            {
                outer = entries[index].outer.map(|index| index as usize);
            }
            entries.push(NetworkEntry { network, outer: outer.map(|index| index as u32), value });
        }
        Self { entries }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Values of all networks that contain the address, the smallest network first.
    pub(crate) fn around(&self, ip: IpAddr) -> impl Iterator<Item = &V> {
        self.entries_around(ip).map(|(_, value)| value)
    }

    /// Networks that contain the address with their values, the smallest first.
    pub(crate) fn entries_around(&self, ip: IpAddr) -> impl Iterator<Item = (Network, &V)> {
        let bits = Bits::of(ip);
        let behind = self.entries.partition_point(|entry| entry.network.start <= bits);
        let mut next = behind.checked_sub(1);
        core::iter::from_fn(move || {
            loop {
                let entry = &self.entries[next?];
                next = entry.outer.map(|index| index as usize);
                if entry.network.has(bits) {
                    return Some((entry.network, &entry.value));
                }
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn network(text: &str) -> Network {
        text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn networks_are_parsed_and_printed() {
        for text in ["10.0.0.0/8", "0.0.0.0/0", "::/0", "2001:db8::/32", "192.0.2.1/32", "::1/128"] {
            assert_eq!(network(text).to_string(), text);
        }
        assert_eq!(network("192.0.2.1"), network("192.0.2.1/32"));
        for wrong in
            ["", "10.0.0.0/33", "10.0.0.0/", "10.0.0.0/+8", "10.0.0/8", "::/129", "::ffff:1.2.3.4", "a/8"]
        {
            assert!(wrong.parse::<Network>().is_err(), "{wrong}");
        }
        let remedy = "10.1.2.3/8".parse::<Network>().unwrap_err();
        assert!(remedy.ends_with("did you mean \"10.0.0.0/8\"?"), "{remedy}");
    }

    #[test]
    fn address_families_are_distinct_and_mapped_addresses_are_ipv4() {
        assert!(network("0.0.0.0/0").contains(ip("255.255.255.255")));
        assert!(network("0.0.0.0/0").contains(ip("::ffff:192.0.2.1")));
        assert!(
            !network("::/0").contains(ip("192.0.2.1")) && !network("::/0").contains(ip("::ffff:192.0.2.1"))
        );
        assert!(!network("0.0.0.0/0").contains(ip("::1")));
        assert!(network("10.0.0.0/8").covers(&network("10.1.0.0/16")));
        assert!(!network("10.1.0.0/16").covers(&network("10.0.0.0/8")));
    }

    proptest! {
        #[test]
        fn all_networks_around_an_address_are_found_the_smallest_first(
            networks in prop::collection::vec((any::<[u8; 2]>(), 0..=16_u8, any::<bool>()), 0..20),
            at in any::<[u8; 2]>(),
            is_v6 in any::<bool>(),
        ) {
            // Only few bits differ, so that many networks contain others.
            let make = |[a, b]: [u8; 2], is_v6: bool| -> IpAddr {
                let (a, b) = (a & 0x81, b & 0xc1);
                if is_v6 { Ipv6Addr::new(u16::from_be_bytes([a, b]), 0, 0, 0, 0, 0, 0, 1).into() }
                else { Ipv4Addr::new(a, b, 0, 1).into() }
            };
            let all: Vec<_> =
                networks.into_iter().map(|(at, length, is_v6)| Network::around(make(at, is_v6), length)).collect();
            let pairs = all.iter().enumerate().map(|(index, network)| (*network, vec![index]));
            let index = NetworkIndex::new(pairs, Extend::extend);
            let at = make(at, is_v6);
            let found: Vec<usize> = index.around(at).flatten().copied().collect();
            let mut sorted = found.clone();
            sorted.sort_unstable();
            let expected: Vec<usize> = (0..all.len()).filter(|&index| all[index].contains(at)).collect();
            prop_assert_eq!(sorted, expected);
            prop_assert!(found.iter().map(|&index| all[index].length()).rev().is_sorted());
        }
    }
}
