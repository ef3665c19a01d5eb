//! The HTTP interface of a monitor: metrics for Prometheus, and the last windows as JSON.

use ::monitor::MonitorSettings;
use axum::extract::State;
use axum::http::header;
use axum::response::IntoResponse;
use axum::routing::get;
use axum::{Json, Router};
use instruments::latency::Estimated;
use instruments::latency::view::{WindowView, WindowsView, counts};
use instruments::sender::Target;
use server::admin::serve_open;
use server::figures::process;
use server::figures::text::Page;
use sockets::cannot_listen;
use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::net::TcpListener;

/// Windows that are kept: five minutes of windows of a second.
const KEPT: usize = 300;

/// Figures of the page.
pub(super) struct Shown {
    servers: Vec<String>,
    pairing: String,
    window: Duration,
    started: Instant,
    /// Balancers that get the capacity.
    targets: Vec<Arc<Target>>,
    past: Mutex<Past>,
}

#[derive(Default)]
struct Past {
    windows: VecDeque<Estimated>,
    /// Sum over all windows so far.
    latency_sum: Duration,
}

impl Shown {
    pub(super) fn new(settings: &MonitorSettings, targets: Vec<Arc<Target>>) -> Self {
        Self {
            servers: settings.servers.addresses().iter().map(ToString::to_string).collect(),
            pairing: settings.pairing.to_string(),
            window: settings.window,
            started: Instant::now(),
            targets,
            past: Mutex::default(),
        }
    }

    /// Adds a window that is over.
    pub(super) fn add(&self, estimated: &Estimated) {
        let report = &estimated.report;
        let mut past = self.past.lock().unwrap_or_else(PoisonError::into_inner);
        if past.windows.len() == KEPT {
            past.windows.pop_front();
        }
        if let Some(latency) = report.window.latency {
            let nanos = latency.mean.as_nanos().saturating_mul(report.window.count.into());
            let sum = Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX));
            past.latency_sum = past.latency_sum.saturating_add(sum);
        }
        past.windows.push_back(*estimated);
    }

    fn windows(&self) -> WindowsView {
        let past = self.past.lock().unwrap_or_else(PoisonError::into_inner);
        let totals = past.windows.back().map(|window| window.report.totals).unwrap_or_default();
        WindowsView {
            servers: self.servers.clone(),
            pairing: self.pairing.clone(),
            window_seconds: self.window.as_secs_f64(),
            totals: counts(&totals),
            windows: past.windows.iter().map(WindowView::from).collect(),
        }
    }

    fn metrics(&self) -> String {
        let mut page = Page::default();
        let (Estimated { report: last, capacity }, sum) = {
            let past = self.past.lock().unwrap_or_else(PoisonError::into_inner);
            (past.windows.back().copied().unwrap_or_default(), past.latency_sum)
        };
        for (name, help, count) in last.totals.all() {
            page.counter(&format!("sarabande_monitor_{name}_total"), &format!("{help}.")).sample(&[], count);
        }
        page.counter("sarabande_monitor_latency_seconds_total", "Sum of all measured latencies.")
            .sample(&[], sum.as_secs_f64());
        page.gauge("sarabande_monitor_waiting", "Requests without an answer at the end of the last window.")
            .sample(&[], last.waiting);
        page.gauge(
            "sarabande_monitor_oldest_seconds",
            "Age of the oldest request newer than every answered one; 0 with fewer than two.",
        )
        .sample(&[], last.oldest.unwrap_or_default().as_secs_f64());
        page.gauge("sarabande_monitor_window_measured", "Latencies in the last window.")
            .sample(&[], last.window.count);
        let mut family = page.gauge(
            "sarabande_monitor_window_latency_seconds",
            "Statistics of the latencies in the last completed window; absent without latencies.",
        );
        if let Some(latency) = last.window.latency {
            for (statistic, time) in [
                ("min", latency.min),
                ("mean", latency.mean),
                ("deviation", latency.deviation),
                ("median", latency.median),
                ("p95", latency.p95),
                ("p99", latency.p99),
                ("max", latency.max),
            ] {
                family.sample(&[("statistic", statistic)], time.as_secs_f64());
            }
        }
        if let Some(capacity) = capacity {
            page.gauge("sarabande_monitor_capacity", "Estimated capacity of the server, in calls a second.")
                .sample(&[], capacity);
        }
        self.targets(&mut page);
        process::put(&mut page, self.started.elapsed().as_secs_f64());
        page.finish()
    }

    /// Writes the metrics of the balancers that get the capacity.
    fn targets(&self, page: &mut Page) {
        if self.targets.is_empty() {
            return;
        }
        let help = "1 if the balancer accepts updates of the capacity.";
        let mut up = page.gauge("sarabande_monitor_report_up", help);
        for target in &self.targets {
            up.sample(&[("balancer", &target.name)], u8::from(target.is_up.load(Ordering::Relaxed)));
        }
        let help = "Capacity updates that the balancer has accepted.";
        let mut accepted = page.counter("sarabande_monitor_updates_total", help);
        for target in &self.targets {
            accepted.sample(&[("balancer", &target.name)], target.accepted.load(Ordering::Relaxed));
        }
        let help = "Connections to the balancer that failed.";
        let mut failed = page.counter("sarabande_monitor_report_failures_total", help);
        for target in &self.targets {
            failed.sample(&[("balancer", &target.name)], target.failed.load(Ordering::Relaxed));
        }
    }
}

/// Starts the HTTP server at this address.
pub(super) async fn start(address: SocketAddr, shown: Arc<Shown>) -> io::Result<SocketAddr> {
    let listener = TcpListener::bind(address)
        .await
        .map_err(|error| cannot_listen(address, &error, "`ss -ltnp` shows the process that uses it"))?;
    let address = listener.local_addr()?;
    let routes = Router::new()
        .route("/metrics", get(metrics))
        .route("/api/windows", get(windows))
        .route("/healthz", get(async || "alive\n"))
        .with_state(shown);
    tokio::spawn(serve_open(listener, routes));
    Ok(address)
}

async fn metrics(State(shown): State<Arc<Shown>>) -> impl IntoResponse {
    ([(header::CONTENT_TYPE, "text/plain; version=0.0.4")], shown.metrics())
}

async fn windows(State(shown): State<Arc<Shown>>) -> Json<WindowsView> {
    Json(shown.windows())
}

#[cfg(test)]
mod tests {
    use super::*;
    use ::monitor::{Counts, Latency, Pairing, Servers, Window, WindowReport};

    fn shown() -> Shown {
        let servers = Servers::new(vec!["127.0.0.1:5060".parse().unwrap()]);
        let target =
            Target { name: "edge:8061".to_owned(), is_up: true.into(), accepted: 7.into(), failed: 2.into() };
        Shown::new(&MonitorSettings::new(servers, Pairing::Header("X-Id".to_owned())), vec![Arc::new(target)])
    }

    fn report(number: u64, micros: Option<u64>) -> Estimated {
        let time = |factor| Duration::from_micros(micros.unwrap_or_default() * factor);
        let latency = Latency {
            min: time(1),
            mean: time(2),
            deviation: time(1),
            median: time(2),
            p95: time(3),
            p99: time(4),
            max: time(5),
        };
        let at = |number: u64| base::Instant::from_millis(number * 1000);
        let count = if micros.is_some() { 10 } else { 0 };
        let report = WindowReport {
            window: Window {
                start: at(number),
                end: at(number + 1),
                count,
                latency: micros.map(|_| latency),
            },
            counts: Counts { measured: count, ..Counts::default() },
            totals: Counts { measured: number * 10, dropped: 3, ..Counts::default() },
            waiting: 2,
            oldest: Some(time(2_500)),
            is_late: false,
        };
        Estimated { report, capacity: Some(312.5) }
    }

    #[test]
    fn metrics_are_of_the_last_window_and_totals() {
        let shown = shown();
        assert!(shown.metrics().contains("sarabande_monitor_measured_total 0\n"));
        shown.add(&report(1, Some(100)));
        shown.add(&report(2, Some(50)));
        let page = shown.metrics();
        for line in [
            "sarabande_monitor_measured_total 20",
            "sarabande_monitor_dropped_total 3",
            "sarabande_monitor_latency_seconds_total 0.003",
            "sarabande_monitor_waiting 2",
            "sarabande_monitor_oldest_seconds 0.125",
            "sarabande_monitor_capacity 312.5",
            "sarabande_monitor_report_up{balancer=\"edge:8061\"} 1",
            "sarabande_monitor_updates_total{balancer=\"edge:8061\"} 7",
            "sarabande_monitor_report_failures_total{balancer=\"edge:8061\"} 2",
            "sarabande_monitor_window_measured 10",
            "sarabande_monitor_window_latency_seconds{statistic=\"min\"} 0.00005",
            "sarabande_monitor_window_latency_seconds{statistic=\"p95\"} 0.00015",
        ] {
            assert!(page.contains(&format!("\n{line}\n")), "{line} in {page}");
        }
        shown.add(&report(3, None));
        assert!(!shown.metrics().contains("statistic="));
    }

    #[test]
    fn the_last_windows_are_kept() {
        let shown = shown();
        for number in 0..KEPT as u64 + 5 {
            shown.add(&report(number, Some(100)));
        }
        let json = serde_json::to_value(shown.windows()).unwrap();
        assert_eq!(
            (json["pairing"].as_str(), json["servers"][0].as_str()),
            (Some("header:X-Id"), Some("127.0.0.1:5060"))
        );
        let windows = json["windows"].as_array().unwrap();
        assert_eq!((windows.len(), windows[0]["start"].as_str()), (KEPT, Some("1970-01-01T00:00:05.000Z")));
        assert_eq!(
            (windows[0]["measured"].as_u64(), windows[0]["latency_ms"]["p99"].as_f64()),
            (Some(10), Some(0.4))
        );
        assert_eq!(json["totals"]["dropped"], 3);
    }
}
