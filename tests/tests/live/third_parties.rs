//! Third-party elements and phones, with each forwarding mode between them.

use std::net::SocketAddr;
use std::path::PathBuf;

use sarabande_tests::{
    Agent, CallLoad, ConsolePhone, JavaServer, KamailioProxy, Phone, RunningBalancer, RunningProxy,
    SippCaller, SippServer, TestSettings, TestSite, status, tls_table,
};
use testkit::TestRequest;

const LOAD: CallLoad = CallLoad { calls: 60, rate: 60, hold_ms: 300 };

/// Kamailio upstream and downstream, both with Record-Route.
#[test]
fn kamailio_upstream_and_downstream_in_every_mode() {
    for mode in ["stateless", "transaction", "dialog", "distributed"] {
        let field = TestSite::new(&format!("kamailio-{mode}"));
        let server = SippServer::start(&field, "uas_reinvite", field.sip(11), 500);
        let downstream = KamailioProxy::start(&field, 4, server.address());
        let sharing = if mode == "distributed" { "[distribution]\nneighbours = [\"192.0.2.1\"]" } else { "" };
        let more = format!("forward = \"{mode}\"\n{sharing}");
        let proxy = RunningProxy::with_threads(&field, 1, &[downstream.address()], 2, &more);
        let upstream = KamailioProxy::start(&field, 3, proxy.address());
        let ends = (field.sip(2), upstream.address());
        SippCaller::start(&field, "uac_reinvite", ends, LOAD, &[]).finish_clean();
        proxy.wait_until_idle();
        assert_eq!(server.finish_clean().calls(), LOAD.calls, "{mode}");
        // INVITE, ACK, re-INVITE, ACK, BYE.
        let passed = proxy.figure("forwarded_total") + proxy.figure("stateless_total");
        assert_eq!(passed, 5 * LOAD.calls, "{mode}");
        proxy.stop();
    }
}

/// The Java servers of the balancing papers' experiments: both get calls, and all calls succeed.
#[test]
fn servers_in_java_share_calls() {
    let field = TestSite::new("java");
    let hosts = [11, 12];
    let _servers = hosts.map(|host| JavaServer::start(&field, host));
    let balancer = RunningBalancer::start(&field, TestSettings::new(&field, &hosts));
    SippCaller::plain(&field, (field.sip(2), balancer.address()), LOAD).finish_clean();
    balancer.wait_until_idle();
    let had: Vec<u64> = balancer.members().iter().map(|member| member.assigned).collect();
    assert_eq!(had.iter().sum::<u64>(), LOAD.calls, "{had:?}");
    assert!(had.iter().all(|calls| *calls > LOAD.calls / 4), "{had:?}");
}

/// Calls from Kamailio to a registered user, with each forwarding mode.
#[test]
fn kamailio_calls_users_in_every_mode() {
    for mode in ["stateless", "transaction", "dialog"] {
        let field = TestSite::new(&format!("kamailio-users-{mode}"));
        let tables = format!(
            "[registrar]\ndomains = [\"pool.example\"]\nstore = \"memory\"\nreach = \"contact\"\nforward = \"{mode}\"\n"
        );
        let proxy = RunningProxy::of(&field, 1, 2, &tables);
        let server = SippServer::plain(&field, 11);
        register(&field, &proxy, server.address());
        let upstream = KamailioProxy::start(&field, 3, proxy.address());
        let ends = (field.sip(2), upstream.address());
        let bob = ["-s", "bob", "-key", "target", "pool.example", "-key", "account", "none"];
        SippCaller::start(&field, "uac_routed", ends, LOAD, &bob).finish_clean();
        assert_eq!(server.finish_clean().calls(), LOAD.calls, "{mode}");
        proxy.stop();
    }
}

/// Registers bob at this address.
fn register(field: &TestSite, proxy: &RunningProxy, at: SocketAddr) {
    let agent = Agent::bind(field.sip(9));
    let aor = "<sip:bob@pool.example>".to_owned();
    let request = TestRequest {
        uri: "sip:pool.example".to_owned(),
        from: aor.clone(),
        to: aor,
        contact: format!("sip:bob@{at}"),
        ..TestRequest::new("REGISTER", "register", agent.address())
    };
    agent.send(proxy.address(), &request.bytes());
    let answer = agent.receive();
    assert_eq!(status(&answer), Some(200), "{}", String::from_utf8_lossy(&answer));
}

/// Starts a proxy with users alice and bob, with the password "sesame". Returns it with the file of its call records.
fn proxy_of_two(field: &TestSite) -> (RunningProxy, PathBuf) {
    let hashes = "alice:example.com:MD5:174dc5b75643cb678c9b8ae5066d4b25\n\
                  bob:example.com:MD5:3b1f2e31947dc0a19b600d2e41d30ce2\n";
    let users = field.write("users", hashes);
    let records = field.folder().join("calls.jsonl");
    let tables = format!(
        "[registrar]\ndomains = [\"example.com\"]\nusers = \"{}\"\nstore = \"memory\"\nforward = \"dialog\"\n\
         [calls]\nrecords = \"{}\"\n",
        users.display(),
        records.display()
    );
    let listen =
        format!("tcp = [\"{}\"]\ntls = [\"{}\"]", proxy_over(field, "tcp"), proxy_over(field, "tls"));
    (RunningProxy::listening(field, 1, 2, &listen, &(tls_table() + &tables)), records)
}

/// Returns the address of the two phones' proxy for this transport.
fn proxy_over(field: &TestSite, transport: &str) -> SocketAddr {
    SocketAddr::new(field.ip(1), if transport == "tls" { 5061 } else { 5060 })
}

#[test]
fn phones_register_and_call_each_other() {
    phones_call_each_other("phones", ["udp", "udp"]);
}

#[test]
fn phones_over_tcp_and_tls_call_each_other() {
    phones_call_each_other("phones-tls-tcp", ["tls", "tcp"]);
    phones_call_each_other("phones-tcp-udp", ["tcp", "udp"]);
    phones_call_each_other("phones-udp-tls", ["udp", "tls"]);
}

/// Two phones register with passwords over their transports, and one calls the other. They talk until the caller hangs
/// up.
fn phones_call_each_other(name: &str, [alices, bobs]: [&str; 2]) {
    let field = TestSite::new(name);
    let (proxy, records) = proxy_of_two(&field);
    let account = |user, transport| (user, "sesame", proxy_over(&field, transport));
    let bob = Phone::over(bobs, &field, 3, account("bob", bobs), None, 12);
    bob.says("200 OK () [1 binding]");
    let alice = Phone::over(alices, &field, 2, account("alice", alices), Some("sip:bob@example.com"), 4);
    bob.says("Call established: sip:alice@example.com");
    alice.says("Call established: sip:bob@example.com");
    alice.finish();
    bob.says("terminated");
    let record = std::fs::read_to_string(&records).expect("a file of records");
    assert_eq!(record.lines().count(), 1, "{record}");
    for part in ["\"cause\":\"bye\"", "\"ended_by\":\"caller\"", "\"caller\":\"sip:alice@example.com\""] {
        assert!(record.contains(part), "{part} in {record}");
    }
    // With a wrong password it is challenged, and nothing more happens.
    let wrong = Phone::start(&field, 4, ("alice", "wrong", proxy.address()), None, 3);
    wrong.finish();
    bob.finish();
    proxy.stop();
}

/// Another make of phone registers with its password, is called, and calls; it hangs up both times.
#[test]
fn another_make_of_phone_registers_is_called_and_calls() {
    let field = TestSite::new("console-phone");
    let (proxy, records) = proxy_of_two(&field);
    let mut alice = ConsolePhone::start(&field, ("alice", "sesame", proxy.address()));
    alice.says("registration succeeded", 1);
    alice.does("auto_answer -a on");
    let bob = Phone::start(&field, 3, ("bob", "sesame", proxy.address()), Some("sip:alice@example.com"), 8);
    bob.says("200 OK () [1 binding]");
    bob.says("Call established: sip:alice@example.com");
    // The ACK has come.
    alice.says("call established", 1);
    alice.does("bye");
    alice.says("call ended", 1);
    alice.does("call sip:bob@example.com");
    alice.says("far end answered call", 1);
    alice.does("bye");
    alice.says("call ended", 2);
    bob.finish();
    alice.finish();
    let record = std::fs::read_to_string(&records).expect("a file of records");
    let lines: Vec<_> = record.lines().collect();
    assert_eq!(lines.len(), 2, "{record}");
    for (line, caller, ended_by) in [(lines[0], "bob", "callee"), (lines[1], "alice", "caller")] {
        let parts = [
            format!("\"caller\":\"sip:{caller}@example.com\""),
            format!("\"ended_by\":\"{ended_by}\""),
            "\"cause\":\"bye\"".to_owned(),
        ];
        assert!(parts.iter().all(|part| line.contains(part)), "{parts:?} in {line}");
    }
    let wrong = ConsolePhone::start(&field, ("alice", "wrong", proxy.address()));
    wrong.says("registration failed: ", 1);
    wrong.finish();
    proxy.stop();
}
