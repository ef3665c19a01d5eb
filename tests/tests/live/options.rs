//! Servers that answer calls but no OPTIONS, like SIPp's own `uas` and many gateways.

use sarabande_tests::{CallLoad, RunningBalancer, SippCaller, SippServer, TestSettings, TestSite, until};

use super::{SERVERS, servers};

/// Longer than probes alone need to mark every member dead.
const LONG: CallLoad = CallLoad { calls: 250, rate: 50, hold_ms: 0 };

fn settings(field: &TestSite) -> TestSettings {
    let mut settings = TestSettings::new(field, &SERVERS);
    settings.probe = vec!["interval = \"300ms\"", "timeout = \"250ms\""];
    settings
}

/// No call fails, before the probes have found the members dead or after.
#[test]
fn servers_that_answer_no_options_take_calls() {
    let field = TestSite::new("options");
    let servers = servers(&field, "uas", &SERVERS);
    let balancer = RunningBalancer::start(&field, settings(&field));
    let down = |balancer: &RunningBalancer| balancer.members().iter().all(|member| member.state == "down");
    until("probes have found every member dead", || down(&balancer).then_some(()));
    SippCaller::start(&field, "uac", (field.sip(2), balancer.address()), LONG, &[]).finish_clean();
    for member in balancer.members() {
        assert!(member.accepting && member.assigned > LONG.calls / 10, "{member:?}");
    }
    // The result remains valid without calls.
    let probes = servers[0].stats().unexpected;
    until("some probes went unanswered", || (servers[0].stats().unexpected > probes + 3).then_some(()));
    assert!(!down(&balancer), "{:?}", balancer.members());
    balancer.wait_until_idle();
}

/// A server is killed, which its closed port shows, and comes back. A trial call finds it.
#[test]
fn a_killed_server_that_answers_no_options_comes_back() {
    let field = TestSite::new("options-killed");
    let mut servers = servers(&field, "uas", &SERVERS);
    let balancer = RunningBalancer::start(&field, settings(&field));
    SippCaller::start(&field, "uac", (field.sip(2), balancer.address()), LONG, &[]).finish_clean();
    let victim = servers[0].address();
    let state = || balancer.member(victim).expect("a dead server stays a member").state;
    servers[0].kill();
    until("its closed port is noticed", || (state() == "down").then_some(()));
    servers[0] = SippServer::start(&field, "uas", victim, 500);
    let mut callers = (3..).map(|host| {
        let ends = (field.sip(host), balancer.address());
        SippCaller::start(&field, "uac", ends, CallLoad { calls: 20, rate: 20, hold_ms: 0 }, &[])
            .finish_clean();
    });
    until("a trial finds it", || callers.next().filter(|()| state() == "up"));
    balancer.wait_until_idle();
}
