//! The registrar and proxy of a domain: phones register, authenticate, and call each other.

use std::collections::BTreeSet;
use std::io::Write as _;
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use sarabande_tests::{
    Agent, CallLoad, RedisServer, RunningProxy, SippCaller, SippServer, TestSite, Tool, program, status,
    value,
};
use serde_json::{Value, json};
use testkit::TestRequest;

/// Hashes of `user:example.com:sesame`, as `md5sum` and `sha256sum` make them.
pub(super) const USERS: &str = "alice:example.com:MD5:174dc5b75643cb678c9b8ae5066d4b25\n\
                     alice:example.com:SHA-256:ef3bf7089d5a2b33966dfa1b7cb3c9c2767327889338ee0236d434880940322a\n\
                     bob:example.com:MD5:3b1f2e31947dc0a19b600d2e41d30ce2\n\
                     bob:example.com:SHA-256:5a0ba5521bed1fa3ec0cb18aa5b2c2750f5910ebd2886d139992f388a64c19ff\n";
const PASSWORD: &str = "sesame";

const OPEN: &str = "[registrar]\ndomains = [\"example.com\"]\n";

/// Starts a registrar with passwords, with MD5 alone by its configuration: SIPp fails at a challenge with two
/// algorithms.
fn closed(field: &TestSite, more: &str) -> RunningProxy {
    let users = field.write("users", USERS);
    RunningProxy::of(field, 1, 2, &format!("{OPEN}users = \"{}\"\n{more}", users.display()))
}

/// Starts a registrar whose domain is its address, for clients that look a domain up.
fn at_address(field: &TestSite) -> RunningProxy {
    let users = field.write("users", USERS);
    let tables = format!(
        "[registrar]\ndomains = [\"{}\"]\nrealm = \"example.com\"\nusers = \"{}\"\n",
        field.ip(1),
        users.display()
    );
    RunningProxy::of(field, 1, 2, &tables)
}

/// Returns SIPp's options for user, contact and the URI of its credentials, which it would not take from the
/// Request-URI.
pub(super) fn phone<'a>(user: &'a str, contact: &'a str, uri: &'a str) -> Vec<&'a str> {
    let keys = [("user", user), ("callee", "bob"), ("contact", contact)];
    let keys = keys.iter().flat_map(|(name, value)| ["-key", *name, *value]);
    keys.chain(["-au", user, "-ap", PASSWORD, "-auth_uri", uri]).collect()
}

fn register(user: &str, from: SocketAddr, contact: &str, cseq: u32) -> Vec<u8> {
    let aor = format!("<sip:{user}@example.com>");
    let request = TestRequest {
        uri: "sip:example.com".to_owned(),
        from: aor.clone(),
        to: aor,
        contact: contact.to_owned(),
        cseq,
        ..TestRequest::new("REGISTER", &format!("register-{user}-{}", from.port()), from)
    };
    request.via(&format!("SIP/2.0/UDP {from};branch=z9hG4bK-{user}-{}-{cseq}", from.port())).bytes()
}

fn call(call_id: &str, user: &str, from: SocketAddr) -> Vec<u8> {
    let uri = format!("sip:{user}@example.com");
    TestRequest { to: format!("<{uri}>"), uri, ..TestRequest::new("INVITE", call_id, from) }.bytes()
}

/// Registers this many users from an agent. Returns the users that got 200.
fn registered(agent: &Agent, proxy: SocketAddr, users: u32) -> BTreeSet<u32> {
    for user in 0..users {
        let name = format!("user{user}");
        agent.send(proxy, &register(&name, agent.address(), &format!("sip:{name}@{}", agent.address()), 1));
    }
    let mut acknowledged = BTreeSet::new();
    while let Some((answer, _)) = agent.receive_within(Duration::from_secs(2)) {
        assert_eq!(status(&answer), Some(200), "{}", String::from_utf8_lossy(&answer));
        let call_id = value(&answer, "Call-ID").expect("a Call-ID");
        let user =
            call_id.trim_start_matches("register-user").split('-').next().and_then(|user| user.parse().ok());
        acknowledged.insert(user.expect("one of ours"));
    }
    acknowledged
}

/// Checks that the agent, where all have registered, gets a call for each of these users.
fn are_called(agent: &Agent, proxy: SocketAddr, users: &BTreeSet<u32>, round: &str) {
    for user in users {
        agent.send(proxy, &call(&format!("{round}-{user}"), &format!("user{user}"), agent.address()));
        loop {
            let message = agent.receive();
            if message.starts_with(b"INVITE ") {
                // A copy of the previous call may come late.
                let call_id = value(&message, "Call-ID").expect("a Call-ID");
                let called = call_id.rsplit('-').next().expect("one of ours");
                let uri = format!("INVITE sip:user{called}@");
                assert!(message.starts_with(uri.as_bytes()), "{}", String::from_utf8_lossy(&message));
                agent.send(proxy, &sarabande_tests::respond(&message, "486 Busy Here", agent.address()));
            } else if status(&message).is_some_and(|status| status >= 200) {
                assert_eq!(status(&message), Some(486), "{}", String::from_utf8_lossy(&message));
                break;
            }
        }
    }
}

/// SIPp registers with a password and is challenged at each call. The call goes to the other one's registered contact.
#[test]
fn sipp_registers_and_calls() {
    let field = TestSite::new("registrar-sipp");
    // The phone registers from another port than it answers at.
    let proxy = closed(&field, "reach = \"contact\"\n");
    let callee = SippServer::start(&field, "uas_call", field.sip(11), 500);
    let (from, at) = (SocketAddr::new(field.ip(11), 5070), callee.address().to_string());
    let once = CallLoad { calls: 1, rate: 1, hold_ms: 0 };
    SippCaller::start(
        &field,
        "uac_register",
        (from, proxy.address()),
        once,
        &phone("bob", &at, "example.com"),
    )
    .finish_clean();
    let load = CallLoad { calls: 100, rate: 50, hold_ms: 300 };
    let caller = field.sip(2);
    let contact = caller.to_string();
    SippCaller::start(
        &field,
        "uac_user",
        (caller, proxy.address()),
        load,
        &phone("alice", &contact, "bob@example.com"),
    )
    .finish_clean();
    proxy.wait_until_idle();
    assert_eq!(callee.finish_clean().calls(), load.calls);
    proxy.stop();
}

/// Registers bob by `sipsak`, which looks its domain up, so that is an address. Returns whether it succeeds.
fn sipsak(field: &TestSite, proxy: SocketAddr, password: &str) -> bool {
    let (aor, at) = (format!("sip:bob@{proxy}"), format!("sip:bob@{}", field.sip(2)));
    let mut command = Command::new("sipsak");
    command.args(["-U", "-C", &at, "-s", &aor, "-u", "bob", "-a", password, "-x", "120", "-H", "127.0.0.1"]);
    command.output().expect("sipsak runs").status.success()
}

/// The command `user` makes the file of users and changes it. Only the new password registers.
#[test]
fn passwords_are_set_by_command() {
    let field = TestSite::new("registrar-user");
    let users = field.folder().join("users");
    let tables = format!(
        "[registrar]\ndomains = [\"{}\"]\nrealm = \"example.com\"\nusers = \"{}\"\n",
        field.ip(1),
        users.display()
    );
    let user = |arguments: &[&str], config: &Path, password: &str| {
        let mut command = Command::new(program());
        command.arg("user").args(arguments).arg("--config").arg(config);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("it starts");
        let mut input = child.stdin.take().expect("a pipe");
        // A command that refuses its arguments reads nothing.
        let _ = writeln!(input, "{password}");
        drop(input);
        let output = child.wait_with_output().expect("it ends");
        let text = [output.stdout, output.stderr].concat();
        (output.status.code(), String::from_utf8(text).expect("UTF-8"))
    };
    let before = field.write("before.toml", format!("[listen]\nudp = [\"{}\"]\n{tables}", field.sip(1)));
    for (arguments, code, text) in [
        (["passwd", "bob"], 1, "there is no user bob; `user add` adds one"),
        (["add", "bob"], 0, "bob was added in "),
        (["add", "bob"], 1, "bob is there already"),
        (["add", "bob@example.com"], 1, "give the name without @example.com: bob"),
        (["add", "a:b"], 2, "without colons"),
    ] {
        let (exit, said) = user(&arguments, &before, "first");
        assert!(exit == Some(code) && said.contains(text), "{arguments:?}: {exit:?} {said}");
    }
    assert_eq!(user(&["add", "eve"], &before, "").0, Some(1), "no password");
    assert!(!std::fs::read_to_string(&users).expect("it is there").contains("first"));
    let proxy = RunningProxy::of(&field, 1, 2, &tables);
    assert!(sipsak(&field, proxy.address(), "first") && !sipsak(&field, proxy.address(), "second"));
    let config = field.folder().join("proxy-1/sarabande.toml");
    let (exit, said) = user(&["passwd", "bob", "--reload"], &config, "second");
    assert_eq!((exit, said.lines().last()), (Some(0), Some("configuration reloaded")), "{said}");
    assert!(sipsak(&field, proxy.address(), "second") && !sipsak(&field, proxy.address(), "first"));
    assert_eq!(user(&["list"], &config, ""), (Some(0), "bob  example.com  MD5\n".to_owned()));
}

/// `sipsak` registers, and is refused with a wrong password.
#[test]
fn sipsak_registers() {
    let field = TestSite::new("registrar-sipsak");
    let proxy = at_address(&field);
    let register = |password: &str| sipsak(&field, proxy.address(), password);
    assert!(register(PASSWORD));
    assert!(!register("guess"));
    // The log names the user, not the attempted password.
    let log = sarabande_tests::until("the log reports the wrong password", || {
        Some(proxy.log()).filter(|log| log.contains("wrong password"))
    });
    let line = log.lines().find(|line| line.contains("wrong password")).expect("it was found");
    assert!(line.contains("from=127.") && line.contains("user=\"bob\""), "{line}");
    assert!(!log.contains("guess"), "{log}");
    let shown: Value = serde_json::from_str(&proxy.get("/api/registrar")).expect("JSON");
    let (registrations, log_ins) = (&shown["registrations"], &shown["log_ins"]);
    assert_eq!((&registrations["granted_total"], &log_ins["accepted_total"]), (&json!(1), &json!(1)));
    assert_ne!(log_ins["refused_total"], json!(0), "{shown}");
}

/// A stock phone of Debian, which gives up if the challenge names SHA-256. It does not resolve its domain, which is an
/// address here.
#[test]
fn baresip_registers() {
    let field = TestSite::new("registrar-baresip");
    let folder = field.folder().join("baresip");
    let proxy = at_address(&field);
    let config = format!(
        "module_path /usr/lib/baresip/modules\nmodule_app account.so\nmodule g711.so\nsip_listen {}\n",
        field.sip(2)
    );
    let account = format!(
        "<sip:alice@{};transport=udp>;auth_user=alice;auth_pass={PASSWORD};regint=60\n",
        proxy.address()
    );
    for (name, text) in [("config", &*config), ("accounts", &*account), ("contacts", "")] {
        field.write(&format!("baresip/{name}"), text);
    }
    let mut phone = Command::new("baresip")
        .arg("-f")
        .arg(&folder)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("baresip runs");
    let granted = sarabande_tests::until("the telephone is registered", || {
        let shown: Value = serde_json::from_str(&proxy.get("/api/registrar")).expect("JSON");
        (shown["registrations"]["granted_total"] != json!(0)).then_some(shown)
    });
    phone.kill().expect("it runs");
    phone.wait().expect("it has ended");
    assert_eq!(granted["log_ins"]["accepted_total"], json!(1), "{granted}");
}

/// Registrations answered with 200 survive `kill -9`, and are known at once in a process that takes over.
#[test]
fn no_acknowledged_registration_is_lost() {
    let field = TestSite::new("registrar-kill");
    let mut proxy = RunningProxy::of(&field, 1, 2, OPEN);
    let agent = Agent::bind(field.sip(2));
    let users = registered(&agent, proxy.address(), 200);
    assert!(users.len() > 100, "{} of 200", users.len());
    proxy.kill_and_restart();
    are_called(&agent, proxy.address(), &users, "killed");
    let former = proxy.take_over();
    are_called(&agent, proxy.address(), &users, "succeeded");
    agent.send(
        proxy.address(),
        &register("late", agent.address(), &format!("sip:late@{}", agent.address()), 1),
    );
    assert_eq!(status(&agent.receive()), Some(200), "the file is the new process's");
    drop(former);
}

/// Killed while registrations arrive, it keeps all acknowledged ones.
#[test]
fn a_registrar_killed_under_load_keeps_acknowledged_registrations() {
    let field = TestSite::new("registrar-load");
    let mut proxy = RunningProxy::of(&field, 1, 2, OPEN);
    let agent = Agent::bind(field.sip(2));
    for user in 0..2_000_u32 {
        let name = format!("user{user}");
        agent.send(
            proxy.address(),
            &register(&name, agent.address(), &format!("sip:{name}@{}", agent.address()), 1),
        );
    }
    // The first answers have come, the last have not.
    assert_eq!(status(&agent.receive()), Some(200));
    proxy.kill_and_restart();
    let mut users = BTreeSet::new();
    while let Some((answer, _)) = agent.receive_within(Duration::from_millis(500)) {
        let call_id = value(&answer, "Call-ID").expect("a Call-ID");
        let user =
            call_id.trim_start_matches("register-user").split('-').next().and_then(|user| user.parse().ok());
        if status(&answer) == Some(200) {
            users.insert(user.expect("one of ours"));
        }
    }
    are_called(&agent, proxy.address(), &users, "again");
}

/// Two proxies on one Redis see each other's bindings. During an outage they report it, and afterwards all is as
/// before.
#[test]
fn two_proxies_share_bindings() {
    let field = TestSite::new("registrar-redis");
    let mut redis = RedisServer::start(&field, 20);
    let tables = format!("{OPEN}store = {:?}\n", redis.url());
    let [one, other] = [1, 5].map(|host| RunningProxy::of(&field, host, 1, &tables));
    let agent = Agent::bind(field.sip(2));
    let users = registered(&agent, one.address(), 20);
    assert_eq!(users.len(), 20);
    are_called(&agent, other.address(), &users, "shared");
    redis.kill();
    agent.send(other.address(), &call("down", "user1", agent.address()));
    assert_eq!(status(&agent.final_response("down")), Some(503));
    let health = || {
        let reply = sarabande_tests::http::request(other.admin(), "GET", "/api/health").expect("it answers");
        let health: Value = serde_json::from_str(&reply.body).expect("JSON");
        (reply.status, health["reasons"].clone())
    };
    let (status_of_health, output) = health();
    let start = "[\"registrations and calls to users fail: the store of registrations (redis) is down: ";
    assert_eq!(status_of_health, 503, "without its users the server is unhealthy");
    assert!(output.to_string().starts_with(start), "{output}");
    redis.restart();
    let mut cseq = 1;
    for proxy in [&one, &other] {
        sarabande_tests::until("the store is back", || {
            // Each attempt is a new request, since a copy would get the earlier response.
            cseq += 1;
            let contact = format!("sip:user1@{}", agent.address());
            agent.send(proxy.address(), &register("user1", agent.address(), &contact, cseq));
            (status(&agent.receive()) == Some(200)).then_some(())
        });
    }
    are_called(&agent, one.address(), &users, "back");
    assert_eq!(health(), (200, json!([])));
}

/// Contacts removed by an operator are gone, with every store, and the others stay.
#[test]
fn an_operator_lists_and_removes_contacts() {
    let field = TestSite::new("registrar-operator");
    let redis = RedisServer::start(&field, 20);
    let stores = ["store = \"memory\"\n".to_owned(), String::new(), format!("store = {:?}\n", redis.url())];
    for (host, store) in [1, 5, 6].into_iter().zip(stores) {
        let proxy = RunningProxy::of(&field, host, 2, &format!("{OPEN}{store}"));
        let phones = [11, 12].map(|host| Agent::bind(field.sip(host)));
        for phone in &phones {
            let contact = format!("sip:bob@{}", phone.address());
            phone.send(proxy.address(), &register("bob", phone.address(), &contact, 1));
            assert_eq!(status(&phone.receive()), Some(200));
        }
        let admin = format!("http://{}", proxy.admin());
        let tool = |arguments: &[&str]| {
            let (status, output) = Tool::run(&field, &[arguments, &["--admin", &admin]].concat());
            (status.code(), output)
        };
        let explain = ["explain", "--uri", "sip:bob@example.com"];
        let (code, output) = tool(&explain);
        assert!(code == Some(0) && output.starts_with("goes to  2 contacts of bob@example.com"), "{output}");
        let run = |more: &[&str]| tool(&[&["registrations", "bob@example.com"][..], more].concat());
        let [kept, removed] = phones.each_ref().map(|phone| format!("sip:bob@{}", phone.address()));
        let (code, listed) = run(&[]);
        assert!(code == Some(0) && listed.contains(&kept) && listed.contains(&removed), "{store}: {listed}");
        assert!(listed.lines().all(|line| line.chars().count() <= 80), "{listed}");
        let (code, output) = run(&["--remove", "--contact", &removed]);
        assert!(
            code == Some(0) && output.starts_with("bob@example.com: 1 contact removed, 1 left\n"),
            "{output}"
        );
        assert_eq!(run(&["--remove", "--contact", &removed]).0, Some(4), "it is gone");
        let caller = Agent::bind(field.sip(2));
        caller.send(proxy.address(), &call("one", "bob", caller.address()));
        let invite = phones[0].receive();
        assert!(invite.starts_with(b"INVITE "), "{store}");
        phones[0]
            .send(proxy.address(), &sarabande_tests::respond(&invite, "486 Busy Here", phones[0].address()));
        assert_eq!(status(&caller.final_response("one")), Some(486), "{store}");
        assert!(phones[1].receive_within(Duration::from_millis(100)).is_none(), "{store}");
        assert_eq!(run(&["--remove"]).0, Some(0));
        assert_eq!(run(&[]).0, Some(4), "{store}");
        assert_eq!(run(&["--remove"]).0, Some(4), "{store}");
        assert_eq!(tool(&explain).0, Some(4), "{store}");
        caller.send(proxy.address(), &call("none", "bob", caller.address()));
        assert_eq!(status(&caller.final_response("none")), Some(480), "{store}");
    }
}
