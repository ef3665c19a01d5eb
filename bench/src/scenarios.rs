//! Simulated models for measuring the simulator's speed.

use config::scenario::{Costs, Group, RunSettings, Scenario, Stream};
use core::time::Duration;
use proxy::ProxyTimers;

/// Capacity of the base server in calls a second.
const BASE: f64 = 160.0;
/// Calls a second offered to the single proxy.
const PROXY_RATE: f64 = 100.0;

/// `seconds` of one proxy with the base server's speed between its agents.
pub fn proxy(seconds: u64) -> Scenario {
    scenario(seconds, vec![Group::proxies("proxy", 1, BASE)], vec![0], PROXY_RATE)
}

/// `seconds` of topology 3 of the Overload paper at `rate` calls a second: eight edge proxies around two core proxies.
pub fn topology_3(seconds: u64, rate: f64) -> Scenario {
    let groups = vec![Group::proxies("edge", 8, BASE), Group::proxies("core", 2, BASE)];
    scenario(seconds, groups, vec![0, 1, 0], rate)
}

fn scenario(seconds: u64, groups: Vec<Group>, path: Vec<usize>, rate: f64) -> Scenario {
    Scenario {
        title: "speed".to_owned(),
        run: RunSettings {
            duration: Duration::from_secs(seconds),
            warm_up: Duration::ZERO,
            ..RunSettings::default()
        },
        costs: Costs { base_capacity: BASE, ..Costs::default() },
        timers: ProxyTimers::default(),
        groups,
        streams: vec![Stream::of_paper("calls", path, rate)],
        links: Vec::new(),
        faults: Vec::new(),
    }
}
