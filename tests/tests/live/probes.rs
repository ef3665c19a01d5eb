//! Probes: each member answers for itself alone.

use std::net::SocketAddr;
use std::thread::sleep;
use std::time::Duration;

use sarabande_tests::{
    Agent, AgentRequest, AnsweringAgent, Authority, Carrier, LoadServer, RunningBalancer, TestSettings,
    TestSite, Tool, header, respond, until,
};

/// Where a probe came from.
fn source(probe: &[u8]) -> SocketAddr {
    let via = header(probe, "Via").remove(0);
    via.split([' ', ';']).nth(1).and_then(|sent_by| sent_by.parse().ok()).expect("an address in Via")
}

/// Refusals in the names of other members: what their Call-IDs are if they differ from that of `probe` in the numbers
/// of member and probe only.
fn forged(probe: &[u8], answer: SocketAddr) -> Vec<Vec<u8>> {
    let call_id = header(probe, "Call-ID").remove(0);
    let parts: Vec<&str> = call_id.split('-').collect();
    let number = |at: usize| parts.get(at).and_then(|part| part.parse::<u32>().ok());
    let (Some(slot), Some(cseq)) = (number(2), number(3)) else { return Vec::new() };
    let text = String::from_utf8(respond(probe, "503 Not Me", answer)).expect("ASCII");
    let mut all = Vec::new();
    for other in (0..4).filter(|other| *other != slot) {
        for cseq in cseq.saturating_sub(1)..=cseq + 1 {
            let id = format!("{}-{}-{other}-{cseq}", parts[0], parts[1]);
            all.push(text.replace(&call_id, &id).into_bytes());
        }
    }
    all
}

/// A member answers the others' probes with 503, by what it sees of its own: they stay in service.
#[test]
fn a_member_cannot_take_others_down() {
    let field = TestSite::new("probe-forged");
    // As far away as is allowed: there is time to be faster.
    let late = |_: &[u8]| {
        sleep(Duration::from_millis(200));
        true
    };
    let others = [12, 13].map(|host| AnsweringAgent::start(field.sip(host), late));
    let balancer = RunningBalancer::launch(&field, TestSettings::new(&field, &[11, 12, 13]));
    let hostile = Agent::bind(field.sip(11));
    for _ in 0..30 {
        let probe = hostile.receive();
        let source = source(&probe);
        for answer in forged(&probe, hostile.address()) {
            hostile.send(source, &answer);
        }
        hostile.send(source, &respond(&probe, "200 OK", hostile.address()));
        for member in balancer.members() {
            assert!(member.accepting, "{} is {}", member.address, member.state);
        }
    }
    drop(others);
}

/// Somebody else answers for a silent member: it is dead all the same, and the log says what came.
#[test]
fn nobody_answers_for_a_member() {
    let field = TestSite::new("probe-elsewhere");
    let _good = AnsweringAgent::start(field.sip(12), |_| true);
    let balancer = RunningBalancer::launch(&field, TestSettings::new(&field, &[11, 12]));
    let (silent, other) = (Agent::bind(field.sip(11)), Agent::bind(field.sip(3)));
    let state = || balancer.member(field.sip(11)).expect("it stays a member").state;
    until("the silent member is dead", || {
        let probe = silent.receive();
        other.send(source(&probe), &respond(&probe, "200 OK", silent.address()));
        (state() == "down").then_some(())
    });
    assert!(balancer.log().contains("an answer to a probe came from another host"), "{}", balancer.log());
    until("it lives once it answers itself", || {
        let probe = silent.receive();
        silent.send(source(&probe), &respond(&probe, "200 OK", silent.address()));
        (state() == "up").then_some(())
    });
}

/// A member over TLS is asked over TLS: it is down while nobody is there, or somebody who does not show a good
/// certificate for it, and `status` says why.
#[test]
fn a_member_over_tls_is_probed_over_tls() {
    let field = TestSite::new("probe-tls");
    let carrier = Carrier::new(&field, "tls");
    let server = LoadServer::start(&field, &carrier, 11);
    let balancer = RunningBalancer::launch(&field, carrier.settings(&field, &[11]));
    let is = |wanted: &str| {
        let state = || balancer.member(carrier.at(&field, 11)).map(|member| member.state);
        until(wanted, || (state().as_deref() == Some(wanted)).then_some(()));
    };
    is("up");
    server.kill();
    is("down");
    let server = LoadServer::start(&field, &carrier, 11);
    is("up");
    server.kill();
    is("down");
    let authority = carrier.authority().expect("there is one with TLS");
    let own = format!("IP:{}", field.ip(11));
    let stranger = Authority::new(&field, "stranger").issue("stranger", &own);
    let bad = [
        (stranger, "its certificate is signed by nobody whom [tls] authorities has".to_owned()),
        (authority.issue_expired("expired", &own), "its certificate has expired".to_owned()),
        (
            authority.issue("else", "DNS:else.example.com"),
            format!("its certificate is not for {}, but for", field.ip(11)),
        ),
    ];
    let admin = format!("http://{}", balancer.admin());
    for (certificate, why) in bad {
        let server = LoadServer::showing(&field, &carrier, 11, Some(&certificate));
        let why = format!("last probe: no connection: {why}");
        let status = || Tool::run(&field, &["status", "--admin", &admin]).1;
        until(&why, || status().contains(&why).then_some(()));
        is("down");
        server.kill();
    }
    let _server = LoadServer::start(&field, &carrier, 11);
    is("up");
}

/// All were dead, and one is back: the others are asked at once. With their next probes an hour away, it would have
/// all calls for as long.
#[test]
fn when_the_first_of_all_is_back_the_others_are_asked() {
    let field = TestSite::new("probe-revival");
    let hosts = [11, 12, 13];
    let mut settings = TestSettings::new(&field, &hosts);
    settings.probe = vec!["interval = \"1h\"", "timeout = \"250ms\""];
    let balancer = RunningBalancer::launch(&field, settings);
    let all = |state: &str| balancer.members().iter().all(|member| member.state == state).then_some(());
    let (caller, mut calls) = (Agent::bind(field.sip(3)), 0..);
    until("calls have found all ports closed", || {
        let call_id = format!("closed-{}", calls.next()?);
        caller.send(balancer.address(), &AgentRequest::new("INVITE", &call_id).bytes(caller.address()));
        all("down")
    });
    let members = hosts.map(|host| AnsweringAgent::start(field.sip(host), |_| true));
    balancer.post(&format!("/api/up?member={}", field.sip(hosts[0])));
    until("all are up", || all("up"));
    drop(members);
}
