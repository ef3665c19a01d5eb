//! The simulator's word held against the program: the same calls live, and on bytes in virtual time.
//!
//! Servers are slow, so that a call waits for as long as T1 where they are nearly busy: what a machine with other
//! work adds to a live call is little beside that, and every run has to agree.

use sarabande_tests::{RunningBalancer, RunningTool, TestSettings, TestSite, Tool};
use serde_json::Value;
use std::fs;
use swarm::{Honest, World};

/// How many servers there are, and where the first one is.
const SERVERS: u8 = 4;
const FIRST: u8 = 11;
/// Calls a second that each carries. Of the 1/4 s of a call the INVITE takes 1.75 parts, the BYE one.
const CAPACITY: f64 = 4.0;
/// The same as a time: that of a BYE.
const SERVICE: &str = "90909us";
/// How long calls are made live.
const SECONDS: u32 = 25;
/// Part by which a mean response time may differ.
const NEAR: f64 = 0.15;
/// T1 in ms: a request that has waited for so long comes again (RFC 3261 §17.1.1.2).
const T1: f64 = 500.0;

/// Calls at a load in percent of what the servers carry.
#[derive(Clone, Copy)]
struct Case {
    policy: &'static str,
    load: f64,
    seed: u32,
}

impl Case {
    fn rate(self) -> f64 {
        f64::from(SERVERS) * CAPACITY * self.load / 100.0
    }

    fn scenario(self) -> String {
        let Self { policy, seed, .. } = self;
        let rate = self.rate();
        format!(
            "[run]\nduration = \"{SECONDS}s\"\nwarm_up = \"0s\"\nseed = {seed}\n\
             [host.front]\nrole = \"balancer\"\npolicy = \"{policy}\"\ncapacity = \"unlimited\"\nprobes = false\n\
             [host.server]\nrole = \"server\"\ncapacity = {CAPACITY}\ncount = {SERVERS}\n\
             [calls.main]\npath = [\"front\", \"server\"]\nrate = {rate}\nholding = \"1s\"\n"
        )
    }
}

/// What the callers measure in a run of the node on bytes, in virtual time.
fn on_bytes(case: Case) -> Value {
    let scenario = config::scenario::parse(&case.scenario(), "case.toml").expect("a right scenario");
    let plan = swarm::scenario::plan(&scenario).expect("a scenario for bytes");
    let summary = World::new(plan, Honest).run().expect("no rule is broken");
    serde_json::to_value(summary.callers).expect("results are JSON")
}

/// Mean time from INVITE to its 2xx in ms, of the agents' results.
fn response(results: &Value) -> f64 {
    let mean = results["invite_response"]["mean_us"].as_f64();
    mean.unwrap_or_else(|| panic!("no response time in {results}")) / 1e3
}

/// Part of the calls that were made which were completed.
fn completed(results: &Value) -> f64 {
    let count = |name: &str| results[name].as_f64().unwrap_or_else(|| panic!("no {name} in {results}"));
    count("calls_completed") / count("calls_started")
}

/// One live run through the balancer: what its caller measured.
fn live(field: &TestSite, balancer: &RunningBalancer, case: Case) -> Value {
    let file = field.folder().join("live.json");
    let (to, rate, seed) = (balancer.address().to_string(), case.rate().to_string(), case.seed.to_string());
    let (duration, json) = (format!("{SECONDS}s"), file.to_str().expect("a path in UTF-8"));
    let arguments = ["load", "call", "--to", &to, "--rate", &rate, "--seed", &seed, "--hold", "1s"];
    let (status, _) =
        Tool::run(field, &[&arguments[..], &["--duration", &duration, "--json", json]].concat());
    assert!(status.success(), "{status}");
    let text = fs::read_to_string(&file).expect("it has written its results");
    let result: Value = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"));
    result["results"].clone()
}

/// Servers, which answer in the time that their work takes, and a balancer before them.
fn serve(field: &TestSite, policy: &str) -> (Vec<RunningTool>, RunningBalancer) {
    let hosts: Vec<u8> = (FIRST..FIRST + SERVERS).collect();
    let start = |&host: &u8| {
        let listen = field.sip(host).to_string();
        let answer = ["load", "answer", "--listen", &listen, "--service", SERVICE, "--seed", "1"];
        Tool::start(field, &format!("answer-{host}"), &answer)
    };
    let servers = hosts.iter().map(start).collect();
    let mut settings = TestSettings::new(field, &hosts);
    // As the simulator's: one shard, which sees all loads, and no probes, which are work for a server.
    settings.threads = 1;
    settings.pool.push(format!("policy = \"{policy}\""));
    settings.probe = vec!["enabled = false"];
    (servers, RunningBalancer::start(field, settings))
}

/// Live and on bytes the same seed draws the same calls, so that nothing but time itself can differ.
fn agree(policy: &'static str, load: f64) {
    let case = Case { policy, load, seed: 1 };
    let field = TestSite::new(&format!("simulated {policy} {load}"));
    let (_servers, balancer) = serve(&field, policy);
    let live = live(&field, &balancer, case);
    let bytes = &on_bytes(case);
    assert_eq!(bytes["calls_started"], live["calls_started"], "the same calls");
    let (of_live, of_bytes) = (response(&live), response(bytes));
    println!("{policy} at {load} %: {of_live:.1} ms live, {of_bytes:.1} ms on bytes");
    assert!((completed(&live) - completed(bytes)).abs() < 0.01, "{live}\n{bytes}");
    assert!(
        (of_live / of_bytes - 1.0).abs() < NEAR,
        "{policy} at {load} %: {of_live:.1} and {of_bytes:.1} ms"
    );
    if load >= 90.0 {
        let again = |results: &Value| results["retransmissions_sent"].as_u64().unwrap_or_default();
        assert!(
            again(&live) > 0 && again(bytes) > 0,
            "nothing came again: the servers were not busy\n{live}"
        );
        assert!(of_bytes > T1 / 2.0, "{of_bytes:.1} ms is not near T1");
    }
}

#[test]
fn lightly_loaded_servers_answer_live_as_on_bytes() {
    agree("tlwl", 30.0);
}

#[test]
fn busy_servers_behind_round_robin_answer_live_as_on_bytes() {
    agree("round-robin", 90.0);
}

#[test]
fn busy_servers_behind_cjsq_answer_live_as_on_bytes() {
    agree("cjsq", 90.0);
}

#[test]
fn busy_servers_behind_tlwl_answer_live_as_on_bytes() {
    agree("tlwl", 90.0);
}
