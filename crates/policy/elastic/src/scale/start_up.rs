//! Duration of server starts, and the earliest time of the next one.

use super::StartSettings;
use base::Instant;
use core::time::Duration;

/// Weight of the last start in the expected duration of the next.
const NEWEST: f64 = 0.25;

#[derive(Debug, Clone)]
pub(super) struct StartUp {
    /// Mean and mean deviation, seconds.
    mean: f64,
    deviation: f64,
    /// Failures in a row.
    failures: u32,
    not_before: Instant,
}

impl StartUp {
    pub(super) fn new(settings: &StartSettings) -> Self {
        let mean = settings.time.as_secs_f64();
        // A third: starts take from 1 to 2 minutes.
        Self { mean, deviation: mean / 3.0, failures: 0, not_before: Instant::ZERO }
    }

    /// Expected duration of a start, unless it is unusually long.
    pub(super) fn expected(&self, settings: &StartSettings) -> Duration {
        let seconds = (self.mean + self.deviation).max(0.0);
        Duration::from_secs_f64(seconds).min(settings.time_max)
    }

    pub(super) fn on_started(&mut self, took: Duration) {
        let took = took.as_secs_f64();
        self.deviation += NEWEST * ((took - self.mean).abs() - self.deviation);
        self.mean += NEWEST * (took - self.mean);
        self.failures = 0;
    }

    pub(super) fn on_failed(&mut self, now: Instant, settings: &StartSettings) {
        // Simultaneous failures count as one.
        if now < self.not_before {
            return;
        }
        let wait = settings.back_off.saturating_mul(1 << self.failures.min(20)).min(settings.back_off_max);
        self.failures = self.failures.saturating_add(1);
        self.not_before = now + wait;
    }

    pub(super) fn not_before(&self) -> Instant {
        self.not_before
    }

    pub(super) fn may_start(&self, now: Instant) -> bool {
        now >= self.not_before
    }
}
