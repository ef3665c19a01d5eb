//! Networks of the Overload paper (section IV-C), and loads that rise and change in steps.

use base::Instant;
use config::scenario::{Group, Scenario, Stream};
use core::time::Duration;
use load::{RandomTime, RateStep};

/// Number of edge servers in topologies 2 to 4: the paper's M, which is 4 "for example".
pub(super) const EDGES: u16 = 4;
/// Number of core servers of a domain.
pub(super) const CORES: u16 = 2;
/// Capacity of a server in calls per second, unless a figure states another.
pub(super) const CAPACITY: f64 = 160.0;

/// Returns the instant at this many seconds after the start of a run.
pub(super) fn at(seconds: u64) -> Instant {
    Instant::ZERO + Duration::from_secs(seconds)
}

/// Topology 1: one server between callers and callees.
pub(super) fn one(seconds: u64) -> Scenario {
    let groups = vec![Group::proxies("server", 1, CAPACITY)];
    Scenario::new(groups, vec![Stream::of_paper("calls", vec![0], 0.0)], Duration::from_secs(seconds))
}

/// Topology 2 with the capacities of section V-B: edge servers, and two gateways, each behind its own core server.
/// Streams 0 and 1 are the calls from and to gateway 1, streams 2 and 3 those of gateway 2.
pub(super) fn gateways(seconds: u64) -> Scenario {
    let groups = vec![
        Group::proxies("edge", EDGES, 80.0),
        Group::proxies("core 1", 1, 80.0),
        Group::proxies("core 2", 1, CAPACITY),
        Group::proxies("gateway 1", 1, CAPACITY),
        Group::proxies("gateway 2", 1, CAPACITY),
    ];
    let streams = vec![
        Stream::of_paper("from gateway 1", vec![3, 1, 0], 0.0),
        Stream::of_paper("to gateway 1", vec![0, 1, 3], 0.0),
        Stream::of_paper("from gateway 2", vec![4, 2, 0], 0.0),
        Stream::of_paper("to gateway 2", vec![0, 2, 4], 0.0),
    ];
    Scenario::new(groups, streams, Duration::from_secs(seconds))
}

/// Topology 3: edge servers that are connected through all core servers.
pub(super) fn core(seconds: u64) -> Scenario {
    let groups = vec![Group::proxies("edge", EDGES, CAPACITY), Group::proxies("core", CORES, CAPACITY)];
    let calls = Stream::of_paper("calls", vec![0, 1, 0], 0.0);
    Scenario::new(groups, vec![calls], Duration::from_secs(seconds))
}

/// Topology 4: two domains of topology 3. All calls go from one domain to the other, half in each direction.
pub(super) fn domains(seconds: u64) -> Scenario {
    let groups = vec![
        Group::proxies("edge A", EDGES, CAPACITY),
        Group::proxies("core A", CORES, CAPACITY),
        Group::proxies("core B", CORES, CAPACITY),
        Group::proxies("edge B", EDGES, CAPACITY),
    ];
    let streams = vec![
        Stream::of_paper("A to B", vec![0, 1, 2, 3], 0.0),
        Stream::of_paper("B to A", vec![3, 2, 1, 0], 0.0),
    ];
    Scenario::new(groups, streams, Duration::from_secs(seconds))
}

/// Sets the total load of all streams, in equal parts. It starts at `from` calls per second and doubles every
/// `doubling` seconds until `to`. Between two doublings it rises linearly.
pub(super) fn rise(scenario: &mut Scenario, from: f64, to: f64, doubling: f64) {
    let streams = scenario.streams.len() as f64;
    let mut steps = Vec::new();
    let (mut at, mut rate) = (0.0, from);
    while rate < to {
        steps.push(RateStep { at: Duration::from_secs_f64(at), rate: rate / streams, ramp: true });
        let next = (2.0 * rate).min(to);
        at += doubling * (next / rate).log2();
        rate = next;
    }
    steps.push(RateStep { at: Duration::from_secs_f64(at), rate: to / streams, ramp: false });
    scenario.streams.iter_mut().for_each(|stream| stream.load.clone_from(&steps));
}

/// Returns a load with steps of `(from second, calls per second)`.
pub(super) fn steps(steps: &[(u64, f64)]) -> Vec<RateStep> {
    let step = |&(at, rate): &(u64, f64)| RateStep { at: Duration::from_secs(at), rate, ramp: false };
    steps.iter().map(step).collect()
}

/// Sets the mean of the exponential holding time of all calls.
pub(super) fn hold(scenario: &mut Scenario, seconds: u64) {
    for stream in &mut scenario.streams {
        stream.holding = RandomTime::Exponential(Duration::from_secs(seconds));
    }
}
