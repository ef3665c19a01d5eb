//! The networks of the Overload paper (section IV-C), and the load that steps up and down again.

use base::Instant;
use config::scenario::{Group, Scenario, Stream};
use core::time::Duration;
use load::{RandomTime, RateStep};

/// Edge servers of topologies 2 to 4; the paper calls them M, and has 4 "for example".
pub(super) const EDGES: u16 = 4;
/// Core servers of a domain.
pub(super) const CORES: u16 = 2;
/// Calls a second that a server carries unless a figure says otherwise.
pub(super) const CAPACITY: f64 = 160.0;

/// Seconds from the begin of a run.
pub(super) fn at(seconds: u64) -> Instant {
    Instant::ZERO + Duration::from_secs(seconds)
}

/// Topology 1: one server, callers and callees around it.
pub(super) fn one(seconds: u64) -> Scenario {
    let groups = vec![Group::proxies("server", 1, CAPACITY)];
    Scenario::new(groups, vec![Stream::of_paper("calls", vec![0], 0.0)], Duration::from_secs(seconds))
}

/// Topology 2 with the capacities of section V-B: edge servers, and two gateways behind a core server each. Streams 0
/// and 1 are those of gateway 1, from it and to it, and 2 and 3 those of gateway 2.
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

/// Topology 3: edge servers, each with all core servers between them.
pub(super) fn core(seconds: u64) -> Scenario {
    let groups = vec![Group::proxies("edge", EDGES, CAPACITY), Group::proxies("core", CORES, CAPACITY)];
    let calls = Stream::of_paper("calls", vec![0, 1, 0], 0.0);
    Scenario::new(groups, vec![calls], Duration::from_secs(seconds))
}

/// Topology 4: two domains of topology 3, and all calls go from one to the other, as many each way.
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

/// Offers calls, all streams together in equal parts: at first `from` a second, from the begin of the run on more,
/// twice as many every `doubling` seconds, until it is `to`. Between two doublings the load rises in a straight line.
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

/// A load of `(from second, calls a second)`.
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
