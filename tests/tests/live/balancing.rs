//! Policies, limits, address families.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use sarabande_tests::{CallLoad, RunningBalancer, SippCaller, SippServer, TestSettings, TestSite, quoted};

use super::{SERVERS, SOME, finish_clean, servers};

/// Every policy's name is understood, and calls are complete under each.
#[test]
fn every_policy_carries_calls() {
    let names = ["round-robin", "hash", "fnv-hash", "cjsq", "tjsq", "tlwl", "tlwl-1.75", "tlwl-2", "rwma"];
    let lines = names.map(|name| format!("policy = {}", quoted(&name)));
    let field = TestSite::new("policies");
    let servers = servers(&field, "uas_call", &SERVERS);
    for line in &lines {
        let mut settings = TestSettings::new(&field, &SERVERS);
        settings.pool.push(line.clone());
        let balancer = RunningBalancer::start(&field, settings);
        SippCaller::plain(&field, (field.sip(2), balancer.address()), SOME).finish_clean();
        balancer.wait_until_idle();
    }
    finish_clean(servers, SOME.calls * names.len() as u64);
}

/// `max_calls` of a server is its limit; a caller is refused only when every server is full.
#[test]
fn a_full_server_gets_no_more_calls() {
    let field = TestSite::new("full");
    let hosts = [11, 12];
    let servers = servers(&field, "uas_call", &hosts);
    let mut settings = TestSettings::new(&field, &[]);
    settings.members =
        hosts.map(|host| format!("{{ address = {}, max_calls = 5 }}", quoted(&field.sip(host)))).to_vec();
    let balancer = RunningBalancer::start(&field, settings);
    let load = CallLoad { calls: 14, rate: 50, hold_ms: 5000 };
    let stats = SippCaller::plain(&field, (field.sip(2), balancer.address()), load).finish();
    assert_eq!((stats.successful, stats.failed), (10, 4), "{stats:?}");
    balancer.wait_until_idle();
    for server in finish_clean(servers, 10) {
        assert_eq!(server.calls(), 5, "{server:?}");
    }
}

/// The same over IPv6; all ends share `::1`, so ports tell them apart.
#[test]
fn ipv6_callers_reach_ipv6_servers() {
    let field = TestSite::new("ipv6");
    let six = |n| SocketAddr::new(IpAddr::V6(Ipv6Addr::LOCALHOST), field.port(n));
    let servers: Vec<SippServer> =
        [11, 12].map(|n| SippServer::start(&field, "uas_reinvite", six(n), 500)).into_iter().collect();
    let mut settings = TestSettings::new(&field, &[]);
    settings.listen = vec![six(1)];
    settings.members = vec![quoted(&six(11)), quoted(&six(12))];
    let balancer = RunningBalancer::start(&field, settings);
    SippCaller::start(&field, "uac_reinvite", (six(2), balancer.address()), SOME, &[]).finish_clean();
    balancer.wait_until_idle();
    finish_clean(servers, SOME.calls);
}

/// A caller on IPv6 reaches servers on IPv4, and they reach it: the called side ends these calls.
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
