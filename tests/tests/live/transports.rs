//! Calls over TCP, TLS and WebSocket, with programs that others wrote.

use std::net::SocketAddr;
use std::path::Path;

use sarabande_tests::{
    CallLoad, Process, RunningBalancer, SippCaller, SippServer, TestSettings, TestSite, until,
};

use super::{SERVERS, SOME, finish_clean, servers};

/// Calls that come while processes follow each other.
const STEADY: CallLoad = CallLoad { calls: 6000, rate: 100, hold_ms: 1500 };

/// Where the certificates of the tests are.
fn certificates() -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates/live/streams/testdata/tls").display().to_string()
}

/// A balancer that also listens on TCP at the same address, and on TLS at the port behind it.
fn settings(field: &TestSite, threads: usize) -> TestSettings {
    let mut settings = TestSettings { threads, ..TestSettings::new(field, &SERVERS) };
    let tls = SocketAddr::new(field.ip(1), 5061);
    settings.listen_more.push(format!("tcp = [\"{}\"]\ntls = [\"{tls}\"]", field.sip(1)));
    let folder = certificates();
    settings.tables.push_str(&format!(
        "[tls]\ncertificates = [{{ chain = \"{folder}/first.pem\", key = \"{folder}/first.key\" }}]\n\
         authorities = \"{folder}/authority.pem\"\n"
    ));
    settings
}

/// Makes the members take calls over TCP.
fn over_tcp(field: &TestSite, settings: &mut TestSettings) -> Vec<SippServer> {
    settings.members = SERVERS.iter().map(|host| format!("\"{};transport=tcp\"", field.sip(*host))).collect();
    settings.probe = vec!["enabled = false"];
    SERVERS.iter().map(|host| SippServer::over_tcp(field, *host)).collect()
}

/// Callers on TCP, servers on UDP; on two threads most messages come to another one than that of their call.
#[test]
fn callers_on_tcp_reach_servers_on_udp() {
    for threads in [1, 2] {
        let field = TestSite::new(&format!("tcp-udp-{threads}"));
        let servers = servers(&field, "uas_call", &SERVERS);
        let balancer = RunningBalancer::start(&field, settings(&field, threads));
        SippCaller::over_tcp(&field, (field.sip(2), balancer.address()), SOME).finish_clean();
        balancer.wait_until_idle();
        finish_clean(servers, SOME.calls);
    }
}

#[test]
fn callers_on_udp_reach_servers_on_tcp() {
    for forward in ["stateless", "transaction", "dialog"] {
        let field = TestSite::new(&format!("udp-tcp-{forward}"));
        let mut settings = settings(&field, 2);
        let servers = over_tcp(&field, &mut settings);
        settings.pool.push(format!("forward = \"{forward}\""));
        if forward == "dialog" {
            settings.pool.push("dialogs = \"route\"".to_owned());
        }
        let balancer = RunningBalancer::start(&field, settings);
        SippCaller::plain(&field, (field.sip(2), balancer.address()), SOME).finish_clean();
        finish_clean(servers, SOME.calls);
    }
}

#[test]
fn callers_and_servers_on_tcp() {
    let field = TestSite::new("tcp-tcp");
    let mut settings = settings(&field, 2);
    let servers = over_tcp(&field, &mut settings);
    let balancer = RunningBalancer::start(&field, settings);
    SippCaller::over_tcp(&field, (field.sip(2), balancer.address()), SOME).finish_clean();
    balancer.wait_until_idle();
    finish_clean(servers, SOME.calls);
}

/// A caller keeps its connection to the process that was there when it connected, and those processes end when their
/// calls have.
#[test]
fn a_balancer_restarts_under_calls_over_tcp() {
    let field = TestSite::new("tcp-takeover");
    let servers: Vec<_> =
        SERVERS.iter().map(|host| SippServer::start(&field, "uas_call", field.sip(*host), 5000)).collect();
    let mut balancer = RunningBalancer::start(&field, settings(&field, 2));
    let caller = SippCaller::over_tcp(&field, (field.sip(2), balancer.address()), STEADY);
    until("calls run", || (balancer.calls() > 20).then_some(()));
    let before = balancer.take_over();
    std::thread::sleep(std::time::Duration::from_secs(3));
    let second = SippCaller::over_tcp(&field, (field.sip(3), balancer.address()), SOME);
    second.finish_clean();
    let calls = caller.end_clean() + SOME.calls;
    Process::wait(before);
    balancer.wait_until_idle();
    finish_clean(servers, calls);
}
