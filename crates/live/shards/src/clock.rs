//! The real clocks: the only file that reads them.

use base::{Instant, UnixTime};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Reads the real clocks: monotonic time since the process started, and the time of day.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    origin: std::time::Instant,
}

impl Clock {
    /// Starts a clock whose [`Instant::ZERO`] is now.
    pub fn start() -> Self {
        Self { origin: std::time::Instant::now() }
    }

    /// Returns the present time.
    pub fn now(&self) -> Instant {
        let nanos = u64::try_from(self.origin.elapsed().as_nanos()).unwrap_or(u64::MAX);
        Instant::from_nanos(nanos)
    }

    /// Returns the Unix time of [`Instant::ZERO`] by the machine's clock.
    pub fn epoch(&self) -> Duration {
        Self::since_1970().saturating_since(self.now())
    }

    /// Returns the date by the machine's clock.
    pub fn date() -> UnixTime {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        UnixTime::from_millis(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
    }

    /// Returns the time since 1970 by the machine's clock in nanoseconds, as used for packet timestamps.
    pub fn since_1970() -> Instant {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Instant::from_nanos(u64::try_from(since.as_nanos()).unwrap_or(u64::MAX))
    }

    /// Returns the time until `then`; zero if it is past.
    pub fn until(&self, then: Instant) -> Duration {
        then.saturating_since(self.now())
    }
}
