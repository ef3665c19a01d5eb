//! A queue in front of a pool: calls wait until a server has room.

use sarabande_tests::{
    CallLoad, KamailioProxy, RunningBalancer, RunningMonitor, SippCaller, SippServer, TestSettings, TestSite,
    until,
};

use super::{SERVERS, finish_clean, servers};

fn settings(field: &TestSite, queue: &str) -> TestSettings {
    let mut settings = TestSettings::new(field, &SERVERS);
    settings.pool.push(format!("queue = {{ {queue} }}"));
    settings
}

fn calls(balancer: &RunningBalancer, outcome: &str) -> u64 {
    balancer.metric(&format!("sarabande_queue_calls_total{{pool=\"servers\",outcome=\"{outcome}\"}}")) as u64
}

/// Bursts of callers are smoothed. Each call waits for its turn and is at one server, copies are absorbed, and no call
/// is refused.
#[test]
fn a_burst_waits_for_its_turn() {
    let field = TestSite::new("queue-burst");
    let servers = servers(&field, "uas_direct", &SERVERS);
    // The three take 90 calls/s.
    let queue = "source = \"fixed\", capacity = 30, wait = \"10s\"";
    let balancer = RunningBalancer::start(&field, settings(&field, queue));
    let load = CallLoad { calls: 300, rate: 150, hold_ms: 500 };
    SippCaller::plain(&field, (field.sip(2), balancer.address()), load).finish_clean();
    balancer.wait_until_idle();
    assert_eq!((calls(&balancer, "delivered"), calls(&balancer, "refused")), (load.calls, 0));
    assert!(balancer.metric("sarabande_queue_wait_seconds_total{pool=\"servers\"}") > 0.0);
    let health = balancer.get("/api/health");
    assert!(health.contains("\"calls_per_second\":30.0"), "{health}");
    finish_clean(servers, load.calls);
}

/// More calls than servers take while calls may wait: the excess is refused, and all others succeed.
#[test]
fn excess_calls_are_refused_after_the_wait() {
    let field = TestSite::new("queue-full");
    let servers = servers(&field, "uas_direct", &SERVERS);
    let queue = "source = \"fixed\", capacity = 10";
    let balancer = RunningBalancer::start(&field, settings(&field, queue));
    let load = CallLoad { calls: 300, rate: 100, hold_ms: 100 };
    let stats = SippCaller::plain(&field, (field.sip(2), balancer.address()), load).finish();
    balancer.wait_until_idle();
    let delivered = calls(&balancer, "delivered");
    let refused = calls(&balancer, "refused") + calls(&balancer, "expired");
    assert_eq!((stats.successful, stats.failed), (delivered, refused));
    assert_eq!(delivered + refused, load.calls);
    // Three servers for three seconds at 10 calls/s, and the quarter of a second that the last ones may wait.
    assert!((60..=130).contains(&delivered), "{delivered}");
    finish_clean(servers, delivered);
}

/// A server hangs, and probes are off. It gets a call now and then, which goes to another server before its caller
/// would retransmit.
#[test]
fn a_hung_server_costs_no_call() {
    let field = TestSite::new("queue-still");
    let mut servers = servers(&field, "uas_direct", &SERVERS);
    let queue = "source = \"fixed\", capacity = 100";
    let mut settings = settings(&field, queue);
    settings.probe = vec!["enabled = false"];
    settings.pool.push("invite_timeout = \"100ms\"".to_owned());
    let balancer = RunningBalancer::start(&field, settings);
    servers[0].freeze();
    let load = CallLoad { calls: 300, rate: 60, hold_ms: 100 };
    SippCaller::plain(&field, (field.sip(2), balancer.address()), load).finish_clean();
    balancer.wait_until_idle();
    assert_eq!((calls(&balancer, "delivered"), calls(&balancer, "refused")), (load.calls, 0));
    // A few calls at the start, then one now and then.
    let address = servers[0].address();
    let tried = balancer.member(address).expect("it stays a member").assigned;
    assert!((1..=60).contains(&tried), "{tried}");
    servers[0].kill();
    servers.remove(0);
    finish_clean(servers, load.calls);
}

const KEY: &str = "000102030405060708090a0b0c0d0e0f";

/// Three Kamailio servers, each with a monitor that announces its capacity. While two of the monitors are dead,
/// operators are told, and response times show that the servers are fine. No call is lost.
#[test]
fn monitors_announce_the_capacities_of_servers() {
    let field = TestSite::new("queue-monitors");
    let answers = SippServer::plain(&field, 21);
    let proxies = SERVERS.map(|host| KamailioProxy::start(&field, host, answers.address()));
    let reports = format!("{}:8061", field.ip(1));
    let key = field.write("capacity.key", KEY);
    let mut settings = settings(&field, "source = \"monitor\", capacity = 100, threshold = \"1s\"");
    settings.tables = format!("[capacity]\nlisten = \"{reports}\"\nkeys = {{ \"*\" = \"{KEY}\" }}\n");
    let balancer = RunningBalancer::start(&field, settings);
    let monitor = |name: &str, proxy: &KamailioProxy| {
        let options = ["--interface", "lo", "--maximum", "100", "--threshold", "1s", "--server"];
        let address = proxy.address().to_string();
        let report = ["--report", &reports, "--key-file", key.to_str().expect("a path in UTF-8")];
        RunningMonitor::start(&field, name, &[&options[..], &[&address[..]], &report[..]].concat())
    };
    let mut monitors: Vec<_> =
        proxies.iter().enumerate().map(|(at, proxy)| monitor(&format!("{at}"), proxy)).collect();
    let of = |name: &str, host: u8| {
        balancer.metric(&format!("sarabande_{name}{{pool=\"servers\",member=\"{}\"}}", field.sip(host)))
    };
    until("all monitors have announced a capacity", || {
        (balancer.get("/api/capacity").matches("capacity_now").count() == SERVERS.len()).then_some(())
    });
    let capacities = || SERVERS.map(|host| of("queue_capacity", host) as u64);
    assert_eq!(capacities(), [50; 3]);

    // Ten seconds and more of calls, a third for each server.
    let load = CallLoad { calls: 300, rate: 20, hold_ms: 500 };
    let caller = SippCaller::plain(&field, (field.sip(2), balancer.address()), load);
    drop(monitors.drain(..2));
    let degraded = || balancer.get("/api/health").matches("has fallen silent").count();
    until("the silent monitors are reported", || (degraded() == 2).then_some(()));
    assert_eq!(SERVERS.map(|host| of("queue_member_silent", host) as u64), [1, 1, 0]);
    assert!(capacities().iter().all(|capacity| *capacity >= 50), "no server is slow");
    assert!(balancer.log().contains("monitors have fallen silent"), "{}", balancer.log());
    monitors.extend((0..2).map(|at| monitor(&format!("again{at}"), &proxies[at])));
    until("the monitors are not silent any more", || (degraded() == 0).then_some(()));
    assert!(SERVERS.iter().all(|host| of("queue_capacity", *host) >= 50.0));
    caller.finish_clean();
    balancer.wait_until_idle();
    assert_eq!((calls(&balancer, "delivered"), calls(&balancer, "refused")), (load.calls, 0));
    assert_eq!(answers.finish_clean().calls(), load.calls);
    let seen: u64 = monitors.into_iter().map(|monitor| monitor.finish().sum("measured")).sum();
    assert!((load.calls / 4..=load.calls).contains(&seen), "{seen} of them were measured");
}
