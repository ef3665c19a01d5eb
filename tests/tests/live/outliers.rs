//! A member that fails what the others answer.

use sarabande_tests::{
    Agent, AgentRequest, AnsweringAgent, RunningBalancer, TestSettings, TestSite, status, until,
};

/// One of four answers every call with 500 at once, so that it never has anything to do. Its first calls fail, no
/// more.
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
    let mut settings = TestSettings::new(&field, &hosts);
    settings.pool.push("outlier = { ejection = \"1h\", max_ejection = \"1h\" }".to_owned());
    let balancer = RunningBalancer::launch(&field, settings);
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
    // The threads hear of it a moment later.
    let late = (0..100).filter(|_| fails()).count();
    assert!(late < 5, "{late} of 100");
    assert!(balancer.log().contains("member is ejected"), "{}", balancer.log());
    assert!((balancer.metric("sarabande_member_ejections_total") - 1.0).abs() < 1e-9);
    assert!(balancer.post(&format!("/api/up?member={}", field.sip(11))).contains("\"state\":\"up\""));
}
