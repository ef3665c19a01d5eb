//! The calls of a member without any answer: they bound how many more it may get.
//!
//! Little's law: a member that takes `c` calls a second, each in a time T, has `c * T` calls at once. So a member
//! gets a call while
//!
//! ```text
//! unanswered < max(2, c * (T + base))
//! ```
//!
//! T is the threshold of the first answer. `base` is the time to a first answer without any waiting: the way there
//! and back is no work of the member. Calls beyond the bound wait in front, where another member may pull them. The
//! bound is 2 at least, or each call that a slow member swallows would stop it for 100 ms.
//!
//! - **`base`** is the shortest time to a first answer of this minute and the last one, but no more than the last
//!   *measurement*, which is the time of a call that was alone in the member, or T before the first one. Without this
//!   limit a standing queue of calls that all wait would raise `base`, `base` the bound, and the bound the queue,
//!   minute after minute (BBR limits its shortest round trip in the same way, by `ProbeRTT`).
//! - **A measurement** is made when the first answer of a minute took longer than T + `base`: the member is
//!   overloaded, or it has become slower, or the way to it longer. It gets no call until it has answered all that it
//!   has, then one alone. If the lone call takes longer than T + `base` too, it is a spike perhaps, such as a pause
//!   of the member, and a second lone call confirms it: the shorter time of both counts. All threads of a process do
//!   so at about the same time, since their minutes are the same, so one measures few calls of the others. Thus a
//!   member that has become slower is known to be so after a minute or two, and one that is overloaded answers the
//!   lone call as fast as ever.
//! - **Calls that are passed over.** Servers answer in about the order of arrival. Once a call is answered that was
//!   sent T after another one, the earlier call waits for nothing: it was lost, or the member swallows its kind. It
//!   counts no more (as RACK does for segments of TCP, RFC 8985). Until then it does count, so calls that are
//!   swallowed take a part of the bound for about T each.
//! - **A member that answers nothing** gets one call at a time. When its last call, and its last answer, are 100 ms
//!   old or twice as old as that answer took, the calls at the bound are given up and one more is sent as a probe.
//!   The next one follows its answer, or comes after twice as long, 4 s at most. Any answer ends that.
//! - **Pace** is how many calls a second the member answers, of those that it was given here: in the last 100 to 200 ms
//!   of the time in which it had two at least, since one alone does not show how fast it could be. It is unknown after
//!   a silence, and after 10 s without such a time. Where members pull as they answer, the bound is `pace * T / 2` at
//!   least: with as many calls a member answers within half of the threshold, so a smaller bound would hold calls back
//!   from one that has time for them. The half keeps answers within the threshold, by which `c` finds its way back.
//! - **Calls without load.** Calls that are given up or passed over, and all calls when it is time for a probe, are no
//!   load: a member that is well again would get nothing while others have nothing to do.

use base::Instant;
use core::time::Duration;
use std::collections::VecDeque;

/// The first wait of a member at its bound for a probe: longer than a usual pause of a scheduler or a collector of
/// garbage.
const PROBE_FIRST: Duration = Duration::from_millis(100);
/// The longest wait between two probes. A probe may cost its caller a retransmission.
const PROBE_LONGEST: Duration = Duration::from_secs(4);
/// Waits are doubled so often at most: beyond that they are the longest one.
const DOUBLED_MOST: u32 = 6;
/// The pace of a member is that of one or two of these spans: a period of a quota of processor time, which is 100 ms as a
/// rule, and well below the windows of a capacity.
const SPAN: Duration = Duration::from_millis(100);
/// A pace that was not seen for so long says nothing.
const FORGOTTEN: Duration = Duration::from_secs(10);
/// An INVITE that was not answered for so long never will be: 64*T1 (RFC 3261 §17.1.1.2).
const GIVEN_UP: Duration = Duration::from_secs(32);
/// The shortest answers are those of this minute and the last one.
const MINUTE: Duration = Duration::from_mins(1);
/// No way there and back takes longer: T1, "an estimate of the RTT" (RFC 3261 §17.1.1.1).
const BASE_MOST: Duration = Duration::from_millis(500);

/// The unanswered calls of a member.
#[derive(Debug, Clone, Default)]
pub(super) struct Unanswered {
    /// When each was sent, in order.
    sent: VecDeque<Instant>,
    /// The same of those that count no more since the member does not work at them, or was sent a probe. Their callers
    /// have heard nothing, so they are open calls of the member all the same.
    lost: VecDeque<Instant>,
    /// The same of those that another member got as well, so that their load is with that one.
    moved: VecDeque<Instant>,
    /// When the last one was sent of those that were answered.
    answered: Option<Instant>,
    /// When the last answer came, and how long it took.
    heard: Option<(Instant, Duration)>,
    /// When the last one was sent of those that count no more without an answer. The member may still have it.
    left: Option<Instant>,
    /// When the only call was sent that the member has had since, if there was one.
    alone: Option<Instant>,
    /// Whether the member has got a probe, and has answered nothing since: it gets one call at a time.
    is_silent: bool,
    /// Probes in a row.
    probes: u32,
    base: Base,
    pace: Pace,
    /// The pace knows of the time until then.
    accounted: Instant,
}

impl Unanswered {
    pub(super) fn count(&self) -> usize {
        self.sent.len()
    }

    /// Open calls of the member that it does not work at, as it seems: it has passed over them, or it answers nothing.
    pub(super) fn lost(&self, now: Instant) -> usize {
        let lost = self.lost.len() + if self.is_overdue(now) { self.count() } else { 0 };
        lost.saturating_sub(self.moved.len())
    }

    /// Another member gets the call that was sent then, if it came from the queue: one that moves a second time did not.
    pub(super) fn moves(&mut self, sent: Instant) {
        if !self.sent.contains(&sent) && !self.lost.contains(&sent) {
            return;
        }
        let place = self.moved.partition_point(|at| *at <= sent);
        self.moved.insert(place, sent);
    }

    /// Whether it is time to find out by a call whether the member answers anything.
    fn is_overdue(&self, now: Instant) -> bool {
        self.probe_at().is_some_and(|at| at <= now)
    }

    /// How many calls the member may have before it gets no other one: 2 at least, or 1 while it answers nothing or
    /// is measured. `by_pace`: also as many as it answers in half of the threshold.
    pub(super) fn bound(&self, now: Instant, capacity: f64, threshold: Duration, by_pace: bool) -> f64 {
        if self.is_silent || self.base.is_due {
            return 1.0;
        }
        let by_capacity = capacity * (threshold + self.base.at(now, threshold)).as_secs_f64();
        let pace = self.pace(now).filter(|_| by_pace).unwrap_or_default();
        by_capacity.max(pace * threshold.as_secs_f64() / 2.0).max(2.0)
    }

    /// Calls a second that it answers while calls wait in it, if that is known.
    pub(super) fn pace(&self, now: Instant) -> Option<f64> {
        self.pace.rate(now, self.busy(now))
    }

    /// Whether it may have another call, with so many as its bound.
    pub(super) fn has_room(&self, now: Instant, bound: f64) -> bool {
        (self.count() as f64) < bound || self.is_overdue(now)
    }

    /// Whether a call waits for another one to be answered: then the member answers as fast as it can.
    fn is_busy(&self) -> bool {
        self.count() > 1
    }

    /// How long it has been busy and the pace does not know.
    fn busy(&self, now: Instant) -> Duration {
        if self.is_busy() { now.saturating_since(self.accounted) } else { Duration::ZERO }
    }

    /// Tells the pace of the time until now, before the calls change.
    fn account(&mut self, now: Instant) {
        if self.is_busy() {
            self.pace.advance(now, self.busy(now));
        }
        self.accounted = self.accounted.max(now);
    }

    /// When a member at its bound gets a call all the same; `None`: it has no unanswered call.
    pub(super) fn probe_at(&self) -> Option<Instant> {
        let last = *self.sent.back()?;
        let (heard, took) = self.heard.unwrap_or((last, Duration::ZERO));
        let wait = PROBE_FIRST.max(took.saturating_mul(2)).min(PROBE_LONGEST);
        Some(last.max(heard) + (wait * (1 << self.probes.min(DOUBLED_MOST))).min(PROBE_LONGEST))
    }

    /// It gets a call.
    pub(super) fn send(&mut self, now: Instant, bound: f64) {
        self.account(now);
        if self.count() as f64 >= bound {
            self.left = self.left.max(self.sent.back().copied());
            self.lost.append(&mut self.sent);
            self.probes = self.probes.saturating_add(1);
            self.is_silent = true;
        }
        let is_idle = self.sent.is_empty() && (self.left.is_none() || self.left < self.answered);
        self.alone = is_idle.then_some(now);
        self.sent.push_back(now);
    }

    /// It has answered a call that was sent then.
    pub(super) fn answer(&mut self, now: Instant, sent: Instant, threshold: Duration) {
        self.account(now);
        let was_busy = self.is_busy();
        // Others are answers to calls that the queue did not give it, or that it had been given up for.
        if !remove(&mut self.sent, sent) {
            remove(&mut self.lost, sent);
        } else if was_busy {
            self.pace.answered();
        }
        remove(&mut self.moved, sent);
        self.answered = self.answered.max(Some(sent));
        while let Some(first) = self.sent.front().copied().filter(|first| self.has_passed(*first, threshold))
        {
            self.sent.pop_front();
            self.lost.push_back(first);
        }
        let took = now.saturating_since(sent);
        // The first answer after a silence took so long because of that.
        let was_silent = self.lives();
        if !was_silent {
            self.base.note(now, took, self.alone == Some(sent), threshold);
        }
        self.heard = Some((now, if was_silent { Duration::ZERO } else { took }));
    }

    /// It has answered something, so it does not stand still. Returns whether it had been silent.
    pub(super) fn lives(&mut self) -> bool {
        self.probes = 0;
        let was_silent = core::mem::take(&mut self.is_silent);
        if was_silent {
            self.pace = Pace::default();
        }
        was_silent
    }

    /// The call that was sent then counts no more, though the member may have it. Returns whether it did count.
    pub(super) fn take_back(&mut self, now: Instant, sent: Instant) -> bool {
        self.account(now);
        let did_count = remove(&mut self.sent, sent);
        if did_count {
            self.left = self.left.max(Some(sent));
        } else {
            remove(&mut self.lost, sent);
        }
        remove(&mut self.moved, sent);
        did_count
    }

    /// Whether calls were answered that came so much later than this one that the member does not work at it.
    fn has_passed(&self, sent: Instant, threshold: Duration) -> bool {
        self.answered.is_some_and(|answered| answered >= sent + threshold)
    }

    /// Gives up calls that were not answered for too long.
    pub(super) fn expire(&mut self, now: Instant) {
        self.account(now);
        while let Some(first) = self.sent.pop_front_if(|first| now.saturating_since(*first) >= GIVEN_UP) {
            self.left = self.left.max(Some(first));
            self.is_silent = true;
        }
        for calls in [&mut self.lost, &mut self.moved] {
            while calls.pop_front_if(|first| now.saturating_since(*first) >= GIVEN_UP).is_some() {}
        }
    }
}

/// Takes a call out of these, which are in order; returns whether it was there.
fn remove(calls: &mut VecDeque<Instant>, sent: Instant) -> bool {
    let place = calls.partition_point(|at| *at < sent);
    calls.get(place) == Some(&sent) && calls.remove(place).is_some()
}

/// How fast the member answers while calls wait in it: of late, and not in a window of a second.
#[derive(Debug, Clone, Copy, Default)]
struct Pace {
    /// Answers and busy time of this span and the one before. Without that one nothing is known.
    spans: [(u32, Duration); 2],
    /// When it was last busy.
    at: Instant,
}

impl Pace {
    /// Calls have waited in it for so long, until now.
    fn advance(&mut self, now: Instant, time: Duration) {
        self.at = now;
        let [(_, busy), _] = &mut self.spans;
        *busy += time;
        if *busy >= SPAN {
            self.spans = [(0, Duration::ZERO), self.spans[0]];
        }
    }

    fn answered(&mut self) {
        let [(answers, _), _] = &mut self.spans;
        *answers = answers.saturating_add(1);
    }

    /// Answers a second, where calls have waited for so long since. Time alone never raises it.
    fn rate(&self, now: Instant, time: Duration) -> Option<f64> {
        let [(answers, busy), (answers_before, busy_before)] = self.spans;
        let is_known = !busy_before.is_zero() && now.saturating_since(self.at) < FORGOTTEN;
        let span = busy + busy_before + time;
        is_known.then(|| f64::from(answers.saturating_add(answers_before)) / span.as_secs_f64())
    }
}

/// The time to a first answer without any waiting.
#[derive(Debug, Clone, Copy, Default)]
struct Base {
    /// The number of a minute, and its shortest time; zero is none.
    minutes: [(u64, Duration); 2],
    /// The last measurement.
    measured: Option<Duration>,
    /// The member is to be measured.
    is_due: bool,
    /// The time of a lone call that was late: another one has to confirm it.
    unconfirmed: Option<Duration>,
}

impl Base {
    /// An answer took so long. `is_alone`: to a call that was alone in the member all the time.
    fn note(&mut self, now: Instant, took: Duration, is_alone: bool, threshold: Duration) {
        let (minute, took) = (minute(now), took.max(Duration::from_nanos(1)));
        let is_late = took > threshold + self.at(now, threshold);
        if self.is_due && is_alone {
            let Some(took) = self.confirmed(took, is_late) else { return };
            *self = Self {
                minutes: [(minute, took), (0, Duration::ZERO)],
                measured: Some(took.min(BASE_MOST)),
                is_due: false,
                unconfirmed: None,
            };
            return;
        }
        let [current, _] = self.minutes;
        if current.1.is_zero() || current.0 < minute {
            self.is_due = is_late;
            self.minutes = [(minute, took), current];
        } else {
            self.is_due &= is_late;
            self.minutes[0].1 = current.1.min(took);
        }
        self.unconfirmed = self.unconfirmed.filter(|_| self.is_due);
    }

    /// The time that a measurement has found, of the last lone call and the late one before it; `None`: this call is
    /// the first late one.
    fn confirmed(&mut self, took: Duration, is_late: bool) -> Option<Duration> {
        match self.unconfirmed {
            Some(first) => Some(first.min(took)),
            None if is_late => {
                self.unconfirmed = Some(took);
                None
            }
            None => Some(took),
        }
    }

    /// Zero where nothing is known.
    fn at(&self, now: Instant, threshold: Duration) -> Duration {
        let is_recent = |(of, took): &&(u64, Duration)| !took.is_zero() && *of + 1 >= minute(now);
        let shortest = self.minutes.iter().filter(is_recent).map(|(_, took)| *took).min();
        let most = self.measured.unwrap_or(threshold);
        shortest.map_or(self.measured.unwrap_or_default(), |shortest| shortest.min(most))
    }
}

fn minute(at: Instant) -> u64 {
    at.as_nanos() / MINUTE.as_nanos() as u64
}
