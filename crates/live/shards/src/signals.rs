//! Load signals of a thread: how long messages wait for it, and how busy it is.

use base::Instant;
use rustix::time::{ClockId, clock_gettime};
use std::time::Duration;

/// Time for which a maximum is kept; at most twice as long.
const GENERATION: Duration = Duration::from_secs(10);

/// Maximum of the recent past.
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

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Signals {
    woken: Instant,
    busy: Duration,
    turn: Longest,
    waited: Longest,
}

/// Load signals of a thread as figures.
#[derive(Clone, Copy, Debug, Default)]
pub struct SignalFigures {
    /// Time between wake-up and sleep, in seconds.
    pub busy: f64,
    /// Processor time of the thread in user mode and in the kernel, in seconds.
    pub processor: f64,
    /// Lag of the event loop: longest time between two reads of the sockets in the last 10 to 20 s, in seconds.
    pub lag: f64,
    /// Longest wait of a message for the thread in the last 10 to 20 s, in seconds.
    pub waited: f64,
}

impl Signals {
    pub(crate) fn on_woken(&mut self, now: Instant) {
        self.woken = now;
    }

    /// Notes that the thread goes to sleep, or reads its sockets again.
    pub(crate) fn on_turn_end(&mut self, now: Instant) {
        let turn = now.saturating_since(self.woken);
        self.busy += turn;
        self.turn.note(now, turn);
        self.woken = now;
    }

    pub(crate) fn on_waited(&mut self, now: Instant, waited: Duration) {
        self.waited.note(now, waited);
    }

    /// Returns the total busy time, including time in which other processes had the processor. A thread whose quota is
    /// used up counts as busy, since it cannot do more work either.
    pub(crate) fn busy(&self) -> Duration {
        self.busy
    }

    /// Returns the figures. The thread itself must call this.
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
