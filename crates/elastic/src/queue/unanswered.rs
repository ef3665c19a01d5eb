//! The calls of a member that it has not answered at all: they bound what else it may get.
//!
//! Little's law: a member that takes `c` calls a second, each in a time T, has `c * T` calls at once. So a member pulls while
//!
//! ```text
//! unanswered < max(1, c * (T + base))
//! ```
//!
//! T is the threshold of the first answer, `base` the shortest time to a first answer of this minute and the last one: the way
//! there and back is no work of the member. What a member that slows down would have beyond that bound waits in front instead,
//! where another member may pull it.
//!
//! - **Calls that are passed over.** Servers answer in about the order of arrival. Once a call is answered that was sent T after
//!   another one, the earlier call waits for nothing: it was lost, or the member swallows its kind. It counts no more (as RACK does
//!   for segments of TCP, RFC 8985), so a caller whose calls nobody answers does not use up the bound.
//! - **A member that answers nothing** gets one call at a time: when its last call is 100 ms old, those at the bound are given up and
//!   one more is sent as a probe. The next one follows its answer, or comes after twice as long, 4 s at most. Any answer ends that.

use base::Instant;
use core::time::Duration;
use std::collections::VecDeque;

/// The first wait of a member at its bound for a probe: longer than a usual pause of a scheduler or a collector of garbage.
const PROBE_FIRST: Duration = Duration::from_millis(100);
/// The longest wait between two probes. A probe may cost its caller a retransmission.
const PROBE_LONGEST: Duration = Duration::from_secs(4);
/// Waits are doubled so often at most: beyond that they are the longest one.
const DOUBLED_MOST: u32 = 6;
/// An INVITE that was not answered for so long never will be: 64*T1 (RFC 3261 §17.1.1.2).
const GIVEN_UP: Duration = Duration::from_secs(32);
/// The shortest answers are those of this minute and the last one.
const MINUTE: Duration = Duration::from_mins(1);

/// The unanswered calls of a member.
#[derive(Debug, Clone, Default)]
pub(super) struct Unanswered {
    /// When each was sent, in order.
    sent: VecDeque<Instant>,
    /// When the last one was sent of those that were answered.
    answered: Option<Instant>,
    /// Whether the member has shown that it may stand still, and has answered nothing since: it gets one call at a time.
    is_silent: bool,
    /// Probes in a row.
    probes: u32,
    shortest: Shortest,
}

impl Unanswered {
    pub(super) fn count(&self) -> usize {
        self.sent.len()
    }

    /// How many calls the member may have before it gets no other one: 1 at least.
    pub(super) fn bound(&self, now: Instant, capacity: f64, threshold: Duration) -> f64 {
        if self.is_silent {
            return 1.0;
        }
        (capacity * (threshold + self.shortest.at(now)).as_secs_f64()).max(1.0)
    }

    /// Whether it may have another call.
    pub(super) fn has_room(&self, now: Instant, capacity: f64, threshold: Duration) -> bool {
        (self.count() as f64) < self.bound(now, capacity, threshold)
            || self.probe_at().is_none_or(|at| at <= now)
    }

    /// When a member at its bound gets a call all the same; `None`: it has none.
    pub(super) fn probe_at(&self) -> Option<Instant> {
        let wait = (PROBE_FIRST * (1 << self.probes.min(DOUBLED_MOST))).min(PROBE_LONGEST);
        self.sent.back().map(|last| *last + wait)
    }

    /// It gets a call.
    pub(super) fn send(&mut self, now: Instant, capacity: f64, threshold: Duration) {
        if self.count() as f64 >= self.bound(now, capacity, threshold) {
            self.sent.clear();
            self.probes = self.probes.saturating_add(1);
            self.is_silent = true;
        }
        self.sent.push_back(now);
    }

    /// It has answered a call that was sent then.
    pub(super) fn answer(&mut self, now: Instant, sent: Instant, threshold: Duration) {
        let place = self.sent.partition_point(|at| *at < sent);
        if self.sent.get(place) == Some(&sent) {
            self.sent.remove(place);
        }
        self.answered = self.answered.max(Some(sent));
        while self.sent.front().is_some_and(|first| self.has_passed(*first, threshold)) {
            self.sent.pop_front();
        }
        self.shortest.note(now, now.saturating_since(sent));
        self.lives();
    }

    /// It has answered something, so it does not stand still. Returns whether it had been silent.
    pub(super) fn lives(&mut self) -> bool {
        self.probes = 0;
        core::mem::take(&mut self.is_silent)
    }

    /// It has left a call to another member. Returns whether it had been silent before.
    pub(super) fn falls_silent(&mut self) -> bool {
        core::mem::replace(&mut self.is_silent, true)
    }

    /// Somebody else has the call that was sent then.
    pub(super) fn take_back(&mut self, sent: Instant) {
        let place = self.sent.partition_point(|at| *at < sent);
        if self.sent.get(place) == Some(&sent) {
            self.sent.remove(place);
        }
    }

    /// Whether calls were answered that came so much later than this one that the member does not work at it.
    pub(super) fn has_passed(&self, sent: Instant, threshold: Duration) -> bool {
        self.answered.is_some_and(|answered| answered >= sent + threshold)
    }

    /// Gives up what was not answered for too long.
    pub(super) fn expire(&mut self, now: Instant) {
        while self.sent.front().is_some_and(|first| now.saturating_since(*first) >= GIVEN_UP) {
            self.sent.pop_front();
            self.is_silent = true;
        }
    }
}

/// The shortest time to an answer in this minute and the last one.
#[derive(Debug, Clone, Copy, Default)]
struct Shortest {
    /// The number of a minute, and its shortest time; zero is none.
    minutes: [(u64, Duration); 2],
}

impl Shortest {
    fn note(&mut self, now: Instant, took: Duration) {
        let minute = minute(now);
        let took = took.max(Duration::from_nanos(1));
        let [current, _] = self.minutes;
        if current.1.is_zero() || current.0 < minute {
            self.minutes = [(minute, took), current];
        } else {
            self.minutes[0].1 = current.1.min(took);
        }
    }

    /// Zero where nothing is known.
    fn at(&self, now: Instant) -> Duration {
        let is_recent = |(of, took): &&(u64, Duration)| !took.is_zero() && *of + 1 >= minute(now);
        self.minutes.iter().filter(is_recent).map(|(_, took)| *took).min().unwrap_or_default()
    }
}

fn minute(at: Instant) -> u64 {
    at.as_nanos() / MINUTE.as_nanos() as u64
}
