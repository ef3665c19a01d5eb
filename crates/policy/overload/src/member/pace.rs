//! Pace of a server: the most responses a second that it has sent lately.

use base::Instant;
use core::time::Duration;

/// Length of a window in which responses are counted. It is longer than the period of usual processor quotas.
const WINDOW: Duration = Duration::from_millis(200);
/// Time after which the count of the present window says how fast the server is now.
const LEAST: Duration = Duration::from_millis(50);
/// Time for which the fastest window is remembered; at most twice as long. It is longer than usual pauses of a server.
const GENERATION: Duration = Duration::from_secs(5);

/// Responses of a server, counted in windows.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Pace {
    since: Instant,
    answers: u32,
    /// Pace in the last window.
    last: f64,
    /// Start of the present generation, and the fastest paces of it and of the last one.
    generation: Instant,
    fastest: [f64; 2],
}

impl Pace {
    /// Counts a response to a new request.
    pub(super) fn answer(&mut self, now: Instant) {
        self.roll(now);
        self.answers += 1;
    }

    /// Ends the present window if it is over.
    pub(super) fn roll(&mut self, now: Instant) {
        let length = now.saturating_since(self.since);
        if length < WINDOW {
            return;
        }
        // After a time without reports, the server was idle or had stopped.
        let is_gap = length >= 2 * WINDOW;
        let pace = if is_gap { 0.0 } else { f64::from(self.answers) / length.as_secs_f64() };
        (self.since, self.answers, self.last) = (now, 0, pace);
        let age = now.saturating_since(self.generation);
        if age >= GENERATION {
            let before = if age >= 2 * GENERATION { 0.0 } else { self.fastest[0] };
            (self.generation, self.fastest) = (now, [0.0, before]);
        }
        self.fastest[0] = self.fastest[0].max(pace);
    }

    /// Responses per second in the present window and the last one; `None` if the time is too short.
    fn present(&self, now: Instant) -> Option<f64> {
        let length = now.saturating_since(self.since);
        let pace = f64::from(self.answers) / length.as_secs_f64();
        (length >= LEAST).then(|| pace.max(self.last))
    }

    /// Most responses per second, lately and now; `None` if there was none.
    pub(super) fn rate(&self, now: Instant) -> Option<f64> {
        let known = self.fastest[0].max(self.fastest[1]);
        Some(known.max(self.present(now).unwrap_or(0.0))).filter(|rate| *rate > 0.0)
    }

    /// Whether the server answers much more slowly than before: it has stopped, or is about to.
    pub(super) fn has_stopped(&self, now: Instant) -> bool {
        self.rate(now).zip(self.present(now)).is_some_and(|(rate, present)| present < rate / 4.0)
    }
}
