//! Servers that are started and stopped.

use super::Figure;
use super::text::Page;
use crate::admin::view::ScaleView;

/// States of servers, as [`ScaleView`] has them.
const STATES: [&str; 6] = ["off", "starting", "ready", "draining", "stopping", "gone"];

pub(super) fn put(page: &mut Page, scales: &[ScaleView]) {
    let mut servers = page.gauge("sarabande_scale_servers", "Servers of a pool by state.");
    for scale in scales {
        for state in STATES {
            let count = scale.servers.iter().filter(|server| server.state == state).count();
            servers.sample(&[("pool", &scale.pool), ("state", state)], count);
        }
    }
    let gauges: [Figure<ScaleView, f64>; 8] = [
        ("sarabande_scale_servers_wanted", "Servers that there should be.", |s| s.wanted as f64),
        ("sarabande_scale_rate", "New requests a second, refused ones too, averaged.", |s| s.rate),
        ("sarabande_scale_capacity", "Requests a second that its members carry.", |s| s.capacity),
        ("sarabande_scale_utilisation", "The rate as part of the capacity.", |s| s.utilisation),
        ("sarabande_scale_cluster_latency", "1 while most servers carry less than they use to.", |s| {
            f64::from(u8::from(s.cluster_latency))
        }),
        ("sarabande_scale_servers_short", "Servers that are needed beyond those that there may be.", |s| {
            s.short.map_or(0, |needed| needed.saturating_sub(s.most)) as f64
        }),
        ("sarabande_scale_driver_trouble", "1 while the driver does not do what it is asked.", |s| {
            f64::from(u8::from(s.trouble.is_some()))
        }),
        ("sarabande_scale_retry_seconds", "Until the driver is asked again.", |s| s.retry_seconds),
    ];
    for (name, help, value) in gauges {
        let mut family = page.gauge(name, help);
        for scale in scales {
            family.sample(&[("pool", &scale.pool), ("driver", &scale.driver)], value(scale));
        }
    }
    let mut decisions = page.counter("sarabande_scale_decisions_total", "Decisions about servers by kind.");
    for scale in scales {
        for (kind, count) in scale.decisions.named() {
            decisions.sample(&[("pool", &scale.pool), ("kind", kind)], count);
        }
    }
    let name = "sarabande_scale_driver_failures_total";
    let mut failures = page.counter(name, "What the driver of a pool was asked and failed to do.");
    for scale in scales {
        failures.sample(&[("pool", &scale.pool), ("driver", &scale.driver)], scale.driver_failures_total);
    }
}
