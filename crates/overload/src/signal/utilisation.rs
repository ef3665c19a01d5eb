use base::Instant;
use core::time::Duration;

/// Processor occupancy per period: busy time over period times workers.
///
/// The periods lie back to back from the moment the meter starts. The host notes each stretch of
/// busy time, ahead of time if it knows how long a service takes; what lies beyond a period is
/// carried into the next ones.
#[derive(Clone, Debug)]
pub struct Utilisation {
    period: Duration,
    workers: u32,
    end: Instant,
    /// Busy nanoseconds not yet counted to a finished period.
    busy: u128,
    /// Those of them that lie beyond the running period.
    beyond: u128,
    value: f64,
}

impl Utilisation {
    /// From `start` on, one value each `period` (above zero).
    pub fn new(start: Instant, period: Duration, workers: u32) -> Self {
        let period = period.max(Duration::from_nanos(1));
        Self { period, workers: workers.max(1), end: start + period, busy: 0, beyond: 0, value: 0.0 }
    }

    /// One worker is busy from `from` for `length`. `from` lies in the running period.
    pub fn busy(&mut self, from: Instant, length: Duration) {
        self.busy += length.as_nanos();
        self.beyond += (from + length).saturating_since(self.end.max(from)).as_nanos();
    }

    /// The end of the running period.
    pub const fn deadline(&self) -> Instant {
        self.end
    }

    /// The occupancy of the period that is over by `now`; `None` while none is. Call it at
    /// [`deadline`](Self::deadline); later calls catch up period by period.
    pub fn poll(&mut self, now: Instant) -> Option<f64> {
        if now < self.end {
            return None;
        }
        let room = self.period.as_nanos() * u128::from(self.workers);
        let done = self.busy - self.beyond;
        // A stall longer than a period fills the next one too, as far as it goes.
        let carried = self.beyond;
        self.busy = carried;
        self.beyond = carried.saturating_sub(room);
        self.value = (done as f64 / room as f64).min(1.0);
        self.end += self.period;
        Some(self.value)
    }

    /// The last value.
    pub const fn value(&self) -> f64 {
        self.value
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn busy_time_is_counted_where_it_lies() {
        let mut meter = Utilisation::new(Instant::ZERO, SECOND, 2);
        meter.busy(Instant::from_millis(200), Duration::from_millis(600));
        meter.busy(Instant::from_millis(800), Duration::from_millis(400));
        assert_eq!(meter.poll(Instant::from_millis(999)), None);
        assert!((meter.poll(Instant::from_millis(1_000)).unwrap() - 0.4).abs() < 1e-9);
        assert!((meter.poll(Instant::from_millis(2_000)).unwrap() - 0.1).abs() < 1e-9);
        assert_eq!(meter.poll(Instant::from_millis(3_000)), Some(0.0));
    }

    #[test]
    fn a_stall_fills_all_the_periods_that_it_lasts() {
        let mut meter = Utilisation::new(Instant::ZERO, SECOND, 1);
        meter.busy(Instant::from_millis(500), SECOND * 2);
        let values: Vec<_> = (1..=4).map(|s| meter.poll(Instant::from_millis(s * 1_000)).unwrap()).collect();
        assert_eq!(values, [0.5, 1.0, 0.5, 0.0]);
    }
}
