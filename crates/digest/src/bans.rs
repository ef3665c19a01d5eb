//! Limits to guessing: how many wrong answers a source and a user may give.

use crate::Refusal;
use crate::nonce::address;
use base::{Buckets, Instant, Rate, Recent};
use core::hash::Hasher;
use core::time::Duration;
use siphasher::sip::SipHasher13;
use std::net::IpAddr;

/// So many wrong answers at once, and one more each time that a while has passed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limit {
    /// Wrong answers in a row; at least 1.
    pub failures: u32,
    /// After how long one more is allowed; whole seconds, at least one, at most 18 hours.
    pub every: Duration,
    /// Look-ups under way at once; at least 1. So many guesses can be made before the first is known to be wrong. All of
    /// them count, and are made up for before the next one.
    pub at_once: u32,
}

impl Limit {
    /// A failure costs the seconds until the next one is allowed; a second passes each second.
    fn cost(self) -> u32 {
        u32::try_from(self.every.as_secs()).unwrap_or(u32::MAX).clamp(1, 1 << 16)
    }

    fn failures(self) -> Rate {
        Rate { per_second: 1, burst: self.failures.clamp(1, 1 << 15) * self.cost() }
    }

    /// A look-up that never ends is forgotten in time: one each second.
    fn under_way(self) -> Rate {
        Rate { per_second: 1, burst: self.at_once.clamp(1, 1 << 16) }
    }

    fn share(self, shards: u32) -> Self {
        Self {
            failures: self.failures.div_ceil(shards),
            every: self.every.saturating_mul(shards),
            at_once: self.at_once.div_ceil(shards),
        }
    }
}

/// How many wrong answers are allowed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BanSettings {
    /// For a source: an IPv4 address, or the 64 bits of an IPv6 network that a host chooses its address from.
    pub source: Limit,
    /// For the 48 bits of an IPv6 network, as a customer of a provider has: 65,536 sources of one owner.
    pub network: Limit,
    /// For a user, from all sources together that are not known to be the user's.
    pub user: Limit,
    /// For a user at a source where the user has answered right before.
    pub known: Limit,
}

impl Default for BanSettings {
    /// Ten wrong answers of a source and one more each minute, five times as many of an IPv6 network; twenty about a user
    /// and one more each half minute; twenty at a known place and one more every ten seconds. Look-ups at once: a hundred of
    /// a source, behind whose address there may be many, and ten about a user.
    fn default() -> Self {
        let limit = |failures, secs, at_once| Limit { failures, every: Duration::from_secs(secs), at_once };
        Self {
            source: limit(10, 60, 100),
            network: limit(50, 12, 500),
            user: limit(20, 30, 10),
            known: limit(20, 10, 10),
        }
    }
}

impl BanSettings {
    /// What one of `shards` shards has, so that all together allow what is set: each has buckets of its own, and a guesser
    /// may reach all of them. At least one wrong answer and one look-up in each. Who is served by one shard alone has
    /// that share.
    #[must_use]
    pub fn share(self, shards: usize) -> Self {
        let shards = u32::try_from(shards.max(1)).unwrap_or(u32::MAX);
        Self {
            source: self.source.share(shards),
            network: self.network.share(shards),
            user: self.user.share(shards),
            known: self.known.share(shards),
        }
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
/// this source before, and this pair has one left. Only a wrong answer takes one, and only once it is known to be wrong:
/// look-ups under way have a limit of their own, beyond which a client is told to come back. So:
///
/// - Nobody is locked out for ever: a limit is a token bucket, which fills by itself. Claims that are not looked at take
///   nothing, so a guesser cannot keep a bucket empty but by guesses that are looked at, one each time that it gains one
///   in the long run.
/// - Who has registered from a place keeps on from there, whatever others do to the user's name from elsewhere, and
///   whatever others behind the same address do to other names. A guesser behind the same address who tries this very
///   user takes from the same pair. Who comes from a new place while the name is under attack competes with the
///   guesser for one try each `every`.
/// - A guesser has `failures` tries for a user, and one more each `every`, from however many unknown sources: by default
///   some 2,900 a day. That holds for one `Bans`. With several shards give each its [share](BanSettings::share); several
///   proxies count apart.
/// - Where a nonce is good at its source only ([`Nonces`](crate::Nonces)), sources cannot be forged: who forges an address
///   bans nobody.
/// - Memory is fixed: 3 MiB, and what is known. Buckets are found by a keyed hash; two who meet in one share it, which costs
///   the wrong answers of both. Nobody can know whom they meet. Known pairs are entered by right answers only, so
///   strangers push none out, and have buckets of their own.
#[derive(Clone, Debug)]
pub struct Bans {
    settings: BanSettings,
    key: [u64; 2],
    /// By [`Kind`].
    rows: [Row; 3],
    known: Recent<u64, ()>,
}

/// What is counted in buckets of its own.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    Source,
    User,
    Pair,
}

#[derive(Clone, Debug)]
struct Row {
    failures: Buckets,
    under_way: Buckets,
}

/// Something that a try counts for, with the limit that it has.
#[derive(Clone, Copy)]
struct Counted {
    kind: Kind,
    hash: u64,
    limit: Limit,
}

/// A try under way. It ends once: as right, wrong or withdrawn.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Try {
    /// When it began: wrong answers count from then on.
    since: Instant,
    /// It counts for the pair alone; else for source, IPv6 network and user.
    is_known: bool,
    /// Keyed hashes.
    source: u64,
    network: Option<u64>,
    user: u64,
    pair: u64,
}

impl Bans {
    /// Nobody has failed yet. `key` is secret.
    pub fn new(settings: BanSettings, key: [u64; 2]) -> Self {
        Self::with_room(settings, key, BUCKETS, KNOWN)
    }

    fn with_room(settings: BanSettings, key: [u64; 2], buckets: usize, known: usize) -> Self {
        let row = || Row { failures: Buckets::new(buckets), under_way: Buckets::new(buckets) };
        Self { settings, key, rows: [row(), row(), row()], known: Recent::new(known) }
    }

    /// Other settings. What was wrong so far counts on.
    pub fn configure(&mut self, settings: BanSettings) {
        self.settings = settings;
    }

    /// Begins a try, unless there have been too many wrong ones, or too many are under way.
    pub(crate) fn attempt(&mut self, now: Instant, source: IpAddr, user: &[u8]) -> Result<Try, Refusal> {
        let host = prefix(source, 8);
        let is_v6 = source.to_canonical().is_ipv6();
        let pair = self.hash(2, &host, user);
        let attempt = Try {
            since: now,
            is_known: self.known.get_mut(&pair).is_some(),
            source: self.hash(0, &host, b""),
            network: is_v6.then(|| self.hash(3, &prefix(source, 6), b"")),
            user: self.hash(1, b"", user),
            pair,
        };
        let stranger = Try { is_known: false, ..attempt };
        // Where the pair has none left, its user is as any other.
        self.begin(attempt).or_else(|_| self.begin(stranger))
    }

    /// What a try counts for.
    fn counted(&self, attempt: Try) -> impl Iterator<Item = Counted> + Clone + use<> {
        let counted = |kind, hash, limit| Some(Counted { kind, hash, limit });
        let settings = &self.settings;
        let all = if attempt.is_known {
            [counted(Kind::Pair, attempt.pair, settings.known), None, None]
        } else {
            [
                counted(Kind::Source, attempt.source, settings.source),
                attempt.network.and_then(|network| counted(Kind::Source, network, settings.network)),
                counted(Kind::User, attempt.user, settings.user),
            ]
        };
        all.into_iter().flatten()
    }

    /// `what` comes first and says whether there is a place, which has 16 bytes: no two of different kinds are the same input.
    fn hash(&self, what: u8, place: &[u8], user: &[u8]) -> u64 {
        let mut hasher = SipHasher13::new_with_keys(self.key[0], self.key[1]);
        hasher.write_u8(what);
        hasher.write(place);
        hasher.write(user);
        hasher.finish()
    }

    fn begin(&mut self, attempt: Try) -> Result<Try, Refusal> {
        let (now, counted) = (attempt.since, self.counted(attempt));
        if !counted.clone().all(|one| self.failures(one).has_some(now, one.limit.failures())) {
            return Err(Refusal::Banned);
        }
        if !counted.clone().all(|one| self.under_way(one).has_some(now, one.limit.under_way())) {
            return Err(Refusal::Busy);
        }
        for one in counted {
            self.under_way(one).take(now, one.limit.under_way(), 1);
        }
        Ok(attempt)
    }

    /// The answer was right: the try cost nothing, and the user is known at this source.
    pub(crate) fn succeeded(&mut self, attempt: Try) {
        self.withdrawn(attempt);
        self.known.insert(attempt.pair, ());
    }

    /// The answer was wrong.
    pub(crate) fn failed(&mut self, attempt: Try) {
        self.withdrawn(attempt);
        for one in self.counted(attempt) {
            self.failures(one).take(attempt.since, one.limit.failures(), one.limit.cost());
        }
    }

    /// Nobody could tell: the try cost nothing.
    pub(crate) fn withdrawn(&mut self, attempt: Try) {
        for one in self.counted(attempt) {
            self.under_way(one).put_back(one.limit.under_way(), 1);
        }
    }

    fn failures(&mut self, one: Counted) -> &mut base::Bucket {
        self.rows[one.kind as usize].failures.of(one.hash)
    }

    fn under_way(&mut self, one: Counted) -> &mut base::Bucket {
        self.rows[one.kind as usize].under_way.of(one.hash)
    }
}

/// The address, of an IPv6 address so many bytes: what a host, or an owner, cannot change about it.
fn prefix(source: IpAddr, bytes: usize) -> [u8; 16] {
    let mut address = address(source);
    if source.to_canonical().is_ipv6() {
        address[bytes..].fill(0);
    }
    address
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
        let mut is_looked_at = || {
            let attempt = bans.attempt(at(secs), source, user.as_bytes());
            attempt.inspect(|attempt| bans.failed(*attempt)).is_ok()
        };
        (0..tries).filter(|_| is_looked_at()).count()
    }

    fn right(bans: &mut Bans, secs: u64, source: IpAddr, user: &str) -> bool {
        let attempt = bans.attempt(at(secs), source, user.as_bytes());
        attempt.inspect(|attempt| bans.succeeded(*attempt)).is_ok()
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

    /// Slow look-ups are no failures: all users behind an address are looked up at the same time.
    #[test]
    fn look_ups_under_way_are_not_wrong() {
        let mut bans = bans();
        let mut begin = |n: u32| bans.attempt(at(0), ip(1), format!("user-{n}").as_bytes());
        let tries: Vec<_> = (0..100).map(|n| begin(n).expect("none was wrong")).collect();
        assert_eq!(begin(100), Err(Refusal::Busy));
        for attempt in tries {
            bans.succeeded(attempt);
        }
        assert_eq!(wrong(&mut bans, 0, ip(1), "bob", 100), 10, "as if nothing had been");
    }

    /// Guesses that are made before the first is known to be wrong are made up for.
    #[test]
    fn guesses_at_once_gain_nothing_in_the_long_run() {
        let mut bans = bans();
        let mut looked_at = 0;
        for secs in 0..86_400 {
            let tries: Vec<_> =
                (0..20).filter_map(|bot| bans.attempt(at(secs), ip(100 + bot), b"alice").ok()).collect();
            assert!(tries.len() <= 10);
            looked_at += tries.len();
            for attempt in tries {
                bans.failed(attempt);
            }
        }
        assert!(looked_at <= 20 + 2_880 + 10, "{looked_at} in a day");
    }

    #[test]
    fn a_look_up_that_never_ends_is_forgotten() {
        let mut bans = bans();
        let begin = |bans: &mut Bans, secs| bans.attempt(at(secs), ip(1), b"alice").is_ok();
        assert_eq!((0..20).filter(|_| begin(&mut bans, 0)).count(), 10);
        assert_eq!((0..20).filter(|_| begin(&mut bans, 10)).count(), 10);
    }

    #[test]
    fn shards_together_allow_what_is_set() {
        let share = BanSettings::default().share(4);
        let mut shards = vec![Bans::new(share, [1, 2]); 4];
        let mut looked_at = 0;
        for secs in 0..86_400 {
            for bans in &mut shards {
                looked_at += wrong(bans, secs, ip(secs as u32), "alice", 1);
            }
        }
        assert!((2_880..=2_900).contains(&looked_at), "{looked_at} in a day");
        let many = BanSettings::default().share(1_000);
        assert_eq!((many.source.failures, many.known.at_once), (1, 1));
        assert_eq!(BanSettings::default().share(0), BanSettings::default());
    }

    #[test]
    fn an_owner_of_many_networks_is_one() {
        let mut bans = bans();
        let mut tries = 0;
        for n in 0..1_000 {
            let source: IpAddr = format!("2001:db8:1:{n:x}::1").parse().unwrap();
            tries += wrong(&mut bans, 0, source, &format!("user-{n}"), 1);
        }
        assert_eq!(tries, 50);
        assert_eq!(wrong(&mut bans, 0, "2001:db8:2::1".parse().unwrap(), "x", 1), 1);
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
