//! The faults of `failure`, `restart`, `takeover` and `change` over TCP and TLS. Servers die or hang, connections are
//! reset, certificates change, and the balancer is killed, replaced and reconfigured under calls.

use std::fs;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use sarabande_tests::{
    AgentRequest, Carrier, Certificate, LoadCaller, LoadResults, LoadServer, Process, ResettingLink,
    RunningBalancer, StreamClient, TestSettings, TestSite, TlsExchange, path_text, show, until,
};

use super::SERVERS;

/// A few dozen calls.
const SOME: (u64, u32) = (60, 100);
/// Calls that are all answered before the first one ends.
const ESTABLISHED: (u64, u32) = (150, 150);

/// Runs a test over TCP and TLS at the same time, since it mostly waits.
fn over_each(test: impl Fn(&'static str) + Sync) {
    thread::scope(|scope| {
        for transport in ["tcp", "tls"] {
            scope.spawn(|| test(transport));
        }
    });
}

/// Servers behind a balancer, all over one transport.
struct Scene {
    carrier: Carrier,
    servers: Vec<LoadServer>,
    settings: TestSettings,
    // Dropped last, since another test may then take the addresses.
    field: TestSite,
}

impl Scene {
    fn new(name: &str, transport: &'static str) -> Self {
        let field = TestSite::new(&format!("{transport}-{name}"));
        let carrier = Carrier::new(&field, transport);
        let servers = SERVERS.iter().map(|host| LoadServer::start(&field, &carrier, *host)).collect();
        let settings = TestSettings { threads: 2, ..carrier.settings(&field, &SERVERS) };
        Self { carrier, servers, settings, field }
    }

    fn balancer(&self) -> RunningBalancer {
        RunningBalancer::start(&self.field, self.settings.clone())
    }

    /// Starts calls from this host.
    fn calls(&self, host: u8, load: (u64, u32), hold: &str) -> LoadCaller {
        let ends = (self.field.ip(host), self.carrier.at(&self.field, 1));
        LoadCaller::start(&self.field, &self.carrier, ends, load, hold)
    }

    /// Checks that the balancer has no state left, and that no server got a request of another server's call.
    fn finish(self, balancer: &RunningBalancer) -> Vec<LoadResults> {
        balancer.wait_until_idle();
        self.servers.into_iter().map(LoadServer::finish_clean).collect()
    }
}

/// Waits until this many calls are answered and none has ended.
fn all_answered(balancer: &RunningBalancer, (calls, _): (u64, u32)) {
    until("every call is answered", || (balancer.calls() == calls).then_some(()));
}

/// A server is killed under load. Every call is still answered, if need be by another server, and only its answered
/// calls are lost. It gets calls again when it is back.
#[test]
fn a_killed_server_loses_only_its_calls() {
    over_each(|transport| {
        let mut scene = Scene::new("killed", transport);
        let balancer = scene.balancer();
        let victim = scene.servers.remove(0);
        let address = victim.address();
        let shown = || balancer.member(address).expect("a dead server stays a member");
        let around = scene.calls(2, (600, 100), "100ms");
        until("the victim has calls", || (shown().assigned > 20).then_some(()));
        victim.kill();
        until("the dead server is marked", || (!shown().accepting).then_some(()));
        let given = shown().assigned;
        scene.calls(3, (150, 100), "100ms").finish_clean();
        let around = around.finish();
        assert_eq!(around.count("calls_answered"), 600, "{around:?}");
        let lost = around.count("calls_started") - around.count("calls_completed");
        println!("{transport}: of 600 calls {lost} were lost with their server");
        // For about a millisecond a stateless request is in flight, and its loss cannot be reported.
        let (refused, on_their_way) = (around.sum("bye_refused"), around.count("bye_timeouts"));
        assert_eq!(refused + on_their_way, lost, "a caller that hangs up gets an error at once: {around:?}");
        assert!(on_their_way <= 2, "a caller that hangs up gets an error at once: {around:?}");
        balancer.wait_until_idle();
        scene.servers.push(LoadServer::start(&scene.field, &scene.carrier, SERVERS[0]));
        until("the server is back", || shown().accepting.then_some(()));
        scene.calls(4, SOME, "100ms").finish_clean();
        assert!(shown().assigned > given, "the server that is back gets no calls");
        scene.finish(&balancer);
    });
}

/// A server hangs with its connections open. Its unanswered calls go to others after it is known to be dead.
#[test]
fn unanswered_invites_move_away_from_a_frozen_server() {
    over_each(|transport| {
        let mut scene = Scene::new("frozen", transport);
        // Slow enough that calls do reach the frozen server before it is marked.
        scene.settings.probe = vec!["interval = \"2s\"", "timeout = \"1500ms\""];
        let balancer = scene.balancer();
        // Connections exist before it hangs.
        scene.calls(3, SOME, "100ms").finish_clean();
        let mut frozen = scene.servers.remove(0);
        frozen.freeze();
        let given = || balancer.member(frozen.address()).expect("a frozen server stays a member").assigned;
        let before = given();
        scene.calls(2, (90, 100), "100ms").finish_clean();
        assert!(given() > before, "no call went to the frozen server, so the test shows nothing");
        balancer.wait_until_idle();
        scene.finish(&balancer);
    });
}

/// The balancer is killed while all calls are established, and started again. Their BYEs come on new connections, and
/// reach the servers of the calls.
#[test]
fn established_calls_survive_a_killed_balancer() {
    over_each(|transport| {
        let scene = Scene::new("balancer-killed", transport);
        let mut balancer = scene.balancer();
        let caller = scene.calls(2, ESTABLISHED, "5s");
        all_answered(&balancer, ESTABLISHED);
        balancer.kill_and_restart();
        scene.calls(3, SOME, "100ms").finish_clean();
        caller.finish_clean();
        scene.finish(&balancer);
    });
}

/// Two takeovers while calls come and go. Callers stay with their process as long as they have calls.
#[test]
fn a_balancer_is_succeeded_twice_under_calls() {
    over_each(|transport| {
        let scene = Scene::new("succeeded", transport);
        let mut balancer = scene.balancer();
        let silent = scene.calls(2, ESTABLISHED, "9s");
        all_answered(&balancer, ESTABLISHED);
        let mut callers = vec![silent, scene.calls(3, (250, 50), "1s")];
        let mut before = Vec::new();
        for host in [4, 5] {
            until("calls run", || (balancer.calls() > 20).then_some(()));
            before.push(balancer.take_over());
            callers.push(scene.calls(host, (250, 50), "1s"));
        }
        for caller in callers {
            caller.finish_clean();
        }
        before.into_iter().for_each(Process::wait);
        let servers = scene.finish(&balancer);
        let answered: u64 = servers.iter().map(|server| server.count("calls_answered")).sum();
        assert_eq!(answered, ESTABLISHED.0 + 3 * 250, "{servers:?}");
    });
}

/// Members are added, removed and drained under load. No call fails, and a drained member gets no new calls.
#[test]
fn members_change_under_load() {
    over_each(|transport| {
        let mut scene = Scene::new("change", transport);
        let last = scene.settings.members.pop().expect("there are three");
        let mut balancer = scene.balancer();
        let caller = scene.calls(2, (600, 100), "500ms");
        until("calls run", || (balancer.calls() > 20).then_some(()));
        let drained = scene.servers[0].address();
        balancer.set_draining(drained, true);
        let given = |balancer: &RunningBalancer| balancer.member(drained).map(|member| member.assigned);
        let before = given(&balancer);
        balancer.reload(|settings| settings.members.push(last));
        let added = scene.servers[2].address();
        let has_calls = |member: sarabande_tests::ShownMember| member.assigned > 20;
        until("the new member has calls", || {
            balancer.member(added).filter(|m| has_calls(m.clone())).map(drop)
        });
        balancer.reload_by_request(|settings| drop(settings.members.remove(1)));
        caller.finish_clean();
        assert_eq!(given(&balancer), before, "a member that is drained got calls");
        scene.finish(&balancer);
    });
}

/// All connections of the callers are reset while their calls are established. Each call ends on a new one.
#[test]
fn calls_end_by_new_connections_after_the_callers_were_reset() {
    over_each(|transport| {
        let scene = Scene::new("callers-reset", transport);
        let balancer = scene.balancer();
        let at = scene.carrier.at(&scene.field, 1);
        let link = std::net::SocketAddr::new(at.ip(), 5099);
        let relay = ResettingLink::start(link, (scene.field.ip(6), at), 0, 1);
        let ends = (scene.field.ip(2), link);
        let caller = LoadCaller::start(&scene.field, &scene.carrier, ends, ESTABLISHED, "4s");
        all_answered(&balancer, ESTABLISHED);
        // The last responses are in flight. A caller would wait for a response that the reset drops.
        thread::sleep(Duration::from_secs(1));
        relay.reset_all();
        caller.finish_clean();
        assert!(relay.resets() > 0);
        scene.finish(&balancer);
    });
}

/// Every call has a connection of its own, and one in fifty is reset at some point. A caller that reconnects ends its
/// call on the new connection. The call of a caller that is gone before an answer is forgotten.
#[test]
fn one_caller_in_fifty_is_reset() {
    const CALLS: usize = 400;
    let scene = Scene::new("one-in-fifty", "tcp");
    let balancer = scene.balancer();
    let at = scene.carrier.at(&scene.field, 1);
    for number in 0..CALLS {
        // From several addresses, since the connections of one are limited and closed ones count for a moment.
        let from = scene.field.ip(20 + (number % 8) as u8);
        let mut client = StreamClient::connect(from, at);
        let call_id = format!("call-{number}");
        let invite = client.request(&AgentRequest::new("INVITE", &call_id));
        client.send(&invite).expect("it is open");
        if number % 100 == 99 {
            client.reset();
            continue;
        }
        let answer = client.final_response(&call_id);
        assert_eq!(sarabande_tests::status(&answer), Some(200), "{}", show(&answer));
        let ack = client.request(&AgentRequest::in_dialog("ACK", &answer));
        client.send(&ack).expect("it is open");
        if number % 100 == 49 {
            client.reset();
            client = StreamClient::connect(from, at);
        }
        let bye = AgentRequest { cseq: 3, ..AgentRequest::in_dialog("BYE", &answer) };
        assert_eq!(client.ask(&bye), 200, "{call_id}");
    }
    // A call is never ended if its caller is gone before the answer.
    let left = CALLS as u64 / 100;
    until("all others are over", || (balancer.calls() <= left).then_some(()));
    for server in scene.servers {
        server.finish_clean();
    }
}

/// The connections to the servers are reset repeatedly, in the middle of any message. The sender is told at once, or
/// another server is tried. No call reaches a second server, and no state is left.
#[test]
fn servers_whose_connections_are_reset_keep_their_calls() {
    over_each(|transport| {
        let mut scene = Scene::new("servers-reset", transport);
        // Requests within dialogs have transactions too.
        scene.settings.pool.push("dialogs = \"route\"".to_owned());
        let link = |host: u8| std::net::SocketAddr::new(scene.field.ip(host), 5099);
        let links: Vec<_> = SERVERS
            .iter()
            .map(|host| {
                let far = scene.carrier.at(&scene.field, *host);
                ResettingLink::start(link(*host), (scene.field.ip(*host), far), 20, u64::from(*host))
            })
            .collect();
        scene.settings.members =
            SERVERS.iter().map(|host| format!("\"{};transport={transport}\"", link(*host))).collect();
        // Probes would be reset too; another test covers servers taken for dead.
        scene.settings.probe = vec!["enabled = false"];
        let balancer = scene.balancer();
        let results = scene.calls(2, (300, 100), "500ms").finish();
        let resets: u64 = links.iter().map(ResettingLink::resets).sum();
        assert!(resets > 0, "no connection was reset, so the test shows nothing");
        println!("{transport}: {resets} resets, {} of 300 calls completed", results.count("calls_completed"));
        for count in ["wrong_server", "invite_timeouts", "bye_timeouts"] {
            assert_eq!(results.count(count), 0, "{count}: {results:?}");
        }
        balancer.wait_until_idle();
        for server in scene.servers {
            server.finish_clean();
        }
    });
}

/// The certificate changes each second. New connections get one or the other complete certificate, and existing
/// connections are not affected.
#[test]
fn changing_the_certificate_each_second_disturbs_no_connection() {
    let mut scene = Scene::new("certificates", "tls");
    let at = scene.carrier.at(&scene.field, 1);
    let names = format!("IP:{}", scene.field.ip(1));
    let authority = scene.carrier.authority().expect("there is one with TLS");
    let certificates = ["even", "odd"].map(|name| authority.issue(name, &names));
    let folder = scene.field.folder().join("current");
    fs::create_dir_all(&folder).expect("the scratch folder can be written");
    let current = Certificate { chain: folder.join("chain.pem"), key: folder.join("key.pem") };
    put(&certificates[0], &current);
    let file = authority.file();
    scene.settings.tables =
        format!("[tls]\ncertificates = [{}]\nauthorities = {:?}\n", current.toml(), path_text(&file));
    let balancer = scene.balancer();
    let caller = scene.calls(2, (400, 50), "1s");
    let checks = ["-CAfile", path_text(&file), "-verify_return_error"];
    let (begin, mut shown) = (Instant::now(), [0_u32; 2]);
    let mut swaps = 0;
    while begin.elapsed() < Duration::from_secs(7) {
        if begin.elapsed().as_secs() > swaps {
            swaps += 1;
            put(&certificates[swaps as usize % 2], &current);
        }
        let call_id = format!("swap-{}", shown.iter().sum::<u32>());
        let request = AgentRequest::new("OPTIONS", &call_id).bytes(scene.field.sip(3));
        let request = show(&request).replacen("SIP/2.0/UDP", "SIP/2.0/TLS", 1);
        let exchange = TlsExchange::with(&scene.field, at, &checks, request.as_bytes());
        assert!(exchange.is_answered(), "{exchange:?}");
        let which = usize::from(exchange.text.contains("CN = odd") || exchange.text.contains("CN=odd"));
        shown[which] += 1;
    }
    assert!(shown.iter().all(|count| *count > 0), "both certificates are shown: {shown:?}");
    caller.finish_clean();
    scene.finish(&balancer);
}

/// Replaces each file of `current` atomically by that of another certificate.
fn put(certificate: &Certificate, current: &Certificate) {
    let replace = |from: &Path, to: &Path| {
        let beside = to.with_extension("new");
        fs::copy(from, &beside)
            .and_then(|_| fs::rename(&beside, to))
            .expect("the scratch folder can be written");
    };
    replace(&certificate.key, &current.key);
    replace(&certificate.chain, &current.chain);
}

/// Without free descriptors, existing connections work, others wait, and the log says why.
#[test]
fn without_descriptors_existing_connections_go_on() {
    let scene = Scene::new("descriptors", "tcp");
    let balancer = scene.balancer();
    let at = scene.carrier.at(&scene.field, 1);
    let ask = |client: &mut StreamClient, call_id: &str| client.ask(&AgentRequest::new("OPTIONS", call_id));
    let mut old = StreamClient::connect(scene.field.ip(2), at);
    assert_eq!(ask(&mut old, "before"), 200);
    // All threads have their connections to the servers.
    scene.calls(3, SOME, "100ms").finish_clean();
    balancer.limit_descriptors(4);
    let mut held: Vec<_> = (0..20).map(|_| StreamClient::connect(scene.field.ip(4), at)).collect();
    until("the log says it", || balancer.log().contains("no connection can be accepted").then_some(()));
    assert_eq!(ask(&mut old, "meanwhile"), 200);
    // Each closed connection makes room for a waiting one.
    let mut last = held.pop().expect("there are some");
    drop(held);
    assert_eq!(ask(&mut last, "after"), 200);
    drop((last, old));
    scene.finish(&balancer);
}

/// More silent connections than descriptors, with no address above its limit. Calls to servers on TCP, new clients and
/// the operator are not affected, since the oldest silent connections are closed.
#[test]
fn silent_connections_take_no_descriptor_that_others_need() {
    let mut scene = Scene::new("silent", "tcp");
    scene.settings.descriptors = Some(512);
    let balancer = scene.balancer();
    let at = scene.carrier.at(&scene.field, 1);
    let from = |host| StreamClient::connect(scene.field.ip(host), at);
    let silent: Vec<_> = (20..26).flat_map(|host| (0..100).map(move |_| host)).map(from).collect();
    until("some have made room", || (balancer.closed("most") > 0).then_some(()));
    scene.calls(3, SOME, "100ms").finish_clean();
    assert_eq!(from(4).ask(&AgentRequest::new("OPTIONS", "new")), 200);
    let log = balancer.log();
    assert!(log.contains("fewer connections at a time"), "{log}");
    assert!(!log.contains("no connection can be accepted"), "{log}");
    drop(silent);
    scene.finish(&balancer);
}
