//! Compares the model with whole nodes on bytes: the same scenario with the same fault must lose as many calls.

use config::scenario::Scenario;
use swarm::{Honest, World};

/// A balancer with this policy and three servers, 60 calls a second of this duration, and a restart of one host.
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

/// Results to compare.
struct Shown {
    /// Fraction of calls that did not fail.
    survived: f64,
    /// Mean time from INVITE to 2xx, in ms.
    response: f64,
}

/// Runs the scenario in the model and on bytes.
fn run(scenario: &Scenario) -> [Shown; 2] {
    let results = sim::model::run(scenario, 1);
    let (model, outcomes) = (&results.streams[0], results.streams[0].outcomes);
    let plan = swarm::scenario::plan(scenario).unwrap_or_else(|refused| panic!("{refused}"));
    let wire = World::new(plan, Honest).run().expect("no rule is broken").callers;
    // On bytes all calls end. In the model some still talk at the end of the run; they would succeed.
    let failed = [outcomes.ended() - outcomes.completed, wire.calls_started - wire.calls_completed];
    println!("{outcomes:?} of {}, {failed:?} failed", model.calls);
    [
        Shown {
            survived: 1.0 - failed[0] as f64 / model.calls as f64,
            response: 1e3 * model.answer_delay.mean().as_secs_f64(),
        },
        Shown {
            survived: 1.0 - failed[1] as f64 / wire.calls_started as f64,
            response: wire.invite_response.mean_us() / 1e3,
        },
    ]
}

/// Checks that the fractions differ by at most `tolerance`, and lie within the expected cost of the fault.
#[track_caller]
fn agree(scenario: &Scenario, tolerance: f64, expected: std::ops::RangeInclusive<f64>) {
    let [model, wire] = run(scenario).map(|shown| shown.survived);
    println!("model {model:.4}, on bytes {wire:.4}");
    assert!((model - wire).abs() <= tolerance, "model {model:.4}, on bytes {wire:.4}");
    assert!(expected.contains(&model) && expected.contains(&wire), "model {model:.4}, on bytes {wire:.4}");
}

/// Of the calls in progress at 40 s, 60 a second of 20 s each, a third is at the server that restarts: 400 of 6,000.
#[test]
fn calls_of_a_server_that_restarts_are_lost() {
    agree(&scenario("tlwl", "20s", "app.2", "1s"), 0.005, 0.90..=0.95);
}

/// Loses those calls, and no others: new calls go to the dead server until probes find it, but move since they have no
/// response.
#[test]
fn a_dead_server_gets_no_new_calls() {
    agree(&scenario("tlwl", "20s", "app.2", "30s"), 0.01, 0.80..=0.95);
}

/// A hash sends a third of all new calls to a dead server, until it is found dead.
#[test]
fn calls_hashed_to_a_dead_server_go_to_others() {
    agree(&scenario("hash", "2s", "app.2", "50s"), 0.005, 0.97..=0.999);
}

/// At 30 to 90 % of the servers' capacity. Near saturation, responses wait for about T1 (RFC 3261 §17.1.1.1) and
/// INVITEs are retransmitted. The server's handling of retransmissions then decides its capacity.
#[test]
fn servers_answer_as_soon_as_on_bytes() {
    for (policy, rate) in
        [("tlwl", 12), ("tlwl", 24), ("tlwl", 36), ("cjsq", 36), ("round-robin", 36), ("hash", 32)]
    {
        let text = format!(
            "[run]\nduration = \"5m\"\nwarm_up = \"0s\"\n\
             [host.front]\nrole = \"balancer\"\npolicy = \"{policy}\"\ncapacity = \"unlimited\"\nprobes = false\n\
             [host.app]\nrole = \"server\"\ncount = 4\ncapacity = 10\n\
             [calls.main]\npath = [\"front\", \"app\"]\nrate = {rate}\nholding = \"1s\"\n"
        );
        let scenario = config::scenario::parse(&text, "near.toml").expect("a right scenario");
        let [model, wire] = run(&scenario);
        println!(
            "{policy}, {rate}/s: {:.1} ms in the model, {:.1} ms on bytes",
            model.response, wire.response
        );
        let (one, other) = (model.survived, wire.survived);
        assert!((one - other).abs() < 0.01, "{policy}, {rate}/s: {one:.4} in the model, {other:.4} on bytes");
        let (one, other) = (model.response, wire.response);
        assert!(
            (one / other - 1.0).abs() < 0.15,
            "{policy}, {rate}/s: {one:.1} ms in the model, {other:.1} ms on bytes"
        );
    }
}

/// Tokens lead requests to their servers after the session table is lost.
#[test]
fn a_balancer_that_restarts_loses_no_call() {
    agree(&scenario("cjsq", "20s", "front", "1s"), 0.0, 1.0..=1.0);
}
