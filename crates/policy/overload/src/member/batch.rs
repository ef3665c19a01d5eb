//! Response times: compares the shortest time in a batch of responses with the shortest known time of the server.

use super::loss::Losses;
use crate::T1;
use base::Instant;
use core::time::Duration;

/// Kinds of requests. Response times are compared only within a kind.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RequestKind {
    /// INVITE, until its first response. A server with a transaction sends 100 at once (RFC 3261 §17.2.1).
    Invite,
    /// REGISTER.
    Register,
    /// BYE.
    Bye,
    /// Another method.
    Other,
}

const KINDS: usize = 4;
/// Kinds of new requests.
const NEW: [RequestKind; 3] = [RequestKind::Invite, RequestKind::Register, RequestKind::Other];

/// Tolerated standing wait, in seconds: T1/5.
const TARGET: f64 = T1.as_millis() as f64 / 5_000.0;
/// Excessive standing wait, in seconds: 2/5 T1.
const TOO_MUCH: f64 = 2.0 * TARGET;
/// Shortest duration of a batch, ...
const SHORTEST: Duration = Duration::from_millis(100);
/// ...with at least this number of responses of one kind, ...
const ANSWERS: u32 = 8;
/// ...unless the batch has lasted this long.
const LONGEST: Duration = Duration::from_secs(1);
/// Least number of responses of a kind from which a conclusion is drawn.
const JUDGED: u32 = 4;
const MINUTE: Duration = Duration::from_mins(1);

/// Time after which the mean without overload counts as known. Before it, most responses belong to the fastest
/// requests.
const LEARNED: Duration = Duration::from_secs(10);
/// If successive response times differ by less than this share of the mean, there is a queue, which delays successive
/// requests equally. The times of ringing telephones differ by more.
const ALIKE: f64 = 0.35;
/// Least number of failures in a batch from which a conclusion is drawn: as many as the smallest limit allows in a
/// second.
const FAILURES: u32 = 2;
/// Factor by which the floor rises at most in one step. It may rise by `TARGET` if that is more.
const RAISE: f64 = 1.5;

/// A batch of responses in seconds, as input of the laws.
#[derive(Clone, Copy, Debug)]
pub(super) struct Batch {
    /// Response time of the kind of request with the largest excess: the shortest of the batch, or the mean if
    /// successive times differ much.
    pub(super) delay: f64,
    /// The corresponding response time without overload.
    pub(super) floor: f64,
    /// Most requests open at a time, including failures of the last second.
    pub(super) peak: f64,
    /// Whether at least as many requests failed (503, or no response at all) as were answered.
    pub(super) fails: bool,
    /// Factor of the tolerated wait: less than 1 if requests were lost before responses were late.
    pub(super) patience: f64,
}

impl Batch {
    /// Tolerated response time: 1.5 times the floor, plus the target.
    pub(super) fn bearable(&self) -> f64 {
        1.5 * self.floor + self.patience * TARGET
    }

    /// Response time that is too long.
    pub(super) fn late(&self) -> f64 {
        1.5 * self.floor + self.patience * TOO_MUCH
    }

    /// Whether the limit was needed.
    pub(super) fn is_used(&self, limit: f64) -> bool {
        self.peak >= 0.8 * limit.floor()
    }
}

/// Shortest response time known of a kind of request, in seconds; infinite before the first.
#[derive(Clone, Copy, Debug)]
struct Floor {
    minute: u64,
    /// Shortest of this minute.
    now: f64,
    /// Shortest of the last minute with responses, or the measured value.
    before: f64,
}

impl Floor {
    const UNKNOWN: Self = Self { minute: 0, now: f64::INFINITY, before: f64::INFINITY };

    fn value(&self) -> f64 {
        self.now.min(self.before)
    }

    /// Adds a response time of a server without overload. The shortest of this and the last minute counts.
    fn note(&mut self, at: Instant, least: f64) {
        let minute = at.as_nanos() / MINUTE.as_nanos() as u64;
        if self.minute != minute {
            let before = if self.now.is_finite() { self.raised_to(self.now) } else { self.before };
            *self = Self { minute, now: f64::INFINITY, before };
        }
        self.now = self.now.min(least);
    }

    /// Sets a value measured with hardly any load.
    fn measured(&mut self, at: Instant, least: f64) {
        self.before = self.raised_to(least).min(self.value().max(TOO_MUCH));
        (self.now, self.minute) = (f64::INFINITY, at.as_nanos() / MINUTE.as_nanos() as u64);
    }

    /// Limits an increase. A shorter time is used at once, but a longer time may be caused by the requests of another
    /// sender.
    fn raised_to(&self, least: f64) -> f64 {
        let known = self.value();
        if known.is_finite() { least.min((RAISE * known).max(known + TARGET)) } else { least }
    }
}

/// Mean without overload, in seconds.
#[derive(Clone, Copy, Debug)]
struct Usual {
    since: Instant,
    mean: f64,
}

/// Response times of one kind: known values and the present batch.
#[derive(Clone, Copy, Debug)]
struct Kind {
    floor: Floor,
    usual: Option<Usual>,
    least: f64,
    answers: u32,
    sum: f64,
    last: f64,
    /// Sum of the differences of successive times.
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

    /// Delay and floor; `None` if the batch is not conclusive for this kind.
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

    fn learn_usual(&mut self, now: Instant) {
        let (mean, fresh) = (self.mean(), Usual { since: now, mean: self.mean() });
        let usual = self.usual.get_or_insert(fresh);
        // A known mean follows slowly, or it would follow the delays of a growing queue.
        let is_known = now.saturating_since(usual.since) >= LEARNED;
        let weight = match (mean > usual.mean, is_known) {
            (true, false) => 0.25,
            (true, true) => 0.02,
            (false, _) => 0.0625,
        };
        usual.mean += weight * (mean - usual.mean);
    }

    fn begin(&mut self) {
        *self = Self { floor: self.floor, usual: self.usual, ..Self::UNKNOWN };
    }
}

/// Meter of one server.
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

    pub(super) fn answer(&mut self, work: RequestKind, took: Duration) {
        self.kinds[work as usize].answer(took.as_secs_f64().max(1e-6));
    }

    /// Checks whether the first copy of a request sent at `sent` was lost, whatever limit applied at that time.
    pub(super) fn note_loss(&mut self, now: Instant, work: RequestKind, sent: Instant) {
        self.losses.answer(now, work, sent);
    }

    /// Whether the server loses requests, so that less wait is tolerated from now on.
    pub(super) fn loses(&mut self, now: Instant) -> bool {
        self.losses.look(now)
    }

    pub(super) fn lose(&mut self) {
        self.lost += 1;
    }

    /// Whether the batch is full or old.
    pub(super) fn is_complete(&self, now: Instant) -> bool {
        let length = now.saturating_since(self.since);
        let most = self.kinds.iter().map(|kind| kind.answers).max().unwrap_or_default();
        length >= LONGEST || (length >= SHORTEST && most.max(self.lost) >= ANSWERS)
    }

    /// Responses to new requests so far.
    pub(super) fn answers(&self) -> u32 {
        NEW.iter().map(|work| self.kinds[*work as usize].answers).sum()
    }

    pub(super) fn lost(&self) -> u32 {
        self.lost
    }

    /// Mean response time of new requests without overload, in seconds.
    pub(super) fn usual(&self, now: Instant) -> Option<f64> {
        NEW.iter().filter_map(|work| self.kinds[*work as usize].usual(now)).reduce(f64::max)
    }

    /// Whether at least as many requests failed as were answered.
    pub(super) fn fails(&self) -> bool {
        self.lost >= self.answers().max(FAILURES)
    }

    /// The batch; `None` if it is not conclusive.
    pub(super) fn batch(&self, now: Instant) -> Option<Batch> {
        let fails = self.fails();
        let patience = self.losses.patience();
        let batch = |(delay, floor)| Batch { delay, floor, peak: self.peak, fails, patience };
        let judged = self.kinds.iter().filter_map(|kind| kind.judged(now).map(batch));
        let excess = |batch: &Batch| batch.delay - batch.bearable();
        let worst = judged.reduce(|one, other| if excess(&other) > excess(&one) { other } else { one });
        worst.or_else(|| fails.then(|| batch((TARGET, 0.0))))
    }

    /// Adds the batch to the values known without overload.
    pub(super) fn learn(&mut self, now: Instant) {
        for kind in self.kinds.iter_mut().filter(|kind| kind.answers > 0) {
            kind.floor.note(now, kind.least);
        }
        self.learn_usual(now);
    }

    /// Adds the batch to the means known without overload.
    pub(super) fn learn_usual(&mut self, now: Instant) {
        for kind in self.kinds.iter_mut().filter(|kind| kind.answers > 0) {
            kind.learn_usual(now);
        }
    }

    /// Uses only shorter times of the batch, for a server under a limit.
    pub(super) fn learn_shorter(&mut self) {
        for kind in &mut self.kinds {
            kind.floor.now = kind.floor.now.min(kind.least);
        }
    }

    /// Uses the batch as values measured with hardly any load.
    pub(super) fn measured(&mut self, now: Instant) {
        for kind in self.kinds.iter_mut().filter(|kind| kind.answers > 0) {
            kind.floor.measured(now, kind.least);
        }
    }

    /// Tolerated response time of new requests, for the first limit.
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
    fn a_floor_falls_at_once_and_rises_in_steps() {
        let at = |minute: u64| Instant::from_millis(60_000 * minute + 1);
        let near = |floor: &Floor, millis: f64| (floor.value() * 1_000.0 - millis).abs() < 0.01;
        let mut floor = Floor::UNKNOWN;
        floor.note(at(0), 0.004);
        assert!(near(&floor, 4.0));
        // A step is T1/5 at first, and then half of the value. A value measured under a limit does not exceed 2/5 T1.
        floor.measured(at(1), 0.9);
        assert!(near(&floor, 104.0));
        floor.measured(at(2), 0.9);
        assert!(near(&floor, 200.0));
        floor.measured(at(3), 0.9);
        assert!(near(&floor, 200.0));
        floor.measured(at(4), 0.003);
        assert!(near(&floor, 3.0));
        // Without a limit the same happens minute by minute. A minute without responses changes nothing.
        floor.note(at(5), 0.9);
        floor.note(at(7), 0.9);
        assert!(near(&floor, 103.0));
        floor.note(at(8), 0.9);
        assert!(near(&floor, 203.0));
    }
}
