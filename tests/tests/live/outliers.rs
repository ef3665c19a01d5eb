//! A member that fails requests which the others answer.

use sarabande_tests::{
    Agent, AgentRequest, AnsweringAgent, RunningBalancer, TestSettings, TestSite, status, until,
};

/// One of four answers every call with 500 at once, so that it always has least load. Only its first calls fail.
#[test]
fn a_member_that_fails_at_once_does_not_get_the_calls() {
    let field = TestSite::new("outlier");
    let hosts = [11, 12, 13, 14];
    let _members = hosts.map(|host| {
        AnsweringAgent::saying(field.sip(host), move |message| {
            let fails = host == 11 && message.starts_with(b"INVITE ");
            Some(if fails { "500 Broken" } else { "200 OK" })
        })
    });
    let balancer = RunningBalancer::launch(&field, TestSettings::new(&field, &hosts));
    let (caller, mut calls) = (Agent::bind(field.sip(2)), 0..);
    let mut fails = || {
        let call_id = format!("outlier-{}", calls.next().expect("numbers do not end"));
        caller.send(balancer.address(), &AgentRequest::new("INVITE", &call_id).bytes(caller.address()));
        status(&caller.final_response(&call_id)) == Some(500)
    };
    let member = || balancer.member(field.sip(11)).expect("it stays a member");
    let mut failed = 0;
    until("it is ejected", || {
        failed += usize::from(fails());
        (member().state == "ejected").then_some(())
    });
    assert!((5..40).contains(&failed), "{failed}");
    // The threads get the new state a moment later.
    let late = (0..100).filter(|_| fails()).count();
    assert!(late < 5, "{late} of 100");
    assert!(balancer.log().contains("member is ejected"), "{}", balancer.log());
    assert!((balancer.metric("sarabande_member_ejections_total") - 1.0).abs() < 1e-9);
    assert!(balancer.post(&format!("/api/up?member={}", field.sip(11))).contains("\"state\":\"up\""));
}

/// One of three answers OPTIONS but no INVITE. Each of its calls is answered by another member after `invite_timeout`,
/// until it is ejected.
#[test]
fn a_hung_member_delays_calls_briefly_and_is_ejected() {
    let field = TestSite::new("outlier-silent");
    let hosts = [11, 12, 13];
    let _members = hosts.map(|host| {
        AnsweringAgent::saying(field.sip(host), move |message| {
            let is_silent = host == 11 && message.starts_with(b"INVITE ");
            (!is_silent).then_some("200 OK")
        })
    });
    let mut settings = TestSettings::new(&field, &hosts);
    settings.pool.push("policy = \"round-robin\"\ninvite_timeout = \"200ms\"".to_owned());
    let balancer = RunningBalancer::launch(&field, settings);
    let caller = Agent::bind(field.sip(2));
    let mut calls = 0;
    until("it is ejected", || {
        let call_id = format!("silent-{calls}");
        calls += 1;
        caller.send(balancer.address(), &AgentRequest::new("INVITE", &call_id).bytes(caller.address()));
        assert_eq!(status(&caller.final_response(&call_id)), Some(200));
        let member = balancer.member(field.sip(11)).expect("it stays a member");
        (member.state == "ejected").then_some(())
    });
    assert!((5..60).contains(&calls), "{calls}");
    assert!(balancer.log().contains("member is ejected"), "{}", balancer.log());
}
