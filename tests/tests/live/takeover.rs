//! A process takes over from another one with the same configuration: no call is refused or lost.

use std::thread::sleep;
use std::time::Duration;

use sarabande_tests::{
    CallLoad, Process, RunningBalancer, RunningProxy, Service, SippCaller, SippServer, TestSettings,
    TestSite, Tool, until,
};

use super::{SERVERS, SOME, Scene, finish_clean, servers};

/// Calls that arrive while several processes take over from each other, for up to a minute.
const STEADY: CallLoad = CallLoad { calls: 6000, rate: 100, hold_ms: 1500 };

/// Long enough for an action on a process while every call is established.
const ESTABLISHED: CallLoad = CallLoad { calls: 60, rate: 100, hold_ms: 8000 };

fn settings(field: &TestSite, threads: usize) -> TestSettings {
    TestSettings { threads, ..TestSettings::new(field, &SERVERS) }
}

/// Servers that still answer the fourth copy of a BYE: if the machine pauses for a moment, responses are lost too.
fn patient_servers(field: &TestSite) -> Vec<SippServer> {
    SERVERS.iter().map(|host| SippServer::start(field, "uas_call", field.sip(*host), 5000)).collect()
}

/// Three processes take over from each other while calls come and go, and each ends after its calls. `threads` are
/// those of the first process, and of the others.
fn balancer_restarts(name: &str, threads: [usize; 2]) {
    let field = TestSite::new(name);
    let servers = patient_servers(&field);
    let mut balancer = RunningBalancer::start(&field, settings(&field, threads[0]));
    let caller = SippCaller::plain(&field, (field.sip(2), balancer.address()), STEADY);
    let mut before = Vec::new();
    for turn in 0..3 {
        until("calls run", || (balancer.calls() > 20).then_some(()));
        balancer.set(|settings| settings.threads = threads[(turn + 1) % 2]);
        before.push(balancer.take_over());
        sleep(Duration::from_secs(2));
    }
    let calls = caller.end_clean();
    before.into_iter().for_each(Process::wait);
    balancer.wait_until_idle();
    // The sockets are still in the order of the threads, so the kernel finds the threads of new calls.
    let moved = || balancer.metric("sarabande_datagrams_handed_over_total") as u64;
    let (moved_before, load) = (moved(), CallLoad { calls: 100, rate: 50, hold_ms: 0 });
    let more = SippCaller::plain(&field, (field.sip(2), balancer.address()), load).finish_clean().successful;
    balancer.wait_until_idle();
    assert_eq!(moved(), moved_before, "no datagram of the new calls moves between threads");
    finish_clean(servers, calls + more);
}

/// The measured capacity of members, which is above their initial one, is handed over.
#[test]
fn the_next_process_knows_the_measured_capacities() {
    let field = TestSite::new("takeover-shown");
    let servers = servers(&field, "uas_direct", &SERVERS);
    let mut settings = settings(&field, 1);
    settings.pool.push(
        "queue = { source = \"responses\", capacity = 20, threshold = \"1s\", wait = \"2s\" }".to_owned(),
    );
    let mut balancer = RunningBalancer::start(&field, settings);
    let load = CallLoad { calls: 3000, rate: 28, hold_ms: 0 };
    let caller = SippCaller::plain(&field, (field.sip(2), balancer.address()), load);
    let shown = |balancer: &RunningBalancer| -> Vec<f64> {
        let page = balancer.get("/metrics");
        let lines = page.lines().filter(|line| line.starts_with("sarabande_queue_capacity{"));
        lines.filter_map(|line| line.rsplit_once(' ')?.1.parse().ok()).collect()
    };
    // Each begins with ten, and gets nine a second.
    let have_all = |shown: &[f64]| shown.len() == SERVERS.len() && shown.iter().all(|shown| *shown > 11.2);
    until("the capacities of all members have risen", || have_all(&shown(&balancer)).then_some(()));
    let before = balancer.take_over();
    let known = until("the next process has its members", || {
        Some(shown(&balancer)).filter(|shown| shown.len() == SERVERS.len())
    });
    assert!(have_all(&known), "{known:?}");
    let calls = caller.end_clean();
    before.wait();
    balancer.wait_until_idle();
    finish_clean(servers, calls);
}

#[test]
fn a_balancer_of_two_threads_restarts_under_load() {
    balancer_restarts("takeover-2", [2, 2]);
}

#[test]
fn a_balancer_restarts_with_more_and_fewer_threads() {
    balancer_restarts("takeover-3", [1, 3]);
}

fn proxy_restarts(name: &str, threads: usize) {
    let field = TestSite::new(name);
    let servers = patient_servers(&field);
    let next: Vec<_> = SERVERS.iter().map(|host| field.sip(*host)).collect();
    let mut proxy = RunningProxy::with_threads(&field, 1, &next, threads, "");
    let caller = SippCaller::plain(&field, (field.sip(2), proxy.address()), STEADY);
    let mut before = Vec::new();
    for _ in 0..3 {
        sleep(Duration::from_secs(2));
        before.push(proxy.take_over());
    }
    let calls = caller.end_clean();
    before.into_iter().for_each(Process::wait);
    proxy.wait_until_idle();
    finish_clean(servers, calls);
}

#[test]
fn a_proxy_of_two_threads_restarts_under_load() {
    proxy_restarts("takeover-proxy-2", 2);
}

/// The old process is killed while it has calls. They go on as after any `kill -9`.
#[test]
fn a_killed_predecessor_costs_no_established_call() {
    let mut scene = Scene::with_threads("takeover-old", "reinvite", 2);
    let caller = scene.established(ESTABLISHED);
    let before = scene.balancer.take_over();
    until("the old process has calls", || (scene.balancer.calls() > 0).then_some(()));
    before.kill();
    caller.finish_clean();
    scene.finish_clean(ESTABLISHED.calls);
}

/// The new process is killed while the old one has calls. The old one reads its sockets again, takes new calls, and can
/// be replaced once more.
#[test]
fn a_killed_successor_gives_the_sockets_back() {
    let mut scene = Scene::with_threads("takeover-new", "reinvite", 2);
    let caller = scene.established(ESTABLISHED);
    let before = scene.balancer.take_over();
    scene.balancer.replace(before).kill();
    until("the old process reads again", || {
        scene.balancer.log().contains("reads its sockets again").then_some(())
    });
    scene.call(3, SOME).finish_clean();
    let before = scene.balancer.take_over();
    caller.finish_clean();
    before.wait();
    scene.finish_clean(ESTABLISHED.calls + SOME.calls);
}

/// The old process hangs. Its calls go on without it, and it leaves the sockets alone when it continues.
#[test]
fn a_hung_predecessor_costs_no_established_call() {
    let mut scene = Scene::with_threads("takeover-still", "reinvite", 1);
    let caller = scene.established(ESTABLISHED);
    let mut before = scene.balancer.take_over();
    before.freeze();
    until("the new process waits no longer", || {
        scene.balancer.log().contains("does not answer").then_some(())
    });
    caller.finish_clean();
    before.thaw();
    scene.call(3, SOME).finish_clean();
    assert!(!before.log().contains("reads its sockets again"), "{}", before.log());
    scene.finish_clean(ESTABLISHED.calls + SOME.calls);
}

/// An operator's drain is handed over.
#[test]
fn a_drain_lasts_longer_than_a_process() {
    let mut scene = Scene::with_threads("takeover-drain", "call", 2);
    let drained = scene.field.sip(SERVERS[0]);
    scene.balancer.set_draining(drained, true);
    for _ in 0..2 {
        scene.balancer.take_over().wait();
        let state = scene.balancer.member(drained).map(|member| member.state);
        assert_eq!(state.as_deref(), Some("draining"));
    }
    scene.call(2, SOME).finish_clean();
    scene.finish_clean(SOME.calls);
}

/// A member that was added by a request is not in the file, so the next process does not have it. Its calls go on.
#[test]
fn an_added_member_ends_with_its_process_and_its_calls_do_not() {
    let field = TestSite::new("takeover-added");
    let servers = patient_servers(&field);
    let mut balancer = RunningBalancer::start(&field, TestSettings::new(&field, &SERVERS[..1]));
    let added = field.sip(SERVERS[1]);
    balancer.post(&format!("/api/member/add?pool=servers&address={added}"));
    let caller = SippCaller::plain(&field, (field.sip(2), balancer.address()), ESTABLISHED);
    until("every call has begun", || (balancer.calls() == ESTABLISHED.calls).then_some(()));
    assert!(balancer.member(added).is_some_and(|member| member.calls > 10), "{:?}", balancer.members());
    let before = balancer.take_over();
    assert!(balancer.member(added).is_none_or(|member| !member.accepting), "{:?}", balancer.members());
    caller.finish_clean();
    before.wait();
    finish_clean(servers, ESTABLISHED.calls);
}

/// A dead member is handed over as dead.
#[test]
fn a_dead_member_stays_dead() {
    let mut scene = Scene::with_threads("takeover-dead", "call", 2);
    let mut dead = scene.servers.swap_remove(0);
    dead.freeze();
    let state = |balancer: &RunningBalancer| balancer.member(dead.address()).map(|member| member.state);
    until("the member is found dead", || (state(&scene.balancer).as_deref() == Some("down")).then_some(()));
    let before = scene.balancer.take_over();
    assert_eq!(state(&scene.balancer).as_deref(), Some("down"));
    scene.call(2, SOME).finish_clean();
    before.wait();
    scene.finish_clean(SOME.calls);
}

/// A hung process hands nothing over. The new one reports it and ends, and the old one goes on when it continues.
#[test]
fn a_hung_predecessor_is_reported() {
    let mut scene = Scene::with_threads("takeover-hang", "call", 1);
    scene.balancer.freeze();
    let mut next = scene.balancer.start_beside();
    let status = until("the successor gives up", || next.ended());
    assert!(!status.success() && next.log().contains("does not hand its sockets over"), "{}", next.log());
    scene.balancer.thaw();
    scene.call(2, SOME).finish_clean();
    scene.finish_clean(SOME.calls);
}

/// A process is killed during its takeover again and again, each time a little later.
#[test]
fn a_successor_killed_on_its_way_costs_no_established_call() {
    let mut scene = Scene::with_threads("takeover-way", "reinvite", 2);
    let caller = scene.established(ESTABLISHED);
    for turn in 0..20 {
        let next = scene.balancer.start_beside();
        sleep(Duration::from_millis(5 * turn));
        next.kill();
    }
    caller.finish_clean();
    scene.call(3, SOME).finish_clean();
    scene.balancer.take_over().wait();
    scene.finish_clean(ESTABLISHED.calls + SOME.calls);
}

/// If the new process stops at once, the old one gets no more messages. It ends too, and the next process finds the
/// addresses free.
#[test]
fn an_early_stop_of_the_successor_ends_both_processes() {
    let mut scene = Scene::with_threads("takeover-once", "reinvite", 2);
    let caller = scene.established(ESTABLISHED);
    let mut before = scene.balancer.take_over();
    scene.balancer.terminate();
    until("it stops", || scene.balancer.log().contains("stopping: no new calls").then_some(()));
    scene.balancer.terminate();
    scene.balancer.wait();
    // Sooner than its own `[stop] wait`.
    until("the process before ends", || before.ended());
    scene.balancer.kill_and_restart();
    caller.finish_clean();
    scene.finish_clean(ESTABLISHED.calls);
}

/// A normal stop of the new process is final: the old process does not come back.
#[test]
fn a_stop_of_the_successor_ends_both_processes() {
    let mut scene = Scene::with_threads("takeover-stop", "call", 2);
    let caller = scene.established(ESTABLISHED);
    let before = scene.balancer.take_over();
    scene.balancer.terminate();
    caller.finish_clean();
    before.wait();
    assert!(scene.balancer.wait().success());
    finish_clean(scene.servers, ESTABLISHED.calls);
}

/// `systemctl restart` ends the main process before it starts the next one. Neither new nor existing calls are
/// affected. `sarabande restart` does the same without systemd. A stop stays a stop.
#[test]
fn a_service_restarts_under_load() {
    let field = TestSite::new("takeover-service");
    let servers = patient_servers(&field);
    let mut service = Service::start(&field, &settings(&field, 1));
    let caller = SippCaller::plain(&field, (field.sip(2), field.sip(1)), STEADY);
    for _ in 0..3 {
        sleep(Duration::from_secs(2));
        service.restart();
    }
    sleep(Duration::from_secs(2));
    let config = service.file().to_str().expect("it is text").to_owned();
    let (status, shown) = Tool::run(&field, &["restart", "--config", &config]);
    assert!(status.success() && shown.contains("another process has taken over"), "{status}: {shown}");
    sleep(Duration::from_secs(2));
    service.restart();
    let calls = caller.end_clean();
    assert!(service.state().join("sarabande.sock").exists(), "it is in the state directory");
    assert!(!service.file().with_file_name("sarabande.sock").exists(), "it is not beside the configuration");
    service.stop();
    finish_clean(servers, calls);
}

/// A restart with an error in the file: the old server goes on, which is better than none.
#[test]
fn a_restart_with_an_error_in_the_file_changes_nothing() {
    let field = TestSite::new("takeover-error");
    let servers = patient_servers(&field);
    let service = Service::start(&field, &settings(&field, 1));
    let before = service.servers();
    let good = std::fs::read_to_string(service.file()).expect("it is text");
    std::fs::write(service.file(), format!("{good}\n[nonsense]\n")).expect("it can be written");
    let admin = format!("http://{}", std::net::SocketAddr::new(field.ip(1), 8060));
    let (status, _) = Tool::run(&field, &["restart", "--admin", &admin]);
    assert_eq!(status.code(), Some(1));
    assert_eq!(service.servers(), before);
    std::fs::write(service.file(), good).expect("it can be written");
    service.stop();
    finish_clean(servers, 0);
}
