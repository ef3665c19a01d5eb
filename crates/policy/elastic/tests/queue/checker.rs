//! An observer that knows the queue's rules, but not its implementation.

use base::Instant;
use core::time::Duration;
use elastic::queue::{Accrual, Effect, FrontQueue, MemberView, OfferResult, QueueSettings};
use std::collections::{BTreeMap, VecDeque};

pub(crate) type Key = u8;
pub(crate) type Member = u8;
pub(crate) type Seen = Effect<Key, u64, Member>;

#[derive(Debug, Clone)]
pub(crate) enum Operation {
    Offer(Key),
    Remove(Key),
    Announce(Member, f64),
    Load(Member, f64),
    Gone(Member),
    /// A member answers a request that did not come from the queue.
    Answers(Member),
    /// A member answers one of its calls: the last one, or the one in this place.
    Answer(Member, usize),
    /// The first call of a member could not be sent to it.
    TakeBack(Member),
    /// Time passes without ticks.
    Pass(u64),
    /// Ticks at each deadline within this many milliseconds.
    Run(u64),
}

/// Faults between queue and observer: a canary for each rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    None,
    /// An effect is lost.
    Lose,
    /// A delivery comes twice.
    Double,
    /// Deliveries come in the reverse order.
    Reverse,
    /// The members have announced half of what the queue was told.
    HalfCapacity,
    /// The callers wait half as long as the queue was told.
    HalfBound,
    /// Removals are not reported to the queue.
    NoRemoval,
    /// Nothing is delivered: the queue never looks for credit.
    Idle,
    /// The queue is told of an answer to a call that was not answered.
    FalseAnswer,
}

struct Call {
    id: u64,
    key: Key,
    since: Instant,
    bound: Duration,
}

/// Announcements of a member, and deliveries to it.
#[derive(Default)]
struct Account {
    /// Capacities with the times from which they held.
    announced: Vec<(Instant, f64)>,
    delivered: Vec<Instant>,
    /// Times of sending of calls that were neither answered nor passed over, for 32 s.
    open: Vec<Instant>,
    /// Open calls that were sent since the member was last quiet.
    counted: Vec<Instant>,
    /// Time at which it last got or answered a call.
    heard: Option<Instant>,
    /// Time at which its only call was sent.
    alone: Option<Instant>,
    /// Number of calls that it has answered.
    answered: u32,
    /// Longest time to a response of a call that was alone.
    alone_longest: Option<Duration>,
    /// Whether a response took longer than the threshold.
    is_late: bool,
    /// Whether it has answered nothing since it got a call beyond its bound.
    is_probed: bool,
    /// Whether it may be probed: it has answered nothing since it got a call while it was quiet with another one.
    may_be_probed: bool,
}

/// The queue's constants.
const BURST: Duration = Duration::from_millis(100);
const PROBE: Duration = Duration::from_millis(100);
const GIVEN_UP: Duration = Duration::from_secs(32);
const BASE_MOST: Duration = Duration::from_millis(500);

impl Account {
    /// In no interval are there more deliveries than its income allows, plus a burst.
    fn check(&self, settings: &QueueSettings) {
        let limit = match settings.accrual {
            Accrual::Answers { most } => Some(most),
            Accrual::Smooth => None,
            Accrual::PerSecond => return,
        };
        let Some(last) = self.delivered.last() else { return };
        let rate = |capacity: f64| limit.filter(|_| capacity > 0.0).unwrap_or(capacity);
        for (count, first) in self.delivered.iter().rev().enumerate() {
            let since = |at: Instant| at.max(*first).min(*last).as_secs_f64();
            let ends =
                self.announced.iter().skip(1).map(|(at, _)| *at).chain([Instant::from_nanos(u64::MAX)]);
            let accrued: f64 = self
                .announced
                .iter()
                .zip(ends)
                .map(|((start, capacity), end)| rate(*capacity) * (since(end) - since(*start)))
                .sum();
            let most = self.announced.iter().map(|(_, capacity)| rate(*capacity)).fold(0.0, f64::max);
            let stored = (most * BURST.as_secs_f64()).max(1.0);
            assert!((count + 1) as f64 <= stored + accrued + 1e-3, "a member got more than its credit");
        }
    }
}

impl Account {
    /// Most calls that a member of this capacity ever has: the calls that it can take within the threshold plus the
    /// longest response time of a lone call. That time counts as at least the threshold.
    fn most(&self, capacity: f64, threshold: Duration, pulls: bool) -> f64 {
        let alone = self.alone_longest.unwrap_or_default().min(BASE_MOST).max(threshold);
        // With `Answers`: at most the calls of half a threshold, if all of its answers had come within a tenth of a
        // second.
        let by_pace =
            if pulls { f64::from(self.answered) / 0.1 * threshold.as_secs_f64() / 2.0 } else { 0.0 };
        (capacity * (threshold + alone).as_secs_f64()).max(by_pace).max(2.0)
    }

    /// Whether a member of this capacity may be at its bound.
    fn may_be_full(&self, capacity: f64, threshold: Duration) -> bool {
        let is_below = (self.open.len() as f64) < (capacity * threshold.as_secs_f64()).max(2.0);
        !self.open.is_empty() && (self.is_probed || self.may_be_probed || self.is_late || !is_below)
    }

    fn expire(&mut self, now: Instant) {
        let before = self.open.len();
        self.open.retain(|sent| now - *sent < GIVEN_UP);
        self.counted.retain(|sent| now - *sent < GIVEN_UP);
        self.is_probed |= self.open.len() < before;
    }

    /// Adds a call to it.
    fn send(&mut self, now: Instant, capacity: f64, threshold: Duration, pulls: bool) {
        self.expire(now);
        let most = if self.is_probed { 1.0 } else { self.most(capacity, threshold, pulls) };
        let is_quiet = self.heard.is_none_or(|heard| now - heard >= PROBE);
        if self.counted.len() as f64 >= most {
            assert!(is_quiet, "a member got more unanswered calls than its bound");
            self.is_probed = true;
        }
        if is_quiet {
            self.may_be_probed |= !self.open.is_empty();
            self.counted.clear();
        }
        self.alone = self.counted.is_empty().then_some(now);
        self.heard = Some(now);
        self.open.push(now);
        self.counted.push(now);
    }

    fn answer(&mut self, now: Instant, sent: Instant, threshold: Duration) {
        self.answered += 1;
        for calls in [&mut self.open, &mut self.counted] {
            if let Some(place) = calls.iter().position(|other| *other == sent) {
                calls.remove(place);
            }
            calls.retain(|other| *other + threshold > sent);
        }
        if self.alone == Some(sent) {
            self.alone_longest = self.alone_longest.max(Some(now - sent));
        }
        self.is_late |= now - sent > threshold;
        self.heard = Some(now);
        self.lives();
    }

    fn lives(&mut self) {
        (self.is_probed, self.may_be_probed) = (false, false);
    }
}

pub(crate) struct Checker {
    queue: FrontQueue<Key, u64, Member>,
    settings: QueueSettings,
    fault: Fault,
    now: Instant,
    next: u64,
    waiting: VecDeque<Call>,
    accounts: BTreeMap<Member, Account>,
    pub(crate) delivered: usize,
}

impl Checker {
    pub(crate) fn new(settings: QueueSettings, fault: Fault) -> Self {
        Self {
            queue: FrontQueue::new(settings),
            settings,
            fault,
            now: Instant::ZERO,
            next: 0,
            waiting: VecDeque::new(),
            accounts: BTreeMap::new(),
            delivered: 0,
        }
    }

    pub(crate) fn step(&mut self, operation: &Operation) {
        let mut out = Vec::new();
        match *operation {
            Operation::Offer(key) => self.offer(key),
            Operation::Remove(key) => self.remove(key),
            Operation::Announce(member, capacity) => {
                let part = if self.fault == Fault::HalfCapacity { 0.5 } else { 1.0 };
                self.accounts.entry(member).or_default().announced.push((self.now, capacity * part));
                self.queue.announce(self.now, member, capacity, &mut out);
            }
            Operation::Load(member, load) => {
                self.queue.set_load(self.now, member, load, &mut out);
            }
            Operation::Gone(member) => {
                self.accounts.remove(&member);
                self.queue.remove_member(self.now, member, &mut out);
            }
            Operation::Answers(member) => {
                self.queue.answers(self.now, member);
                self.queue.tick(self.now, &mut out);
                if let Some(account) = self.accounts.get_mut(&member) {
                    account.lives();
                }
            }
            Operation::Answer(member, place) => self.answer(member, place, &mut out),
            Operation::TakeBack(member) => self.take_back(member, &mut out),
            Operation::Pass(millis) => {
                self.now += Duration::from_millis(millis);
                return;
            }
            Operation::Run(millis) => self.run(millis),
        }
        self.read(out);
        self.check_rest();
    }

    fn offer(&mut self, key: Key) {
        let mut out = Vec::new();
        // Effects due before belong to earlier calls.
        self.queue.tick(self.now, &mut out);
        self.read(core::mem::take(&mut out));
        let id = self.next;
        let offer = self.queue.offer(self.now, key, id, id, &mut out);
        let waits = self.waiting.iter().any(|call| call.key == key);
        assert_eq!(offer == OfferResult::Absorbed, waits, "a call is absorbed if and only if it waits");
        if offer != OfferResult::Absorbed {
            self.next += 1;
            let part = if self.fault == Fault::HalfBound { 2 } else { 1 };
            let bound = self.settings.bound / part;
            self.waiting.push_back(Call { id, key, since: self.now, bound });
        }
        self.read(out);
        assert_eq!(
            offer == OfferResult::Waiting,
            offer != OfferResult::Absorbed && self.waits(key),
            "the call waits if and only if the result says so"
        );
    }

    fn answer(&mut self, member: Member, place: usize, out: &mut Vec<Seen>) {
        let (now, threshold) = (self.now, self.settings.threshold.unwrap_or_default());
        let Some(account) = self.accounts.get_mut(&member) else { return };
        account.expire(now);
        let sent = account.open.get(place).or(account.open.last()).copied();
        let Some(sent) = sent else { return };
        if self.fault != Fault::FalseAnswer {
            account.answer(now, sent, threshold);
        }
        self.queue.answered(now, member, sent);
        self.queue.tick(now, out);
    }

    fn take_back(&mut self, member: Member, out: &mut Vec<Seen>) {
        let Some(account) = self.accounts.get_mut(&member).filter(|account| !account.open.is_empty()) else {
            return;
        };
        let sent = account.open.remove(0);
        if let Some(place) = account.counted.iter().position(|other| *other == sent) {
            account.counted.remove(place);
        }
        self.queue.taken_back(self.now, member, sent);
        self.queue.tick(self.now, out);
    }

    /// Delivers a call to a member.
    fn charge(&mut self, member: Member) {
        let capacity = self.capacity_of(member);
        let account = self.accounts.get_mut(&member).expect("a call goes to a known member");
        account.delivered.push(self.now);
        account.check(&self.settings);
        if let Some(threshold) = self.settings.threshold {
            let pulls = matches!(self.settings.accrual, Accrual::Answers { .. });
            account.send(self.now, capacity, threshold, pulls);
        }
    }

    fn capacity_of(&self, member: Member) -> f64 {
        let view = self.queue.members(self.now).find(|(name, _)| *name == member);
        view.map_or(0.0, |(_, view)| view.capacity)
    }

    fn waits(&self, key: Key) -> bool {
        self.waiting.iter().any(|call| call.key == key)
    }

    fn remove(&mut self, key: Key) {
        let place = self.waiting.iter().position(|call| call.key == key);
        let known = place.and_then(|place| self.waiting.remove(place)).map(|call| call.id);
        if self.fault != Fault::NoRemoval {
            assert_eq!(self.queue.remove(&key), known, "`remove` returns exactly a waiting call");
        }
    }

    fn run(&mut self, millis: u64) {
        let end = self.now + Duration::from_millis(millis);
        let mut steps = 0;
        while let Some(at) = self.queue.deadline().filter(|at| *at <= end) {
            self.now = self.now.max(at);
            let mut out = Vec::new();
            self.queue.tick(self.now, &mut out);
            self.read(out);
            steps += 1;
            assert!(steps < 20_000, "a deadline stays due");
        }
        self.now = end;
    }

    fn read(&mut self, mut effects: Vec<Seen>) {
        match self.fault {
            Fault::Lose => drop(effects.pop()),
            Fault::Double => effects.extend(effects.first().cloned()),
            Fault::Reverse => effects.reverse(),
            Fault::Idle => effects.clear(),
            _ => {}
        }
        for effect in &effects {
            self.see(effect);
        }
        assert_eq!(self.queue.len(), self.waiting.len(), "a call was lost or added");
    }

    fn see(&mut self, effect: &Seen) {
        let (Effect::Deliver { item, .. } | Effect::Refuse { item, .. }) = effect;
        let place = self.waiting.iter().position(|call| call.id == *item);
        let place = place.expect("only a waiting call has an effect, and only once");
        match effect {
            Effect::Deliver { member, waited, .. } => {
                assert_eq!(place, 0, "first in, first out");
                self.delivered += 1;
                let call = &self.waiting[0];
                assert_eq!(*waited, self.now - call.since);
                assert!(waited.is_zero() || *waited < call.bound, "a call waited past its bound");
                self.charge(*member);
            }
            Effect::Refuse { expired, .. } => {
                let call = &self.waiting[place];
                assert_eq!(*expired, self.now >= call.since + call.bound, "refused too soon or too late");
            }
        }
        self.waiting.remove(place);
    }

    /// Checks that no work is left undone after an operation.
    fn check_rest(&self) {
        let overdue = self.waiting.iter().any(|call| self.now >= call.since + call.bound);
        assert!(
            !overdue || self.queue.deadline().is_some_and(|at| at <= self.now),
            "an overdue call has no deadline"
        );
        let due = self.queue.deadline().is_some_and(|at| at <= self.now);
        let is_full = |member, capacity| {
            let (Some(threshold), Some(account)) = (self.settings.threshold, self.accounts.get(&member))
            else {
                return false;
            };
            account.may_be_full(capacity, threshold)
        };
        let has_room =
            |(member, view): (Member, MemberView)| view.credit > 1.001 && !is_full(member, view.capacity);
        let room = self.queue.members(self.now).any(has_room);
        assert!(self.waiting.is_empty() || due || !room, "calls wait although a member has room");
    }

    /// With capacity for all calls, all leave in time.
    pub(crate) fn finish(&mut self) {
        for member in self.accounts.keys().copied().collect::<Vec<_>>() {
            self.step(&Operation::Gone(member));
        }
        self.step(&Operation::Announce(200, 1_000.0));
        for _ in 0..60 {
            self.step(&Operation::Run(4));
            self.step(&Operation::Load(200, 0.0));
            while self.accounts.get(&200).is_some_and(|account| !account.open.is_empty()) {
                self.step(&Operation::Load(200, 0.0));
                self.step(&Operation::Answer(200, 0));
            }
        }
        assert!(self.waiting.is_empty(), "there was room for all calls");
        let counts = self.queue.counts();
        let left = counts.delivered + counts.refused + counts.expired + counts.removed;
        assert_eq!(counts.offered, left, "each call has left the queue once");
    }
}
