//! Requests other than calls, requests out of nowhere, and tokens that are not what they seem.

use std::net::SocketAddr;

use sarabande_tests::{
    Agent, AgentRequest, AnsweringAgent, RunningBalancer, TestSettings, TestSite, header, show, status, value,
};

/// A balancer with one server that answers everything by itself; what it answers is told by `answers`.
fn one_server(
    field: &TestSite,
    answers: fn(&[u8]) -> bool,
    key: &'static str,
) -> (AnsweringAgent, RunningBalancer) {
    let server = AnsweringAgent::start(field.sip(11), answers);
    let mut settings = TestSettings::new(field, &[11]);
    settings.key = key;
    (server, RunningBalancer::start(field, settings))
}

const KEY: &str = "000102030405060708090a0b0c0d0e0f";

/// An established call of `agent`: the 200 to its INVITE.
fn establish(agent: &Agent, balancer: SocketAddr, call_id: &str) -> Vec<u8> {
    agent.send(balancer, &AgentRequest::new("INVITE", call_id).bytes(agent.address()));
    let answer = agent.final_response(call_id);
    assert_eq!(status(&answer), Some(200), "{}", show(&answer));
    let mut ack = AgentRequest::in_dialog("ACK", &answer);
    ack.cseq = 1;
    agent.send(balancer, &ack.bytes(agent.address()));
    answer
}

/// The token's place in a Route line: the value of our URI parameter.
fn token(route: &str) -> std::ops::Range<usize> {
    let start = route.find("sbt=").expect("a token in the route") + 4;
    let length = route[start..].find([';', '>']).expect("the parameter ends");
    start..start + length
}

/// The status that `request` is answered with.
fn outcome(agent: &Agent, balancer: SocketAddr, request: &AgentRequest) -> Option<u16> {
    agent.send(balancer, &request.bytes(agent.address()));
    status(&agent.final_response(&request.call_id))
}

/// Methods that make no call are balanced, known or not, and their answers find the way back.
#[test]
fn requests_that_are_no_calls_are_balanced() {
    let field = TestSite::new("methods");
    let (_server, balancer) = one_server(&field, |_| true, KEY);
    let agent = Agent::bind(field.sip(2));
    for method in ["REGISTER", "OPTIONS", "MESSAGE", "SUBSCRIBE", "PUBLISH", "DANCE"] {
        let request = AgentRequest::new(method, &format!("call-{method}"));
        assert_eq!(outcome(&agent, balancer.address(), &request), Some(200), "{method}");
    }
    balancer.wait_until_idle();
}

/// An in-dialog request with neither token nor table entry gets 481, and no server sees it.
#[test]
fn a_request_out_of_nowhere_gets_481() {
    let field = TestSite::new("nowhere");
    let (_server, balancer) = one_server(&field, |_| true, KEY);
    let agent = Agent::bind(field.sip(2));
    let mut bye = AgentRequest::new("BYE", "nobody-knows-it");
    bye.to_tag = Some("gone".to_owned());
    assert_eq!(outcome(&agent, balancer.address(), &bye), Some(481));
}

/// The token works where nothing else can (the balancer has been restarted), and stops working when one
/// character is changed, when it is used for another call, or when it was made with another key.
#[test]
fn forged_and_borrowed_tokens_are_refused() {
    let field = TestSite::new("forged");
    let (_server, mut balancer) = one_server(&field, |_| true, KEY);
    let agent = Agent::bind(field.sip(2));
    let answer = establish(&agent, balancer.address(), "genuine");
    // The table would know the call; from now on only the token does.
    balancer.kill_and_restart();
    let info = AgentRequest::in_dialog("INFO", &answer);

    let mut forged = info.clone();
    let place = token(&forged.lines[0]);
    let flipped = if forged.lines[0][place.clone()].ends_with('0') { "1" } else { "0" };
    forged.lines[0].replace_range(place.end - 1..place.end, flipped);
    assert_eq!(outcome(&agent, balancer.address(), &forged), Some(481), "altered: {:?}", forged.lines);

    let mut borrowed = info.clone();
    borrowed.call_id = "another".to_owned();
    assert_eq!(outcome(&agent, balancer.address(), &borrowed), Some(481), "of another call");

    let elsewhere = TestSite::new("forged_elsewhere");
    let (_stranger, foreign) = one_server(&elsewhere, |_| true, "ffffffffffffffffffffffffffffffff");
    let other = Agent::bind(elsewhere.sip(2));
    let made_there = establish(&other, foreign.address(), "genuine-there");
    let mut foreign_token = AgentRequest::in_dialog("INFO", &made_there);
    let theirs = foreign_token.lines[0][token(&foreign_token.lines[0])].to_owned();
    foreign_token.lines = info.lines.clone();
    let place = token(&foreign_token.lines[0]);
    foreign_token.lines[0].replace_range(place, &theirs);
    assert_eq!(outcome(&agent, balancer.address(), &foreign_token), Some(481), "of another site");

    assert_eq!(outcome(&agent, balancer.address(), &info), Some(200), "the genuine one: {:?}", info.lines);
}

/// A genuine token leads to its member and nowhere else: a Request-URI or a further Route that names another
/// address is not followed for a request into the pool.
#[test]
fn a_token_leads_to_a_member_only() {
    let field = TestSite::new("aim");
    let (_server, balancer) = one_server(&field, |_| true, KEY);
    let (agent, bystander) = (Agent::bind(field.sip(2)), Agent::bind(field.sip(66)));
    let answer = establish(&agent, balancer.address(), "aimed");
    let mut aimed = AgentRequest::in_dialog("INFO", &answer);
    aimed.uri = format!("sip:{}", bystander.address());
    assert_eq!(outcome(&agent, balancer.address(), &aimed), Some(200), "answered by the member");
    let stray = bystander.receive_within(std::time::Duration::from_millis(200));
    assert!(stray.is_none(), "sent to an address that is no member: {stray:?}");
}

/// What the server gets is what RFC 3261 §16.6 asks of a proxy: one hop less to go, our Via above the client's,
/// the client's marked with where it came from (§18.2.1, RFC 3581 §4), and the way back recorded.
#[test]
fn a_forwarded_invite_is_edited_as_the_rfc_says() {
    let field = TestSite::new("edits");
    let (server, balancer) = one_server(&field, |message| message.starts_with(b"OPTIONS "), KEY);
    let agent = Agent::bind(field.sip(2));
    let mut invite = AgentRequest::new("INVITE", "edited");
    invite.lines = vec!["X-Mark: untouched".to_owned()];
    let sent_by = "client.example.com";
    let text = String::from_utf8(invite.bytes(agent.address())).expect("requests are text");
    let via = text.replacen(&format!("UDP {};", agent.address()), &format!("UDP {sent_by};rport;"), 1);
    agent.send(balancer.address(), via.as_bytes());
    let copy = server.next();
    let vias = header(&copy, "Via");
    assert_eq!(vias.len(), 2, "{}", show(&copy));
    assert!(vias[0].contains(&balancer.address().to_string()), "{vias:?}");
    let source = [format!("received={}", agent.address().ip()), format!("rport={}", agent.address().port())];
    assert!(source.iter().all(|mark| vias[1].contains(mark)), "{vias:?}");
    assert_eq!(value(&copy, "Max-Forwards").as_deref(), Some("69"));
    let recorded = header(&copy, "Record-Route");
    assert!(
        matches!(&recorded[..], [route] if route.contains(";lr") && route.contains("sbt=")),
        "{recorded:?}"
    );
    assert_eq!(value(&copy, "X-Mark").as_deref(), Some("untouched"));
}
