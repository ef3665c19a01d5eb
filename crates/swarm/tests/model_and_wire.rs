//! The model against the whole node on bytes: the same scenario with the same fault ends as many calls well.

use config::scenario::Scenario;
use swarm::{Honest, World};

/// A balancer of this policy before three servers, sixty calls a second of this length, and a restart.
fn scenario(policy: &str, holding: &str, host: &str, restart: &str) -> Scenario {
    let text = format!(
        "[run]\nduration = \"100s\"\nwarm_up = \"0s\"\n\
         [host.front]\nrole = \"balancer\"\npolicy = \"{policy}\"\ncapacity = \"unlimited\"\n\
         [host.app]\nrole = \"server\"\ncount = 3\ncapacity = 300\n\
         [calls.main]\npath = [\"front\", \"app\"]\nrate = 60\nholding = \"{holding}\"\n\
         [[fault]]\nhost = \"{host}\"\nat = \"40s\"\nrestart = \"{restart}\"\n"
    );
    config::scenario::parse(&text, "test.toml").unwrap_or_else(|errors| panic!("{errors}"))
}

/// Parts of the calls that did not fail: in the model, on bytes.
fn survived(scenario: &Scenario) -> [f64; 2] {
    let results = sim::model::run(scenario, 1);
    let (model, outcomes) = (&results.streams[0], results.streams[0].outcomes);
    let plan = swarm::scenario::plan(scenario).unwrap_or_else(|refused| panic!("{refused}"));
    let wire = World::new(plan, Honest).run().expect("no rule is broken").callers;
    // On bytes all end; in the model those are left that talk when the time is over, and they would end well.
    let failed = [outcomes.ended() - outcomes.completed, wire.calls_started - wire.calls_completed];
    println!("{outcomes:?} of {}, {failed:?} failed", model.calls);
    [failed[0] as f64 / model.calls as f64, failed[1] as f64 / wire.calls_started as f64]
        .map(|part| 1.0 - part)
}

/// Both are within `tolerance` of each other, and within what the fault must cost.
#[track_caller]
fn agree(scenario: &Scenario, tolerance: f64, expected: std::ops::RangeInclusive<f64>) {
    let [model, wire] = survived(scenario);
    println!("model {model:.4}, on bytes {wire:.4}");
    assert!((model - wire).abs() <= tolerance, "model {model:.4}, on bytes {wire:.4}");
    assert!(expected.contains(&model) && expected.contains(&wire), "model {model:.4}, on bytes {wire:.4}");
}

/// A third of the calls that go on at 40 s, 60 a second of 20 s each, are of the server that restarts: 400 of 6,000.
#[test]
fn calls_of_a_server_that_restarts_are_lost() {
    agree(&scenario("tlwl", "20s", "app.2", "1s"), 0.005, 0.90..=0.95);
}

/// Those, and no others: new ones go there until probes find it dead, but nobody has answered them, so they move.
#[test]
fn a_dead_server_gets_no_new_calls() {
    agree(&scenario("tlwl", "20s", "app.2", "30s"), 0.01, 0.80..=0.95);
}

/// Where a third of all new calls would go on to a dead server.
#[test]
fn what_a_hash_gave_to_a_dead_server_goes_elsewhere() {
    agree(&scenario("hash", "2s", "app.2", "50s"), 0.005, 0.97..=0.999);
}

/// Tokens lead calls on where the table is gone.
#[test]
fn a_balancer_that_restarts_loses_no_call() {
    agree(&scenario("cjsq", "20s", "front", "1s"), 0.0, 1.0..=1.0);
}
