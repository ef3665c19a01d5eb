//! Response times: the shortest of a batch of answers, beside the shortest that is known of the server.

use super::loss::Losses;
use crate::T1;
use base::Instant;
use core::time::Duration;

/// The kinds of request whose response times are compared with their own kind alone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Work {
    /// INVITE, until its first answer. A server sends 100 at once if it has a transaction (RFC 3261 §17.2.1).
    Invite,
    /// REGISTER.
    Register,
    /// BYE.
    Bye,
    /// Another method.
    Other,
}

const KINDS: usize = 4;
/// The kinds that begin something.
const NEW: [Work; 3] = [Work::Invite, Work::Register, Work::Other];

/// The wait that is borne while the limit holds: T1/8.
const TARGET: f64 = T1.as_millis() as f64 / 8_000.0;
/// The standing wait that is too much: T1/4.
const TOO_MUCH: f64 = T1.as_millis() as f64 / 4_000.0;
/// The shortest time of a batch...
const SHORTEST: Duration = Duration::from_millis(100);
/// ...and its least answers of one kind...
const ANSWERS: u32 = 8;
/// ...unless it has lasted so long.
const LONGEST: Duration = Duration::from_secs(1);
/// The least answers of a kind from which it is judged.
const JUDGED: u32 = 4;
const MINUTE: Duration = Duration::from_mins(1);

/// The mean without overload is known from this time on: the first answers are those of the fastest.
const LEARNED: Duration = Duration::from_secs(10);
/// Times of successive answers that differ by a smaller share of the mean are those of a queue, which delays
/// neighbours alike. Those of telephones that ring differ by more.
const ALIKE: f64 = 0.35;
/// Fewest failures of a batch from which their share is judged: as many as the least limit lets fail in a second.
const FAILURES: u32 = 2;
/// The floor is raised in one step by half of itself at most...
const RAISE: f64 = 1.5;

/// A batch of answers, in seconds, as the laws see it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Batch {
    /// The response time of the kind of request that is the latest: the shortest of the batch, or the mean where
    /// successive answers differ much.
    pub(super) delay: f64,
    /// The same without overload.
    pub(super) floor: f64,
    /// The most requests that were open at a time, failures of the last second included.
    pub(super) peak: f64,
    /// Whether as many requests failed as were answered: 503, or no answer at all.
    pub(super) fails: bool,
    /// The part of the wait that is borne: less than 1 where requests were lost before anything was late.
    pub(super) patience: f64,
}

impl Batch {
    /// The response time that is borne: half as much again as the floor, and the target.
    pub(super) fn bearable(&self) -> f64 {
        1.5 * self.floor + self.patience * TARGET
    }

    /// The response time that is too long.
    pub(super) fn late(&self) -> f64 {
        1.5 * self.floor + self.patience * TOO_MUCH
    }

    /// Whether the limit was needed.
    pub(super) fn is_used(&self, limit: f64) -> bool {
        self.peak >= 0.8 * limit.floor()
    }
}

/// The shortest response time that is known of a kind of request, in seconds; infinite before the first.
#[derive(Clone, Copy, Debug)]
struct Floor {
    minute: u64,
    /// The shortest of this minute.
    now: f64,
    /// The shortest of the last minute with answers, or what was measured.
    before: f64,
}

impl Floor {
    const UNKNOWN: Self = Self { minute: 0, now: f64::INFINITY, before: f64::INFINITY };

    fn value(&self) -> f64 {
        self.now.min(self.before)
    }

    /// A server without overload answered so fast: of this minute and the last one the shortest counts.
    fn note(&mut self, at: Instant, least: f64) {
        let minute = at.as_nanos() / MINUTE.as_nanos() as u64;
        if self.minute != minute {
            let before = if self.now.is_finite() { self.raised_to(self.now) } else { self.before };
            *self = Self { minute, now: f64::INFINITY, before };
        }
        self.now = self.now.min(least);
    }

    /// Measured with hardly any work.
    fn measured(&mut self, at: Instant, least: f64) {
        self.before = self.raised_to(least).min(self.value().max(TOO_MUCH));
        (self.now, self.minute) = (f64::INFINITY, at.as_nanos() / MINUTE.as_nanos() as u64);
    }

    /// A shorter time counts at once. A longer one may be the queue of somebody else.
    fn raised_to(&self, least: f64) -> f64 {
        let known = self.value();
        if known.is_finite() { least.min((RAISE * known).max(known + TARGET)) } else { least }
    }
}

/// The mean without overload, seconds.
#[derive(Clone, Copy, Debug)]
struct Usual {
    since: Instant,
    mean: f64,
}

/// Answers of one kind: what is known, and this batch.
#[derive(Clone, Copy, Debug)]
struct Kind {
    floor: Floor,
    usual: Option<Usual>,
    least: f64,
    answers: u32,
    sum: f64,
    last: f64,
    /// Sum of the differences of successive answers.
    differences: f64,
}

impl Kind {
    const UNKNOWN: Self = Self {
        floor: Floor::UNKNOWN,
        usual: None,
        least: f64::INFINITY,
        answers: 0,
        sum: 0.0,
        last: f64::NAN,
        differences: 0.0,
    };

    fn answer(&mut self, took: f64) {
        if self.answers > 0 {
            self.differences += (took - self.last).abs();
        }
        (self.least, self.last) = (self.least.min(took), took);
        self.answers += 1;
        self.sum += took;
    }

    fn mean(&self) -> f64 {
        self.sum / f64::from(self.answers.max(1))
    }

    fn usual(&self, now: Instant) -> Option<f64> {
        let is_known = |usual: &Usual| now.saturating_since(usual.since) >= LEARNED;
        self.usual.filter(is_known).map(|usual| usual.mean)
    }

    /// Delay and floor, if the batch says anything of this kind.
    fn judged(&self, now: Instant) -> Option<(f64, f64)> {
        if self.answers < JUDGED {
            return None;
        }
        let is_queue = self.differences < ALIKE * self.sum;
        if is_queue {
            return Some((self.least, self.floor.value().min(self.least)));
        }
        self.usual(now).map(|usual| (self.mean(), usual))
    }

    fn learn(&mut self, now: Instant) {
        self.floor.note(now, self.least);
        let (mean, fresh) = (self.mean(), Usual { since: now, mean: self.mean() });
        let usual = self.usual.get_or_insert(fresh);
        let weight = if mean > usual.mean { 0.25 } else { 0.0625 };
        usual.mean += weight * (mean - usual.mean);
    }

    fn begin(&mut self) {
        *self = Self { floor: self.floor, usual: self.usual, ..Self::UNKNOWN };
    }
}

/// The meter of one server.
#[derive(Clone, Debug)]
pub(super) struct Meter {
    kinds: [Kind; KINDS],
    since: Instant,
    peak: f64,
    lost: u32,
    losses: Losses,
}

impl Meter {
    pub(super) fn new() -> Self {
        Self {
            kinds: [Kind::UNKNOWN; KINDS],
            since: Instant::ZERO,
            peak: 0.0,
            lost: 0,
            losses: Losses::new(),
        }
    }

    pub(super) fn note_open(&mut self, open: f64) {
        self.peak = self.peak.max(open);
    }

    pub(super) fn answer(&mut self, work: Work, took: Duration) {
        self.kinds[work as usize].answer(took.as_secs_f64().max(1e-6));
    }

    /// An answer to a request that was sent then, whatever limit it was sent under: was it lost at first?
    pub(super) fn note_loss(&mut self, now: Instant, work: Work, sent: Instant) {
        self.losses.answer(now, work, sent);
    }

    /// Whether the server loses requests, so that less wait is borne from now on.
    pub(super) fn loses(&mut self, now: Instant) -> bool {
        self.losses.look(now)
    }

    pub(super) fn lose(&mut self) {
        self.lost += 1;
    }

    /// Whether the batch is full, or old.
    pub(super) fn is_complete(&self, now: Instant) -> bool {
        let length = now.saturating_since(self.since);
        let most = self.kinds.iter().map(|kind| kind.answers).max().unwrap_or_default();
        length >= LONGEST || (length >= SHORTEST && most.max(self.lost) >= ANSWERS)
    }

    /// Answers to new requests so far.
    pub(super) fn answers(&self) -> u32 {
        NEW.iter().map(|work| self.kinds[*work as usize].answers).sum()
    }

    pub(super) fn lost(&self) -> u32 {
        self.lost
    }

    /// The mean response time to new requests without overload, seconds.
    pub(super) fn usual(&self, now: Instant) -> Option<f64> {
        NEW.iter().filter_map(|work| self.kinds[*work as usize].usual(now)).reduce(f64::max)
    }

    /// Whether as many requests failed as were answered.
    pub(super) fn fails(&self) -> bool {
        self.lost >= self.answers().max(FAILURES)
    }

    /// The batch, if it says anything.
    pub(super) fn batch(&self, now: Instant) -> Option<Batch> {
        let fails = self.fails();
        let patience = self.losses.patience();
        let batch = |(delay, floor)| Batch { delay, floor, peak: self.peak, fails, patience };
        let judged = self.kinds.iter().filter_map(|kind| kind.judged(now).map(batch));
        let excess = |batch: &Batch| batch.delay - batch.bearable();
        let worst = judged.reduce(|one, other| if excess(&other) > excess(&one) { other } else { one });
        worst.or_else(|| fails.then(|| batch((TARGET, 0.0))))
    }

    /// The batch becomes part of what is known of the server without overload.
    pub(super) fn learn(&mut self, now: Instant) {
        for kind in self.kinds.iter_mut().filter(|kind| kind.answers > 0) {
            kind.learn(now);
        }
    }

    /// Of a server under a limit only shorter times are learned.
    pub(super) fn learn_shorter(&mut self) {
        for kind in &mut self.kinds {
            kind.floor.now = kind.floor.now.min(kind.least);
        }
    }

    /// The batch was measured with hardly any work.
    pub(super) fn measured(&mut self, now: Instant) {
        for kind in self.kinds.iter_mut().filter(|kind| kind.answers > 0) {
            kind.floor.measured(now, kind.least);
        }
    }

    /// The bearable time of the kind that new requests are of, for the first limit.
    pub(super) fn bearable(&self) -> f64 {
        let known = NEW.map(|work| self.kinds[work as usize].floor.value());
        let floor = known.into_iter().find(|floor| floor.is_finite()).unwrap_or_default();
        let patience = self.losses.patience();
        Batch { delay: floor, floor, peak: 0.0, fails: false, patience }.bearable()
    }

    pub(super) fn begin(&mut self, now: Instant, open: f64) {
        self.kinds.iter_mut().for_each(Kind::begin);
        (self.since, self.peak, self.lost) = (now, open, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_floor_falls_at_once_and_rises_by_steps() {
        let at = |minute: u64| Instant::from_millis(60_000 * minute + 1);
        let near = |floor: &Floor, millis: f64| (floor.value() * 1_000.0 - millis).abs() < 0.01;
        let mut floor = Floor::UNKNOWN;
        floor.note(at(0), 0.004);
        assert!(near(&floor, 4.0));
        // One step of T1/8, then half of itself, and not beyond T1/4 for what a limit has measured.
        floor.measured(at(1), 0.9);
        assert!(near(&floor, 66.5));
        floor.measured(at(2), 0.9);
        assert!(near(&floor, 125.0));
        floor.measured(at(3), 0.9);
        assert!(near(&floor, 125.0));
        floor.measured(at(4), 0.003);
        assert!(near(&floor, 3.0));
        // Without a limit the same, minute by minute; a minute without answers forgets nothing.
        floor.note(at(5), 0.9);
        floor.note(at(7), 0.9);
        assert!(near(&floor, 65.5));
        floor.note(at(8), 0.9);
        assert!(near(&floor, 128.0));
    }
}
