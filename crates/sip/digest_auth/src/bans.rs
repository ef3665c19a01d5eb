//! Limits to password guessing: wrong answers of a source and for a user.

use crate::AuthRefusal;
use crate::nonce::address;
use base::{Buckets, Instant, Rate, Recent, SipHash};
use core::hash::Hasher;
use core::time::Duration;
use std::net::IpAddr;

/// Limit of wrong answers: a number in one burst, and one more after each interval.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AttemptLimit {
    /// Wrong answers in one burst; at least 1.
    pub failures: u32,
    /// Interval after which one more wrong answer is allowed; whole seconds, at least one, at most 18 hours.
    pub every: Duration,
    /// Look-ups in progress at once; at least 1. A client can make this many guesses before the first is known to be
    /// wrong. All wrong ones count, and delay the next attempt.
    pub at_once: u32,
}

impl AttemptLimit {
    /// Cost of a failure: the seconds until the next one is allowed. One unit is refilled each second.
    fn cost(self) -> u32 {
        u32::try_from(self.every.as_secs()).unwrap_or(u32::MAX).clamp(1, 1 << 16)
    }

    fn failures(self) -> Rate {
        Rate { per_second: 1, burst: self.failures.clamp(1, 1 << 15) * self.cost() }
    }

    /// Look-ups that never end stop counting after a while: one look-up each second.
    fn under_way(self) -> Rate {
        Rate { per_second: 1, burst: self.at_once.clamp(1, 1 << 16) }
    }
}

/// Limits of wrong answers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BanSettings {
    /// For a user at a source where the user is not known. This limit is used up first. So a client that repeats a
    /// wrong password takes no more than this number of attempts from other clients at the same source.
    pub pair: AttemptLimit,
    /// For a source: an IPv4 address, or the first 64 bits of an IPv6 address, as a host chooses the last 64 bits.
    pub source: AttemptLimit,
    /// For the first 48 bits of an IPv6 address, the network of a provider's customer: 65,536 sources of one owner.
    pub network: AttemptLimit,
    /// For a user, at all sources together at which the user is not known.
    pub user: AttemptLimit,
    /// For a user at a source where the user is known from an earlier right answer.
    pub known: AttemptLimit,
}

impl Default for BanSettings {
    /// Defaults:
    /// - for a user at a source: ten wrong answers, and one more each minute;
    /// - for a source, which may have many clients: five times as many; for an IPv6 network: five times the limit of a
    ///   source;
    /// - for a user: twenty, and one more each half minute;
    /// - at a known location: twenty, and one more every ten seconds;
    /// - look-ups at once: a hundred for a source, ten for a user.
    fn default() -> Self {
        let limit =
            |failures, secs, at_once| AttemptLimit { failures, every: Duration::from_secs(secs), at_once };
        Self {
            pair: limit(10, 60, 10),
            source: limit(50, 12, 100),
            network: limit(250, 3, 500),
            user: limit(20, 30, 10),
            known: limit(20, 10, 10),
        }
    }
}

impl BanSettings {
    /// Settings of one of `shards` shards that send each other their wrong answers (`Bans::apply_shared`). Each shard has the
    /// full limits of wrong answers, and its share of the look-ups at once, at least one.
    #[must_use]
    pub fn share(self, shards: usize) -> Self {
        let shards = u32::try_from(shards.max(1)).unwrap_or(u32::MAX);
        let share = |limit: AttemptLimit| AttemptLimit { at_once: limit.at_once.div_ceil(shards), ..limit };
        Self {
            pair: share(self.pair),
            source: share(self.source),
            network: share(self.network),
            user: share(self.user),
            known: share(self.known),
        }
    }
}

/// Number of buckets of each kind: 512 KiB.
const BUCKETS: usize = 1 << 16;
/// Least number of pairs of user and source that are remembered, the last used ones; at most twice as many are kept,
/// about 20 bytes each.
const KNOWN: usize = 1 << 16;

/// Limit of look-ups of bindings for a source without attempts left ([`Bans::may_look_up_bindings`]).
const LOOK_UPS: Rate = Rate { per_second: 10, burst: 100 };

/// Location of a client.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ClientLocation {
    /// Address of the client, or of the proxy in front of it if no more is known.
    pub address: IpAddr,
    /// Trusted proxy that the request came through, if any.
    pub edge: Option<IpAddr>,
}

impl From<IpAddr> for ClientLocation {
    /// Location of a client without a proxy in front of it.
    fn from(address: IpAddr) -> Self {
        Self { address, edge: None }
    }
}

impl ClientLocation {
    /// Whether the clients at this address cannot be distinguished.
    fn is_shared(self) -> bool {
        self.edge == Some(self.address)
    }
}

/// Limits to password guessing.
///
/// A claim is verified in two cases:
///
/// - the pair of source and user, the source, its IPv6 network if it has one, and the user all have an attempt left;
/// - the user has answered right at this source before, and this known pair has an attempt left.
///
/// Only a wrong answer takes an attempt, and only after it is known to be wrong. Look-ups in progress have a separate
/// limit. Beyond this limit a client gets a 503 with Retry-After. Consequences:
///
/// - No client is locked out for ever, since a limit is a token bucket, which refills by itself. Claims that are not
///   verified take no token. So an attacker can keep a bucket empty only by verified guesses, one for each token that
///   is refilled.
/// - A user who has registered from a location keeps access from there. Guesses from other locations, and guesses at
///   other names from the same address, do not change this. An attacker behind the same address who guesses for this
///   very user uses the same pair. A user at a new location, while the name is under attack, competes with the attacker
///   for one attempt each `every`. Pairs that a restart has forgotten are restored from the user's live bindings
///   (`Bans::note_binding`).
/// - From sources where a user is not known, however many, an attacker has `user.failures` wrong answers for this user,
///   and one more each `user.every`: by default 20, and 2,880 a day. At a source where the user is known, such as a
///   shared address, an attacker also has the attempts of the known pair: by default 20, and 8,640 a day, at each such
///   source.
/// - Simultaneous look-ups may exceed a limit by at most `at_once`; all of them count, so the next attempt is delayed.
///   The shards of a process send each other wrong answers and new pairs ([`AttemptResult`]), so these numbers hold for a
///   process. Several processes count separately, and a restart begins with full buckets.
/// - Clients behind a trusted proxy are distinguished by the address that the proxy saw ([`ClientLocation`]). If the
///   proxy does not name this address, its own address has no limit: only each pair and each user have one. A binding
///   through the proxy makes its user known only at the proxy as a whole. Attempts through the proxy count for their
///   pair and source as at unknown locations. For the user they count in a bucket of the proxy, so that guesses
///   elsewhere do not lock the user out.
/// - If a nonce is valid only at its source ([`Nonces`](crate::Nonces)), sources cannot be forged: a forged address
///   causes no ban.
/// - Memory is fixed: 5 MiB, plus the known pairs. Buckets are found by a keyed hash. Colliding keys share a bucket and
///   its wrong answers, but an attacker cannot find collisions. Known pairs are entered only by right answers and live
///   bindings, so outsiders cannot displace any. Known pairs have buckets of their own.
#[derive(Clone, Debug)]
pub struct Bans {
    settings: BanSettings,
    key: [u64; 2],
    /// Buckets by [`Kind`].
    rows: [Row; 4],
    known: Recent<u64, ()>,
    /// Look-ups of bindings, by source.
    asked: Buckets,
}

/// Kind of key, each with buckets of its own.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    Pair,
    Source,
    User,
    Known,
}

#[derive(Clone, Debug)]
struct Row {
    failures: Buckets,
    under_way: Buckets,
}

/// A key that an attempt counts for, with its limit.
#[derive(Clone, Copy)]
struct Counted {
    kind: Kind,
    hash: u64,
    limit: AttemptLimit,
}

/// Location where a user is known, with the keyed hash of the pair.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum KnownAt {
    /// Not known at the location: the attempt counts for pair, source, IPv6 network and user.
    Nowhere,
    /// Known at the client's address: the attempt counts for this pair alone.
    Client(u64),
    /// Known behind the trusted proxy, like any client that uses it: the attempt counts for this pair in place of the
    /// user.
    Edge(u64),
}

/// An attempt in progress. It ends once: as right, wrong or withdrawn.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Attempt {
    /// Start of the attempt. If the answer is wrong, it is charged as of this time.
    since: Instant,
    known: KnownAt,
    /// Hash of the user and the client's address.
    pair: u64,
    /// `None` if the clients at this address cannot be distinguished.
    source: Option<u64>,
    network: Option<u64>,
    user: u64,
}

/// Result of a claim, for the other shards of a process (`Bans::apply_shared`), which have the same key: a wrong answer, or the
/// first right answer at this location.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AttemptResult {
    attempt: Attempt,
    is_right: bool,
}

impl Bans {
    /// Makes limits without any wrong answer so far. `key` is secret.
    pub fn new(settings: BanSettings, key: [u64; 2]) -> Self {
        Self::with_room(settings, key, BUCKETS, KNOWN)
    }

    fn with_room(settings: BanSettings, key: [u64; 2], buckets: usize, known: usize) -> Self {
        let row = |_| Row { failures: Buckets::new(buckets), under_way: Buckets::new(buckets) };
        let rows = core::array::from_fn(row);
        Self { settings, key, rows, known: Recent::new(known), asked: Buckets::new(buckets) }
    }

    /// Changes the settings. Earlier wrong answers still count.
    pub fn configure(&mut self, settings: BanSettings) {
        self.settings = settings;
    }

    /// Starts an attempt, unless there were too many wrong ones, or too many are in progress.
    pub(crate) fn attempt(
        &mut self,
        now: Instant,
        place: ClientLocation,
        user: &[u8],
    ) -> Result<Attempt, AuthRefusal> {
        let pair = self.pair(place.address, user);
        let at_edge = place.edge.map(|edge| self.pair(edge, user));
        let known = if self.known.get_mut(&pair).is_some() {
            KnownAt::Client(pair)
        } else {
            let at_edge = at_edge.filter(|pair| self.known.get_mut(pair).is_some());
            at_edge.map_or(KnownAt::Nowhere, KnownAt::Edge)
        };
        let is_v6 = place.address.to_canonical().is_ipv6();
        let source = |what, bytes| self.hash(what, &prefix(place.address, bytes), b"");
        let attempt = Attempt {
            since: now,
            known,
            pair,
            source: (!place.is_shared()).then(|| source(0, 8)),
            network: (is_v6 && !place.is_shared()).then(|| source(3, 6)),
            user: self.hash(1, b"", user),
        };
        let stranger = Attempt { known: KnownAt::Nowhere, ..attempt };
        // If the known pair has no attempt left, or too many look-ups in progress, the user counts as unknown here.
        self.begin(attempt).or_else(|_| self.begin(stranger))
    }

    fn pair(&self, address: IpAddr, user: &[u8]) -> u64 {
        self.hash(2, &prefix(address, 8), user)
    }

    /// Whether the bindings of a user may be looked up for a client without attempts left. Limited, so that a flood of
    /// such requests costs few look-ups.
    pub(crate) fn may_look_up_bindings(&mut self, now: Instant, place: ClientLocation) -> bool {
        let source = self.hash(0, &prefix(place.edge.unwrap_or(place.address), 8), b"");
        let bucket = self.asked.of(source);
        let may = bucket.has_some(now, LOOK_UPS);
        if may {
            bucket.take(now, LOOK_UPS, 1);
        }
        may
    }

    /// Notes that the user has a live binding at this address, or behind it if it is the address of a trusted proxy.
    pub(crate) fn note_binding(&mut self, address: IpAddr, user: &[u8]) {
        let pair = self.pair(address, user);
        self.known.insert(pair, ());
    }

    /// Takes a result from another shard.
    pub(crate) fn apply_shared(&mut self, judgement: AttemptResult) {
        if judgement.is_right {
            self.known.insert(judgement.attempt.pair, ());
        } else {
            self.count(judgement.attempt);
        }
    }

    /// Keys that an attempt counts for, in the order in which they are checked.
    fn counted(&self, attempt: Attempt) -> impl Iterator<Item = Counted> + Clone + use<> {
        let counted = |kind, hash, limit| Some(Counted { kind, hash, limit });
        let settings = &self.settings;
        let by_client = [
            counted(Kind::Pair, attempt.pair, settings.pair),
            attempt.source.and_then(|source| counted(Kind::Source, source, settings.source)),
            attempt.network.and_then(|network| counted(Kind::Source, network, settings.network)),
        ];
        let (by_client, by_user) = match attempt.known {
            KnownAt::Client(pair) => ([None; 3], counted(Kind::Known, pair, settings.known)),
            KnownAt::Edge(pair) => (by_client, counted(Kind::Known, pair, settings.known)),
            KnownAt::Nowhere => (by_client, counted(Kind::User, attempt.user, settings.user)),
        };
        by_client.into_iter().chain([by_user]).flatten()
    }

    /// Keyed hash. `what` comes first and implies whether there is a place, which has 16 bytes. So inputs of different
    /// kinds never coincide.
    fn hash(&self, what: u8, place: &[u8], user: &[u8]) -> u64 {
        let mut hasher = SipHash::new(self.key);
        hasher.write_u8(what);
        hasher.write(place);
        hasher.write(user);
        hasher.finish()
    }

    fn begin(&mut self, attempt: Attempt) -> Result<Attempt, AuthRefusal> {
        let (now, counted) = (attempt.since, self.counted(attempt));
        if !counted.clone().all(|one| self.failures(one).has_some(now, one.limit.failures())) {
            return Err(AuthRefusal::Banned);
        }
        if !counted.clone().all(|one| self.under_way(one).has_some(now, one.limit.under_way())) {
            return Err(AuthRefusal::Busy);
        }
        for one in counted {
            self.under_way(one).take(now, one.limit.under_way(), 1);
        }
        Ok(attempt)
    }

    /// Ends an attempt with a right answer: it costs nothing, and the user is known at this source. Returns a result if
    /// that is new.
    pub(crate) fn succeeded(&mut self, attempt: Attempt) -> Option<AttemptResult> {
        self.withdrawn(attempt);
        let is_new = self.known.get(&attempt.pair).is_none();
        self.known.insert(attempt.pair, ());
        is_new.then_some(AttemptResult { attempt, is_right: true })
    }

    /// Ends an attempt with a wrong answer.
    pub(crate) fn failed(&mut self, attempt: Attempt) -> AttemptResult {
        self.withdrawn(attempt);
        self.count(attempt);
        AttemptResult { attempt, is_right: false }
    }

    fn count(&mut self, attempt: Attempt) {
        for one in self.counted(attempt) {
            self.failures(one).take(attempt.since, one.limit.failures(), one.limit.cost());
        }
    }

    /// Ends an attempt without a result: it costs nothing.
    pub(crate) fn withdrawn(&mut self, attempt: Attempt) {
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

/// The IPv4 address, or the first `bytes` bytes of an IPv6 address: the part that a host, or an owner, cannot change.
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

    /// Number of wrong answers that are verified, of `tries`.
    fn wrong(bans: &mut Bans, secs: u64, source: IpAddr, user: &str, tries: usize) -> usize {
        let mut is_looked_at = || {
            let attempt = bans.attempt(at(secs), source.into(), user.as_bytes());
            attempt.map(|attempt| bans.failed(attempt)).is_ok()
        };
        (0..tries).filter(|_| is_looked_at()).count()
    }

    fn right(bans: &mut Bans, secs: u64, source: IpAddr, user: &str) -> bool {
        let attempt = bans.attempt(at(secs), source.into(), user.as_bytes());
        attempt.map(|attempt| bans.succeeded(attempt)).is_ok()
    }

    #[test]
    fn a_user_at_a_source_has_ten_tries_and_then_one_a_minute() {
        let mut bans = bans();
        assert_eq!(wrong(&mut bans, 0, ip(1), "alice", 100), 10);
        let tries: usize = (1..3_601).map(|secs| wrong(&mut bans, secs, ip(1), "alice", 3)).sum();
        assert_eq!(tries, 60, "tries in an hour, one each second");
    }

    #[test]
    fn a_source_has_fifty_tries_and_then_five_a_minute() {
        let mut bans = bans();
        let tries: usize = (0..100).map(|user| wrong(&mut bans, 0, ip(1), &format!("user-{user}"), 1)).sum();
        assert_eq!(tries, 50);
        let tries: usize = (1..3_601).map(|secs| wrong(&mut bans, secs, ip(1), &secs.to_string(), 3)).sum();
        assert_eq!(tries, 300, "tries in an hour, one each second");
    }

    /// A telephone with a wrong password repeats it for ever: new users behind the same address get in.
    #[test]
    fn a_client_that_repeats_a_wrong_password_does_not_block_its_neighbours() {
        let mut bans = bans();
        for secs in 0..3_600 {
            wrong(&mut bans, secs, ip(1), "alice", 3);
        }
        assert!((0..1_000).all(|user| right(&mut bans, 3_600, ip(1), &format!("user-{user}"))));
    }

    #[test]
    fn right_answers_cost_nothing() {
        let mut bans = bans();
        assert!((0..1_000).all(|_| right(&mut bans, 0, ip(1), "alice")));
        let many = (0..1_000).all(|user| right(&mut bans, 0, ip(1), &format!("behind-the-same-nat-{user}")));
        assert!(many);
        for _ in 0..1_000 {
            let attempt = bans.attempt(at(0), ip(3).into(), b"bob").expect("no wrong answer was counted");
            bans.withdrawn(attempt);
        }
    }

    /// A botnet guesses one user's password: it gets few attempts, and the user keeps access from a known location.
    #[test]
    fn a_user_under_attack_keeps_access_from_a_known_location() {
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
        // The user at a new location, who repeats once a second, gets in soon after the attack.
        assert!((3_600..3_632).any(|secs| right(&mut bans, secs, ip(2), "alice")));
    }

    /// An attacker behind a shared address: its neighbours keep access, and the attacker gains no attempts.
    #[test]
    fn neighbours_of_an_attacker_keep_access() {
        let mut bans = bans();
        assert!(right(&mut bans, 0, ip(1), "alice"));
        let tries: usize = (0..500).map(|user| wrong(&mut bans, 1, ip(1), &format!("user-{user}"), 1)).sum();
        assert_eq!(tries, 50);
        assert!(right(&mut bans, 1, ip(1), "alice"));
        assert!(!right(&mut bans, 1, ip(1), "carol"), "carol is not known at this source");
        assert!(right(&mut bans, 14, ip(1), "carol"), "after a refill of the bucket");
        let tries = wrong(&mut bans, 1, ip(1), "alice", 100);
        assert_eq!(tries, 20, "guesses from a known location are counted, too");
    }

    /// Outsiders, however many, displace nothing: known pairs stay, and buckets are never reset for lack of room.
    #[test]
    fn a_flood_of_failures_displaces_no_known_pair() {
        let mut bans = Bans::with_room(BanSettings::default(), [5, 6], 1 << 12, 100);
        assert!(right(&mut bans, 0, ip(1), "alice"));
        for n in 0..100_000 {
            wrong(&mut bans, 0, ip(1_000 + n), &format!("user-{n}"), 1);
        }
        assert!(right(&mut bans, 1, ip(1), "alice"));
        assert_eq!(bans.known.len(), 1);
    }

    /// Slow look-ups are not failures: all users behind an address are looked up at the same time.
    #[test]
    fn look_ups_in_progress_are_not_failures() {
        let mut bans = bans();
        let mut begin = |n: u32| bans.attempt(at(0), ip(1).into(), format!("user-{n}").as_bytes());
        let tries: Vec<_> = (0..100).map(|n| begin(n).expect("no wrong answer was counted")).collect();
        assert_eq!(begin(100), Err(AuthRefusal::Busy));
        for attempt in tries {
            bans.succeeded(attempt);
        }
        assert_eq!(wrong(&mut bans, 0, ip(1), "bob", 100), 10, "the look-ups have cost nothing");
    }

    /// Guesses made before the first is known to be wrong delay later ones.
    #[test]
    fn simultaneous_guesses_gain_no_attempts() {
        let mut bans = bans();
        let mut looked_at = 0;
        for secs in 0..86_400 {
            let tries: Vec<_> = (0..20)
                .filter_map(|bot| bans.attempt(at(secs), ip(100 + bot).into(), b"alice").ok())
                .collect();
            assert!(tries.len() <= 10);
            looked_at += tries.len();
            for attempt in tries {
                bans.failed(attempt);
            }
        }
        assert!(looked_at <= 20 + 2_880 + 10, "{looked_at} in a day");
    }

    #[test]
    fn a_look_up_that_never_ends_stops_counting() {
        let mut bans = bans();
        let begin = |bans: &mut Bans, secs| bans.attempt(at(secs), ip(1).into(), b"alice").is_ok();
        assert_eq!((0..20).filter(|_| begin(&mut bans, 0)).count(), 10);
        assert_eq!((0..20).filter(|_| begin(&mut bans, 10)).count(), 10);
    }

    /// A result of one shard holds in all of them.
    #[test]
    fn a_result_of_one_shard_holds_in_all_shards() {
        let mut shards = vec![Bans::new(BanSettings::default().share(8), [1, 2]); 8];
        let known =
            shards[3].attempt(at(0), ip(1).into(), b"alice").map(|attempt| shards[3].succeeded(attempt));
        let known = known.ok().flatten().expect("a first right answer makes a result");
        for bans in &mut shards {
            bans.apply_shared(known);
        }
        let mut looked_at = 0;
        for secs in 0..86_400 {
            for shard in 0..8 {
                let Ok(attempt) = shards[shard].attempt(at(secs), ip(100 + secs as u32).into(), b"alice")
                else {
                    continue;
                };
                looked_at += 1;
                let wrong = shards[shard].failed(attempt);
                let others = shards.iter_mut().enumerate().filter(|(other, _)| *other != shard);
                others.for_each(|(_, bans)| bans.apply_shared(wrong));
            }
        }
        assert!((2_880..=2_900).contains(&looked_at), "{looked_at} in a day");
        for bans in &mut shards {
            let again =
                bans.attempt(at(86_400), ip(1).into(), b"alice").map(|attempt| bans.succeeded(attempt));
            assert_eq!(again, Ok(None), "known at each shard, without a new result");
            assert!(!right(bans, 86_400, ip(2), "alice"), "under attack at each shard");
        }
        let many = BanSettings::default().share(1_000);
        assert_eq!((many.source.failures, many.known.at_once), (50, 1));
        assert_eq!(BanSettings::default().share(0), BanSettings::default());
    }

    /// Clients behind a proxy that names their addresses, and behind one that does not.
    #[test]
    fn clients_behind_an_edge_are_not_one_source() {
        let place = |n| ClientLocation { address: ip(n), edge: Some(ip(1)) };
        let mut bans = bans();
        let mut guess = |place: ClientLocation, user: &str| {
            let attempt = bans.attempt(at(0), place, user.as_bytes());
            attempt.map(|attempt| bans.failed(attempt)).is_ok()
        };
        let guesses = (0..300).filter(|user| guess(place(2), &format!("user-{user}"))).count();
        assert_eq!(guesses, 50, "a client has a limit of its own");
        assert!(
            (0..300).all(|user| guess(place(1), &format!("hidden-{user}"))),
            "the number of clients behind the proxy is unknown"
        );
        assert_eq!((0..300).filter(|_| guess(place(1), "alice")).count(), 10);
        for at_edge in [place(1), place(3)] {
            let attempt = bans.attempt(at(0), at_edge, b"bob");
            assert!(attempt.map(|attempt| bans.succeeded(attempt)).is_ok());
        }
    }

    /// A user has registered through an edge proxy, and a restart has forgotten the location. An attacker who guesses
    /// through the edge has no more attempts than elsewhere, and does not lock the user out.
    #[test]
    fn guesses_through_the_edge_of_a_user_are_limited() {
        let behind = |n| ClientLocation { address: ip(n), edge: Some(ip(1)) };
        let guess = |bans: &mut Bans, secs, client, tries: usize| {
            let mut is_looked_at = || {
                let attempt = bans.attempt(at(secs), behind(client), b"alice");
                attempt.map(|attempt| bans.failed(attempt)).is_ok()
            };
            (0..tries).filter(|_| is_looked_at()).count()
        };
        let mut bans = bans();
        bans.note_binding(ip(1), b"alice");
        // Guesses elsewhere use up the attempts of the user.
        assert_eq!((0..100).map(|bot| wrong(&mut bans, 0, ip(1_000 + bot), "alice", 1)).sum::<usize>(), 20);
        let tries: usize = (0..3_600).map(|secs| guess(&mut bans, secs, 2, 3)).sum();
        assert_eq!(tries, 10 + 60, "a client in an hour: ten, and one a minute");
        let attempt = bans.attempt(at(3_600), behind(3), b"alice").expect("no guesses came from there");
        bans.succeeded(attempt);
        // Many clients behind the edge together, and clients elsewhere, have the attempts of a user and of a known
        // location.
        let mut all = self::bans();
        all.note_binding(ip(1), b"alice");
        let tries: usize = (0..1_000).map(|client| guess(&mut all, 0, 100 + client, 1)).sum();
        assert_eq!(tries, 20 + 20);
        // A user who was known there before keeps access.
        let attempt = bans.attempt(at(3_600), behind(3), b"alice").expect("alice is known there");
        bans.succeeded(attempt);
        for client in 100..1_000 {
            guess(&mut bans, 3_600, client, 1);
        }
        assert!(bans.attempt(at(3_600), behind(3), b"alice").is_ok());
    }

    /// A live binding makes a user known at its address; one through the edge makes the user known behind the edge.
    #[test]
    fn a_live_binding_makes_its_user_known() {
        let mut bans = bans();
        for bot in 0..100 {
            wrong(&mut bans, 0, ip(1_000 + bot), "alice", 1);
        }
        assert!(!right(&mut bans, 0, ip(1), "alice"));
        bans.note_binding(ip(1), b"alice");
        assert!(right(&mut bans, 0, ip(1), "alice"));
        let behind = ClientLocation { address: ip(7), edge: Some(ip(2)) };
        assert_eq!(bans.attempt(at(0), behind, b"alice"), Err(AuthRefusal::Banned));
        bans.note_binding(ip(2), b"alice");
        let attempt = bans.attempt(at(0), behind, b"alice").expect("alice is known at the edge");
        assert!(
            bans.succeeded(attempt).is_some_and(|news| news.is_right),
            "a new result: alice is known at the client's address"
        );
        assert!(right(&mut bans, 0, ip(7), "alice"));
        assert_eq!((0..1_000).filter(|_| bans.may_look_up_bindings(at(0), behind)).count(), 100);
        assert!(bans.may_look_up_bindings(at(1), behind) && bans.may_look_up_bindings(at(0), ip(9).into()));
    }

    #[test]
    fn all_sources_of_one_ipv6_network_share_a_limit() {
        let mut bans = bans();
        let mut tries = 0;
        for n in 0..1_000 {
            let source: IpAddr = format!("2001:db8:1:{n:x}::1").parse().unwrap();
            tries += wrong(&mut bans, 0, source, &format!("user-{n}"), 1);
        }
        assert_eq!(tries, 250);
        assert_eq!(wrong(&mut bans, 0, "2001:db8:2::1".parse().unwrap(), "x", 1), 1);
    }

    #[test]
    fn a_host_cannot_leave_its_ipv6_prefix() {
        let mut bans = bans();
        let tries: usize = (0..100)
            .map(|n| {
                let source: IpAddr = format!("2001:db8:1:2::{n:x}").parse().unwrap();
                wrong(&mut bans, 0, source, &format!("user-{n}"), 1)
            })
            .sum();
        assert_eq!(tries, 50);
        assert_eq!(wrong(&mut bans, 0, "2001:db8:1:3::1".parse().unwrap(), "x", 1), 1);
    }
}
