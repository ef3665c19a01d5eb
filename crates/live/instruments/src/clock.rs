//! The real clocks. No other file reads them.

use base::Instant;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Monotonic time since its start.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock(std::time::Instant);

impl Clock {
    /// A clock whose [`Instant::ZERO`] is now.
    pub(crate) fn start() -> Self {
        Self(std::time::Instant::now())
    }

    /// Returns the time now.
    pub(crate) fn now(&self) -> Instant {
        Instant::ZERO + self.0.elapsed()
    }

    /// Returns the time until `then`; zero if it is past.
    pub(crate) fn until(&self, then: Instant) -> Duration {
        then.saturating_since(self.now())
    }

    /// Returns the time since 1970 by the machine's clock, in nanoseconds, as the kernel stamps packets.
    pub(crate) fn since_1970() -> Instant {
        Instant::ZERO + SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
    }
}
