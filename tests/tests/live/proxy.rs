//! The proxy in a chain of two, with calls under all kinds of faults.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::time::Duration;

use sarabande_tests::{
    Agent, AgentRequest, AnsweringAgent, CallLoad, LossyLink, RunningProxy, SippCaller, SippServer, TestSite,
    Tool, status, until, value, within,
};

use super::SOME;

/// Starts a chain of two proxies at hosts 1 and 5 in front of `server`.
fn chain(field: &TestSite, server: SocketAddr) -> [RunningProxy; 2] {
    let second = RunningProxy::start(field, 5, &[server], "");
    [RunningProxy::start(field, 1, &[second.address()], ""), second]
}

/// `uac_NAME` calls `uas_NAME` through the chain; see [`between`].
fn through_a_chain(name: &str, load: CallLoad) -> [RunningProxy; 2] {
    between(name, &format!("uas_{name}"), load)
}

/// `uac_NAME` calls `scenario` through the chain. Every call succeeds at both ends, and no request is left unanswered.
fn between(name: &str, scenario: &str, load: CallLoad) -> [RunningProxy; 2] {
    let field = TestSite::new(&format!("proxy-{name}"));
    let server = SippServer::start(&field, scenario, field.sip(11), 500);
    let proxies = chain(&field, server.address());
    let ends = (field.sip(2), proxies[0].address());
    SippCaller::start(&field, &format!("uac_{name}"), ends, load, &[]).finish_clean();
    proxies.iter().for_each(RunningProxy::wait_until_idle);
    assert_eq!(server.finish_clean().calls(), load.calls);
    proxies
}

/// Every message of a call passes both proxies, ACK and BYE by the recorded routes. Both proxies stop in good order.
#[test]
fn plain_calls_pass_a_chain() {
    let load = CallLoad { calls: 300, rate: 100, hold_ms: 500 };
    for proxy in through_a_chain("call", load) {
        // INVITE and BYE with transactions, ACK without; 180 and two 200 back.
        assert_eq!(proxy.figure("forwarded_total"), 2 * load.calls);
        assert_eq!(proxy.figure("stateless_total"), load.calls);
        assert_eq!(proxy.figure("relayed_total"), 3 * load.calls);
        assert_eq!(proxy.figure("stray_total") + proxy.figure("refused_total"), 0);
        proxy.stop();
    }
}

/// CANCEL is answered at once and forwarded hop by hop, the 487 comes back, and each hop sends its own ACK.
#[test]
fn a_cancelled_call_ends_at_every_hop() {
    for proxy in between("cancel", "uas_cancel_chain", SOME) {
        assert_eq!(proxy.figure("forwarded_total"), SOME.calls);
        assert_eq!(proxy.figure("stateless_total"), 0, "an ACK to a failure is not forwarded");
    }
}

/// Re-INVITEs, and requests of the called side, follow the recorded route.
#[test]
fn dialogs_follow_their_route_in_both_directions() {
    through_a_chain("reinvite", SOME);
    through_a_chain("callee_bye", SOME);
    through_a_chain("in_dialog", SOME);
}

/// An INVITE that answers a challenge reaches the challenger.
#[test]
fn a_challenged_invite_passes() {
    through_a_chain("auth", SOME);
}

/// 5 % of the datagrams are lost each way, before, between and behind the proxies. All calls succeed, and each is one
/// call at the server.
#[test]
fn five_percent_loss_each_way_loses_no_call() {
    const FIVE_PERCENT: u64 = 50;
    let field = TestSite::new("proxy-loss");
    let (caller, [first, second, third]) = (field.sip(2), [3, 4, 6].map(|host| field.sip(host)));
    let server = SippServer::start(&field, "uas_direct", field.sip(11), 32_000);
    let behind = RunningProxy::start(&field, 5, &[third], "");
    let before = RunningProxy::start(&field, 1, &[second], "");
    let links = [
        LossyLink::start(first, caller, before.address(), FIVE_PERCENT, 1),
        LossyLink::start(second, before.address(), behind.address(), FIVE_PERCENT, 2),
        LossyLink::start(third, behind.address(), server.address(), FIVE_PERCENT, 3),
    ];
    let load = CallLoad { calls: 300, rate: 50, hold_ms: 8000 };
    SippCaller::plain(&field, (caller, first), load).finish_clean();
    before.wait_until_idle();
    behind.wait_until_idle();
    assert_eq!(server.finish_clean().calls(), load.calls);
    assert!(links.iter().all(|link| link.lost() > 0), "a link has lost nothing: {links:?}");
}

/// The first next hop has a closed port. After the ICMP error the other one gets the call at once, and later calls do
/// not try the first. `status` shows it, and `explain` names the next hop.
#[test]
fn a_dead_next_hop_is_passed_by() {
    let field = TestSite::new("proxy-dead");
    let server = SippServer::plain(&field, 11);
    let proxy = RunningProxy::start(&field, 1, &[field.sip(12), server.address()], "");
    let load = CallLoad { calls: 200, rate: 100, hold_ms: 100 };
    SippCaller::plain(&field, (field.sip(2), proxy.address()), load).finish_clean();
    let retried = proxy.figure("retried_total");
    // Half of the calls have the dead hop first. The number of calls that try it before its failure is read depends on
    // the machine. If it were not skipped afterwards, all of them would, about 100.
    assert!((1..load.calls * 2 / 5).contains(&retried), "{retried} of {} calls were tried twice", load.calls);
    let admin = format!("http://{}", proxy.admin());
    let (status, shown) = Tool::run(&field, &["status", "--admin", &admin]);
    assert!(status.success(), "{shown}");
    for line in ["12:5060 failed, unused while others work", "11:5060 in use", "proxy, new calls are taken"] {
        assert!(shown.contains(line), "{line:?} in {shown}");
    }
    assert!(proxy.get("/metrics").contains("\nsarabande_proxy_hop_resting{hop="));
    let (status, shown) = Tool::run(&field, &["explain", "--call-id", "x", "--admin", &admin]);
    assert!(status.success() && shown.contains("11:5060"), "{shown}");
    server.finish_clean();
}

/// The kernel reports the closed port to one thread, which need not be the one with the INVITE. All calls go to the
/// other next hop at once, long before an unanswered INVITE is given up (64*T1 = 32 s). No thread tries the dead hop
/// again.
#[test]
fn a_closed_port_is_known_to_all_threads() {
    const CALLS: usize = 40;
    for threads in [1, 2, 4, 8] {
        let field = TestSite::new(&format!("proxy-icmp-{threads}"));
        let _server = AnsweringAgent::start(field.sip(11), |_| true);
        let next = [field.sip(12), field.sip(11)];
        let proxy = RunningProxy::with_threads(&field, 1, &next, threads, "");
        let agent = Agent::bind(field.sip(2));
        let invite = |call: usize| {
            let request = AgentRequest::new("INVITE", &format!("icmp-{threads}-{call}@test"));
            agent.send(proxy.address(), &request.bytes(agent.address()));
        };
        let mut answered = BTreeSet::new();
        let mut all_answered = |calls: usize| {
            within(Duration::from_secs(20), &format!("{calls} answers with {threads} threads"), || {
                while let Some((message, _)) = agent.receive_within(Duration::from_millis(1)) {
                    if status(&message) == Some(200) {
                        answered.extend(value(&message, "Call-ID"));
                    }
                }
                (answered.len() == calls).then_some(())
            });
        };
        (0..CALLS).for_each(invite);
        all_answered(CALLS);
        let retried = proxy.figure("retried_total");
        assert!(retried > 0, "about half of the calls have the dead hop first");
        (CALLS..2 * CALLS).for_each(invite);
        all_answered(2 * CALLS);
        assert_eq!(proxy.figure("retried_total"), retried, "the dead hop was tried again");
        let shown = proxy.get("/api/proxy");
        let dead = format!("{{\"address\":\"{}\",\"resting\":true}}", field.sip(12));
        assert!(shown.contains(&dead), "{dead} in {shown}");
        assert!(proxy.log().contains("member is unreachable: it is tried last"), "{}", proxy.log());
    }
}

/// A next hop hangs. After 64*T1 its INVITEs go to the other one. Their callers have had a 100 and wait.
#[test]
fn a_next_hop_that_hangs_is_given_up() {
    let field = TestSite::new("proxy-hung");
    let mut hung = SippServer::plain(&field, 12);
    let server = SippServer::plain(&field, 11);
    hung.freeze();
    let proxy =
        RunningProxy::start(&field, 1, &[hung.address(), server.address()], "[timers]\nt1 = \"50ms\"");
    let load = CallLoad { calls: 40, rate: 100, hold_ms: 100 };
    let caller = SippCaller::plain(&field, (field.sip(2), proxy.address()), load);
    until("an INVITE is tried again", || (proxy.figure("retried_total") > 0).then_some(()));
    caller.finish_clean();
    proxy.wait_until_idle();
    assert_eq!(server.finish_clean().calls(), load.calls);
}

/// A next hop answers 503 and its call goes to the other one. The caller does not get the 503.
#[test]
fn after_a_503_the_other_next_hop_gets_the_call() {
    let field = TestSite::new("proxy-busy");
    let busy = SippServer::start(&field, "uas_busy", field.sip(12), 500);
    let server = SippServer::plain(&field, 11);
    let proxy = RunningProxy::start(&field, 1, &[busy.address(), server.address()], "");
    let load = CallLoad { calls: 40, rate: 20, hold_ms: 0 };
    SippCaller::plain(&field, (field.sip(2), proxy.address()), load).finish_clean();
    assert!(proxy.figure("retried_total") > 0);
    server.finish_clean();
    busy.finish_clean();
}
