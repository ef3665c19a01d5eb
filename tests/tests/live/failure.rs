//! Loss, dead servers, refusing servers.

use std::time::Instant;

use sarabande_tests::{
    CallLoad, LossyLink, RunningBalancer, SippCaller, SippServer, TestSettings, TestSite, quoted, until,
};

use super::{SERVERS, finish_clean, servers};

/// One datagram in twenty.
const FIVE_PERCENT: u64 = 50;

/// 5 % of the datagrams are lost each way, between caller and balancer, and between balancer and servers. All calls
/// succeed, each at one server: a retransmitted INVITE never becomes a second call.
#[test]
fn five_percent_loss_each_way_loses_no_call() {
    let field = TestSite::new("loss");
    let (caller, link) = (field.sip(2), field.sip(3));
    // Servers remember ended calls for 64*T1 (RFC 3261 §17.2.2, Timer J), to answer a BYE whose 200 was lost.
    let start = |host: &u8| SippServer::start(&field, "uas_direct", field.sip(*host), 32_000);
    let servers: Vec<SippServer> = SERVERS.iter().map(start).collect();
    let mut settings = TestSettings::new(&field, &[]);
    let doors: Vec<_> = SERVERS.iter().map(|host| field.sip(host + 10)).collect();
    settings.members = doors.iter().map(quoted).collect();
    // Probes would be lost too; another test covers servers taken for dead.
    settings.probe = vec!["enabled = false"];
    let balancer = RunningBalancer::start(&field, settings);
    let mut links = vec![LossyLink::start(link, caller, balancer.address(), FIVE_PERCENT, 1)];
    for (door, server) in doors.iter().zip(&servers) {
        links.push(LossyLink::start(*door, balancer.address(), server.address(), FIVE_PERCENT, 2));
    }
    // Long enough for a few rounds of 200 and ACK: SIPp fails a call whose ACK comes after its BYE.
    let load = CallLoad { calls: 300, rate: 50, hold_ms: 8000 };
    SippCaller::plain(&field, (caller, link), load).finish_clean();
    balancer.wait_until_idle();
    finish_clean(servers, load.calls);
    assert!(links.iter().all(|link| link.lost() > 0), "a link has lost nothing: {links:?}");
}

/// A server dies under load. No call that begins after it is marked dead fails, and it gets calls again after its
/// return. The time until the mark is printed.
#[test]
fn no_new_call_fails_once_a_dead_server_is_marked() {
    let field = TestSite::new("killed");
    let mut servers = servers(&field, "uas_direct", &SERVERS);
    let balancer = RunningBalancer::start(&field, TestSettings::new(&field, &SERVERS));
    let victim = servers[0].address();
    let state = || balancer.member(victim).expect("a dead server stays a member");
    let load = CallLoad { calls: 600, rate: 60, hold_ms: 100 };
    let before = SippCaller::plain(&field, (field.sip(2), balancer.address()), load);
    until("the victim has calls", || (state().assigned > 10).then_some(()));

    servers[0].kill();
    let killed = Instant::now();
    until("the dead server is marked", || (!state().accepting).then_some(()));
    println!("a server killed under load was marked after {:?}: {:?}", killed.elapsed(), state().state);

    let after =
        SippCaller::plain(&field, (field.sip(3), balancer.address()), CallLoad { calls: 300, ..load });
    after.finish_clean();
    let before = before.finish();
    println!("of the {} calls around its death {} failed", load.calls, before.failed);
    // A successful call has two 200, one of them for its INVITE. A failed call without the second one had been answered
    // by the dead server. So every INVITE was answered, and unanswered ones have moved.
    assert_eq!(before.received("200"), 2 * load.calls - before.failed, "unanswered calls failed: {before:?}");
    let given = state().assigned;
    balancer.wait_until_idle();

    servers[0] = SippServer::start(&field, "uas_direct", victim, 500);
    until("the server is back", || state().accepting.then_some(()));
    SippCaller::plain(&field, (field.sip(4), balancer.address()), CallLoad { calls: 60, ..load })
        .finish_clean();
    assert!(state().assigned > given, "the server that is back gets no calls");
    for server in servers {
        server.finish_clean();
    }
}

/// A server hangs and leaves INVITEs unanswered. After it is known to be dead, their retransmissions go to another
/// server, and every call succeeds.
#[test]
fn unanswered_invites_move_away_from_a_hung_server() {
    let field = TestSite::new("hung");
    let mut servers = servers(&field, "uas_direct", &SERVERS);
    let mut settings = TestSettings::new(&field, &SERVERS);
    // Slow enough that calls do reach the hung server before it is marked.
    settings.probe = vec!["interval = \"2s\"", "timeout = \"1500ms\""];
    let balancer = RunningBalancer::start(&field, settings);
    let mut hung = servers.remove(0);
    hung.freeze();
    let load = CallLoad { calls: 90, rate: 100, hold_ms: 100 };
    let stats = SippCaller::plain(&field, (field.sip(2), balancer.address()), load).finish_clean();
    let given = balancer.member(hung.address()).expect("a hung server stays a member").assigned;
    assert!(given > 0, "no call went to the hung server, so the test shows nothing ({stats:?})");
    balancer.wait_until_idle();
    finish_clean(servers, load.calls);
}

/// A server answers 503 with Retry-After. This call and the next ones go to other servers, although it answers its
/// probes.
#[test]
fn a_server_that_is_busy_is_left_alone() {
    let field = TestSite::new("busy");
    let busy = SippServer::start(&field, "uas_busy", field.sip(11), 500);
    let others = servers(&field, "uas_call", &[12, 13]);
    let balancer = RunningBalancer::start(&field, TestSettings::new(&field, &SERVERS));
    let load = CallLoad { calls: 40, rate: 20, hold_ms: 0 };
    // One call at a time: each sees the outcome of those before it.
    let ends = (field.sip(2), balancer.address());
    SippCaller::start(&field, "uac_call", ends, load, &["-l", "1"]).finish_clean();
    assert_eq!(busy.finish_clean().calls(), 1);
    balancer.wait_until_idle();
    finish_clean(others, load.calls);
}
