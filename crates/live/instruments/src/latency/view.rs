//! The form of the JSON: a window, and the answer of `GET /api/windows`.

use super::Estimated;
use base::{Instant, UnixTime};
use monitor::{Counts, Latency};
use serde::Serialize;
use std::collections::BTreeMap;
use std::time::Duration;

/// A window that is over.
#[derive(Clone, Debug, Serialize)]
pub struct WindowView {
    /// Start, in UTC.
    pub start: String,
    /// End, in UTC.
    pub end: String,
    /// Statistics; `null` without measurements.
    pub latency_ms: Option<LatencyView>,
    /// Capacity after the window, in calls a second; missing if it is not estimated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub capacity: Option<f64>,
    /// Whether the monitor was late with the window: it may contain calls of other windows, and does not raise the
    /// capacity.
    pub late: bool,
    /// Requests that are unanswered at its end.
    pub waiting: usize,
    /// Age of the oldest request that is newer than every answered one, in milliseconds; `null` with fewer than two of
    /// them.
    pub oldest_ms: Option<f64>,
    /// Counts of the window.
    #[serde(flatten)]
    pub counts: BTreeMap<&'static str, u64>,
}

/// Statistics of a window's latencies, in milliseconds.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct LatencyView {
    /// Minimum.
    pub min: f64,
    /// Arithmetic mean.
    pub mean: f64,
    /// Standard deviation of the sample.
    pub deviation: f64,
    /// Estimated median.
    pub median: f64,
    /// 95th percentile.
    pub p95: f64,
    /// 99th percentile.
    pub p99: f64,
    /// Maximum.
    pub max: f64,
}

/// The answer to `GET /api/windows`.
#[derive(Clone, Debug, Serialize)]
pub struct WindowsView {
    /// Addresses of the measured server.
    pub servers: Vec<String>,
    /// The pairs of messages between which time is measured.
    pub pairing: String,
    /// Length of a window.
    pub window_seconds: f64,
    /// Counts since the start.
    pub totals: BTreeMap<&'static str, u64>,
    /// The last windows, the oldest first.
    pub windows: Vec<WindowView>,
}

/// Counts by their names.
pub fn counts(counts: &Counts) -> BTreeMap<&'static str, u64> {
    counts.all().map(|(name, _, count)| (name, count)).collect()
}

/// Milliseconds, to the nanosecond.
fn milliseconds(time: Duration) -> f64 {
    time.as_nanos() as f64 / 1e6
}

fn date(at: Instant) -> String {
    UnixTime::from_millis(at.as_nanos() / 1_000_000).rfc3339()
}

impl From<&Estimated> for WindowView {
    fn from(Estimated { report, capacity }: &Estimated) -> Self {
        Self {
            start: date(report.window.start),
            end: date(report.window.end),
            latency_ms: report.window.latency.map(Into::into),
            capacity: *capacity,
            late: report.is_late,
            waiting: report.waiting,
            oldest_ms: report.oldest.map(milliseconds),
            counts: counts(&report.counts),
        }
    }
}

impl From<Latency> for LatencyView {
    fn from(latency: Latency) -> Self {
        let Latency { min, mean, deviation, median, p95, p99, max } = latency;
        Self {
            min: milliseconds(min),
            mean: milliseconds(mean),
            deviation: milliseconds(deviation),
            median: milliseconds(median),
            p95: milliseconds(p95),
            p99: milliseconds(p99),
            max: milliseconds(max),
        }
    }
}
