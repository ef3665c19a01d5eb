//! Dialogs survive a restart of the balancer, by the token in their route set.

use sarabande_tests::{CallLoad, RunningBalancer, SippCaller, TestSettings, TestSite};

use super::{SERVERS, Scene, finish_clean, servers};

/// Long enough for an action on the balancer while every call is established.
const ESTABLISHED: CallLoad = CallLoad { calls: 60, rate: 100, hold_ms: 5000 };

/// `kill -9` under established calls, and a start with the same key and an empty table. Re-INVITE, ACK and BYE reach
/// their servers, and all calls end properly.
#[test]
fn established_calls_survive_a_killed_balancer() {
    let mut scene = Scene::new("restart", "reinvite");
    let caller = scene.established(ESTABLISHED);
    scene.balancer.kill_and_restart();
    caller.finish_clean();
    scene.finish_clean(ESTABLISHED.calls);
}

/// Two balancers share a key. The one that forwarded the INVITEs dies. ACK, re-INVITE and BYE go through the other one,
/// which has no state of these calls.
#[test]
fn a_peer_balancer_takes_over_dialogs() {
    let field = TestSite::new("peer");
    let servers = servers(&field, "uas_peer", &SERVERS);
    let (first, second) = (field.sip(1), field.sip(4));
    let settings = TestSettings::new(&field, &SERVERS);
    let mut peer = settings.clone();
    let balancer = RunningBalancer::start(&field, settings);
    peer.name = "peer";
    peer.listen = vec![second];
    peer.admin.set_ip(second.ip());
    let peer = RunningBalancer::start(&field, peer);

    let keys = [second.ip().to_string(), second.port().to_string()];
    let keys = ["-key", "other_ip", &keys[0], "-key", "other_port", &keys[1]];
    let caller = SippCaller::start(&field, "uac_peer", (field.sip(2), first), ESTABLISHED, &keys);
    caller.wait_until_answered();
    drop(balancer);
    caller.finish_clean();
    peer.wait_until_idle();
    finish_clean(servers, ESTABLISHED.calls);
}

/// After SIGTERM, established calls end normally, and the program ends after them with success, long before its limit.
/// New calls are refused meanwhile.
#[test]
fn sigterm_waits_for_calls_and_takes_no_new_ones() {
    let mut scene = Scene::new("sigterm", "call");
    let caller = scene.established(ESTABLISHED);
    scene.balancer.terminate();
    let late = CallLoad { calls: 5, rate: 10, hold_ms: 0 };
    let refused = scene.call(3, late).finish();
    assert_eq!(
        (refused.successful, refused.failed),
        (0, late.calls),
        "new calls while stopping: {refused:?}"
    );
    assert_eq!(scene.balancer.ended(), None, "the balancer did not wait for its calls");
    caller.finish_clean();
    let status = scene.balancer.wait();
    assert!(status.success(), "{status}");
    finish_clean(scene.servers, ESTABLISHED.calls);
}
