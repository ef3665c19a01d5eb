//! Unanswered calls of a member: they bound the calls that it gets.
//!
//! Little's law: a member that takes `c` calls a second, each for a time T, has `c * T` calls at once. So a member gets
//! a call while
//!
//! ```text
//! unanswered < max(2, c * (T + base))
//! ```
//!
//! T is the threshold of the first response. `base` is the time to a first response without waiting, since the round
//! trip is no work of the member. Calls beyond the bound wait in front, where another member may pull them. The bound
//! is at least 2. Otherwise each call that a slow member loses would stop it for 100 ms.
//!
//! - **`base`** is the shortest time to a first response in this and the last minute. It is limited by the last
//!   *measurement*: the time of a call that was alone in the member, or T before the first such call. Without this
//!   limit, a standing queue in which all calls wait would raise `base`. `base` would raise the bound, and the bound
//!   the queue, minute after minute. BBR limits its shortest round trip in the same way, by `ProbeRTT`.
//! - **A measurement** is made when the first response of a minute took longer than T + `base`: the member is
//!   overloaded, has become slower, or its round trip is longer. The member gets no call until it has answered all of
//!   its calls, and then one alone. If this lone call also takes longer than T + `base`, the cause may be a spike, such
//!   as a pause of the member. A second lone call confirms it: the shorter time of both counts. All threads of a
//!   process measure at about the same time, since their minutes are the same, so a thread measures few calls of the
//!   others. So a slower member is recognised after a minute or two, and an overloaded member answers the lone call as
//!   fast as ever.
//! - **Calls that are passed over.** Servers answer in about the order of arrival. Once a call is answered that was
//!   sent T after another one, the earlier call is lost, or the member does not answer calls of its kind. The earlier
//!   call no longer counts (like RACK for TCP segments, RFC 8985). Until then it counts, so lost calls take part of the
//!   bound for about T each.
//! - **A member that answers nothing** gets one call at a time. A probe is due when its last call and its last response
//!   are older than 100 ms, and than twice the time of this response. Then the calls at the bound are given up, and one
//!   more call is sent as a probe. The next probe follows a response, or comes after twice the wait, at most 4 s. Any
//!   response ends this state.
//! - **Pace** is the rate of the member's responses to calls from this queue. It covers the last 100 to 200 ms of the
//!   time in which the member had at least two calls; a lone call does not show its speed. Pace is unknown after a
//!   silence, and after 10 s without two calls at once. If members pull at the rate of their responses, the bound is at
//!   least `pace * T / 2`. With so many calls a member answers within half of the threshold, so a smaller bound would
//!   hold back calls for which the member has time. The half keeps responses within the threshold, so that `c` can
//!   recover.
//! - **Calls without load.** Calls given up or passed over, and all calls when a probe is due, count as no load.
//!   Otherwise a recovered member would get no calls while others are idle.

use base::Instant;
use core::time::Duration;
use std::collections::VecDeque;

/// First wait for a probe of a member at its bound: longer than a usual pause of a scheduler or garbage collector.
const PROBE_FIRST: Duration = Duration::from_millis(100);
/// Longest wait between two probes. A probe may cost its caller a retransmission.
const PROBE_LONGEST: Duration = Duration::from_secs(4);
/// Most doublings of the wait; after that it is the longest one.
const DOUBLED_MOST: u32 = 6;
/// Length of a span; the pace covers one or two spans. It is the usual period of a processor quota, and well below the
/// windows of a capacity.
const SPAN: Duration = Duration::from_millis(100);
/// Time after which an old pace is ignored.
const FORGOTTEN: Duration = Duration::from_secs(10);
/// Time after which an unanswered INVITE is given up: 64*T1 (RFC 3261 §17.1.1.2).
const GIVEN_UP: Duration = Duration::from_secs(32);
/// The shortest times are those of this and the last minute.
const MINUTE: Duration = Duration::from_mins(1);
/// Largest round-trip time: T1, "an estimate of the RTT" (RFC 3261 §17.1.1.1).
const BASE_MOST: Duration = Duration::from_millis(500);

/// Unanswered calls of a member.
#[derive(Debug, Clone, Default)]
pub(super) struct Unanswered {
    /// Times of sending, in order.
    sent: VecDeque<Instant>,
    /// Times of calls that no longer count, since the member does not work on them or was sent a probe. Their callers
    /// have no response, so these calls are still open calls of the member.
    lost: VecDeque<Instant>,
    /// Times of calls that another member got as well, which now has their load.
    moved: VecDeque<Instant>,
    /// Latest time of sending among the answered calls.
    answered: Option<Instant>,
    /// Time of the last response, and how long it took.
    heard: Option<(Instant, Duration)>,
    /// Latest time of sending among the calls dropped without a response. The member may still have them.
    left: Option<Instant>,
    /// Time of sending of the only call that the member has had since `left`, if there is just one.
    alone: Option<Instant>,
    /// Whether the member got a probe and has answered nothing since. A silent member gets one call at a time.
    is_silent: bool,
    /// Probes in a row.
    probes: u32,
    base: Base,
    pace: Pace,
    /// Time up to which the pace is updated.
    accounted: Instant,
}

impl Unanswered {
    pub(super) fn count(&self) -> usize {
        self.sent.len()
    }

    /// Open calls that the member seems not to work on: it has passed over them, or answers nothing.
    pub(super) fn lost(&self, now: Instant) -> usize {
        let lost = self.lost.len() + if self.is_overdue(now) { self.count() } else { 0 };
        lost.saturating_sub(self.moved.len())
    }

    /// Records that another member gets the call sent at `sent`, if this call came from this queue. A call that moves a
    /// second time came from another member.
    pub(super) fn moves(&mut self, sent: Instant) {
        if !self.sent.contains(&sent) && !self.lost.contains(&sent) {
            return;
        }
        let place = self.moved.partition_point(|at| *at <= sent);
        self.moved.insert(place, sent);
    }

    /// Whether a probe is due, to find out whether the member answers.
    fn is_overdue(&self, now: Instant) -> bool {
        self.probe_at().is_some_and(|at| at <= now)
    }

    /// Most calls of the member before it gets no other one: at least 2, or 1 while the member answers nothing or is
    /// measured. `by_pace`: at least as many as the member answers in half of the threshold.
    pub(super) fn bound(&self, now: Instant, capacity: f64, threshold: Duration, by_pace: bool) -> f64 {
        if self.is_silent || self.base.is_due {
            return 1.0;
        }
        let by_capacity = capacity * (threshold + self.base.at(now, threshold)).as_secs_f64();
        let pace = self.pace(now).filter(|_| by_pace).unwrap_or_default();
        by_capacity.max(pace * threshold.as_secs_f64() / 2.0).max(2.0)
    }

    /// Responses a second while calls wait in it; `None` if unknown.
    pub(super) fn pace(&self, now: Instant) -> Option<f64> {
        self.pace.rate(now, self.busy(now))
    }

    /// Whether it may get another call with this bound.
    pub(super) fn has_room(&self, now: Instant, bound: f64) -> bool {
        (self.count() as f64) < bound || self.is_overdue(now)
    }

    /// Whether a call waits in the member until another one is answered. The member then answers as fast as it can.
    fn is_busy(&self) -> bool {
        self.count() > 1
    }

    /// Busy time since the last update of the pace.
    fn busy(&self, now: Instant) -> Duration {
        if self.is_busy() { now.saturating_since(self.accounted) } else { Duration::ZERO }
    }

    /// Updates the pace up to now, before the calls change.
    fn account(&mut self, now: Instant) {
        if self.is_busy() {
            self.pace.advance(now, self.busy(now));
        }
        self.accounted = self.accounted.max(now);
    }

    /// Time at which a member at its bound gets a probe; `None` if it has no unanswered call.
    pub(super) fn probe_at(&self) -> Option<Instant> {
        let last = *self.sent.back()?;
        let (heard, took) = self.heard.unwrap_or((last, Duration::ZERO));
        let wait = PROBE_FIRST.max(took.saturating_mul(2)).min(PROBE_LONGEST);
        Some(last.max(heard) + (wait * (1 << self.probes.min(DOUBLED_MOST))).min(PROBE_LONGEST))
    }

    /// Adds a call to it.
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

    /// Handles its response to a call sent at `sent`.
    pub(super) fn answer(&mut self, now: Instant, sent: Instant, threshold: Duration) {
        self.account(now);
        let was_busy = self.is_busy();
        // Otherwise the call was not from the queue, or had been given up.
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
        // The first response after a silence took long because of the silence.
        let was_silent = self.record_response();
        if !was_silent {
            self.base.note(now, took, self.alone == Some(sent), threshold);
        }
        self.heard = Some((now, if was_silent { Duration::ZERO } else { took }));
    }

    /// Records any response, so that the member does not count as stopped. Returns whether it had been silent.
    pub(super) fn record_response(&mut self) -> bool {
        self.probes = 0;
        let was_silent = core::mem::take(&mut self.is_silent);
        if was_silent {
            self.pace = Pace::default();
        }
        was_silent
    }

    /// Stops counting the call sent at `sent`, though the member may have it. Returns whether the call did count.
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

    /// Whether a call sent so much later was answered that the member does not work on this one.
    fn has_passed(&self, sent: Instant, threshold: Duration) -> bool {
        self.answered.is_some_and(|answered| answered >= sent + threshold)
    }

    /// Gives up calls without a response for too long.
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

/// Removes a call from an ordered list; returns whether it was there.
fn remove(calls: &mut VecDeque<Instant>, sent: Instant) -> bool {
    let place = calls.partition_point(|at| *at < sent);
    calls.get(place) == Some(&sent) && calls.remove(place).is_some()
}

/// Recent speed of a member's responses while calls wait in it; faster than a window of a second.
#[derive(Debug, Clone, Copy, Default)]
struct Pace {
    /// Responses and busy time of this span and the previous one. Without a previous span the pace is unknown.
    spans: [(u32, Duration); 2],
    /// Time when it was last busy.
    at: Instant,
}

impl Pace {
    /// Adds busy time up to now.
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

    /// Responses a second, with further busy time `time`. Time alone never raises it.
    fn rate(&self, now: Instant, time: Duration) -> Option<f64> {
        let [(answers, busy), (answers_before, busy_before)] = self.spans;
        let is_known = !busy_before.is_zero() && now.saturating_since(self.at) < FORGOTTEN;
        let span = busy + busy_before + time;
        is_known.then(|| f64::from(answers.saturating_add(answers_before)) / span.as_secs_f64())
    }
}

/// Time to a first response without waiting.
#[derive(Debug, Clone, Copy, Default)]
struct Base {
    /// Number of a minute and its shortest time; zero for none.
    minutes: [(u64, Duration); 2],
    /// The last measurement.
    measured: Option<Duration>,
    /// Whether the member is to be measured.
    is_due: bool,
    /// Time of a late lone call that another one has to confirm.
    unconfirmed: Option<Duration>,
}

impl Base {
    /// Adds the time of a response. `is_alone`: the call was alone in the member all the time.
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

    /// Result of a measurement, from the last lone call and a late one before it; `None` if this call is the first late
    /// one.
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

    /// The base; zero if unknown.
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
