//! Proxies in series that share out who keeps the transactions of a call.

use std::net::SocketAddr;

use sarabande_tests::{CallLoad, RunningProxy, SippCaller, SippServer, TestSite};
use serde_json::Value;

use super::SOME;

/// Hosts of the proxies, from the first to the last.
const HOSTS: [u8; 3] = [1, 5, 6];

/// A series of proxies in front of `server`, which forward in these ways.
fn series(field: &TestSite, server: SocketAddr, ways: [&str; 3]) -> Vec<RunningProxy> {
    let neighbours: Vec<_> = HOSTS.iter().map(|&host| format!("\"{}\"", field.ip(host))).collect();
    let mut next = server;
    let mut proxies = Vec::new();
    for (&host, way) in HOSTS.iter().zip(ways).rev() {
        let more = format!("forward = \"{way}\"\n[distribution]\nneighbours = [{}]", neighbours.join(", "));
        proxies.push(RunningProxy::with_threads(field, host, &[next], 1, &more));
        next = field.sip(host);
    }
    proxies.reverse();
    proxies
}

/// Of the requests that began something: kept, passed on open, passed on kept.
fn shares(proxy: &RunningProxy) -> [u64; 3] {
    let all: Value = serde_json::from_str(&proxy.get("/api/proxy")).expect("JSON");
    ["kept_total", "passed_open_total", "passed_kept_total"]
        .map(|key| all["distribution"][key].as_u64().unwrap_or_else(|| panic!("{key} in {all}")))
}

/// `uac_NAME` calls `uas` through the series: every call succeeds at both ends.
fn calls(field: &TestSite, name: &str, uas: &str, ways: [&str; 3], load: CallLoad) -> Vec<RunningProxy> {
    let server = SippServer::start(field, uas, field.sip(11), 500);
    let proxies = series(field, server.address(), ways);
    let ends = (field.sip(2), proxies[0].address());
    SippCaller::start(field, &format!("uac_{name}"), ends, load, &[]).finish_clean();
    proxies.iter().for_each(RunningProxy::wait_until_idle);
    assert_eq!(server.finish_clean().calls(), load.calls);
    proxies
}

/// While all have room, the first that may keep a call does, its BYE included; the others pass.
#[test]
fn the_first_that_has_room_keeps_all() {
    let load = CallLoad { calls: 300, rate: 100, hold_ms: 300 };
    for keeper in [0, 1, 2] {
        let field = TestSite::new(&format!("sharing-{keeper}"));
        let mut ways = ["distributed"; 3];
        ways[..keeper].fill("stateless");
        let proxies = calls(&field, "call", "uas_call", ways, load);
        for (index, proxy) in proxies.iter().enumerate() {
            let kept = if index == keeper { load.calls } else { 0 };
            // INVITE and BYE with transactions.
            assert_eq!(proxy.figure("forwarded_total"), 2 * kept, "{index} of {ways:?}");
            assert_eq!(proxy.figure("stateless_total"), 3 * load.calls - 2 * kept);
            assert_eq!(proxy.figure("stray_total") + proxy.figure("refused_total"), 0);
            if index >= keeper {
                assert_eq!(shares(proxy), [kept, 0, load.calls - kept]);
            }
            let metrics = proxy.get("/metrics");
            let sample =
                format!("\nsarabande_distribution_calls_total{{decision=\"kept\"}} {}\n", shares(proxy)[0]);
            assert!(metrics.contains(&sample), "{sample} in {metrics}");
        }
        proxies.into_iter().for_each(RunningProxy::stop);
    }
}

/// What either side begins within a call finds who keeps it, or passes those that do not.
#[test]
fn all_of_a_call_finds_its_way() {
    let scenarios =
        [("reinvite", "uas_reinvite"), ("callee_bye", "uas_callee_bye"), ("in_dialog", "uas_in_dialog")];
    for ways in [["distributed"; 3], ["stateless", "distributed", "distributed"]] {
        for (name, uas) in scenarios {
            let field = TestSite::new(&format!("sharing-{name}"));
            calls(&field, name, uas, ways, SOME);
        }
    }
}
