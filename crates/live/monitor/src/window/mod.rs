//! Statistics of the latencies of a window, in memory that does not grow with their number.
//!
//! [`Latencies`] does not depend on the capture: it takes any response times.
//!
//! | figure | how | error |
//! | --- | --- | --- |
//! | count, minimum, maximum | counted | none |
//! | mean, standard deviation | Welford | rounding |
//! | median | [`P2`] | that of the algorithm; none up to five latencies |
//! | 95th, 99th percentile | counts by value ([`Histogram`]), nearest rank | 0.1 % of the value, or 64 ns |
//!
//! The paper keeps the largest twentieth of all latencies in a sorted array, which it says does not scale; the counts
//! take 130 KB at any load.

mod moments;
mod p2;

pub use p2::P2;

use base::Instant;
use core::time::Duration;
use hdrhistogram::Histogram;
use moments::Moments;

/// Finest difference that the histogram resolves, in nanoseconds, and its largest value: an hour, longer than any
/// transaction.
const RANGE: (u64, u64) = (100, 3_600_000_000_000);
/// Significant digits of the histogram.
const DIGITS: u8 = 3;

/// Collects latencies, and returns the statistics of each window.
#[derive(Clone, Debug)]
pub struct Latencies {
    start: Instant,
    count: u64,
    min: Duration,
    max: Duration,
    moments: Moments,
    median: P2,
    values: Histogram<u32>,
}

/// Measurements from `start` to `end`.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Window {
    /// Start of the window.
    pub start: Instant,
    /// End of the window.
    pub end: Instant,
    /// Number of latencies.
    pub count: u64,
    /// Statistics; `None` without latencies.
    pub latency: Option<Latency>,
}

/// Statistics of at least one latency: `min <= median <= p95 <= p99 <= max`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Latency {
    /// Minimum.
    pub min: Duration,
    /// Arithmetic mean.
    pub mean: Duration,
    /// Standard deviation of the sample.
    pub deviation: Duration,
    /// Estimated median.
    pub median: Duration,
    /// 95th percentile.
    pub p95: Duration,
    /// 99th percentile.
    pub p99: Duration,
    /// Maximum.
    pub max: Duration,
}

impl Latencies {
    /// An empty window that starts now.
    pub fn new(now: Instant) -> Self {
        let values = Histogram::new_with_bounds(RANGE.0, RANGE.1, DIGITS).expect("the constants are bounds");
        Self {
            start: now,
            count: 0,
            min: Duration::MAX,
            max: Duration::ZERO,
            moments: Moments::default(),
            median: P2::new(0.5),
            values,
        }
    }

    /// Adds a latency.
    pub fn note(&mut self, latency: Duration) {
        let nanos = u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX);
        self.count += 1;
        self.min = self.min.min(latency);
        self.max = self.max.max(latency);
        self.moments.note(nanos as f64);
        self.median.note(nanos as f64);
        self.values.saturating_record(nanos);
    }

    /// Ends the window, and starts the next one.
    pub fn end(&mut self, now: Instant) -> Window {
        let window = Window { start: self.start, end: now, count: self.count, latency: self.latency() };
        (self.start, self.count) = (now, 0);
        if window.count > 0 {
            (self.min, self.max) = (Duration::MAX, Duration::ZERO);
            self.moments = Moments::default();
            self.median = P2::new(0.5);
            self.values.reset();
        }
        window
    }

    fn latency(&self) -> Option<Latency> {
        let median = nanos(self.median.estimate()?);
        let within = |time: Duration| time.clamp(self.min, self.max);
        // The histogram returns the upper end of a class of values that it does not distinguish.
        let percentile = |share| within(Duration::from_nanos(self.values.value_at_quantile(share)));
        let p95 = percentile(0.95);
        Some(Latency {
            min: self.min,
            mean: within(nanos(self.moments.mean())),
            deviation: nanos(self.moments.deviation()),
            // The estimate may exceed the better known percentile for unusual sequences.
            median: within(median).min(p95),
            p95,
            p99: percentile(0.99),
            max: self.max,
        })
    }
}

/// A non-negative number of nanoseconds.
fn nanos(nanos: f64) -> Duration {
    Duration::from_nanos(nanos.round() as u64)
}

#[cfg(test)]
mod tests;
