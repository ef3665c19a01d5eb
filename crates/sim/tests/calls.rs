//! The typed model: calls through real machines on virtual hosts.

use config::scenario::{Costs, Group, Run, Scenario, Stream, Timers};
use std::time::Duration;

fn topology_1(capacity: f64, rate: f64, seconds: u64) -> Scenario {
    Scenario {
        title: "topology 1".to_owned(),
        run: Run { duration: Duration::from_secs(seconds), warm_up: Duration::ZERO, ..Run::default() },
        costs: Costs::default(),
        timers: Timers::default(),
        groups: vec![Group::proxies("server", 1, capacity)],
        streams: vec![Stream::of_paper("calls", vec![0], rate)],
        links: Vec::new(),
        faults: Vec::new(),
    }
}

#[test]
fn a_light_load_completes_every_call_and_leaves_nothing() {
    let mut scenario = topology_1(160.0, 20.0, 2_000);
    scenario.streams[0].load.push(config::scenario::Step {
        at: Duration::from_secs(500),
        rate: 0.0,
        ramp: false,
    });
    let results = sim::model::run(&scenario, 1);
    let stream = &results.streams[0];
    assert_eq!(stream.outcomes.completed, stream.calls);
    assert!(stream.calls > 9_000, "{}", stream.calls);
    // A call in progress lasts longer than 1,500 s once in three million.
    assert_eq!((results.calls_left, results.transactions_left), (0, 0));
    // INVITE, ACK, BYE and their responses at the server; INVITE, BYE, ACK at the callee, 100, 180, 200, 200 at the caller.
    assert_eq!(results.messages, stream.calls * 13);
}

#[test]
fn the_same_seed_gives_the_same_run() {
    let scenario = topology_1(160.0, 170.0, 200);
    let digest = |seed| sim::model::run(&scenario, seed).trace;
    assert_eq!(digest(1), digest(1));
    assert_ne!(digest(1), digest(2));
}
