//! Calls over TCP, TLS and WebSocket, with third-party programs.

use std::net::SocketAddr;

use sarabande_tests::{
    Agent, AgentRequest, Browser, CallLoad, KamailioProxy, Process, RunningBalancer, RunningProxy,
    SippCaller, SippServer, StreamClient, TestSettings, TestSite, bye_of_callee, respond, status, tls_table,
    until,
};
use testkit::TestRequest;

use super::{SERVERS, SOME, finish_clean, servers};

/// Calls that arrive while processes take over from each other.
const STEADY: CallLoad = CallLoad { calls: 6000, rate: 100, hold_ms: 1500 };

/// A balancer that also listens on TCP at the same address, and on TLS at the next port.
fn settings(field: &TestSite, threads: usize) -> TestSettings {
    let mut settings = TestSettings { threads, ..TestSettings::new(field, &SERVERS) };
    let tls = SocketAddr::new(field.ip(1), 5061);
    settings.listen_more.push(format!("tcp = [\"{}\"]\ntls = [\"{tls}\"]", field.sip(1)));
    settings.tables = tls_table();
    settings
}

/// Makes the members take calls over TCP.
fn over_tcp(field: &TestSite, settings: &mut TestSettings) -> Vec<SippServer> {
    settings.members = SERVERS.iter().map(|host| format!("\"{};transport=tcp\"", field.sip(*host))).collect();
    settings.probe = vec!["enabled = false"];
    SERVERS.iter().map(|host| SippServer::over_tcp(field, *host)).collect()
}

/// Callers on TCP, servers on UDP. With two threads most messages come to another thread than that of their call.
#[test]
fn callers_on_tcp_reach_servers_on_udp() {
    for threads in [1, 2] {
        let field = TestSite::new(&format!("tcp-udp-{threads}"));
        let servers = servers(&field, "uas_call", &SERVERS);
        let balancer = RunningBalancer::start(&field, settings(&field, threads));
        SippCaller::over_tcp(&field, (field.sip(2), balancer.address()), SOME).finish_clean();
        balancer.wait_until_idle();
        finish_clean(servers, SOME.calls);
    }
}

#[test]
fn callers_on_udp_reach_servers_on_tcp() {
    for forward in ["stateless", "transaction", "dialog"] {
        let field = TestSite::new(&format!("udp-tcp-{forward}"));
        let mut settings = settings(&field, 2);
        let servers = over_tcp(&field, &mut settings);
        settings.pool.push(format!("forward = \"{forward}\""));
        if forward == "dialog" {
            settings.pool.push("dialogs = \"route\"".to_owned());
        }
        let balancer = RunningBalancer::start(&field, settings);
        SippCaller::plain(&field, (field.sip(2), balancer.address()), SOME).finish_clean();
        finish_clean(servers, SOME.calls);
    }
}

/// A third-party proxy as upstream neighbour, and as a member.
#[test]
fn a_kamailio_over_tcp_calls_and_is_called() {
    let field = TestSite::new("tcp-kamailio");
    let servers = servers(&field, "uas_call", &SERVERS);
    let balancer = RunningBalancer::start(&field, settings(&field, 2));
    let kamailio = KamailioProxy::over_tcp(&field, 3, balancer.address());
    SippCaller::over_tcp(&field, (field.sip(2), kamailio.address()), SOME).finish_clean();
    finish_clean(servers, SOME.calls);
    drop(balancer);

    let field = TestSite::new("kamailio-tcp");
    let server = SippServer::over_tcp(&field, 11);
    let kamailio = KamailioProxy::over_tcp(&field, 3, server.address());
    let mut settings = settings(&field, 2);
    settings.members = vec![format!("\"{};transport=tcp\"", kamailio.address())];
    settings.probe = vec!["enabled = false"];
    let balancer = RunningBalancer::start(&field, settings);
    SippCaller::plain(&field, (field.sip(2), balancer.address()), SOME).finish_clean();
    finish_clean(vec![server], SOME.calls);
}

/// A caller keeps its connection to the process that it connected to. Old processes end when their calls have ended.
#[test]
fn a_balancer_restarts_under_calls_over_tcp() {
    let field = TestSite::new("tcp-takeover");
    let servers: Vec<_> =
        SERVERS.iter().map(|host| SippServer::start(&field, "uas_call", field.sip(*host), 5000)).collect();
    let mut balancer = RunningBalancer::start(&field, settings(&field, 2));
    let caller = SippCaller::over_tcp(&field, (field.sip(2), balancer.address()), STEADY);
    until("calls run", || (balancer.calls() > 20).then_some(()));
    let before = balancer.take_over();
    std::thread::sleep(std::time::Duration::from_secs(3));
    let second = SippCaller::over_tcp(&field, (field.sip(3), balancer.address()), SOME);
    second.finish_clean();
    let calls = caller.end_clean() + SOME.calls;
    Process::wait(before);
    balancer.wait_until_idle();
    finish_clean(servers, calls);
}

/// After a takeover, a browser of the old process connects to the new one, and ends its old call there.
#[test]
fn a_browser_comes_back_after_a_restart_and_ends_its_call() {
    let field = TestSite::new("browser-restart");
    let listener = SocketAddr::new(field.ip(1), 8080);
    let mut proxy = RunningProxy::listening(
        &field,
        1,
        2,
        &format!("ws = [\"{listener}\"]"),
        "[registrar]\ndomains = [\"example.com\"]\nforward = \"transaction\"\n",
    );
    let phone = Agent::bind(field.sip(2));
    let (mut browser, nowhere) = (Browser::connect(listener, "alice"), field.sip(99));
    browser.send(TestRequest {
        uri: "sip:example.com".to_owned(),
        from: "<sip:alice@example.com>".to_owned(),
        to: "<sip:alice@example.com>".to_owned(),
        ..TestRequest::new("REGISTER", "alice", nowhere)
    });
    assert_eq!(status(&browser.final_response()), Some(200));
    let mut invite = AgentRequest::new("INVITE", "restarted");
    invite.uri = "sip:alice@example.com".to_owned();
    phone.send(proxy.address(), &invite.bytes(phone.address()));
    let ringing = browser.request("INVITE");
    browser.answer(&ringing, 200);
    let answer = phone.final_response("restarted");
    phone.send(proxy.address(), &AgentRequest::in_dialog("ACK", &answer).bytes(phone.address()));
    browser.request("ACK");
    let before = proxy.take_over();
    drop(browser);
    let mut browser = Browser::connect(listener, "alice");
    browser.send(bye_of_callee(&ringing, "bob", nowhere));
    let bye = phone.receive();
    assert!(bye.starts_with(b"BYE "), "{}", testkit::text(&bye));
    phone.send(proxy.address(), &respond(&bye, "200 OK", phone.address()));
    assert_eq!(status(&browser.final_response()), Some(200));
    drop(before);
}

/// A callee hangs up after a takeover from the process that its callers are connected to. They were silent for longer
/// than an unneeded connection is kept.
#[test]
fn a_callee_hangs_up_after_a_restart() {
    std::thread::scope(|scope| {
        for forward in ["transaction", "dialog"] {
            scope.spawn(move || callee_hangs_up_after_a_restart(forward));
        }
    });
}

fn callee_hangs_up_after_a_restart(forward: &str) {
    let field = TestSite::new(&format!("callee-restart-{forward}"));
    let listener = SocketAddr::new(field.ip(1), 8080);
    let listen = format!("tcp = [\"{}\"]\nws = [\"{listener}\"]", field.sip(1));
    let tables = format!("[registrar]\ndomains = [\"example.com\"]\nforward = \"{forward}\"\n");
    let mut proxy = RunningProxy::listening(&field, 1, 2, &listen, &tables);
    let phone = Agent::bind(field.sip(2));
    let register = TestRequest {
        uri: "sip:example.com".to_owned(),
        from: "<sip:service@example.com>".to_owned(),
        to: "<sip:service@example.com>".to_owned(),
        via: format!("SIP/2.0/UDP {};branch=z9hG4bKservice", phone.address()),
        ..TestRequest::new("REGISTER", "service", phone.address())
    };
    phone.send(proxy.address(), &register.bytes());
    assert_eq!(status(&phone.final_response("service")), Some(200));
    let answered = || {
        let invite = phone.receive();
        assert!(invite.starts_with(b"INVITE "), "{}", testkit::text(&invite));
        phone.send(proxy.address(), &respond(&invite, "200 OK", phone.address()));
        invite
    };

    let mut client = StreamClient::connect(field.ip(3), field.sip(1));
    let invite = client.request(&AgentRequest::new("INVITE", "by-tcp"));
    client.send(&invite).expect("it is open");
    let by_tcp = answered();
    let answer = client.final_response("by-tcp");
    let ack = client.request(&AgentRequest::in_dialog("ACK", &answer));
    client.send(&ack).expect("it is open");
    assert!(phone.receive().starts_with(b"ACK "));
    let mut browser = Browser::connect(listener, "alice");
    browser.send(TestRequest {
        uri: "sip:service@example.com".to_owned(),
        to: "<sip:service@example.com>".to_owned(),
        ..TestRequest::new("INVITE", "by-websocket", field.sip(99))
    });
    let by_websocket = answered();
    let answer = browser.final_response();
    browser.send(TestRequest::in_dialog("ACK", &answer, 1, field.sip(99)));
    assert!(phone.receive().starts_with(b"ACK "));

    let before = proxy.take_over();
    std::thread::sleep(std::time::Duration::from_secs(7));
    phone.send(proxy.address(), &bye_of_callee(&by_tcp, "server", phone.address()).bytes());
    let bye = client.receive().expect("the connection is open");
    client.send(&respond(&bye, "200 OK", client.address())).expect("it is open");
    assert_eq!(status(&phone.final_response("by-tcp")), Some(200));
    phone.send(proxy.address(), &bye_of_callee(&by_websocket, "server", phone.address()).bytes());
    let bye = browser.request("BYE");
    browser.answer(&bye, 200);
    assert_eq!(status(&phone.final_response("by-websocket")), Some(200));
    drop(before);
}

/// A file of users can be read by one process only. A request that a browser sends on its connection to the old process
/// is answered by the new one, which also reaches the browser there.
#[test]
fn a_connection_to_the_old_process_serves_the_new_one() {
    let field = TestSite::new("browser-relayed");
    let listener = SocketAddr::new(field.ip(1), 8080);
    let mut proxy = RunningProxy::listening(
        &field,
        1,
        2,
        &format!("ws = [\"{listener}\"]"),
        "[registrar]\ndomains = [\"example.com\"]\nforward = \"transaction\"\n",
    );
    let phone = Agent::bind(field.sip(2));
    let (mut browser, nowhere) = (Browser::connect(listener, "alice"), field.sip(99));
    let of_domain = |user: &str, method: &str, call_id: &str, uri: &str| TestRequest {
        uri: uri.to_owned(),
        from: format!("<sip:{user}@example.com>"),
        to: if method == "REGISTER" { format!("<sip:{user}@example.com>") } else { format!("<{uri}>") },
        ..TestRequest::new(method, call_id, nowhere)
    };
    browser.send(of_domain("alice", "REGISTER", "alice", "sip:example.com"));
    assert_eq!(status(&browser.final_response()), Some(200));
    // A ringing call keeps the old process running.
    let mut invite = AgentRequest::new("INVITE", "rings");
    invite.uri = "sip:alice@example.com".to_owned();
    phone.send(proxy.address(), &invite.bytes(phone.address()));
    let ringing = browser.request("INVITE");
    browser.answer(&ringing, 180);
    let before = proxy.take_over();

    let register = TestRequest {
        contact: format!("sip:bob@{}", phone.address()),
        ..of_domain("bob", "REGISTER", "bob", "sip:example.com")
    };
    let via = format!("SIP/2.0/UDP {};branch=z9hG4bKbob", phone.address());
    phone.send(proxy.address(), &register.via(&via).bytes());
    assert_eq!(status(&phone.final_response("bob")), Some(200));
    for call in ["relayed-1", "relayed-2", "relayed-3", "relayed-4"] {
        browser.send(of_domain("alice", "INVITE", call, "sip:bob@example.com"));
        // Repeated responses and other ACKs come as well.
        let invite =
            std::iter::repeat_with(|| phone.receive()).find(|message| message.starts_with(b"INVITE "));
        let invite = invite.expect("it comes");
        phone.send(proxy.address(), &respond(&invite, "486 Busy Here", phone.address()));
        assert_eq!(status(&browser.final_response()), Some(486), "{call}");
        let mut invite = AgentRequest::new("INVITE", &format!("{call}-back"));
        invite.uri = "sip:alice@example.com".to_owned();
        phone.send(proxy.address(), &invite.bytes(phone.address()));
        let invite = browser.request("INVITE");
        browser.answer(&invite, 480);
        assert_eq!(status(&phone.final_response(&format!("{call}-back"))), Some(480), "{call}");
    }
    browser.answer(&ringing, 486);
    assert_eq!(status(&phone.final_response("rings")), Some(486));
    drop(before);
}

/// A listener that is no longer in the file refuses clients at once, though the old process still runs.
#[test]
fn a_listener_that_is_gone_refuses_clients() {
    let field = TestSite::new("listener-gone");
    let servers = servers(&field, "uas_call", &SERVERS);
    let mut balancer = RunningBalancer::start(&field, settings(&field, 2));
    let load = CallLoad { calls: 10, rate: 100, hold_ms: 6000 };
    let caller = SippCaller::plain(&field, (field.sip(2), balancer.address()), load);
    until("calls run", || (balancer.calls() == load.calls).then_some(()));
    balancer.set(|settings| {
        settings.listen_more = vec![format!("ws = [\"{}\"]", SocketAddr::new(field.ip(1), 8080))];
    });
    let before = balancer.take_over();
    let refused = std::net::TcpStream::connect(balancer.address()).map_err(|error| error.kind());
    assert_eq!(refused.map(drop), Err(std::io::ErrorKind::ConnectionRefused));
    assert_eq!(caller.end_clean(), load.calls);
    Process::wait(before);
    finish_clean(servers, load.calls);
}
