//! The simulator's word held against the program: the same calls live, on bytes in virtual time, and in the model.

use sarabande_tests::{RunningBalancer, RunningTool, TestSettings, TestSite, Tool};
use serde_json::Value;
use std::fs;
use std::time::Instant;

/// Calls a second that the server carries. Of the 1/100 s of a call the INVITE takes 1.75 parts, the BYE one.
const CAPACITY: u32 = 100;
/// The same as a time: that of a BYE.
const SERVICE: &str = "3636us";
/// How long calls are made.
const SECONDS: u32 = 15;
/// Part by which a mean response time may differ.
const NEAR: f64 = 0.1;
/// A machine with other work makes live calls late, and never early: one run of several that agrees is enough.
const RUNS: u32 = 6;
/// A run counts against the simulator only where no call started later than so many ms: the machine was calm.
const CALM: f64 = 3.0;
/// So many calm runs without one that agrees are a verdict. With fewer there is none: this machine cannot say.
const VERDICT: usize = 2;

fn scenario(rate: u32, seed: u32, run: &str) -> String {
    format!(
        "[run]\nduration = \"{SECONDS}s\"\nwarm_up = \"0s\"\nseed = {seed}\n{run}\n\
         [host.front]\nrole = \"balancer\"\npolicy = \"tlwl\"\ncapacity = \"unlimited\"\n\
         [host.server]\nrole = \"server\"\ncapacity = {CAPACITY}\n\
         [calls.main]\npath = [\"front\", \"server\"]\nrate = {rate}\nholding = \"1s\"\n"
    )
}

/// What `sim run` prints of a scenario.
fn simulated(field: &TestSite, name: &str, scenario: &str, more: &[&str]) -> Value {
    let file = field.folder().join(format!("{name}.toml"));
    fs::create_dir_all(field.folder()).expect("the folder can be made");
    fs::write(&file, scenario).expect("the scenario can be written");
    let path = file.to_str().expect("a path in UTF-8");
    // Each in a field of its own: what a tool prints is added to what the last one did.
    let (status, output) = Tool::run(field, &[&["sim", "run", path, "--json"], more].concat());
    assert!(status.success(), "{status}\n{output}");
    serde_json::from_str(&output).unwrap_or_else(|error| panic!("{error}: {output}"))
}

/// Mean time from INVITE to its 2xx in ms, of the agents' results.
fn response(results: &Value) -> f64 {
    let mean = results["invite_response"]["mean_us"].as_f64();
    mean.unwrap_or_else(|| panic!("no response time in {results}")) / 1e3
}

/// One live run of these calls through the balancer: what its caller measured.
fn live(field: &TestSite, balancer: &RunningBalancer, rate: u32, seed: u32) -> Value {
    let file = field.folder().join(format!("live-{seed}.json"));
    let (to, rate, seed) = (balancer.address().to_string(), rate.to_string(), seed.to_string());
    let (duration, json) = (format!("{SECONDS}s"), file.to_str().expect("a path in UTF-8"));
    let arguments = ["load", "call", "--to", &to, "--rate", &rate, "--seed", &seed, "--hold", "1s"];
    let (status, _) =
        Tool::run(field, &[&arguments[..], &["--duration", &duration, "--json", json]].concat());
    assert!(status.success(), "{status}");
    let text = fs::read_to_string(&file).expect("it has written its results");
    let result: Value = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"));
    result["results"].clone()
}

/// A server, which answers in the time that its work takes, and a balancer before it.
fn serve(field: &TestSite) -> (RunningTool, RunningBalancer) {
    let listen = field.sip(11).to_string();
    let answer = ["load", "answer", "--listen", &listen, "--service", SERVICE, "--seed", "1"];
    let server = Tool::start(field, "answer", &answer);
    let mut settings = TestSettings::new(field, &[11]);
    // As the simulator's.
    settings.probe = vec!["interval = \"2s\"", "timeout = \"1500ms\""];
    (server, RunningBalancer::start(field, settings))
}

/// Live and on bytes the same seed draws the same calls, so that nothing but time itself can differ.
fn agree(load: u32) {
    let rate = CAPACITY * load / 100;
    let field = TestSite::new(&format!("simulated {load}"));
    let (_server, balancer) = serve(&field);
    let mut calm = Vec::new();
    for seed in 1..=RUNS {
        let other = TestSite::new(&format!("simulated {load} {seed}"));
        let wire = simulated(&other, "wire", &scenario(rate, seed, ""), &["--wire"]);
        let (bytes, live) = (&wire["callers"], live(&field, &balancer, rate, seed));
        assert_eq!(bytes["calls_started"], live["calls_started"], "the same calls");
        let late = live["start_lag_max_us"].as_f64().expect("it measures its lateness") / 1e3;
        let (live, bytes) = (response(&live), response(bytes));
        let apart = live / bytes - 1.0;
        println!(
            "{load} %: {live:.2} ms live, {bytes:.2} ms on bytes, {:+.1} %; calls {late:.1} ms late",
            100.0 * apart
        );
        assert!(apart > -NEAR, "live is faster than it can be, by {apart}");
        if apart < NEAR {
            return;
        }
        if late < CALM {
            calm.push(apart);
        }
    }
    assert!(calm.len() < VERDICT, "{load} %: live later than on bytes by {calm:?}");
    println!("{load} %: this machine is too busy to tell");
}

#[test]
fn response_times_live_are_those_on_bytes() {
    let began = Instant::now();
    [30, 60, 90].into_iter().for_each(agree);
    println!("{:.0} s", began.elapsed().as_secs_f64());
}

/// The model has calls of its own, so that here many of them count, in virtual time.
#[test]
fn response_times_on_bytes_are_those_of_the_model() {
    for load in [30, 60, 90] {
        let rate = CAPACITY * load / 100;
        let long = |run: &str| {
            let text = scenario(rate, 1, run);
            text.replace(&format!("duration = \"{SECONDS}s\""), "duration = \"20m\"")
        };
        let [bytes, model] = ["bytes", "model"].map(|name| TestSite::new(&format!("{name} {load}")));
        let wire = response(&simulated(&bytes, "wire", &long(""), &["--wire"])["callers"]);
        let model = simulated(&model, "model", &long("replications = 8"), &[]);
        let mean = model["streams"][0]["response_seconds"]["mean"].as_f64();
        let model = 1e3 * mean.unwrap_or_else(|| panic!("no response time in {model}"));
        println!("{load} %: {wire:.2} ms on bytes, {model:.2} ms in the model");
        assert!((wire / model - 1.0).abs() < NEAR, "{load} %: {wire:.2} and {model:.2} ms");
    }
}
