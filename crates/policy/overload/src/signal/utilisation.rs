//! Meter of processor occupancy.

use base::Instant;
use core::time::Duration;

/// Processor occupancy per period: busy time divided by period and workers.
///
/// The host reports the total busy time of its workers, for example from a clock of processor time. The meter takes the
/// difference between periods.
#[derive(Clone, Debug)]
pub struct Utilisation {
    period: Duration,
    workers: f64,
    start: Instant,
    /// Total busy time at `start`.
    busy: Duration,
}

impl Utilisation {
    /// Creates a meter that starts at `start` with a busy time of zero, and gives one value each `period` (above zero).
    pub fn new(start: Instant, period: Duration, workers: u32) -> Self {
        let period = period.max(Duration::from_nanos(1));
        Self { period, workers: f64::from(workers.max(1)), start, busy: Duration::ZERO }
    }

    /// End of the present period.
    pub fn deadline(&self) -> Instant {
        self.start + self.period
    }

    /// Occupancy of the period that is over by `now`; `None` if it is not over. `busy` is the total busy time of the
    /// workers. Call it at [`deadline`](Self::deadline); a later call makes the period longer.
    pub fn poll(&mut self, now: Instant, busy: Duration) -> Option<f64> {
        if now < self.deadline() {
            return None;
        }
        let length = now.saturating_since(self.start).as_nanos() as f64 * self.workers;
        let spent = busy.saturating_sub(self.busy).as_nanos() as f64;
        (self.start, self.busy) = (now, busy);
        Some((spent / length).min(1.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn the_occupancy_of_a_period_is_its_busy_time_over_all_workers() {
        let mut meter = Utilisation::new(Instant::ZERO, SECOND, 2);
        let at = Instant::from_millis;
        assert_eq!(meter.poll(at(999), SECOND), None);
        assert_eq!(meter.poll(at(1_000), SECOND), Some(0.5));
        assert_eq!(meter.poll(at(2_000), SECOND * 3), Some(1.0));
        assert_eq!(meter.poll(at(3_000), SECOND * 3), Some(0.0));
    }

    #[test]
    fn a_period_that_is_polled_late_counts_with_its_real_length() {
        let mut meter = Utilisation::new(Instant::ZERO, SECOND, 1);
        assert_eq!(meter.poll(Instant::from_millis(4_000), SECOND), Some(0.25));
        assert_eq!(meter.deadline(), Instant::from_millis(5_000));
    }
}
