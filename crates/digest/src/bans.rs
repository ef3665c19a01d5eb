//! Limits to guessing: how many wrong answers a source and a user may give.

use base::{Bucket, Instant, Rate, Recent};
use core::hash::Hasher;
use core::time::Duration;
use siphasher::sip::SipHasher13;
use std::net::IpAddr;

use crate::nonce::address;

/// So many wrong answers at once, and one more each time that a while has passed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limit {
    /// Wrong answers in a row; at least 1.
    pub failures: u32,
    /// After how long one more is allowed; whole seconds, at least one.
    pub every: Duration,
}

impl Limit {
    /// A failure costs the seconds until the next one is allowed; a second passes each second.
    fn cost(self) -> u32 {
        u32::try_from(self.every.as_secs()).unwrap_or(u32::MAX).clamp(1, 1 << 16)
    }

    fn rate(self) -> Rate {
        Rate { per_second: 1, burst: self.failures.clamp(1, 1 << 15) * self.cost() }
    }
}

/// How many wrong answers are allowed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BanSettings {
    /// For a source: an IPv4 address, or the 64 bits of an IPv6 network that a host chooses its address from.
    pub source: Limit,
    /// For a user, from all sources together that are not known to be the user's.
    pub user: Limit,
    /// For a user at a source where the user has answered right before.
    pub known: Limit,
}

impl Default for BanSettings {
    /// Ten wrong answers of a source and one more each minute; twenty about a user and one more each half minute; twenty at
    /// a known place and one more every ten seconds. A guesser has 2,880 tries a day for a user, from however many sources.
    fn default() -> Self {
        let limit = |failures, secs| Limit { failures, every: Duration::from_secs(secs) };
        Self { source: limit(10, 60), user: limit(20, 30), known: limit(20, 10) }
    }
}

/// Buckets of a kind: 512 KiB.
const BUCKETS: usize = 1 << 16;
/// Pairs of user and source of which at least so many are known that were used last; at most twice as many are kept, about
/// 20 bytes each.
const KNOWN: usize = 1 << 16;

/// Who may still try.
///
/// A claim is looked at when the source and the user both have a wrong answer left; or when the user has answered right at
/// this source before, and this pair has one left. What a right answer took is given back. So:
///
/// - Nobody is locked out for ever: a limit is a token bucket, which fills by itself. Claims that are not looked at take
///   nothing, so a guesser cannot keep a bucket empty but by guesses that are looked at, one each time that it gains one.
/// - Who has registered from a place keeps on from there, whatever others do to the user's name, and whatever others
///   behind the same address do. Who comes from a new place while the name is under attack competes with the guesser
///   for one try each `every`.
/// - Sources cannot be forged: a claim has a nonce that was sent to its source ([`Nonces`](crate::Nonces)), so who forges an
///   address bans nobody.
/// - Memory is fixed. Buckets are found by a keyed hash; two who meet in one share it, which costs the wrong answers of
///   both. Nobody can know whom they meet. Known pairs are entered by right answers only, so strangers push none out.
#[derive(Clone, Debug)]
pub struct Bans {
    settings: BanSettings,
    key: [u64; 2],
    sources: Box<[Bucket]>,
    users: Box<[Bucket]>,
    pairs: Box<[Bucket]>,
    known: Recent<u64, ()>,
}

/// A try under way, to be given back when it was right.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Try {
    is_known: bool,
    source: u64,
    user: u64,
    pair: u64,
}

impl Bans {
    /// Nobody has failed yet. `key` is secret.
    pub fn new(settings: BanSettings, key: [u64; 2]) -> Self {
        Self::with_room(settings, key, BUCKETS, KNOWN)
    }

    fn with_room(settings: BanSettings, key: [u64; 2], buckets: usize, known: usize) -> Self {
        let row = || vec![Bucket::default(); buckets].into();
        Self { settings, key, sources: row(), users: row(), pairs: row(), known: Recent::new(known) }
    }

    /// Other settings. What was wrong so far counts on.
    pub fn configure(&mut self, settings: BanSettings) {
        self.settings = settings;
    }

    /// Takes a try; `None` when there is none left.
    pub(crate) fn attempt(&mut self, now: Instant, source: IpAddr, user: &[u8]) -> Option<Try> {
        let hash = |source: Option<IpAddr>, user: Option<&[u8]>| {
            let mut hasher = SipHasher13::new_with_keys(self.key[0], self.key[1]);
            if let Some(source) = source {
                hasher.write(&place(source));
            }
            // A user named like an address is none: what follows a place is told by whether one is there.
            hasher.write_u8(u8::from(source.is_some()));
            hasher.write(user.unwrap_or_default());
            hasher.finish()
        };
        let pair = hash(Some(source), Some(user));
        let is_known = self.known.get_mut(&pair).is_some();
        let mut attempt =
            Try { is_known, source: hash(Some(source), None), user: hash(None, Some(user)), pair };
        let left = |mut buckets: Vec<(&mut Bucket, Limit)>| {
            let has_some = buckets.iter().all(|(bucket, limit)| bucket.has_some(now, limit.rate()));
            if has_some {
                for (bucket, limit) in &mut buckets {
                    bucket.take(now, limit.rate(), limit.cost());
                }
            }
            has_some
        };
        if is_known && left(self.of(attempt)) {
            return Some(attempt);
        }
        // Where the pair has none left, its user is as any other.
        attempt.is_known = false;
        left(self.of(attempt)).then_some(attempt)
    }

    /// The answer was right: the try cost nothing, and the user is known at this source.
    pub(crate) fn succeeded(&mut self, attempt: Try) {
        for (bucket, limit) in self.of(attempt) {
            bucket.put_back(limit.rate(), limit.cost());
        }
        self.known.insert(attempt.pair, ());
    }

    /// Nobody could tell: the try cost nothing.
    pub(crate) fn withdrawn(&mut self, attempt: Try) {
        for (bucket, limit) in self.of(attempt) {
            bucket.put_back(limit.rate(), limit.cost());
        }
    }

    /// The buckets that a try takes from.
    fn of(&mut self, attempt: Try) -> Vec<(&mut Bucket, Limit)> {
        fn at(row: &mut [Bucket], hash: u64) -> &mut Bucket {
            let count = row.len() as u64;
            &mut row[(hash % count) as usize]
        }
        if attempt.is_known {
            vec![(at(&mut self.pairs, attempt.pair), self.settings.known)]
        } else {
            let source = (at(&mut self.sources, attempt.source), self.settings.source);
            vec![source, (at(&mut self.users, attempt.user), self.settings.user)]
        }
    }
}

/// What a host cannot change about its address.
fn place(source: IpAddr) -> [u8; 16] {
    let mut bytes = address(source);
    if matches!(source.to_canonical(), IpAddr::V6(_)) {
        bytes[8..].fill(0);
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    fn bans() -> Bans {
        Bans::new(BanSettings::default(), [1, 2])
    }

    fn at(secs: u64) -> Instant {
        Instant::from_millis(1_000_000 + secs * 1000)
    }

    fn ip(n: u32) -> IpAddr {
        Ipv4Addr::from_bits(0x0a00_0000 + n).into()
    }

    /// Wrong answers that are looked at, of so many that are tried.
    fn wrong(bans: &mut Bans, secs: u64, source: IpAddr, user: &str, tries: usize) -> usize {
        (0..tries).filter(|_| bans.attempt(at(secs), source, user.as_bytes()).is_some()).count()
    }

    fn right(bans: &mut Bans, secs: u64, source: IpAddr, user: &str) -> bool {
        let attempt = bans.attempt(at(secs), source, user.as_bytes());
        attempt.inspect(|attempt| bans.succeeded(*attempt)).is_some()
    }

    #[test]
    fn a_source_has_ten_tries_and_then_one_a_minute() {
        let mut bans = bans();
        let tries: usize = (0..100).map(|user| wrong(&mut bans, 0, ip(1), &format!("user-{user}"), 1)).sum();
        assert_eq!(tries, 10);
        assert_eq!(wrong(&mut bans, 3_600, ip(1), "alice", 100), 10);
        let tries: usize =
            (3_601..7_200).map(|secs| wrong(&mut bans, secs, ip(1), &secs.to_string(), 3)).sum();
        assert_eq!(tries, 60, "in an hour, tried at each second");
    }

    #[test]
    fn right_answers_cost_nothing() {
        let mut bans = bans();
        assert!((0..1_000).all(|_| right(&mut bans, 0, ip(1), "alice")));
        let many = (0..1_000).all(|user| right(&mut bans, 0, ip(1), &format!("behind-the-same-nat-{user}")));
        assert!(many);
        for _ in 0..1_000 {
            let attempt = bans.attempt(at(0), ip(3), b"bob").expect("nobody said that it was wrong");
            bans.withdrawn(attempt);
        }
    }

    /// A botnet guesses one user's password: it gets few tries, and the user goes on where the user was.
    #[test]
    fn a_user_under_attack_goes_on_from_a_known_place() {
        let mut bans = bans();
        assert!(right(&mut bans, 0, ip(1), "alice"));
        let mut looked_at = 0;
        for secs in 0..3_600 {
            for bot in 0..10 {
                looked_at += wrong(&mut bans, secs, ip(1_000 + secs as u32 * 10 + bot), "alice", 1);
            }
            assert!(right(&mut bans, secs, ip(1), "alice"), "second {secs}");
        }
        assert!((130..150).contains(&looked_at), "{looked_at} in an hour: 20, and two a minute");
        // The user at a new place, who repeats once a second as soon as the attack is over.
        assert!((3_600..3_632).any(|secs| right(&mut bans, secs, ip(2), "alice")));
    }

    /// A guesser behind the address of many: they go on, and the guesser does not get more for it.
    #[test]
    fn neighbours_of_a_guesser_go_on() {
        let mut bans = bans();
        assert!(right(&mut bans, 0, ip(1), "alice"));
        let tries: usize = (0..500).map(|user| wrong(&mut bans, 1, ip(1), &format!("user-{user}"), 1)).sum();
        assert_eq!(tries, 10);
        assert!(right(&mut bans, 1, ip(1), "alice"));
        assert!(!right(&mut bans, 1, ip(1), "carol"), "nobody knows carol here");
        assert!(right(&mut bans, 62, ip(1), "carol"), "a minute later");
        let tries = wrong(&mut bans, 1, ip(1), "alice", 100);
        assert_eq!(tries, 20, "from a known place, too, guesses are counted");
    }

    /// Strangers, however many, push out nothing: what is known stays, and buckets are never emptied for want of room.
    #[test]
    fn a_flood_of_failures_makes_nobody_unknown() {
        let mut bans = Bans::with_room(BanSettings::default(), [5, 6], 1 << 12, 100);
        assert!(right(&mut bans, 0, ip(1), "alice"));
        for n in 0..100_000 {
            wrong(&mut bans, 0, ip(1_000 + n), &format!("user-{n}"), 1);
        }
        assert!(right(&mut bans, 1, ip(1), "alice"));
        assert_eq!(bans.known.len(), 1);
    }

    #[test]
    fn a_host_cannot_change_its_place() {
        let mut bans = bans();
        let tries: usize = (0..100)
            .map(|n| {
                let source: IpAddr = format!("2001:db8:1:2::{n:x}").parse().unwrap();
                wrong(&mut bans, 0, source, &format!("user-{n}"), 1)
            })
            .sum();
        assert_eq!(tries, 10);
        assert_eq!(wrong(&mut bans, 0, "2001:db8:1:3::1".parse().unwrap(), "x", 1), 1);
    }
}
