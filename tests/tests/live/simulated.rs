//! The simulator compared with the program: the same calls live, and on bytes in virtual time.
//!
//! Servers are slow, so that a call waits for as long as T1 when they are nearly busy. Delays by other work of the
//! machine are small beside that, and every run must agree.

use sarabande_tests::{RunningBalancer, RunningTool, TestSettings, TestSite, Tool};
use serde_json::Value;
use std::fs;
use swarm::{Honest, World};

/// Number of servers, and host of the first one.
const SERVERS: u8 = 4;
const FIRST: u8 = 11;
/// Capacity of each in calls a second. Of the 1/4 s of a call the INVITE takes 1.75 parts, the BYE one.
const CAPACITY: f64 = 4.0;
/// Service time of a BYE, by the same capacity.
const SERVICE: &str = "90909us";
/// Seconds of live calls.
const SECONDS: u32 = 25;
/// Largest relative difference of mean response times.
const NEAR: f64 = 0.15;
/// T1 in ms: a request that has waited this long is retransmitted (RFC 3261 §17.1.1.2).
const T1: f64 = 500.0;

/// Calls at a load in percent of the servers' capacity.
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

/// Returns the callers' measurements of a run of the node on bytes, in virtual time.
fn on_bytes(case: Case) -> Value {
    let scenario = config::scenario::parse(&case.scenario(), "case.toml").expect("a right scenario");
    let plan = swarm::scenario::plan(&scenario).expect("a scenario for bytes");
    let summary = World::new(plan, Honest).run().expect("no rule is broken");
    serde_json::to_value(summary.callers).expect("results are JSON")
}

/// Returns the mean time from INVITE to its 2xx in ms.
fn response(results: &Value) -> f64 {
    let mean = results["invite_response"]["mean_us"].as_f64();
    mean.unwrap_or_else(|| panic!("no response time in {results}")) / 1e3
}

/// Returns the fraction of calls that were completed.
fn completed(results: &Value) -> f64 {
    let count = |name: &str| results[name].as_f64().unwrap_or_else(|| panic!("no {name} in {results}"));
    count("calls_completed") / count("calls_started")
}

/// Makes a live run through the balancer. Returns the caller's measurements.
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

/// Starts servers with the model's service times, and a balancer in front.
fn serve(field: &TestSite, policy: &str) -> (Vec<RunningTool>, RunningBalancer) {
    let hosts: Vec<u8> = (FIRST..FIRST + SERVERS).collect();
    let start = |&host: &u8| {
        let listen = field.sip(host).to_string();
        let answer = ["load", "answer", "--listen", &listen, "--service", SERVICE, "--seed", "1"];
        Tool::start(field, &format!("answer-{host}"), &answer)
    };
    let servers = hosts.iter().map(start).collect();
    let mut settings = TestSettings::new(field, &hosts);
    // Like the simulator's: one shard, which sees all loads, and no probes, which are work for a server.
    settings.threads = 1;
    settings.pool.push(format!("policy = \"{policy}\""));
    // Simulated balancers do not limit their members.
    settings.pool.push("overload = { law = \"none\" }".to_owned());
    settings.probe = vec!["enabled = false"];
    (servers, RunningBalancer::start(field, settings))
}

/// Compares live and on bytes. The same seed draws the same calls, so that only the timing can differ.
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
            "no retransmissions: the servers were not busy\n{live}"
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
