//! What a thread measures of itself: how long messages wait for it, and how busy it is.

use base::Instant;
use rustix::time::{ClockId, clock_gettime};
use std::time::Duration;

/// How long a longest value is remembered; twice as long at most.
const GENERATION: Duration = Duration::from_secs(10);

/// The longest of late.
#[derive(Clone, Copy, Debug, Default)]
struct Longest {
    since: Instant,
    before: Duration,
    now: Duration,
}

impl Longest {
    fn note(&mut self, now: Instant, length: Duration) {
        self.roll(now);
        self.now = self.now.max(length);
    }

    fn roll(&mut self, now: Instant) {
        let age = now.saturating_since(self.since);
        if age >= GENERATION {
            self.before = if age >= GENERATION * 2 { Duration::ZERO } else { self.now };
            (self.since, self.now) = (now, Duration::ZERO);
        }
    }

    fn get(mut self, now: Instant) -> Duration {
        self.roll(now);
        self.before.max(self.now)
    }
}

/// The signals of a thread.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Signals {
    woken: Instant,
    busy: Duration,
    turn: Longest,
    waited: Longest,
}

/// The signals of a thread as figures.
#[derive(Clone, Copy, Debug, Default)]
pub struct SignalFigures {
    /// The time between wake-up and sleep, in seconds.
    pub busy: f64,
    /// Processor time of the thread, the kernel's included, in seconds.
    pub processor: f64,
    /// The longest time between two looks at the sockets, of the last 10 to 20 s, in seconds: what the event loop lags.
    pub lag: f64,
    /// The longest wait of a message for the thread, of the last 10 to 20 s, in seconds.
    pub waited: f64,
}

impl Signals {
    /// The thread has woken up.
    pub(crate) fn on_woken(&mut self, now: Instant) {
        self.woken = now;
    }

    /// The thread goes to sleep, or looks at its sockets once more.
    pub(crate) fn on_turn_end(&mut self, now: Instant) {
        let turn = now.saturating_since(self.woken);
        self.busy += turn;
        self.turn.note(now, turn);
        self.woken = now;
    }

    /// A message has waited for so long.
    pub(crate) fn on_waited(&mut self, now: Instant, waited: Duration) {
        self.waited.note(now, waited);
    }

    /// How long the thread has been busy in all, with what it does for other processes' sake: a quota that is used up
    /// counts as busy, as nothing more can be done then either.
    pub(crate) fn busy(&self) -> Duration {
        self.busy
    }

    /// To be asked by the thread itself.
    pub(crate) fn figures(&self, now: Instant) -> SignalFigures {
        let time = clock_gettime(ClockId::ThreadCPUTime);
        SignalFigures {
            busy: self.busy.as_secs_f64(),
            processor: Duration::new(time.tv_sec as u64, time.tv_nsec as u32).as_secs_f64(),
            lag: self.turn.get(now).as_secs_f64(),
            waited: self.waited.get(now).as_secs_f64(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_is_forgotten_and_busy_time_is_not() {
        let at = Instant::from_millis;
        let mut signals = Signals::default();
        for (woken, slept) in [(1_000, 1_005), (2_000, 2_300), (9_000, 9_001)] {
            signals.on_woken(at(woken));
            signals.on_turn_end(at(slept));
            signals.on_waited(at(slept), Duration::from_millis(woken / 1_000));
        }
        assert_eq!(signals.busy(), Duration::from_millis(306));
        let longest = |now| (signals.turn.get(at(now)), signals.waited.get(at(now)));
        assert_eq!(longest(9_001), (Duration::from_millis(300), Duration::from_millis(9)));
        assert_eq!(longest(19_000), (Duration::from_millis(300), Duration::from_millis(9)));
        assert_eq!(longest(40_000), (Duration::ZERO, Duration::ZERO));
        assert!(signals.figures(at(40_000)).processor > 0.0);
    }
}
