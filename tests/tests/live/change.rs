//! Members come, go and change while calls run; none is lost.

use sarabande_tests::{
    CallLoad, RunningBalancer, ShownMember, SippCaller, TestSettings, TestSite, quoted, until,
};

use super::{SERVERS, Scene, finish_clean, servers};

/// Steady load, long enough for the tests. A call lasts a second.
const STEADY: CallLoad = CallLoad { calls: 800, rate: 40, hold_ms: 1000 };

/// Waits until `member` has got `more` calls than before. Returns all members at that time.
pub(super) fn after_more(
    balancer: &RunningBalancer,
    member: std::net::SocketAddr,
    more: u64,
) -> Vec<ShownMember> {
    let assigned = || balancer.member(member).map_or(0, |member| member.assigned);
    let start = assigned();
    until("more calls for a member", || (assigned() >= start + more).then(|| balancer.members()))
}

pub(super) fn assigned(members: &[ShownMember], address: std::net::SocketAddr) -> u64 {
    members.iter().find(|member| member.address == address).map_or(0, |member| member.assigned)
}

/// Reloads under load. SIGHUP adds a member, the admin interface removes one and makes another four times as strong,
/// and a file with an error changes nothing. No call is lost, and calls of the removed member end there.
#[test]
fn reload_under_load_loses_no_call() {
    let field = TestSite::new("reload");
    let [removed, light, heavy] = SERVERS.map(|host| field.sip(host));
    let servers = servers(&field, "uas_call", &SERVERS);
    let mut settings = TestSettings::new(&field, &SERVERS[..2]);
    // By live calls, since their shares follow the capacities even at low load.
    settings.pool.push("policy = \"cjsq\"".to_owned());
    let mut balancer = RunningBalancer::start(&field, settings);
    let mut caller = SippCaller::plain(&field, (field.sip(2), balancer.address()), STEADY);
    after_more(&balancer, removed, 20);

    balancer.reload(|settings| settings.members.push(quoted(&heavy)));
    until("the new member is known", || balancer.member(heavy));
    after_more(&balancer, heavy, 10);

    balancer.reload_by_request(|settings| {
        settings.members =
            vec![quoted(&light), format!("{{ address = {}, capacity = 4.0 }}", quoted(&heavy))];
    });
    let before = balancer.members();
    let after = after_more(&balancer, heavy, 80);
    let given = |member| assigned(&after, member).saturating_sub(assigned(&before, member));
    assert!(given(heavy) > 2 * given(light), "four times the capacity: {} to {}", given(heavy), given(light));
    assert!(!after.iter().any(|member| member.address == removed && member.accepting), "{after:?}");

    let error = balancer.refuse_reload(|settings| settings.timers.push("call = \"soon\""));
    assert!(error.contains("soon"), "the refusal names the value: {error}");
    assert!(!caller.ended(), "the load ended too early to show anything");
    caller.finish_clean();
    balancer.wait_until_idle();
    finish_clean(servers, STEADY.calls);
}

/// Members are added and removed while calls run, without a change of the file. No call is lost, calls of the removed
/// member end there, and a reload brings the members of the file back.
#[test]
fn runtime_changes_under_load_lose_no_call() {
    let field = TestSite::new("runtime");
    let [removed, light, heavy] = SERVERS.map(|host| field.sip(host));
    let servers = servers(&field, "uas_call", &SERVERS);
    let mut settings = TestSettings::new(&field, &SERVERS[..2]);
    settings.pool.push("policy = \"cjsq\"".to_owned());
    let mut balancer = RunningBalancer::start(&field, settings);
    let mut caller = SippCaller::plain(&field, (field.sip(2), balancer.address()), STEADY);
    after_more(&balancer, removed, 20);

    balancer.post(&format!("/api/member/add?pool=servers&address={heavy}&weight=4"));
    after_more(&balancer, heavy, 10);
    balancer.post(&format!("/api/member/remove?pool=servers&member={removed}"));
    let before = balancer.members();
    let after = after_more(&balancer, heavy, 80);
    let given = |member| assigned(&after, member).saturating_sub(assigned(&before, member));
    assert!(given(heavy) > 2 * given(light), "four times the weight: {} to {}", given(heavy), given(light));
    assert_eq!(given(removed), 0);
    assert!(balancer.get("/api/health").contains(" added"));

    balancer.reload_by_request(|_| ());
    let kept = assigned(&after_more(&balancer, removed, 5), heavy);
    assert_eq!(
        assigned(&after_more(&balancer, removed, 10), heavy),
        kept,
        "the file does not have this member"
    );
    assert!(!balancer.get("/api/health").contains(" added"));
    assert!(!caller.ended(), "the load ended too early to show anything");
    caller.finish_clean();
    balancer.wait_until_idle();
    finish_clean(servers, STEADY.calls);
}

/// A draining member gets no new call, keeps its calls until they end, and takes calls again after the drain.
#[test]
fn drain_under_load_loses_no_call() {
    let scene = Scene::new("drain", "call");
    let (balancer, drained, other) =
        (&scene.balancer, scene.servers[0].address(), scene.servers[1].address());
    let mut caller = scene.call(2, STEADY);
    let state = || balancer.member(drained).expect("a draining member is a member");
    until("the member has calls", || (state().calls > 3).then_some(()));

    balancer.set_draining(drained, true);
    until("its calls end", || (state().calls == 0).then_some(()));
    let given = state().assigned;
    after_more(balancer, other, 30);
    assert_eq!(state().assigned, given, "a draining member was given calls");
    assert!(!state().accepting && state().state.contains("drain"), "{:?}", state());

    balancer.set_draining(drained, false);
    after_more(balancer, drained, 10);
    assert!(!caller.ended(), "the load ended too early to show anything");
    caller.finish_clean();
    scene.finish_clean(STEADY.calls);
}
