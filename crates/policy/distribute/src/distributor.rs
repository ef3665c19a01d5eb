//! A node's distributor: its decisions, its counts of a period, and its neighbours' notices.

use std::collections::{BTreeMap, BTreeSet};

use base::{Instant, Recent};
use core::time::Duration;

use crate::entry::Entry;
use crate::law::{NodeLoad, PathLoad, Saturation, Share};
use crate::notice::{AGE, Notice};
use crate::settings::{DistributionSettings, UtilisationSource};

/// Next hop of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NextHop<N> {
    /// A trusted neighbour that distributes state too.
    Neighbour(N),
    /// Out of the network: a user agent, a stranger, or a proxy without state distribution. Also for a call whose state
    /// this node must keep at any cost, such as a call that it forks (RFC 3261 §16.11).
    Exit,
}

/// A new call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Call<N> {
    /// Neighbour with state distribution that sent it; `None` for any other sender, whose marks do not count.
    pub from: Option<N>,
    /// Next hop.
    pub to: NextHop<N>,
    /// Whether its mark says that an earlier node keeps its state.
    pub kept: bool,
    /// Hash of the parts of the request that all of its copies share and other requests do not. These parts identify
    /// its transaction (RFC 3261 §17.2.3). The hash must be keyed; otherwise callers could choose the node that keeps
    /// their state.
    pub key: u64,
}

/// Decision about a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StateDecision {
    /// Keep its state, and forward it with the mark.
    Keep,
    /// Forward it without state, with the mark it came with.
    PassKept,
    /// Forward it without state and without the mark.
    PassOpen,
}

/// Allowed changes of shares in a period. Both directions are allowed, unless a node gives several functions away in
/// turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Moves {
    /// Whether more may be given away.
    gives: bool,
    /// Whether shares given away may be taken back.
    takes_back: bool,
}

impl Default for Moves {
    fn default() -> Self {
        Self { gives: true, takes_back: true }
    }
}

/// Most upstream neighbours, so that forged addresses of trusted neighbours occupy bounded memory.
const UPSTREAM_MAX: usize = 1_024;

/// A node's part in distributing state.
///
/// [`on_call`](Self::on_call) decides about each new call. Each [period](DistributionSettings::period) ends with
/// [`on_period`](Self::on_period). [`notice`](Self::notice) creates the notice for an upstream neighbour;
/// [`on_notice`](Self::on_notice) handles the notice of a downstream neighbour. `N` identifies a neighbour. The host
/// passes trusted neighbours only. The first 1,024 upstream neighbours are distinguished; further ones count as
/// clients.
#[derive(Debug, Clone)]
pub struct Distributor<N> {
    settings: DistributionSettings,
    /// Mixed into keys, so that nodes on a path choose independently.
    salt: u64,
    paths: BTreeMap<N, Path>,
    upstream: BTreeMap<N, Upstream<N>>,
    /// Next hops of calls from clients, which are not neighbours.
    clients: Upstream<N>,
    /// Keys of calls that were forwarded without state.
    open: Recent<u64, ()>,
    calls: u64,
    kept: u64,
    refused: u64,
    /// Calls of clients: accepted and refused.
    entry_calls: [u64; 2],
    /// Whether calls without state came from a neighbour and went on to another in this period.
    is_between: bool,
    utilisation: f64,
    saturation: Saturation,
    entry: Entry,
    sequence: u64,
}

/// State of the path to a downstream neighbour.
#[derive(Debug, Clone)]
struct Path {
    share: Share,
    /// Calls of this period that arrived without state.
    open: u64,
    /// Whether there were such calls in the last period.
    was_used: bool,
    last_notice: Option<ReceivedNotice>,
}

#[derive(Debug, Clone, Copy)]
struct ReceivedNotice {
    notice: Notice,
    until: Instant,
}

impl Path {
    fn new(settings: &DistributionSettings) -> Self {
        Self { share: Share::first(settings), open: 0, was_used: false, last_notice: None }
    }

    fn valid_notice(&self, now: Instant) -> Option<Notice> {
        self.last_notice.filter(|last| now < last.until).map(|last| last.notice)
    }
}

/// Next hops of an upstream neighbour's calls, and the content of its notice.
#[derive(Debug, Clone)]
struct Upstream<N> {
    /// Next hops in this period; `None` is the exit.
    to: BTreeSet<Option<N>>,
    /// Next hops in the last period with calls, to which the notice refers.
    last_to: BTreeSet<Option<N>>,
    throttled: bool,
    /// Level as in the [`Notice`].
    level: f64,
    least: f64,
    /// Time of the last call.
    seen: Instant,
}

impl<N> Upstream<N> {
    fn new(now: Instant, utilisation: f64) -> Self {
        let (to, last_to) = (BTreeSet::new(), BTreeSet::new());
        Self { to, last_to, throttled: false, level: utilisation, least: utilisation, seen: now }
    }
}

impl<N: Ord + Copy> Distributor<N> {
    /// Creates a distributor that keeps all state. `salt` must differ between nodes.
    pub fn new(settings: DistributionSettings, salt: u64) -> Self {
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

    /// Decides whether this node keeps the state of a new call. Do not call it for a copy of a call whose state is kept
    /// here: the copy belongs to its transaction.
    pub fn on_call(&mut self, now: Instant, call: Call<N>) -> StateDecision {
        // The mark of any other sender does not count.
        let kept = call.kept && call.from.is_some();
        self.note_way(now, call);
        if !kept && self.open.get(&call.key).is_some() && call.to != NextHop::Exit {
            return StateDecision::PassOpen;
        }
        self.count(call.from);
        if kept {
            return StateDecision::PassKept;
        }
        let NextHop::Neighbour(next) = call.to else {
            // No later node could keep the state: this rule ensures that the state of each call is kept at one node.
            self.kept += 1;
            return StateDecision::Keep;
        };
        let path = self.paths.entry(next).or_insert_with(|| Path::new(&self.settings));
        path.open += 1;
        self.is_between |= call.from.is_some();
        if part(call.key ^ self.salt) < path.share.keep {
            self.kept += 1;
            return StateDecision::Keep;
        }
        self.open.insert(call.key, ());
        StateDecision::PassOpen
    }

    /// Counts a new call that this node must handle regardless of shares. An example is a call whose credentials answer
    /// this node's challenge.
    pub fn on_own_call(&mut self, now: Instant, call: Call<N>) {
        self.note_way(now, call);
        self.count(call.from);
        self.kept += 1;
    }

    /// Decides about a new call for which this node has no room, or which it cannot handle for another reason. The call
    /// is forwarded without state if a later neighbour may keep it, or an earlier one does. `None` if the state would
    /// have to be kept here.
    pub fn on_call_without_room(&mut self, now: Instant, call: Call<N>) -> Option<StateDecision> {
        if call.kept && call.from.is_some() {
            return Some(self.on_call(now, call));
        }
        let NextHop::Neighbour(next) = call.to else { return None };
        self.note_way(now, call);
        self.count(call.from);
        self.is_between |= call.from.is_some();
        self.paths.entry(next).or_insert_with(|| Path::new(&self.settings)).open += 1;
        self.open.insert(call.key, ());
        Some(StateDecision::PassOpen)
    }

    /// Counts a new call that overload control refused because this node is overloaded, after [`accepted_share`](Self::accepted_share)
    /// had admitted it. `from` as in [`Call`].
    pub fn on_refused(&mut self, from: Option<N>) {
        self.refused += 1;
        self.entry_calls[1] += u64::from(from.is_none());
    }

    fn count(&mut self, from: Option<N>) {
        self.calls += 1;
        self.entry_calls[0] += u64::from(from.is_none());
    }

    /// Marked calls count too. A neighbour that keeps all state itself must learn of the room behind this node;
    /// otherwise it would never send a call without state.
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

    /// Handles the notice of a downstream neighbour. A notice older than the last is ignored. A smaller sequence number
    /// counts again once the last notice has expired, as after a restart of the neighbour.
    pub fn on_notice(&mut self, now: Instant, from: N, notice: Notice) {
        let path = self.paths.entry(from).or_insert_with(|| Path::new(&self.settings));
        if path.valid_notice(now).is_none_or(|last| last.sequence <= notice.sequence) {
            path.last_notice = Some(ReceivedNotice { notice, until: now + self.settings.validity() });
        }
    }

    /// Whether a notice of a downstream neighbour is still valid.
    pub fn has_notice(&self, now: Instant, from: N) -> bool {
        self.paths.get(&from).is_some_and(|path| path.valid_notice(now).is_some())
    }

    /// Handles the end of a period of this length, with the processor's utilisation. Call it once in each
    /// [`DistributionSettings::period`], even without calls.
    pub fn on_period(&mut self, now: Instant, length: Duration, utilisation: f64) {
        self.on_period_of(now, length, utilisation, Moves::default());
    }

    /// Like [`on_period`](Self::on_period), for two functions that a node gives away in turn. `last` is given away only
    /// after all of this function is. This function is taken back only after all of `last` is.
    pub fn on_period_before(&mut self, last: &mut Self, now: Instant, length: Duration, utilisation: f64) {
        let takes_back = last.keeps_all();
        self.on_period_of(now, length, utilisation, Moves { gives: true, takes_back });
        let moves = Moves { gives: self.gives_all(now), takes_back: true };
        // Utilisation as measured or computed.
        last.on_period_of(now, length, self.utilisation, moves);
    }

    fn on_period_of(&mut self, now: Instant, length: Duration, utilisation: f64, moves: Moves) {
        let rate = |count: u64| count as f64 / length.as_secs_f64().max(1e-3);
        let utilisation = match self.settings.load {
            UtilisationSource::Measured => utilisation,
            UtilisationSource::Computed { stateful, stateless } => {
                rate(self.kept) / stateful + rate(self.calls.saturating_sub(self.kept)) / stateless
            }
        };
        // An invalid measurement is ignored: the last value stays.
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
        // A path without calls and notices is removed. It starts with a full share when it is used again.
        self.paths.retain(|_, path| path.open > 0 || path.valid_notice(now).is_some());
        let before: Vec<Share> = self.paths.values().map(|path| path.share).collect();
        let paths = self.paths.values_mut();
        let mut loads: Vec<PathLoad<'_>> = paths
            .map(|path| {
                let notice = path.valid_notice(now);
                let level = notice.map_or(0.0, |notice| notice.level());
                let throttled = notice.is_some_and(|notice| notice.throttled);
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
            update_notice(upstream, &self.settings, now, self.utilisation, &self.paths);
        }
        // Overload control refuses the excess of this node alone, at this node and at the same cost.
        let ways = &self.clients.last_to;
        let used = self.paths.iter().filter(|(next, path)| path.open > 0 && ways.contains(&Some(**next)));
        // If all state is kept at this node, later nodes may be full by forwarding alone.
        let level = |path: &Path| {
            path.valid_notice(now).filter(|_| path.share.keep >= 1.0).map_or(0.0, |it| it.level())
        };
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

    /// Notice for an upstream neighbour. `None` for clients: this notice is not sent, but shows whether all paths of
    /// their calls are saturated. Put the notice into several responses to the neighbour in each period. Without
    /// responses, send it alone once a period. It is valid for [`DistributionSettings::validity`].
    pub fn notice(&self, upstream: Option<N>) -> Notice {
        let known = upstream.map_or(Some(&self.clients), |upstream| self.upstream.get(&upstream));
        if let Some(it) = known {
            return Notice::new(it.throttled, it.level, it.least, self.sequence);
        }
        // A neighbour without recent calls gets the values of this node alone.
        let (throttled, busy) = (self.utilisation >= self.settings.high, self.utilisation);
        Notice::new(throttled, busy, busy, self.sequence)
    }

    /// Share of the calls to this neighbour that arrive without state and whose state is kept here.
    pub fn keep(&self, next: N) -> f64 {
        self.paths.get(&next).map_or(Share::first(&self.settings).keep, |path| path.share.keep)
    }

    /// Paths with calls without state in the last period. The shares of other paths have not changed.
    fn used(&self) -> impl Iterator<Item = &Path> {
        self.paths.values().filter(|path| path.was_used)
    }

    /// Whether there was anything to give away in the last period.
    pub fn has_choice(&self) -> bool {
        self.used().next().is_some()
    }

    /// Whether nothing is given away.
    fn keeps_all(&self) -> bool {
        self.used().all(|path| path.share.keep >= 1.0)
    }

    /// Whether no more state can be given away now: all of it is, or the neighbour asks for no more.
    fn gives_all(&self, now: Instant) -> bool {
        let is_throttled = |path: &Path| path.valid_notice(now).is_some_and(|notice| notice.throttled);
        self.used().all(|path| path.share.keep <= 0.0 || is_throttled(path))
    }

    /// Share of clients' new calls that this node should accept, from 0 to 1. Below 1 no node on their paths has room,
    /// and the host refuses the rest. Calls of neighbours must not be refused, since they were admitted at their entry.
    pub fn accepted_share(&self) -> f64 {
        self.entry.share
    }

    /// Utilisation of the node in the last period, as measured or computed.
    pub fn utilisation(&self) -> f64 {
        self.utilisation
    }

    /// Settings.
    pub fn settings(&self) -> &DistributionSettings {
        &self.settings
    }

    /// Upstream neighbours that should get a [`notice`](Self::notice).
    pub fn upstream(&self) -> impl Iterator<Item = N> + '_ {
        self.upstream.keys().copied()
    }
}

/// Updates the notice for one upstream neighbour.
///
/// The state of one more call is kept here if the call leaves the network here. Otherwise it is kept here or at a later
/// node, whichever is less busy. The level is the highest of the neighbour's paths, since the neighbour cannot choose
/// the path. The least utilisation decides about throttling.
fn update_notice<N: Ord + Copy>(
    upstream: &mut Upstream<N>,
    settings: &DistributionSettings,
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
                // Without a valid notice, a neighbour does not count as full.
                let notice = paths.get(next).and_then(|path| path.valid_notice(now));
                let (behind, least_behind) = notice.map_or((0.0, 0.0), |it| (it.level(), it.least()));
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

/// Number from 0 to 1 (exclusive), uniformly distributed over keys: the finalizer of splitmix64.
fn part(key: u64) -> f64 {
    let mut mixed = key.wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^= mixed >> 31;
    (mixed >> 11) as f64 / (1_u64 << 53) as f64
}
