//! Pauses between attempts to connect.

use core::time::Duration;

/// First pause: a restarted server is soon back.
const FIRST: Duration = Duration::from_millis(50);

/// Longest pause. An attempt costs the server a connection, and a thread without other work a time-out, so frequent
/// attempts are cheap. A long pause would delay the reconnection.
const LONGEST: Duration = Duration::from_secs(2);

/// Pauses that double from one failure to the next.
pub(super) struct Backoff(Duration);

impl Default for Backoff {
    fn default() -> Self {
        Self(FIRST)
    }
}

impl Backoff {
    /// Pause after one more failure.
    pub(super) fn next(&mut self) -> Duration {
        let rest = self.0;
        self.0 = (rest * 2).min(LONGEST);
        rest
    }

    /// Notes a success.
    pub(super) fn reset(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_a_limit() {
        let mut backoff = Backoff::default();
        let mut millis = || -> Vec<_> { (0..8).map(|_| backoff.next().as_millis()).collect() };
        assert_eq!(millis(), [50, 100, 200, 400, 800, 1600, 2000, 2000]);
        assert_eq!(millis(), [2000; 8]);
        backoff.reset();
        assert_eq!(backoff.next(), FIRST);
    }
}
