//! The typed model: calls through the real state machines on virtual hosts.

use balance::PolicyKind;
use config::scenario::{BalancerSettings, Group, HostRole, LinkFaults, Scenario, Stream};
use load::RandomTime;
use std::time::Duration;

fn topology_1(capacity: f64, rate: f64, seconds: u64) -> Scenario {
    let groups = vec![Group::proxies("server", 1, capacity)];
    Scenario::new(groups, vec![Stream::of_paper("calls", vec![0], rate)], Duration::from_secs(seconds))
}

#[test]
fn a_light_load_completes_every_call_and_leaves_nothing() {
    let mut scenario = topology_1(160.0, 20.0, 2_000);
    scenario.streams[0].load.push(load::RateStep { at: Duration::from_secs(500), rate: 0.0, ramp: false });
    let results = sim::model::run(&scenario, 1);
    let stream = &results.streams[0];
    assert_eq!(stream.outcomes.completed, stream.calls);
    assert!(stream.calls > 9_000, "{}", stream.calls);
    // A call in progress lasts longer than 1,500 s once in three million.
    assert_eq!((results.calls_left, results.transactions_left), (0, 0));
    // INVITE, ACK, BYE and their responses at the server; INVITE, BYE, ACK at the callee; 100, 180, 200, 200 at the
    // caller.
    assert_eq!(results.messages, stream.calls * 13);
}

/// Responses of a server take the path of their requests in reverse.
#[test]
fn a_link_to_the_servers_carries_their_answers_too() {
    let group = |name: &str, role| Group { role, ..Group::proxies(name, 1, 160.0) };
    let mut scenario = topology_1(160.0, 5.0, 100);
    let policy = HostRole::Balancer(BalancerSettings {
        policy: PolicyKind::RoundRobin,
        ..BalancerSettings::default()
    });
    scenario.groups = vec![group("balancer", policy), group("server", HostRole::Server)];
    scenario.streams[0].path = vec![0, 1];
    let answered_after = |delay: u64| {
        let mut scenario = scenario.clone();
        scenario.links.push(LinkFaults {
            from: Some(0),
            to: Some(1),
            until: scenario.run.duration,
            delay: Duration::from_millis(delay),
            ..LinkFaults::default()
        });
        sim::model::run(&scenario, 1).streams[0].answer_delay.mean()
    };
    let added = answered_after(50).saturating_sub(answered_after(0));
    assert!(added.abs_diff(Duration::from_millis(100)) < Duration::from_millis(5), "{added:?}");
}

/// A callee whose 2xx gets no ACK hangs up after 64*T1 (RFC 3261 §13.3.1.4). The response to its BYE goes to its server
/// and takes time there, like any response.
#[test]
fn responses_to_the_bye_of_a_callee_are_work_for_its_server() {
    let group = |name: &str, role| Group { role, ..Group::proxies(name, 1, 160.0) };
    let mut scenario = topology_1(160.0, 5.0, 100);
    let policy = HostRole::Balancer(BalancerSettings {
        policy: PolicyKind::RoundRobin,
        probes: false,
        ..BalancerSettings::default()
    });
    scenario.groups = vec![group("balancer", policy), group("server", HostRole::Server)];
    let stream = &mut scenario.streams[0];
    (stream.path, stream.answer) = (vec![0, 1], Duration::from_secs(2));
    stream.holding = RandomTime::Fixed(Duration::from_secs(1));
    stream.load.push(load::RateStep { at: Duration::from_secs(10), rate: 0.0, ramp: false });
    // Callers are cut off from the middle of the load on, and have given up when the link is back. All later work of
    // the server is for its callees' BYEs.
    let (since, heals) = (Duration::from_secs(5), Duration::from_mins(1));
    scenario.links.push(LinkFaults {
        from: None,
        to: Some(0),
        since,
        until: heals,
        loss: 1.0,
        ..LinkFaults::default()
    });
    let results = sim::model::run(&scenario, 1);
    let busy: f64 = results.hosts[1]
        .utilisation
        .iter()
        .filter(|(at, _)| *at > base::Instant::ZERO + heals)
        .map(|(_, share)| share)
        .sum();
    let (answer, bin) = (scenario.costs.server_request(), scenario.run.bin);
    let served = busy * bin.as_secs_f64() / answer.as_secs_f64() / scenario.costs.base_capacity * 160.0;
    assert!(served.round() >= 5.0 && (served - served.round()).abs() < 0.01, "{served} answers");
}

#[test]
fn the_same_seed_gives_the_same_run() {
    let scenario = topology_1(160.0, 170.0, 200);
    let digest = |seed| sim::model::run(&scenario, seed).trace;
    assert_eq!(digest(1), digest(1));
    assert_ne!(digest(1), digest(2));
}
