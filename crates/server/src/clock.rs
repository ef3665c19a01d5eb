use base::Instant;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The one place where the real clock is read: monotonic time since the process started.
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

    /// Unix time of [`Instant::ZERO`] in seconds, by what the system's time is now: it may have been set since.
    pub fn epoch_unix(&self) -> u64 {
        let unix = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        unix.saturating_sub(self.origin.elapsed()).as_secs()
    }

    /// How long it is until then; zero when it is past.
    pub fn until(&self, then: Instant) -> Duration {
        then.saturating_since(self.now())
    }
}
