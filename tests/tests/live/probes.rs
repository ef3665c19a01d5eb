//! Probes of members.

use sarabande_tests::{
    Agent, AgentRequest, AnsweringAgent, Authority, Carrier, LoadServer, RunningBalancer, TestSettings,
    TestSite, Tool, until,
};

/// A member over TLS is probed over TLS. It is down while no server listens, or one without a valid certificate, and
/// `status` says why.
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
        (stranger, "its certificate is not signed by an authority in [tls] authorities".to_owned()),
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

/// All were dead, and one is back: the others are probed at once. Their next probes are an hour away, so one member
/// would otherwise have all calls for as long.
#[test]
fn after_the_first_member_is_back_the_others_are_probed_at_once() {
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
