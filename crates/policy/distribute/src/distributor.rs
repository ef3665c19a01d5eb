//! A node's part: its decisions, its counts of a period, and what its neighbours have told.

use std::collections::{BTreeMap, BTreeSet};

use base::{Instant, Recent};
use core::time::Duration;

use crate::entry::Entry;
use crate::law::{NodeLoad, PathLoad, Saturation, Share};
use crate::notice::{AGE, Notice};
use crate::settings::{Load, Settings};

/// Where a call goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NextHop<N> {
    /// To a trusted neighbour that shares out state, too.
    Neighbour(N),
    /// Out of the network: to a user agent, a stranger, or a proxy that knows nothing of this. Also for a call whose
    /// state this node has to keep whatever it costs: one that it forks, which needs state (RFC 3261 §16.11).
    Exit,
}

/// A new call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Call<N> {
    /// Where it came from: a neighbour that shares out state. `None` for everyone else, whose marks do not count.
    pub from: Option<N>,
    /// Where it goes.
    pub to: NextHop<N>,
    /// Whether its mark says that somebody keeps its state.
    pub kept: bool,
    /// A hash of what all copies of the request have in common and other requests have not: what makes its
    /// transaction (RFC 3261 §17.2.3). Keyed, or callers could choose who keeps their state.
    pub key: u64,
}

/// What to do with a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// Keep its state, and forward it marked.
    Keep,
    /// Forward it without state and marked, as it came.
    PassKept,
    /// Forward it without state and not marked.
    PassOpen,
}

/// Which way shares may move in a period. All ways, unless a node has several things to give away, one after the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Moves {
    /// More is given away.
    gives: bool,
    /// What was given away is taken back.
    takes_back: bool,
}

impl Default for Moves {
    fn default() -> Self {
        Self { gives: true, takes_back: true }
    }
}

/// Most upstream neighbours: whoever forges the addresses of trusted ones takes no more room than that.
const UPSTREAM_MAX: usize = 1_024;

/// A node's share of keeping state.
///
/// New calls ask [`on_call`](Self::on_call). Each [period](Settings::period) ends with
/// [`on_period`](Self::on_period). [`notice`](Self::notice) is what an upstream neighbour is told;
/// [`on_notice`](Self::on_notice) takes what a downstream one tells. `N` names neighbours. The host hands over
/// trusted ones alone; of those before us the first 1,024 count, the others as clients.
#[derive(Debug, Clone)]
pub struct Distributor<N> {
    settings: Settings,
    /// Mixed into keys, so that nodes in a row choose independently.
    salt: u64,
    paths: BTreeMap<N, Path>,
    upstream: BTreeMap<N, Upstream<N>>,
    /// Where calls of clients go, who are no neighbours.
    clients: Upstream<N>,
    /// Keys of calls that were forwarded open.
    open: Recent<u64, ()>,
    calls: u64,
    kept: u64,
    refused: u64,
    /// Calls of clients: taken, and refused.
    entry_calls: [u64; 2],
    /// Whether calls of this period came from a neighbour without state, and went on to another one.
    is_between: bool,
    utilisation: f64,
    saturation: Saturation,
    entry: Entry,
    sequence: u64,
}

/// A way to a downstream neighbour.
#[derive(Debug, Clone)]
struct Path {
    share: Share,
    /// Calls of this period that came without state.
    open: u64,
    /// Whether there were any in the last one.
    was_used: bool,
    told: Option<Told>,
}

#[derive(Debug, Clone, Copy)]
struct Told {
    notice: Notice,
    until: Instant,
}

impl Path {
    fn new(settings: &Settings) -> Self {
        Self { share: Share::first(settings), open: 0, was_used: false, told: None }
    }

    fn told(&self, now: Instant) -> Option<Notice> {
        self.told.filter(|told| now < told.until).map(|told| told.notice)
    }
}

/// Where calls of an upstream neighbour go, and what it is told about that.
#[derive(Debug, Clone)]
struct Upstream<N> {
    /// In this period; `None` is the exit.
    to: BTreeSet<Option<N>>,
    /// In the last one that had any: what the notice is about.
    last_to: BTreeSet<Option<N>>,
    throttled: bool,
    /// As in the [`Notice`].
    level: f64,
    least: f64,
    /// When a call last came.
    seen: Instant,
}

impl<N> Upstream<N> {
    fn new(now: Instant, utilisation: f64) -> Self {
        let (to, last_to) = (BTreeSet::new(), BTreeSet::new());
        Self { to, last_to, throttled: false, level: utilisation, least: utilisation, seen: now }
    }
}

impl<N: Ord + Copy> Distributor<N> {
    /// A node that knows nothing yet, and so keeps all state. `salt` is to be another one at each node.
    pub fn new(settings: Settings, salt: u64) -> Self {
        Self {
            settings,
            salt,
            paths: BTreeMap::new(),
            upstream: BTreeMap::new(),
            clients: Upstream::new(Instant::ZERO, 0.0),
            open: Recent::new(settings.remembered),
            calls: 0,
            kept: 0,
            refused: 0,
            entry_calls: [0; 2],
            is_between: false,
            utilisation: 0.0,
            saturation: Saturation::default(),
            entry: Entry::default(),
            sequence: 0,
        }
    }

    /// Who keeps the state of a new call. A copy of one whose state is kept here must not be asked for: it belongs to
    /// its transaction.
    pub fn on_call(&mut self, now: Instant, call: Call<N>) -> Decision {
        // A mark from elsewhere is a stranger's.
        let kept = call.kept && call.from.is_some();
        self.note_way(now, call);
        if !kept && self.open.get(&call.key).is_some() && call.to != NextHop::Exit {
            return Decision::PassOpen;
        }
        self.count(call.from);
        if kept {
            return Decision::PassKept;
        }
        let NextHop::Neighbour(next) = call.to else {
            // Nobody behind could: "the state of a call is kept at one node" ends here.
            self.kept += 1;
            return Decision::Keep;
        };
        let path = self.paths.entry(next).or_insert_with(|| Path::new(&self.settings));
        path.open += 1;
        self.is_between |= call.from.is_some();
        if part(call.key ^ self.salt) < path.share.keep {
            self.kept += 1;
            return Decision::Keep;
        }
        self.open.insert(call.key, ());
        Decision::PassOpen
    }

    /// A new call that nobody else can see to, whatever the shares: as when its credentials answer a challenge of
    /// this node.
    pub fn on_own_call(&mut self, now: Instant, call: Call<N>) {
        self.note_way(now, call);
        self.count(call.from);
        self.kept += 1;
    }

    /// A new call whose state this node has no room for, or that it cannot see to for another reason. It goes on
    /// without where a neighbour behind may keep it, or somebody keeps it already; `None`: it would be kept here.
    pub fn on_call_without_room(&mut self, now: Instant, call: Call<N>) -> Option<Decision> {
        if call.kept && call.from.is_some() {
            return Some(self.on_call(now, call));
        }
        let NextHop::Neighbour(next) = call.to else { return None };
        self.note_way(now, call);
        self.count(call.from);
        self.is_between |= call.from.is_some();
        self.paths.entry(next).or_insert_with(|| Path::new(&self.settings)).open += 1;
        self.open.insert(call.key, ());
        Some(Decision::PassOpen)
    }

    /// Overload control has refused a new call, since this node has too much to do: one that [`takes`](Self::takes) had
    /// let in. `from` as in [`Call`].
    pub fn on_refused(&mut self, from: Option<N>) {
        self.refused += 1;
        self.entry_calls[1] += u64::from(from.is_none());
    }

    fn count(&mut self, from: Option<N>) {
        self.calls += 1;
        self.entry_calls[0] += u64::from(from.is_none());
    }

    /// Marked calls count, too: a neighbour that keeps all state itself has to hear of the room behind, or it would
    /// never send a call without.
    fn note_way(&mut self, now: Instant, call: Call<N>) {
        let utilisation = self.utilisation;
        let is_known = |from: &N| self.upstream.len() < UPSTREAM_MAX || self.upstream.contains_key(from);
        let upstream = match call.from.filter(is_known) {
            Some(from) => self.upstream.entry(from).or_insert_with(|| Upstream::new(now, utilisation)),
            None => &mut self.clients,
        };
        upstream.seen = now;
        upstream.to.insert(match call.to {
            NextHop::Neighbour(next) => Some(next),
            NextHop::Exit => None,
        });
    }

    /// A downstream neighbour has told how it is. An older notice than the one that counts says nothing new; a
    /// smaller number counts again once that one has expired, as after a restart of the neighbour.
    pub fn on_notice(&mut self, now: Instant, from: N, notice: Notice) {
        let path = self.paths.entry(from).or_insert_with(|| Path::new(&self.settings));
        if path.told(now).is_none_or(|told| told.sequence <= notice.sequence) {
            path.told = Some(Told { notice, until: now + self.settings.validity() });
        }
    }

    /// Whether a downstream neighbour has told how it is, and not too long ago.
    pub fn hears(&self, now: Instant, from: N) -> bool {
        self.paths.get(&from).is_some_and(|path| path.told(now).is_some())
    }

    /// A period of this length is over, in which the processor was busy for this part of the time. Call it once in
    /// each [`Settings::period`], whether calls came or not.
    pub fn on_period(&mut self, now: Instant, length: Duration, utilisation: f64) {
        self.on_period_of(now, length, utilisation, Moves::default());
    }

    /// The same of two things that a node gives away in turn: of `last` once nothing more of this one can be given, and
    /// this one is taken back once all of `last` is.
    pub fn on_period_before(&mut self, last: &mut Self, now: Instant, length: Duration, utilisation: f64) {
        let takes_back = last.keeps_all();
        self.on_period_of(now, length, utilisation, Moves { gives: true, takes_back });
        let moves = Moves { gives: self.gives_all(now), takes_back: true };
        // As it was measured or computed.
        last.on_period_of(now, length, self.utilisation, moves);
    }

    fn on_period_of(&mut self, now: Instant, length: Duration, utilisation: f64, moves: Moves) {
        let rate = |count: u64| count as f64 / length.as_secs_f64().max(1e-3);
        let utilisation = match self.settings.load {
            Load::Measured => utilisation,
            Load::Computed { stateful, stateless } => {
                rate(self.kept) / stateful + rate(self.calls.saturating_sub(self.kept)) / stateless
            }
        };
        // A meter that has gone wrong says nothing: the last value stays.
        if utilisation.is_finite() {
            self.utilisation = utilisation.clamp(0.0, 1.0);
        }
        let node = NodeLoad {
            utilisation: self.utilisation,
            calls: rate(self.calls),
            kept: rate(self.kept),
            refused: rate(self.refused),
            is_between: self.is_between,
        };
        // A path that is silent and unused begins anew when it is used again, with a full share.
        self.paths.retain(|_, path| path.open > 0 || path.told(now).is_some());
        let before: Vec<Share> = self.paths.values().map(|path| path.share).collect();
        let paths = self.paths.values_mut();
        let mut loads: Vec<PathLoad<'_>> = paths
            .map(|path| {
                let told = path.told(now);
                let level = told.map_or(0.0, |notice| notice.level());
                let throttled = told.is_some_and(|notice| notice.throttled);
                PathLoad { open: rate(path.open), level, throttled, share: &mut path.share }
            })
            .collect();
        self.settings.law.adjust(&self.settings, node, &mut loads, &mut self.saturation);
        for (path, before) in self.paths.values_mut().zip(before) {
            let (gives, takes_back) = (path.share.keep < before.keep, path.share.keep > before.keep);
            if gives && !moves.gives || takes_back && !moves.takes_back {
                path.share = before;
            }
        }
        self.sequence = self.sequence.max(now.as_nanos() / 1_000_000);
        let validity = self.settings.validity();
        self.upstream.retain(|_, upstream| now.saturating_since(upstream.seen) < validity);
        for upstream in self.upstream.values_mut().chain([&mut self.clients]) {
            tell(upstream, &self.settings, now, self.utilisation, &self.paths);
        }
        // What this node alone has too much its overload control refuses, at the same place and price.
        let ways = &self.clients.last_to;
        let used = self.paths.iter().filter(|(next, path)| path.open > 0 && ways.contains(&Some(**next)));
        // Behind a node that keeps all state, somebody may be full by forwarding alone.
        let level =
            |path: &Path| path.told(now).filter(|_| path.share.keep >= 1.0).map_or(0.0, |it| it.level());
        let behind = used.map(|(_, path)| level(path)).reduce(f64::min);
        let has_way_out = behind.is_none_or(|behind| {
            self.settings.law.gives(self.saturation) && !self.clients.throttled && behind < self.settings.high
        });
        let busy = self.utilisation.max(behind.unwrap_or(0.0));
        let [taken, refused] = self.entry_calls;
        let taken = if refused > 0 { taken as f64 / (taken + refused) as f64 } else { 1.0 };
        self.entry.on_period(self.settings.room(), busy, taken, has_way_out);
        for path in self.paths.values_mut() {
            path.was_used = path.open > 0;
            path.open = 0;
        }
        (self.calls, self.kept, self.refused, self.entry_calls) = (0, 0, 0, [0; 2]);
        self.is_between = false;
    }

    /// What an upstream neighbour is to be told; `None` for clients, who are told nothing: it shows whether all on
    /// their calls' way is saturated. To be put into several responses to the neighbour in each period, or sent alone
    /// once a period where there is none: it counts for [`Settings::validity`].
    pub fn notice(&self, upstream: Option<N>) -> Notice {
        let told = upstream.map_or(Some(&self.clients), |upstream| self.upstream.get(&upstream));
        if let Some(it) = told {
            return Notice::new(it.throttled, it.level, it.least, self.sequence);
        }
        // Whoever has sent nothing lately hears of this node alone.
        let (throttled, busy) = (self.utilisation >= self.settings.high, self.utilisation);
        Notice::new(throttled, busy, busy, self.sequence)
    }

    /// Share of the calls without state to this neighbour that get it here.
    pub fn keep(&self, next: N) -> f64 {
        self.paths.get(&next).map_or(Share::first(&self.settings).keep, |path| path.share.keep)
    }

    /// The paths that had calls without state in the last period: shares of the others stay as they were.
    fn used(&self) -> impl Iterator<Item = &Path> {
        self.paths.values().filter(|path| path.was_used)
    }

    /// Whether there was anything to give away in the last period.
    pub fn has_choice(&self) -> bool {
        self.used().next().is_some()
    }

    /// Whether nothing has been given away.
    fn keeps_all(&self) -> bool {
        self.used().all(|path| path.share.keep >= 1.0)
    }

    /// Whether nothing more can be given away, by `now`: all of it is, or the neighbour asks for no more.
    fn gives_all(&self, now: Instant) -> bool {
        let is_throttled = |path: &Path| path.told(now).is_some_and(|notice| notice.throttled);
        self.used().all(|path| path.share.keep <= 0.0 || is_throttled(path))
    }

    /// Share of new calls that this node should take of clients, from 0 to 1. Below 1 nobody on their way has room,
    /// and the host refuses the rest. Calls of neighbours are not to be refused: they were taken at their entry.
    pub fn takes(&self) -> f64 {
        self.entry.share
    }

    /// How busy the node was in the last period, as it was measured or computed.
    pub fn utilisation(&self) -> f64 {
        self.utilisation
    }

    /// What it works with.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The upstream neighbours that [`notice`](Self::notice) has something for.
    pub fn upstream(&self) -> impl Iterator<Item = N> + '_ {
        self.upstream.keys().copied()
    }
}

/// Makes the notice for one upstream neighbour.
///
/// One more call without state that leaves here is kept here; one that goes on is kept here or behind, by whoever is
/// less busy. The level is the worst of these, since the neighbour cannot choose; the least decides about throttling.
fn tell<N: Ord + Copy>(
    upstream: &mut Upstream<N>,
    settings: &Settings,
    now: Instant,
    utilisation: f64,
    paths: &BTreeMap<N, Path>,
) {
    if !upstream.to.is_empty() {
        upstream.last_to = std::mem::take(&mut upstream.to);
    }
    let (mut level, mut least) = (None, utilisation);
    for way in &upstream.last_to {
        let busy = match way {
            None => utilisation,
            Some(next) => {
                // Of one that is silent nobody has said that it is full.
                let told = paths.get(next).and_then(|path| path.told(now));
                let (behind, least_behind) = told.map_or((0.0, 0.0), |it| (it.level(), it.least()));
                least = least.min(least_behind + AGE);
                utilisation.min(behind + AGE)
            }
        };
        level = Some(level.map_or(busy, |level: f64| level.max(busy)));
    }
    (upstream.level, upstream.least) = (level.unwrap_or(utilisation), least);
    let mark = if upstream.throttled { settings.low } else { settings.high };
    upstream.throttled = least >= mark;
}

/// A number from 0 up to 1 by a key, equally spread: the finaliser of splitmix64.
fn part(key: u64) -> f64 {
    let mut mixed = key.wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^= mixed >> 31;
    (mixed >> 11) as f64 / (1_u64 << 53) as f64
}
