//! The real clocks: the only file that reads them.

use base::{Instant, UnixTime};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The one place where the real clocks are read: monotonic time since the process started, and the time of day.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    origin: std::time::Instant,
}

impl Clock {
    /// A clock whose [`Instant::ZERO`] is now.
    pub fn start() -> Self {
        Self { origin: std::time::Instant::now() }
    }

    /// The time now.
    pub fn now(&self) -> Instant {
        let nanos = u64::try_from(self.origin.elapsed().as_nanos()).unwrap_or(u64::MAX);
        Instant::from_nanos(nanos)
    }

    /// The Unix time of [`Instant::ZERO`] by the machine's clock.
    pub fn epoch(&self) -> Duration {
        Self::since_1970().saturating_since(self.now())
    }

    /// The date by the machine's clock.
    pub fn date() -> UnixTime {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        UnixTime::from_millis(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
    }

    /// The time since 1970 by the machine's clock, to the nanosecond: as packets are stamped.
    pub fn since_1970() -> Instant {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Instant::from_nanos(u64::try_from(since.as_nanos()).unwrap_or(u64::MAX))
    }

    /// How long it is until then; zero when it is past.
    pub fn until(&self, then: Instant) -> Duration {
        then.saturating_since(self.now())
    }
}
