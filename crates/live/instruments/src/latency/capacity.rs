//! Estimates the capacity of the server from the windows of the monitor.

use base::Instant;
use elastic::estimate::{Estimator, EstimatorSettings, ServerWindow};
use monitor::WindowReport;

/// The capacity of the server, estimated window by window.
#[derive(Debug)]
pub struct CapacityEstimate {
    settings: EstimatorSettings,
    estimator: Option<Estimator>,
    /// Whether any latency was measured so far.
    has_measured: bool,
}

/// A closed window, and the estimate of the capacity after it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Estimated {
    /// The measurements.
    pub report: WindowReport,
    /// Capacity in calls a second; `None` without an estimator.
    pub capacity: Option<f64>,
}

impl CapacityEstimate {
    /// An estimate without measurements.
    pub fn new(settings: EstimatorSettings) -> Self {
        Self { settings, estimator: None, has_measured: false }
    }

    /// Takes the next window, and returns the capacity of the server in calls a second. Requests without a latency show
    /// that the server has stopped answering, but only if latencies were measured before. Otherwise the server may not
    /// forward INVITEs, or its outgoing messages are not captured here. A late window never raises the capacity,
    /// because it may contain the calls of several seconds.
    pub fn take(&mut self, report: &WindowReport) -> f64 {
        let now = report.window.end;
        let estimator =
            self.estimator.get_or_insert_with(|| Estimator::new(report.window.start, self.settings));
        self.has_measured |= report.window.latency.is_some();
        let window = seen(report, report.window.start);
        let window = if self.has_measured { window } else { ServerWindow::EMPTY };
        if report.is_late {
            estimator.on_late_window(now, &window)
        } else {
            estimator.on_window(now, &window)
        }
    }
}

/// The window as the laws take it. A request that the server answers itself, with 407 or 404, has no latency and shows
/// no load. A window of such requests only has no effect.
fn seen(report: &WindowReport, start: Instant) -> ServerWindow {
    let seconds = report.window.end.saturating_since(start).as_secs_f64();
    let goodput = if seconds > 0.0 { report.window.count as f64 / seconds } else { 0.0 };
    ServerWindow {
        calls: report.counts.requests.saturating_sub(report.counts.refused),
        p95: report.window.latency.map(|latency| latency.p95),
        goodput,
        oldest: report.oldest,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::time::Duration;
    use elastic::estimate::CapacityLaw;
    use monitor::{Counts, Latency};

    /// A window that starts at this second, with `calls` calls and this latency.
    fn report(second: u64, calls: u64, p95: Option<Duration>) -> WindowReport {
        let time = p95.unwrap_or_default();
        let latency =
            Latency { min: time, mean: time, deviation: time, median: time, p95: time, p99: time, max: time };
        let at = |second: u64| Instant::from_millis(second * 1000);
        let count = if p95.is_some() { calls } else { 0 };
        WindowReport {
            window: monitor::Window {
                start: at(second),
                end: at(second + 1),
                count,
                latency: p95.map(|_| latency),
            },
            counts: Counts { requests: calls, measured: count, ..Counts::default() },
            ..WindowReport::default()
        }
    }

    fn estimate(law: CapacityLaw) -> CapacityEstimate {
        CapacityEstimate::new(EstimatorSettings { law, ..EstimatorSettings::default() })
    }

    #[test]
    fn slow_responses_lower_and_quick_ones_raise_the_capacity() {
        for law in [CapacityLaw::Proven, CapacityLaw::Smace] {
            let mut slow = estimate(law);
            let mut quick = estimate(law);
            let (mut less, mut more) = (0.0, 0.0);
            for second in 0..30 {
                less = slow.take(&report(second, 240, Some(Duration::from_millis(3))));
                more = quick.take(&report(second, 240, Some(Duration::from_micros(100))));
            }
            assert!(less < 240.0 && more > 250.0, "{law:?}: {less} {more}");
        }
    }

    #[test]
    fn goodput_is_per_second_for_any_window_length() {
        let mut long = report(0, 500, Some(Duration::from_micros(500)));
        long.window.end = Instant::from_millis(10_000);
        let window = seen(&long, long.window.start);
        assert_eq!((window.calls, window.p95), (500, Some(Duration::from_micros(500))));
        assert!((window.goodput - 50.0).abs() < 1e-9);
    }

    /// An attack on passwords, or calls to unknown users, are no sign of load.
    #[test]
    fn requests_refused_by_the_server_do_not_lower_the_capacity() {
        let mut estimate = estimate(CapacityLaw::Proven);
        for second in 0..20 {
            let refused = report(second, 300, None);
            let refused = WindowReport { counts: Counts { refused: 300, ..refused.counts }, ..refused };
            let capacity = estimate.take(&refused);
            assert!((capacity - 250.0).abs() < 1e-9, "{capacity}");
        }
        let mut stuck = self::estimate(CapacityLaw::Proven);
        stuck.take(&report(0, 100, Some(Duration::from_micros(100))));
        let last = (1..20).map(|second| stuck.take(&report(second, 300, None))).last();
        assert!(
            last.is_some_and(|capacity| capacity < 100.0),
            "unanswered requests lower the capacity: {last:?}"
        );
    }

    /// A monitor that was stopped has the calls of several seconds in one window.
    #[test]
    fn a_late_window_may_only_lower_the_capacity() {
        for law in [CapacityLaw::Proven, CapacityLaw::Smace] {
            let mut estimate = estimate(law);
            let late = |second, p95| WindowReport { is_late: true, ..report(second, 1_250, Some(p95)) };
            let mut before = estimate.take(&report(0, 240, Some(Duration::from_micros(100))));
            for second in 1..40 {
                let capacity = estimate.take(&late(second, Duration::from_micros(100)));
                assert!(capacity <= before, "{law:?}, second {second}: {capacity}");
            }
            // Its calls do not count later either.
            let mut other = self::estimate(law);
            other.take(&report(0, 240, Some(Duration::from_micros(100))));
            for second in 1..40 {
                other.take(&report(second, 0, None));
            }
            for second in 40..60 {
                let next = report(second, 240, Some(Duration::from_micros(100)));
                before = estimate.take(&next);
                assert!((before - other.take(&next)).abs() < 1e-9, "{law:?}, second {second}: {before}");
            }
            let slow = (60..80).map(|second| estimate.take(&late(second, Duration::from_millis(5)))).last();
            assert!(slow.is_some_and(|slow| slow < 0.91 * before), "{law:?}: {slow:?}");
        }
    }

    /// Beside a server that does not forward INVITEs there is nothing to pair.
    #[test]
    fn without_measurements_the_capacity_is_kept() {
        for law in [CapacityLaw::Proven, CapacityLaw::Smace] {
            let mut estimate = estimate(law);
            for second in 0..20 {
                let capacity = estimate.take(&report(second, 300, None));
                assert!((capacity - 250.0).abs() < 1e-9, "{law:?}: {capacity}");
            }
        }
    }
}
