//! Proxies in series that share out the state of calls and the verification of callers.

use std::net::SocketAddr;

use sarabande_tests::{CallLoad, Phone, RunningProxy, SippCaller, SippServer, TestSite};
use serde_json::Value;

use super::registrar::{USERS, phone};

/// Hosts of the proxies, from the first to the last.
const HOSTS: [u8; 3] = [1, 5, 6];

/// Starts a series of proxies in front of `server`, with these forwarding modes.
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

/// Counts of the requests outside dialogs: kept, passed on without state, passed on with state.
fn shares(proxy: &RunningProxy) -> [u64; 3] {
    figures(proxy, ["kept_total", "passed_open_total", "passed_kept_total"])
}

fn figures<const N: usize>(proxy: &RunningProxy, keys: [&str; N]) -> [u64; N] {
    let all: Value = serde_json::from_str(&proxy.get("/api/proxy")).expect("JSON");
    keys.map(|key| all["distribution"][key].as_u64().unwrap_or_else(|| panic!("{key} in {all}")))
}

/// `uac_NAME` calls `uas` through the series. Every call succeeds at both ends.
fn calls(field: &TestSite, name: &str, uas: &str, ways: [&str; 3], load: CallLoad) -> Vec<RunningProxy> {
    let server = SippServer::start(field, uas, field.sip(11), 500);
    let proxies = series(field, server.address(), ways);
    let ends = (field.sip(2), proxies[0].address());
    SippCaller::start(field, &format!("uac_{name}"), ends, load, &[]).finish_clean();
    proxies.iter().for_each(RunningProxy::wait_until_idle);
    assert_eq!(server.finish_clean().calls(), load.calls);
    proxies
}

/// While all have room, the first proxy that may keep calls keeps each one, its BYE included; the others pass.
#[test]
fn the_first_proxy_with_room_keeps_all_calls() {
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

/// SIPp and a phone call with passwords. One proxy challenges them, verifies, keeps each call and writes its record,
/// whichever of the three it is.
#[test]
fn each_proxy_of_the_chain_can_verify_and_keep() {
    const KEYS: [&str; 3] = ["verified_total", "left_unverified_total", "verified_before_total"];
    let load = CallLoad { calls: 100, rate: 50, hold_ms: 300 };
    for keeper in [0, 1, 2] {
        let field = TestSite::new(&format!("sharing-passwords-{keeper}"));
        let users = field.write("users", USERS);
        let neighbours: Vec<_> = HOSTS.iter().map(|&host| format!("\"{}\"", field.ip(host))).collect();
        let neighbours = neighbours.join(", ");
        let server = SippServer::start(&field, "uas_call", field.sip(11), 500);
        let mut next = server.address();
        let (mut proxies, mut records) = (Vec::new(), Vec::new());
        for (index, &host) in HOSTS.iter().enumerate().rev() {
            let file = field.folder().join(format!("calls-{index}.jsonl"));
            let keep = u8::from(index == keeper);
            let more = format!(
                "forward = \"distributed\"\n[distribution]\nneighbours = [{neighbours}]\nlaw = \"fixed\"\nkeep = {keep}\n\
                 shares = [\"transaction\", \"dialog\", \"authentication\"]\n\
                 [registrar]\ndomains = [\"example.com\"]\nusers = {users:?}\ntrusted = [{neighbours}]\nforward = \"distributed\"\n\
                 [calls]\nrecords = {file:?}\n[[route]]\nauthenticate = true\npool = \"proxy\"\n"
            );
            proxies.push(RunningProxy::with_threads(&field, host, &[next], 1, &more));
            records.push(file);
            next = field.sip(host);
        }
        proxies.reverse();
        records.reverse();
        let (edge, caller) = (proxies[0].address(), field.sip(2));
        let contact = caller.to_string();
        let options = phone("alice", &contact, "bob@example.com");
        SippCaller::start(&field, "uac_user", (caller, edge), load, &options).finish_clean();
        let alice = Phone::start(&field, 3, ("alice", "sesame", edge), Some("sip:bob@example.com"), 4);
        alice.says("Call established: sip:bob@example.com");
        alice.finish();
        let wrong = Phone::start(&field, 4, ("bob", "wrong", edge), Some("sip:alice@example.com"), 3);
        wrong.finish();
        proxies.iter().for_each(RunningProxy::wait_until_idle);
        assert_eq!(server.finish_clean().calls(), load.calls + 1);
        // A proxy keeps the call until a neighbour has reported that it has room.
        let is_most = |count: u64| count > load.calls - 3;
        let written = |file| std::fs::read_to_string(file).unwrap_or_default().lines().count() as u64;
        let written: Vec<_> = records.iter().map(written).collect();
        assert_eq!(written.iter().sum::<u64>(), load.calls + 1, "{written:?}");
        for (index, (proxy, &written)) in proxies.iter().zip(&written).enumerate() {
            let [verified, left, before] = figures(proxy, KEYS);
            let summary = format!("{index}, {keeper} keeps: {written} written, {verified} {left} {before}");
            assert_eq!(is_most(written), index == keeper, "{summary}");
            // A call is challenged first.
            assert_eq!(is_most(verified / 2), index == keeper, "{summary}");
            assert_eq!(is_most(left / 2), index < keeper, "{summary}");
            assert_eq!(is_most(before), index > keeper, "{summary}");
        }
        proxies.into_iter().for_each(RunningProxy::stop);
    }
}
