//! The real clocks: the only file that reads them.

use base::Instant;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Monotonic time since it was started.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock(std::time::Instant);

impl Clock {
    /// A clock whose [`Instant::ZERO`] is now.
    pub(crate) fn start() -> Self {
        Self(std::time::Instant::now())
    }

    /// The time now.
    pub(crate) fn now(&self) -> Instant {
        Instant::ZERO + self.0.elapsed()
    }

    /// How long it is until then; zero when it is past.
    pub(crate) fn until(&self, then: Instant) -> Duration {
        then.saturating_since(self.now())
    }

    /// The time since 1970 by the machine's clock, to the nanosecond: as packets are stamped.
    pub(crate) fn since_1970() -> Instant {
        Instant::ZERO + SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
    }
}
