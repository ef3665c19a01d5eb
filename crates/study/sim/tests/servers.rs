//! Hosts that answer calls: retransmissions, failed calls, and ties between servers; and calls that proxies in front of
//! them drop and refuse.

use base::Instant;
use sim::model::{RunResults, run};
use std::time::Duration;

fn scenario(text: &str) -> RunResults {
    run(&config::scenario::parse(text, "servers.toml").unwrap_or_else(|errors| panic!("{errors}")), 1)
}

/// A balancer in front of `count` servers of 10 calls a second; `server`, `balancer` and `more` are further text.
fn balanced(rate: &str, count: u32, [server, balancer, more]: [&str; 3]) -> RunResults {
    scenario(&format!(
        "[run]\nduration = \"1000s\"\nwarm_up = \"0s\"\nbin = \"1s\"\n\
         [host.front]\nrole = \"balancer\"\ncapacity = \"unlimited\"\nprobes = false\n{balancer}\n\
         [host.app]\nrole = \"server\"\ncapacity = 10\ncount = {count}\n{server}\n\
         [calls.main]\npath = [\"front\", \"app\"]\n{rate}\n{more}\n"
    ))
}

/// Returns the seconds in which a host's processor was busy.
fn busy(results: &RunResults, host: usize) -> f64 {
    results.hosts[host].utilisation.iter().map(|(_, share)| share).sum()
}

/// A server that stalled for three seconds finds INVITEs that were sent at 0, 0.5 and 1.5 s (RFC 3261 §17.1.1.2).
#[test]
fn retransmissions_cost_a_server_the_configured_work() {
    let with = |price: &str| {
        let stall = "[[fault]]\nhost = \"app\"\nat = \"100s\"\nstall = \"3s\"\n";
        let more = format!("arrivals = \"constant\"\nholding = \"30s\"\n{stall}{price}");
        balanced("rate = 2", 1, ["", "", &more])
    };
    let [free, half, full] = ["", "[costs]\nrepeat_work = 0.5", "[costs]\nrepeat_work = 1"].map(with);
    for results in [&free, &half, &full] {
        let outcomes = results.streams[0].outcomes;
        assert_eq!(outcomes.completed, outcomes.ended(), "{outcomes:?}");
    }
    // An INVITE takes 7/110 s and a BYE 4/110 s; the calls of the first 970 s have both.
    let once = 2.0 * (970.0 * 0.1 + 30.0 * 7.0 / 110.0);
    assert!((busy(&free, 1) - once).abs() < 0.1, "{} {once}", busy(&free, 1));
    let [half, full] = [half, full].map(|results| busy(&results, 1) - busy(&free, 1));
    assert!(full > 8.0 * 7.0 / 110.0, "at least two copies each came of four calls: {full}");
    assert!(half > 0.3 * full && half < 0.7 * full, "{half} {full}");
}

/// A repeated response to a retransmission is sent at once, although other messages wait for the processor.
#[test]
fn a_lost_answer_is_sent_again_without_waiting() {
    let lossy = "holding = \"1s\"\n[[link]]\nbetween = [\"agents\", \"front\"]\nloss = 0.2\n";
    let results = balanced("rate = 5", 1, ["", "", lossy]);
    let outcomes = results.streams[0].outcomes;
    assert!(outcomes.completed as f64 > 0.99 * outcomes.ended() as f64, "{outcomes:?}");
    // Each call is work only once.
    let calls = results.streams[0].calls as f64;
    assert!(busy(&results, 1) < 0.1 * calls * 1.01, "{} for {calls} calls", busy(&results, 1));
}

/// CJSQ keeps the same number of calls at each server, so a server that fails a share f of its calls gets 1 / (1 - f)
/// times as many. Of ten servers, 0.3 / 0.7 of 9 + 1 / 0.7 are refused, 4.1 %. A server that fails evenly spread call
/// numbers instead of random ones refuses 3.8 %, because the call after each failure is its call too.
#[test]
fn which_calls_a_server_fails_is_drawn_for_each_alone() {
    let fault = "holding = \"exp:6s\"\n[[fault]]\nhost = \"app\"\nat = \"0s\"\nfailing = 0.3\n";
    let results = balanced("rate = 80", 10, ["", "policy = \"cjsq\"\noutlier = false", fault]);
    let stream = &results.streams[0];
    let refused = 100.0 * stream.outcomes.refused as f64 / stream.calls as f64;
    assert!((refused - 4.15).abs() < 0.2, "{refused} % of {} calls", stream.calls);
}

/// Returns the number of transactions that each server got.
fn given(results: &RunResults) -> Vec<f64> {
    let all = results.hosts[1..].iter();
    all.map(|host| host.occupancy.iter().map(|(_, times)| *times as f64).sum()).collect()
}

#[test]
fn servers_that_are_level_take_turns_or_are_drawn() {
    let [turns, random] = ["turns", "random"].map(|ties| {
        let balancer = format!("policy = \"tlwl\"\nties = \"{ties}\"");
        given(&balanced("rate = 1", 4, ["", &balancer, "holding = \"1s\""]))
    });
    let spread = |given: &[f64]| {
        let mean = given.iter().sum::<f64>() / 4.0;
        given.iter().map(|of| (of - mean).powi(2) / mean).sum::<f64>()
    };
    // Chi-square of three degrees of freedom, for calls of two transactions: 2 * 3 in the mean.
    assert!(spread(&turns) < 0.5, "{turns:?}");
    assert!((0.6..32.0).contains(&spread(&random)), "{random:?}");
}

/// A proxy of 40 calls a second under this load and transport; `edge` and `more` are further text.
fn overloaded(transport: &str, rate: u32, edge: &str, more: &str) -> RunResults {
    scenario(&format!(
        "[run]\nduration = \"300s\"\nwarm_up = \"100s\"\n\
         [host.edge]\ncapacity = 40\ntransport = \"{transport}\"\n{edge}\n\
         [calls.main]\npath = [\"edge\"]\nrate = {rate}\nholding = \"5s\"\ntransport = \"{transport}\"\n{more}"
    ))
}

/// Overload paper, section V-D: a server that keeps reading processes "responses, ACK and BYE requests" and only
/// discards new INVITEs.
#[test]
fn over_tcp_a_full_buffer_may_drop_new_calls_alone() {
    let [any, new] = ["any", "new-calls"].map(|of| overloaded("tcp", 80, &format!("discard = \"{of}\""), ""));
    let [any, new] = [any, new].map(|results| results.streams[0].outcomes);
    assert!(any.bye_failures > 100, "{any:?}");
    assert_eq!(new.bye_failures, 0, "{new:?}");
    assert!(new.completed > any.completed, "{new:?} {any:?}");
    // Over UDP, any message may be dropped.
    let [any, new] = ["any", "new-calls"].map(|of| overloaded("udp", 80, &format!("discard = \"{of}\""), ""));
    assert_eq!(any.trace, new.trace);
}

/// Section VI-A: stateless rejection "avoids that state needs to be looked up". If responses take longer than T1, every
/// INVITE arrives twice, and the second copy can be rejected although the first was accepted.
#[test]
fn without_a_look_up_an_accepted_call_can_be_refused_as_well() {
    let far = "[[link]]\nbetween = [\"agents\", \"edge\"]\ndelay = \"300ms\"\n";
    let [with, without] = ["true", "false"].map(|look_up| {
        let overload = format!("overload = {{ local = \"occupancy\", look_up = {look_up} }}");
        overloaded("udp", 40, &overload, far)
    });
    let rejected = |results: &RunResults| {
        let at = |seconds| Instant::ZERO + Duration::from_secs(seconds);
        results.hosts[0].rejected.rate(at(100), at(300))
    };
    assert!(rejected(&without) > 1.05 * rejected(&with), "{} {}", rejected(&without), rejected(&with));
    let completed = |results: &RunResults| results.streams[0].outcomes.completed;
    assert!(2 * completed(&without) < completed(&with), "{} {}", completed(&without), completed(&with));
}
