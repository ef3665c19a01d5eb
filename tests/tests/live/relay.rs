//! Attacks on the proxy with what an answered call has shown: nobody makes it send to a third party.

use std::net::SocketAddr;

use sarabande_tests::{Agent, AgentRequest, AnsweringAgent, RunningProxy, TestSite, respond, status, value};

/// The answer to a request that was just sent; others on the way are passed over.
fn answer_to(agent: &Agent, request: &AgentRequest) -> Vec<u8> {
    let cseq = format!("{} {}", request.cseq, request.method);
    loop {
        let message = agent.receive();
        let is_final = status(&message).is_some_and(|status| status >= 200);
        if is_final && value(&message, "CSeq").as_deref() == Some(&cseq) {
            return message;
        }
    }
}

/// What whoever has read the messages of a call may try. Each has another CSeq, and so another branch.
fn attacks(ok: &[u8], victim: SocketAddr) -> Vec<AgentRequest> {
    let mut all = Vec::new();
    let mut attack = |method: &str, change: &dyn Fn(&mut AgentRequest)| {
        let mut request = AgentRequest::in_dialog(method, ok);
        request.cseq = 10 + all.len() as u32;
        change(&mut request);
        all.push(request);
    };
    let there = format!("sip:{victim}");
    for method in ["ACK", "INFO", "MESSAGE", "OPTIONS", "SUBSCRIBE", "REFER", "BYE"] {
        attack(method, &|request| request.uri.clone_from(&there));
        attack(method, &|request| request.lines.push(format!("Route: <{there};lr>")));
        attack(method, &|request| {
            request.uri.clone_from(&there);
            request.to_tag = Some("other".to_owned());
        });
        attack(method, &|request| {
            request.uri.clone_from(&there);
            request.to_tag = None;
        });
        attack(method, &|request| {
            request.lines.push(format!("Route: <{there};lr>"));
            request.to_tag = None;
        });
        attack(method, &|request| {
            request.uri.clone_from(&there);
            request.call_id.push_str("-other");
        });
        attack(method, &|request| {
            let uri = request.lines.remove(0);
            let uri = uri.trim_start_matches("Route: ").trim_matches(['<', '>']).to_owned();
            request.lines.push(format!("Route: <{there}>"));
            request.uri = uri;
        });
    }
    all
}

/// The caller, and a stranger who has read all that it got, send what its token is not for. A third party gets none
/// of it, whatever becomes of it; and then the call ends in order.
#[test]
fn the_token_of_a_call_reaches_no_third_party() {
    let field = TestSite::new("relay");
    let server = AnsweringAgent::start(field.sip(11), |_| true);
    let proxy = RunningProxy::start(&field, 1, &[field.sip(11)], "");
    let [caller, stranger, victim] = [2, 3, 4].map(|host| Agent::bind(field.sip(host)));
    caller.send(proxy.address(), &AgentRequest::new("INVITE", "relay").bytes(caller.address()));
    let ok = caller.final_response("relay");
    assert_eq!(status(&ok), Some(200));
    for attacker in [&caller, &stranger] {
        for request in attacks(&ok, victim.address()) {
            attacker.send(proxy.address(), &request.bytes(attacker.address()));
            if request.method != "ACK" {
                let answer = answer_to(attacker, &request);
                // Without a To tag it is a new request, and goes to the next hop as any other.
                let new =
                    request.to_tag.is_none() && !request.lines.iter().any(|line| line.ends_with(";lr>"));
                let status = status(&answer);
                assert!(status == Some(403) || new && status == Some(200), "{status:?} to {request:?}");
            }
        }
    }
    let mut bye = AgentRequest::in_dialog("BYE", &ok);
    bye.cseq = 99;
    caller.send(proxy.address(), &bye.bytes(caller.address()));
    assert_eq!(status(&answer_to(&caller, &bye)), Some(200));
    // A request that waits for its answer would be sent again and again.
    proxy.wait_until_idle();
    assert_eq!(victim.receive_within(std::time::Duration::from_millis(1)), None);
    drop(server);
}

/// Two who work together can name a third party. It gets three datagrams for one, not eleven.
#[test]
fn a_third_party_that_the_callee_names_gets_few_repetitions() {
    let field = TestSite::new("relay-named");
    let proxy = RunningProxy::start(&field, 1, &[field.sip(11)], "[timers]\nt1 = \"50ms\"");
    let [caller, callee, victim] = [2, 11, 4].map(|host| Agent::bind(field.sip(host)));
    caller.send(proxy.address(), &AgentRequest::new("INVITE", "named").bytes(caller.address()));
    let invite = callee.receive();
    callee.send(proxy.address(), &respond(&invite, "200 OK", victim.address()));
    let ok = caller.final_response("named");
    caller.send(proxy.address(), &AgentRequest::in_dialog("INFO", &ok).bytes(caller.address()));
    let first = victim.receive();
    assert!(first.starts_with(b"INFO "));
    proxy.wait_until_idle();
    let again = std::iter::from_fn(|| victim.receive_within(std::time::Duration::from_millis(1)));
    assert!(again.count() <= 2, "more than three of one request");
}
