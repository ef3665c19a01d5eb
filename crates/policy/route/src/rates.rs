//! Limits of new requests per source, in fixed memory.

use crate::{Access, AccessRefusal, Network};
use base::{Bucket, Instant, Rate, SipHash};
use core::hash::Hasher;
use std::net::IpAddr;

/// A limit, and the size of the networks that share it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SourceLimit {
    /// Prefix length of IPv4 sources that share the limit.
    pub v4: u8,
    /// Prefix length of IPv6 sources that share the limit.
    pub v6: u8,
    /// Rate of new requests of all senders in such a network together.
    pub rate: Rate,
}

/// Limits of new requests per source.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct RateSettings {
    /// Limit of a single sender: an IPv4 address, or the /64 network in which an IPv6 host chooses its address.
    pub address: Option<SourceLimit>,
    /// Limit of the network around a sender. So a sender with many addresses of one network does not get many times the
    /// limit.
    pub network: Option<SourceLimit>,
    /// Networks without a limit, such as those of carriers.
    pub exempt: Vec<Network>,
    /// Response to senders above their limit.
    pub refusal: AccessRefusal,
    /// Whether retransmissions count as well, so that they need not be recognised. Meant for limits that only a flood
    /// reaches.
    pub counts_copies: bool,
}

impl RateSettings {
    /// Limits of one of `shards` shards, each of which gets an equal part of a source's requests.
    #[must_use]
    pub fn share(self, shards: usize) -> Self {
        let shards = u32::try_from(shards.max(1)).unwrap_or(u32::MAX);
        let part = |rate: Rate| Rate {
            per_second: rate.per_second.div_ceil(shards),
            burst: rate.burst.div_ceil(shards),
        };
        let part = |limit: SourceLimit| SourceLimit { rate: part(limit.rate), ..limit };
        Self { address: self.address.map(part), network: self.network.map(part), ..self }
    }
}

/// Number of buckets in a row. A source has one bucket in each row.
const BUCKETS: usize = 1 << 15;
const ROWS: usize = 2;

/// Token buckets of sources, chosen by a keyed hash.
///
/// A source has a bucket in each row and takes tokens from all of them. It is refused when all its buckets are empty.
/// Another source may share one of its buckets, but hardly ever all of them (a count-min sketch: Cormode and
/// Muthukrishnan, An improved data stream summary, 2005). Consequences:
///
/// - Memory is fixed, 512 KiB for each of the two limits, for any number of sources, real or forged.
/// - No count is dropped to make room. An attacker may forge any number of addresses, but none of its sources gets more
///   than its limit: each bucket of a source has lost at least what the source took.
/// - The effect of a flood on other sources is limited: a bucket loses only the tokens that its own sources take. A
///   flood from random addresses must exceed the rate of one source for each bucket of a row, 32,768 times that rate,
///   before it affects others. The key is secret, so an attacker cannot know which sources share a bucket.
#[derive(Clone, Debug)]
struct Sources {
    limit: SourceLimit,
    rows: [Box<[Bucket]>; ROWS],
}

impl Sources {
    fn new(limit: SourceLimit, buckets: usize) -> Self {
        Self { limit, rows: core::array::from_fn(|_| vec![Bucket::default(); buckets].into()) }
    }

    /// Buckets of the source of this address.
    fn at(&self, key: [u64; 2], ip: IpAddr) -> [usize; ROWS] {
        let ip = ip.to_canonical();
        let source = Network::around(ip, if ip.is_ipv4() { self.limit.v4 } else { self.limit.v6 });
        let mut hasher = SipHash::new(key);
        match source.first() {
            IpAddr::V4(ip) => hasher.write_u32(ip.to_bits()),
            IpAddr::V6(ip) => hasher.write(&ip.octets()),
        }
        let hash = hasher.finish();
        // Each row uses different bits of one hash.
        core::array::from_fn(|row| (hash >> (32 * row)) as u32 as usize % self.rows[row].len())
    }

    fn has_some(&self, now: Instant, at: [usize; ROWS]) -> bool {
        let mut buckets = self.rows.iter().zip(at).map(|(row, at)| &row[at]);
        buckets.any(|bucket| bucket.has_some(now, self.limit.rate))
    }

    fn take(&mut self, now: Instant, at: [usize; ROWS]) {
        // An empty bucket is overdrawn at most by this request. So it is never fuller than a bucket that only this
        // source uses, and other sources that share it have no larger debt to wait for.
        for (row, at) in self.rows.iter_mut().zip(at) {
            row[at].take_one(now, self.limit.rate);
        }
    }
}

/// A limit that a source has exceeded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Exceeded {
    /// Limit of a single sender.
    Address,
    /// Limit of the network around the sender.
    Network,
}

/// Rate limits with their state.
#[derive(Clone, Debug)]
pub struct RateLimits {
    settings: RateSettings,
    exempt: Access,
    key: [u64; 2],
    address: Option<Sources>,
    network: Option<Sources>,
}

impl RateLimits {
    /// Creates the state, without any request so far. `key` must be secret, so that outsiders cannot know which sources
    /// share a bucket.
    pub fn new(settings: RateSettings, key: [u64; 2]) -> Self {
        Self::with_buckets(settings, key, BUCKETS)
    }

    fn with_buckets(settings: RateSettings, key: [u64; 2], buckets: usize) -> Self {
        let exempt = exempt(&settings);
        let sources = |limit| Sources::new(limit, buckets);
        let (address, network) = (settings.address.map(sources), settings.network.map(sources));
        Self { settings, exempt, key, address, network }
    }

    /// Changes the settings. Buckets are kept for limits that stay the same.
    pub fn configure(&mut self, settings: RateSettings) {
        let renew = |kept: Option<Sources>, limit: Option<SourceLimit>| {
            let limit = limit?;
            match kept {
                Some(kept) if kept.limit == limit => Some(kept),
                _ => Some(Sources::new(limit, BUCKETS)),
            }
        };
        self.address = renew(self.address.take(), settings.address);
        self.network = renew(self.network.take(), settings.network);
        self.exempt = exempt(&settings);
        self.settings = settings;
    }

    /// Whether retransmissions must be distinguished from new requests, since only new requests count.
    pub fn spares_copies(&self) -> bool {
        (self.address.is_some() || self.network.is_some()) && !self.settings.counts_copies
    }

    /// Lets a new request from this address pass and counts it, or refuses it. Refused requests do not count, so a
    /// source above its limit still gets its limit.
    ///
    /// # Errors
    /// Returns the response to the sender.
    pub fn pass(&mut self, now: Instant, ip: IpAddr) -> Result<(), AccessRefusal> {
        if !self.exempt.is_open() && self.exempt.admits(ip) {
            return Ok(());
        }
        let at = |sources: &Option<Sources>| sources.as_ref().map(|sources| sources.at(self.key, ip));
        let places = [at(&self.address), at(&self.network)];
        let limits = [&mut self.address, &mut self.network];
        let may = |(sources, at): (&Option<Sources>, _)| match (sources, at) {
            (Some(sources), Some(at)) => sources.has_some(now, at),
            _ => true,
        };
        if !limits.iter().zip(places).all(|(sources, at)| may((sources, at))) {
            return Err(self.settings.refusal);
        }
        for (sources, at) in limits.into_iter().zip(places) {
            if let (Some(sources), Some(at)) = (sources, at) {
                sources.take(now, at);
            }
        }
        Ok(())
    }

    /// The limit that would refuse a new request from this address now; `None` if it would pass. Counts nothing.
    pub fn exceeded(&self, now: Instant, ip: IpAddr) -> Option<Exceeded> {
        if !self.exempt.is_open() && self.exempt.admits(ip) {
            return None;
        }
        let is_used_up = |sources: &Option<Sources>| {
            sources.as_ref().is_some_and(|sources| !sources.has_some(now, sources.at(self.key, ip)))
        };
        let exceeded = [(&self.address, Exceeded::Address), (&self.network, Exceeded::Network)];
        exceeded.into_iter().find(|(sources, _)| is_used_up(sources)).map(|(_, exceeded)| exceeded)
    }

    /// Response to a refused sender.
    pub fn refusal(&self) -> AccessRefusal {
        self.settings.refusal
    }
}

fn exempt(settings: &RateSettings) -> Access {
    Access::new(&settings.exempt, &[], AccessRefusal::default())
        .expect("the list of refused networks is empty")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;
    use std::net::{Ipv4Addr, Ipv6Addr};

    const ADDRESS: SourceLimit = SourceLimit { v4: 32, v6: 64, rate: Rate { per_second: 2, burst: 5 } };
    const NETWORK: SourceLimit = SourceLimit { v4: 24, v6: 48, rate: Rate { per_second: 10, burst: 20 } };

    fn settings() -> RateSettings {
        RateSettings { address: Some(ADDRESS), network: Some(NETWORK), ..RateSettings::default() }
    }

    /// Number of requests, out of `times`, that pass at this moment.
    fn passes(limits: &mut RateLimits, at: u64, ip: &str, times: usize) -> usize {
        let ip = ip.parse().unwrap();
        (0..times).filter(|_| limits.pass(Instant::from_millis(at), ip).is_ok()).count()
    }

    #[test]
    fn a_source_and_its_network_have_limits() {
        let mut limits = RateLimits::new(settings(), [1, 2]);
        assert_eq!(passes(&mut limits, 1_000, "192.0.2.1", 50), 5);
        assert_eq!(passes(&mut limits, 2_000, "::ffff:192.0.2.1", 50), 2);
        let of_all: usize =
            (1..20).map(|host| passes(&mut limits, 60_000, &format!("192.0.2.{host}"), 50)).sum();
        assert_eq!(of_all, 20, "the limit of the network");
        assert_eq!(passes(&mut limits, 60_000, "192.0.3.1", 50), 5);
        assert_eq!(passes(&mut limits, 60_000, "2001:db8:0:1::1", 3), 3);
        assert_eq!(passes(&mut limits, 60_000, "2001:db8:0:1:2::7", 50), 2, "the limit of one host");
        assert_eq!(passes(&mut limits, 60_000, "2001:db8:0:2::1", 50), 5);
    }

    #[test]
    fn exempt_sources_have_no_limit_and_the_refusal_is_configurable() {
        let exempt = vec!["10.0.0.0/8".parse().unwrap()];
        let settings = RateSettings { exempt, refusal: AccessRefusal::Silence, ..settings() };
        let mut limits = RateLimits::new(settings, [1, 2]);
        assert_eq!(passes(&mut limits, 0, "10.1.2.3", 1_000), 1_000);
        passes(&mut limits, 0, "192.0.2.1", 10);
        let ip = "192.0.2.1".parse().unwrap();
        assert_eq!(limits.pass(Instant::ZERO, ip), Err(AccessRefusal::Silence));
        let mut none = RateLimits::new(RateSettings::default(), [1, 2]);
        assert_eq!(passes(&mut none, 0, "192.0.2.1", 1_000), 1_000);
    }

    #[test]
    fn buckets_are_kept_for_unchanged_limits() {
        let mut limits = RateLimits::new(settings(), [1, 2]);
        passes(&mut limits, 0, "192.0.2.1", 10);
        limits.configure(RateSettings { network: None, ..settings() });
        assert_eq!(passes(&mut limits, 0, "192.0.2.1", 10), 0);
        let rate = Rate { per_second: 1, burst: 4 };
        limits.configure(RateSettings { address: Some(SourceLimit { rate, ..ADDRESS }), ..settings() });
        assert_eq!(passes(&mut limits, 0, "192.0.2.1", 10), 4);
        limits.configure(RateSettings::default());
        assert_eq!(passes(&mut limits, 0, "192.0.2.1", 10), 10);
    }

    #[test]
    fn a_shard_has_its_share() {
        let shared = settings().share(4);
        assert_eq!(shared.address.unwrap().rate, Rate { per_second: 1, burst: 2 });
        assert_eq!(shared.network.unwrap().rate, Rate { per_second: 3, burst: 5 });
    }

    /// A flood from ten sources per bucket, far below the rate that empties the buckets.
    #[test]
    fn a_flood_from_forged_addresses_hardly_affects_others() {
        let settings = RateSettings { network: None, ..settings() };
        let mut limits = RateLimits::new(settings, [3, 4]);
        let mut refused = 0;
        for step in 0..10 * BUCKETS as u64 {
            // 32,768 requests a second: half the refill rate of the buckets of a row.
            let now = Instant::from_nanos(step * 1_000_000_000 / BUCKETS as u64);
            let forged = Ipv4Addr::from_bits((step as u32).wrapping_mul(0x9e37_79b9) | 1 << 31);
            let _ = limits.pass(now, forged.into());
            if step % BUCKETS as u64 == 0 {
                refused += (0..200)
                    .filter(|host| limits.pass(now, Ipv4Addr::new(10, 0, 0, *host).into()).is_err())
                    .count();
            }
        }
        assert!(refused < 20, "{refused} of 2,000 calls of honest senders");
    }

    proptest! {
        /// There are so few buckets that each is shared. No source, and no network, gets more than it would get with
        /// its own buckets. A source that is alone gets its whole limit.
        #[test]
        fn no_source_exceeds_its_limit_and_a_lone_source_reaches_it(
            steps in prop::collection::vec((0..400_u64, 0..12_u8, any::<bool>(), 1..8_usize), 1..150),
            buckets in 1..6_usize,
            alone in any::<bool>(),
        ) {
            let mut limits = RateLimits::with_buckets(settings(), [7, 8], buckets);
            let (mut now, mut own): (u64, BTreeMap<Network, Bucket>) = (0, BTreeMap::new());
            for (wait, source, is_v6, times) in steps {
                now += wait;
                let at = Instant::from_millis(now);
                let source = if alone { 0 } else { source };
                let ip: IpAddr = if is_v6 && !alone {
                    Ipv6Addr::new(0x2001, 0xdb8, 0, source.into(), 0, 0, 0, times as u16).into()
                } else {
                    Ipv4Addr::new(192, 0, 2 + source % 3, source).into()
                };
                let of = |limit: SourceLimit| Network::around(ip, if ip.is_ipv4() { limit.v4 } else { limit.v6 });
                for _ in 0..times {
                    let exceeded = limits.exceeded(at, ip);
                    let passes = limits.pass(at, ip).is_ok();
                    prop_assert_eq!(exceeded.is_none(), passes, "`exceeded` predicts the result of `pass`");
                    let mut has = |limit: SourceLimit| own.entry(of(limit)).or_default().has_some(at, limit.rate);
                    let may = has(ADDRESS) & has(NETWORK);
                    prop_assert!(may || !passes);
                    prop_assert!(!alone || may == passes);
                    if passes {
                        for limit in [ADDRESS, NETWORK] {
                            own.entry(of(limit)).or_default().take(at, limit.rate, 1);
                        }
                    }
                }
            }
        }
    }
}
