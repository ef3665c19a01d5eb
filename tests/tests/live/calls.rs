//! Calls without faults.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use sarabande_tests::{
    CallLoad, RunningBalancer, SippCaller, SippServer, TestSettings, TestSite, Tool, until,
};

use super::{SERVERS, SOME, Scene, finish_clean, scenario, servers};

/// Calls succeed, their load is shown while they last, and every count is zero afterwards. Each server saw its calls
/// from INVITE to BYE.
#[test]
fn plain_calls_are_complete_and_leave_nothing_behind() {
    let scene = Scene::new("plain", "call");
    let load = CallLoad { calls: 300, rate: 100, hold_ms: 500 };
    let caller = scene.call(2, load);
    until("the load of live calls shows", || (scene.balancer.calls() > 0).then_some(()));
    caller.finish_clean();
    scene.balancer.wait_until_idle();
    let assigned: Vec<u64> = scene.balancer.members().iter().map(|member| member.assigned).collect();
    let stats = finish_clean(scene.servers, load.calls);
    for (server, assigned) in stats.iter().zip(assigned) {
        assert!(server.calls() > 0, "a server was left out: {stats:?}");
        for message in ["INVITE", "ACK", "BYE"] {
            assert_eq!(server.received(message), server.calls(), "{message}: {server:?}");
        }
        assert_eq!(server.calls(), assigned, "the balancer counts another number of calls: {server:?}");
    }
}

/// A CANCEL and the ACK to the 487 reach the ringing server, with the branch of the INVITE.
#[test]
fn a_cancelled_call_ends_where_it_rang() {
    scenario("cancel", SOME);
}

/// A re-INVITE, its ACK and the BYE after it stay on the server of the call.
#[test]
fn a_re_invite_stays_on_its_server() {
    scenario("reinvite", SOME);
}

/// An INVITE that answers a challenge reaches the server that sent it. Any other server would challenge again.
#[test]
fn a_challenged_invite_comes_back_to_its_challenger() {
    scenario("auth", SOME);
}

/// A BYE of the server reaches the caller, and ends the lease like one of the caller.
#[test]
fn the_called_side_may_end_a_call() {
    scenario("callee_bye", SOME);
}

/// PRACK, UPDATE and INFO stay on the server of the call.
#[test]
fn prack_update_and_info_stay_in_their_dialog() {
    scenario("in_dialog", SOME);
}

/// SIPp's own server copies no Record-Route into its responses, and sends requests to the source of the INVITE. ACK and
/// BYE must still go through the balancer.
#[test]
fn calls_to_answerers_without_record_route_are_ended() {
    let field = TestSite::new("stock");
    let servers: Vec<_> = SERVERS.iter().map(|host| SippServer::stock(&field, *host)).collect();
    let settings = TestSettings { probe: vec!["enabled = false"], ..TestSettings::new(&field, &SERVERS) };
    let balancer = RunningBalancer::start(&field, settings);
    let (to, from) = (balancer.address().to_string(), field.sip(2).to_string());
    let ends = ["load", "call", "--to", &to, "--listen", &from];
    let (status, output) =
        Tool::run(&field, &[&ends[..], &["--rate", "50", "--calls", "60", "--hold", "200ms"]].concat());
    assert!(status.success(), "{status}\n{output}");
    balancer.wait_until_idle();
    finish_clean(servers, 60);
}

/// Callers on IPv6 reach servers on IPv4, and requests of the servers reach them: the called side ends these calls.
#[test]
fn ipv6_callers_reach_ipv4_servers() {
    let field = TestSite::new("six_to_four");
    let six = |n| SocketAddr::new(IpAddr::V6(Ipv6Addr::LOCALHOST), field.port(n));
    let servers = servers(&field, "uas_callee_bye", &SERVERS);
    let mut settings = TestSettings::new(&field, &SERVERS);
    settings.listen = vec![six(1), field.sip(1)];
    let balancer = RunningBalancer::start(&field, settings);
    SippCaller::start(&field, "uac_callee_bye", (six(2), six(1)), SOME, &[]).finish_clean();
    balancer.wait_until_idle();
    finish_clean(servers, SOME.calls);
}
