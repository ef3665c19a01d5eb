//! `sarabande trace`: an operator finds out why a call failed.

use sarabande_tests::{
    Agent, AgentRequest, AnsweringAgent, RunningBalancer, StreamClient, TestSettings, TestSite, Tool, quoted,
    status, tls_table, until,
};

/// A route by the first digit of the user to a pool of one server, which is not probed: so only its calls show that it
/// is dead.
fn route(digit: u8, pool: &str, member: &str) -> String {
    format!(
        "[[route]]\nname = \"{pool}\"\nuser = {{ prefix = \"{digit}\" }}\npool = \"{pool}\"\n\
         [pool.{pool}]\nmembers = [{member}]\nprobe = {{ enabled = false }}\n"
    )
}

/// Four calls fail, each in another way, and a BYE and a TLS handshake. `trace` names each cause, `status` the last five.
#[test]
fn each_failure_is_told_with_its_cause() {
    let field = TestSite::new("trace");
    let (busy, dead, silent) = (field.sip(12), field.sip(13), field.sip(14));
    let _server = AnsweringAgent::saying(field.sip(11), |_| Some("200 OK"));
    let _busy = AnsweringAgent::saying(busy, |_| Some("486 Busy Here"));
    let _silent = Agent::bind(silent);
    let mut settings = TestSettings::new(&field, &[11]);
    settings.timers = vec!["t1 = \"20ms\""];
    settings.listen_more = vec![format!("tls = [\"{}\"]", field.sip(1))];
    let pools = [(1, "busy", busy), (2, "dead", dead), (3, "silent", silent)];
    let routes = pools.map(|(digit, pool, member)| route(digit, pool, &quoted(&member)));
    settings.tables = routes.concat() + &tls_table();
    let balancer = RunningBalancer::start(&field, settings);
    let agent = Agent::bind(field.sip(2));
    let send = |request: &AgentRequest| {
        agent.send(balancer.address(), &request.bytes(agent.address()));
        status(&agent.final_response(&request.call_id))
    };
    let call = |user: &str| {
        let uri = format!("sip:{user}@example.com");
        send(&AgentRequest { uri, ..AgentRequest::new("INVITE", &format!("call-{user}")) })
    };
    assert_eq!([call("100"), call("200"), call("300"), call("400")], [486, 500, 408, 404].map(Some));
    let bye = AgentRequest { to_tag: Some("lost".to_owned()), ..AgentRequest::new("BYE", "call-bye") };
    assert_eq!(send(&bye), Some(481));
    let mut stranger = StreamClient::connect(field.ip(3), field.sip(1));
    stranger.send(b"no TLS at all").expect("it is connected");
    until("the handshake has failed", || (balancer.closed("tls") > 0).then_some(()));

    let admin = balancer.admin().to_string();
    let run = |arguments: &[&str]| Tool::run(&field, &[arguments, &["--admin", &admin]].concat()).1;
    let text = run(&["trace", "--failed"]);
    let (from, here) = (agent.address(), "here");
    for part in [
        format!("  route    busy\n   0.000 s {from} ──▶ {here}\n"),
        format!("◀── here: 486\n  cause    {busy}: answered 486\n"),
        format!("{dead}: unreachable (ICMP)\n"),
        format!("◀── here: 500\n  cause    {dead}: unreachable (ICMP)\n"),
        format!("◀── here: 408\n  cause    {silent}: no response\n"),
        "◀── here: 404\n  cause    refused here: No Route\n".to_owned(),
        "◀── here: 481\n  cause    refused here: Call/Transaction Does Not Exist: the request has no Route\n"
            .to_owned(),
        format!("connection with {};transport=tls\n  cause    handshake failed: tls: ", stranger.address()),
    ] {
        assert!(text.contains(&part), "{part:?} in {text}");
    }
    let one = run(&["trace", "--call-id", "call-300", "--last", "1h"]);
    assert!(one.contains("call-300") && !one.contains("call-200"), "{one}");
    assert_eq!(run(&["trace", "--to", "555"]), "no such request has failed\n");
    let json = run(&["trace", "--to", "400@", "--json"]);
    assert!(json.starts_with('{') && json.contains("\"status\":404") && json.lines().count() == 1, "{json}");
    let shown = run(&["status"]);
    assert!(shown.contains("last failures (`sarabande trace` shows more):\n"), "{shown}");
    assert!(shown.contains("INVITE") && shown.contains(&format!("408 {silent}: no response")), "{shown}");
    assert!(!shown.contains(": 486 "), "only the last five: {shown}");
    assert!(shown.contains("refused here: 1 request with 404 No Route\n"), "{shown}");
    let path = format!("sip:500@{}", field.ip(1));
    let (exit, _) = Tool::run(&field, &["explain", "--uri", &path, "--admin", &admin]);
    assert_eq!(exit.code(), Some(1), "no route");
}

/// The level changes by a reload, without a restart, and also ends the reports of failed requests.
#[test]
fn the_log_level_changes_by_reload() {
    let field = TestSite::new("trace-level");
    let _server = AnsweringAgent::saying(field.sip(11), |_| Some("486 Busy Here"));
    let mut settings = TestSettings::new(&field, &[]);
    settings.members = vec![quoted(&field.sip(11))];
    settings.probe = vec!["enabled = false"];
    let mut balancer = RunningBalancer::start(&field, settings);
    let agent = Agent::bind(field.sip(2));
    let to = balancer.address();
    let call = |call_id: &str| {
        agent.send(to, &AgentRequest::new("INVITE", call_id).bytes(agent.address()));
        assert_eq!(status(&agent.final_response(call_id)), Some(486));
    };
    call("before");
    balancer.reload_by_request(|settings| settings.log = vec!["level = \"debug\""]);
    call("between");
    until("a line about the call", || balancer.log().contains("\"between\"").then_some(()));
    balancer.reload_by_request(|settings| settings.log = vec!["level = \"info\""]);
    call("after");
    balancer.reload_by_request(|_| {});
    until("three reloads are logged", || {
        (balancer.log().matches("configuration reloaded").count() == 3).then_some(())
    });
    let log = balancer.log();
    assert!(!log.contains("\"before\"") && !log.contains("\"after\""), "{log}");
}
