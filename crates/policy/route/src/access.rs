//! Access lists of listeners and rules.

use crate::Network;
use crate::network::NetworkIndex;
use std::net::IpAddr;

/// Response to a sender that is not admitted, or exceeds its rate.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum AccessRefusal {
    /// 403 (RFC 3261 §21.4.4): trying again is pointless.
    #[default]
    Forbidden,
    /// 503 (RFC 3261 §21.5.4): a later attempt may succeed.
    Unavailable,
    /// No response, so that a stranger does not learn that a server is here.
    Silence,
}

/// Networks that are admitted or refused. For an address, the smallest network that contains it decides. An address in
/// no network is admitted, unless the list of admitted networks is not empty.
#[derive(Clone, PartialEq, Debug)]
pub struct Access {
    /// True for admitted networks.
    networks: NetworkIndex<bool>,
    admits_others: bool,
    /// Response to refused senders.
    pub refusal: AccessRefusal,
}

impl Default for Access {
    /// Admits everyone.
    fn default() -> Self {
        Self { networks: NetworkIndex::default(), admits_others: true, refusal: AccessRefusal::default() }
    }
}

impl Access {
    /// Admits `allow` and refuses `deny`.
    ///
    /// # Errors
    /// Returns a network that is in both lists.
    pub fn new(allow: &[Network], deny: &[Network], refusal: AccessRefusal) -> Result<Self, Network> {
        if let Some(both) = allow.iter().find(|network| deny.contains(network)) {
            return Err(*both);
        }
        let pairs = allow.iter().map(|network| (*network, true));
        let pairs = pairs.chain(deny.iter().map(|network| (*network, false)));
        let networks = NetworkIndex::new(pairs, |_, _| {});
        Ok(Self { networks, admits_others: allow.is_empty(), refusal })
    }

    /// Whether every address is admitted.
    pub fn is_open(&self) -> bool {
        self.networks.is_empty()
    }

    /// Whether the address is admitted.
    pub fn admits(&self, ip: IpAddr) -> bool {
        self.networks.around(ip).next().copied().unwrap_or(self.admits_others)
    }

    /// The network that decides about this address; `None` if it is in no network.
    pub fn entry(&self, ip: IpAddr) -> Option<Network> {
        self.networks.entries_around(ip).next().map(|(network, _)| network)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn networks(texts: &[&str]) -> Vec<Network> {
        texts.iter().map(|text| text.parse().unwrap()).collect()
    }

    #[test]
    fn the_smallest_network_decides() {
        let access =
            |allow, deny| Access::new(&networks(allow), &networks(deny), AccessRefusal::default()).unwrap();
        let admits = |access: &Access, ip: &str| access.admits(ip.parse().unwrap());
        assert!(access(&[], &[]).is_open() && admits(&Access::default(), "192.0.2.1"));
        let some = access(&["10.0.0.0/8", "2001:db8::/32"], &["10.9.0.0/16"]);
        assert!(
            admits(&some, "10.1.0.1") && admits(&some, "2001:db8::1") && admits(&some, "::ffff:10.1.0.1")
        );
        assert!(!admits(&some, "10.9.0.1") && !admits(&some, "192.0.2.1") && !admits(&some, "2001:db9::1"));
        let all_but = access(&[], &["192.0.2.0/24"]);
        assert!(admits(&all_but, "192.0.3.1") && !admits(&all_but, "192.0.2.1"));
        let hole = access(&["192.0.2.7"], &["192.0.2.0/24", "0.0.0.0/0"]);
        assert!(admits(&hole, "192.0.2.7") && !admits(&hole, "192.0.2.8"));
        let entry = |ip: &str| hole.entry(ip.parse().unwrap()).map(|network| network.to_string());
        assert_eq!(entry("192.0.2.7").as_deref(), Some("192.0.2.7/32"));
        assert_eq!((entry("192.0.2.8").as_deref(), entry("2001:db8::1")), (Some("192.0.2.0/24"), None));
        let both =
            Access::new(&networks(&["10.0.0.0/8"]), &networks(&["10.0.0.0/8"]), AccessRefusal::default());
        assert_eq!(both.unwrap_err(), networks(&["10.0.0.0/8"])[0]);
    }

    proptest! {
        #[test]
        fn the_smallest_network_decides_as_in_a_linear_search(
            lists in prop::collection::vec((any::<u8>(), 0..=8_u8, any::<bool>()), 0..12),
            at in any::<u8>(),
        ) {
            let ip = |bits: u8| IpAddr::from([bits, 0, 0, 1]);
            let mut allow: Vec<Network> = Vec::new();
            let mut deny: Vec<Network> = Vec::new();
            for (bits, length, is_allowed) in lists {
                let network = Network::around(ip(bits), length);
                if !allow.contains(&network) && !deny.contains(&network) {
                    if is_allowed { allow.push(network) } else { deny.push(network) }
                }
            }
            let smallest = |list: &[Network]| {
                list.iter().filter(|network| network.contains(ip(at))).map(|network| network.length() + 1).max().unwrap_or(0)
            };
            let expected = match (smallest(&allow), smallest(&deny)) {
                (0, 0) => allow.is_empty(),
                (allowed, denied) => allowed > denied,
            };
            let access = Access::new(&allow, &deny, AccessRefusal::Silence).unwrap();
            prop_assert_eq!(access.admits(ip(at)), expected);
        }
    }
}
