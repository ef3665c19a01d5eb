//! How long to rest before the next attempt to connect.

use core::time::Duration;

/// The first rest: a server that is started anew is back soon.
const FIRST: Duration = Duration::from_millis(50);

/// The longest rest. An attempt costs the server a connection and us a time-out on a thread that has nothing else to
/// do, so often is cheap, and how long we are away after the server is back depends on it.
const LONGEST: Duration = Duration::from_secs(2);

/// Rests that double from one failure to the next.
pub(super) struct Backoff(Duration);

impl Default for Backoff {
    fn default() -> Self {
        Self(FIRST)
    }
}

impl Backoff {
    /// The rest after one more failure.
    pub(super) fn next(&mut self) -> Duration {
        let rest = self.0;
        self.0 = (rest * 2).min(LONGEST);
        rest
    }

    /// It works again.
    pub(super) fn reset(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rests_double_up_to_a_bound() {
        let mut backoff = Backoff::default();
        let mut millis = || -> Vec<_> { (0..8).map(|_| backoff.next().as_millis()).collect() };
        assert_eq!(millis(), [50, 100, 200, 400, 800, 1600, 2000, 2000]);
        assert_eq!(millis(), [2000; 8]);
        backoff.reset();
        assert_eq!(backoff.next(), FIRST);
    }
}
