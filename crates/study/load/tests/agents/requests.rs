//! Reactions of an answerer to single requests, and of a caller to unusual responses.
use crate::net::{Net, address, answerer_config, caller_config};
use base::{Connection, Flow, Instant, Outbox, Rng, Transport};
use core::num::NonZeroU32;
use load::{AgentInput, Answerer, AnswererConfig, CallOutcome, Caller, CallerConfig, RandomTime};
use std::net::SocketAddr;
use std::time::Duration;
use testkit::TestRequest;

/// An answerer alone: requests in, responses out.
struct Bench {
    answerer: Answerer,
    now: Instant,
}

impl Bench {
    fn new(config: AnswererConfig) -> Self {
        Self { answerer: Answerer::new(config, Rng::from_seed(1)), now: Instant::ZERO }
    }

    /// Returns the responses that a request gets at once, and their destinations.
    fn ask(&mut self, request: &str) -> Vec<(SocketAddr, String)> {
        let from = address(30_000);
        let mut out = Outbox::default();
        self.answerer.handle(
            self.now,
            AgentInput::Message { from: Flow::udp(0, from), bytes: request.as_bytes() },
            &mut out,
        );
        let text = |transmit| String::from_utf8_lossy(out.message(transmit)).into_owned();
        out.transmits().iter().map(|transmit| (transmit.flow.peer, text(transmit))).collect()
    }
}

fn request(method: &str, branch: &str, to: &str, more: &str) -> String {
    let request = TestRequest {
        via: format!("SIP/2.0/UDP p.example;branch=z9hG4bK{branch}, SIP/2.0/UDP 192.0.2.7"),
        from: "<sip:a@h>".to_owned(),
        from_tag: "1".to_owned(),
        to: to.to_owned(),
        cseq: 7,
        contact: String::new(),
        body: "",
        ..TestRequest::new(method, "c1", address(30_000))
    };
    more.lines().fold(request.with("Via", "SIP/2.0/UDP c"), TestRequest::line).text()
}

/// The same request with this CSeq number instead of 7.
fn numbered(cseq: u32, method: &str, branch: &str, to: &str) -> String {
    request(method, branch, to, "").replace("CSeq: 7", &format!("CSeq: {cseq}"))
}

fn to(response: &str) -> &str {
    response.lines().find_map(|line| line.strip_prefix("To: ")).unwrap_or_default()
}

fn start(response: &str) -> &str {
    response.lines().next().unwrap_or_default()
}

#[test]
fn every_method_gets_200_and_a_repetition_the_same_again() {
    let mut bench = Bench::new(answerer_config(0));
    for method in ["OPTIONS", "REGISTER", "MESSAGE", "SUBSCRIBE", "PUBLISH", "XYZZY", "QUUX"] {
        let first = bench.ask(&request(method, "b1", "<sip:b@h>", ""));
        let [(target, text)] = &first[..] else { panic!("{method}: {first:?}") };
        assert_eq!((start(text), *target), ("SIP/2.0 200 OK", address(5060)), "{method}");
        // RFC 3261 §8.2.6.2: all Vias in order, the topmost one with `received`; the From tag as it came, and a new To
        // tag.
        let vias = "Via: SIP/2.0/UDP p.example;branch=z9hG4bKb1;received=127.0.0.1, SIP/2.0/UDP 192.0.2.7\r\n\
             Via: SIP/2.0/UDP c\r\nFrom: <sip:a@h>;tag=1\r\nTo: <sip:b@h>;tag=";
        assert!(text.contains(vias) && text.contains("\r\nServer: answerer-0\r\n"), "{text}");
        assert_eq!(text.contains("Contact:"), method == "SUBSCRIBE", "{method}");
        bench.now += Duration::from_secs(31);
        assert_eq!(bench.ask(&request(method, "b1", "<sip:b@h>", "")), first);
        bench.now += Duration::from_secs(1);
        bench.ask("");
        let again = bench.ask(&request(method, "b1", "<sip:b@h>", ""));
        assert_eq!(start(&again[0].1), "SIP/2.0 200 OK", "forgotten after 64*T1, so a new one");
        let new = bench.ask(&request(method, "b2", "<sip:b@h>", ""));
        assert_ne!(to(&new[0].1), to(text), "another transaction, another tag");
    }
    // Two different unknown methods are different transactions.
    bench.ask(&request("XYZZY", "b3", "<sip:b@h>", ""));
    bench.ask(&request("QUUX", "b3", "<sip:b@h>", ""));
    let results = bench.answerer.results();
    assert_eq!((results.requests["OPTIONS"], results.requests["OTHER"]), (3, 8));
    assert_eq!(results.retransmissions_received, 7);
    bench.now += Duration::from_secs(100);
    bench.ask("");
    assert_eq!(bench.answerer.deadline(), None, "transactions are forgotten");
}

#[test]
fn an_invite_gets_its_record_route_back_and_its_last_response_again() {
    let ring = RandomTime::Fixed(Duration::from_secs(2));
    let mut bench =
        Bench::new(AnswererConfig { ring, trying: true, name: "a b".into(), ..answerer_config(0) });
    let routes = "Record-Route: <sip:p1;lr>, <sip:p2;lr>\r\nRecord-Route: <sip:p3;lr>\r\n";
    let invite = request("INVITE", "b1", "<sip:b@h>", routes);
    let first = bench.ask(&invite);
    assert_eq!(
        first.iter().map(|(_, text)| start(text)).collect::<Vec<_>>(),
        ["SIP/2.0 100 Trying", "SIP/2.0 180 Ringing"]
    );
    let ringing = &first[1].1;
    assert!(
        ringing.contains(routes) && ringing.contains("Contact: <sip:a%20b@127.0.0.1:20001>"),
        "{ringing}"
    );
    assert_eq!(bench.ask(&invite), first[1..], "the last provisional response");
    bench.now += Duration::from_secs(2);
    let answer = bench.ask("");
    assert_eq!((start(&answer[0].1), to(&answer[0].1)), ("SIP/2.0 200 OK", to(ringing)));
    // RFC 6026 §7.1: repeats of an accepted INVITE are absorbed. The 2xx is repeated by itself until the ACK.
    assert_eq!(bench.ask(&invite), []);
    bench.now += Duration::from_millis(500);
    assert_eq!(bench.ask(""), answer);
    assert_eq!(bench.ask(&request("ACK", "b9", to(ringing), "")), []);
    bench.now += Duration::from_secs(1);
    assert_eq!(bench.ask(&invite), []);
    // Within the call, re-INVITE, UPDATE and INFO are answered at once. BYE ends the call; a later request gets 481 and
    // counts as late.
    let start_of = |responses: Vec<(SocketAddr, String)>| {
        responses.iter().map(|(_, text)| start(text).to_owned()).collect::<Vec<_>>()
    };
    let dialog = to(ringing);
    assert_eq!(start_of(bench.ask(&request("INVITE", "b3", dialog, "")))[1..], ["SIP/2.0 200 OK"]);
    bench.ask(&request("ACK", "b10", dialog, ""));
    for method in ["UPDATE", "INFO", "BYE"] {
        assert_eq!(start_of(bench.ask(&request(method, "b4", dialog, ""))), ["SIP/2.0 200 OK"], "{method}");
    }
    assert_eq!(
        start_of(bench.ask(&request("BYE", "b5", dialog, ""))),
        ["SIP/2.0 481 Call/Transaction Does Not Exist"]
    );
    let results = bench.answerer.results();
    assert_eq!((results.calls_answered, results.calls_completed, results.calls_in_progress), (1, 1, 0));
    assert_eq!((results.late_requests, results.wrong_server), (1, 0));
}

#[test]
fn another_invite_is_refused_until_the_first_is_answered_and_then_needs_its_own_ack() {
    let ring = RandomTime::Fixed(Duration::from_secs(2));
    let mut bench = Bench::new(AnswererConfig { ring, ..answerer_config(0) });
    let ringing = bench.ask(&request("INVITE", "b1", "<sip:b@h>", ""));
    let dialog = to(&ringing[0].1);
    let early = bench.ask(&request("INVITE", "b2", dialog, ""));
    // RFC 3261 §14.2: 500 with a time of at most 10 s.
    assert_eq!(start(&early[0].1), "SIP/2.0 500 Server Internal Error");
    let after = early[0].1.lines().find_map(|line| line.strip_prefix("Retry-After: ")).unwrap();
    assert!(after.parse::<u8>().unwrap() <= 10);
    assert_eq!(bench.ask(&request("ACK", "b2", dialog, "")), []);
    bench.now += Duration::from_secs(2);
    assert_eq!(
        start(&bench.ask("")[0].1),
        "SIP/2.0 200 OK",
        "the 200 to the first INVITE; the 500 is not repeated"
    );
    // The ACK to the first 2xx is late. After the second 2xx only that one is repeated, and only an ACK with its CSeq
    // number acknowledges it.
    let second = bench.ask(&numbered(8, "INVITE", "b3", dialog));
    assert_eq!(start(&second[0].1), "SIP/2.0 200 OK");
    assert_eq!(bench.ask(&request("ACK", "b4", dialog, "")), []);
    bench.now += Duration::from_millis(500);
    assert_eq!(bench.ask(""), second);
    assert_eq!(bench.ask(&numbered(8, "ACK", "b6", dialog)), []);
    bench.now += Duration::from_secs(10);
    assert_eq!(bench.ask(""), []);
    assert_eq!(start(&bench.ask(&request("BYE", "b5", dialog, ""))[0].1), "SIP/2.0 200 OK");
    let results = bench.answerer.results();
    assert_eq!((results.calls_answered, results.calls_completed, results.ack_timeouts), (1, 1, 0));
}

#[test]
fn without_an_ack_the_bye_follows_the_route_set_until_it_is_answered() {
    let mut bench = Bench::new(answerer_config(0));
    let more =
        "Record-Route: <sip:192.0.2.9:5069;lr>, <sip:192.0.2.8;lr>\r\nContact: \"A\" <sip:a@192.0.2.7>\r\n";
    let invited = bench.ask(&request("INVITE", "b1", "<sip:b@h>", more));
    let own = to(&invited[1].1).to_owned();
    let mut sent = Vec::new();
    while bench.now < Instant::from_millis(36_000) {
        bench.now += Duration::from_millis(500);
        sent.extend(
            bench.ask("").into_iter().filter(|(_, text)| text.starts_with("BYE")).map(|one| (bench.now, one)),
        );
    }
    let times: Vec<_> = sent.iter().map(|(at, _)| (*at - Instant::ZERO).as_millis()).collect();
    assert_eq!(times, [32_000, 32_500, 33_500, 35_500]);
    let (target, bye) = &sent[0].1;
    assert!(sent.iter().all(|(_, (_, again))| again == bye));
    assert_eq!(*target, "192.0.2.9:5069".parse().unwrap());
    let tag = own.rsplit_once("tag=").unwrap().1;
    let expected = format!(
        "BYE sip:a@192.0.2.7 SIP/2.0\r\nVia: SIP/2.0/UDP 127.0.0.1:20001;rport;branch=z9hG4bK{tag}\r\n\
         Max-Forwards: 70\r\nRoute: <sip:192.0.2.9:5069;lr>\r\nRoute: <sip:192.0.2.8;lr>\r\n\
         To: <sip:a@h>;tag=1\r\nFrom: {own}\r\nCall-ID: c1\r\nCSeq: 1 BYE\r\nContent-Length: 0\r\n\r\n"
    );
    assert_eq!(*bye, expected);
    assert_eq!((bench.answerer.results().ack_timeouts, bench.answerer.results().calls_in_progress), (1, 1));
    let answer = |status: &str| {
        format!(
            "SIP/2.0 {status}\r\nVia: SIP/2.0/UDP 127.0.0.1:20001;branch=z9hG4bK{tag}\r\nTo: <sip:a@h>;tag=1\r\n\
             From: {own}\r\nCall-ID: c1\r\nCSeq: 1 BYE\r\nContent-Length: 0\r\n\r\n"
        )
    };
    bench.ask(&answer("100 Trying"));
    assert_eq!(bench.answerer.results().calls_in_progress, 1);
    bench.ask(&answer("200 OK"));
    bench.ask(&answer("200 OK"));
    let results = bench.answerer.results();
    assert_eq!((results.calls_in_progress, results.calls_completed), (0, 0));
    assert_eq!(
        results.stray_datagrams,
        72 + 1,
        "the empty datagrams that only let the timers run, and the repeated answer"
    );
    assert_eq!(bench.answerer.deadline().map(|_| bench.ask("").len()), Some(0), "nothing is left to be sent");
    bench.now += Duration::from_mins(2);
    assert_eq!(bench.ask(""), []);
    assert_eq!(bench.answerer.deadline(), None);
}

#[test]
fn a_bye_ends_a_ringing_call_with_487() {
    let ring = RandomTime::Fixed(Duration::from_secs(2));
    let mut bench = Bench::new(AnswererConfig { ring, ..answerer_config(0) });
    let ringing = bench.ask(&request("INVITE", "b1", "<sip:b@h>", ""));
    let ended = bench.ask(&request("BYE", "b2", to(&ringing[0].1), ""));
    let lines: Vec<_> = ended.iter().map(|(_, text)| start(text)).collect();
    assert_eq!(lines, ["SIP/2.0 200 OK", "SIP/2.0 487 Request Terminated"]);
    assert_eq!(bench.ask(&request("ACK", "b1", to(&ended[1].1), "")), []);
    bench.now += Duration::from_secs(20);
    assert_eq!(bench.ask(""), [], "the 487 is acknowledged, and the call is not answered");
    assert_eq!(bench.answerer.results().calls_cancelled, 1);
}

#[test]
fn a_cancelled_call_leaves_no_dialog() {
    let ring = RandomTime::Fixed(Duration::from_secs(2));
    let mut bench = Bench::new(AnswererConfig { ring, ..answerer_config(0) });
    let ringing = bench.ask(&request("INVITE", "b1", "<sip:b@h>", ""));
    assert_eq!(bench.ask(&request("CANCEL", "b1", "<sip:b@h>", "")).len(), 2, "200 and the INVITE's 487");
    let late = bench.ask(&request("BYE", "b2", to(&ringing[0].1), ""));
    assert_eq!(start(&late[0].1), "SIP/2.0 481 Call/Transaction Does Not Exist");
    assert_eq!((bench.answerer.results().late_requests, bench.answerer.results().wrong_server), (1, 0));
    // A repetition after the final response gets 200 and has no other effect (RFC 3261 §9.2).
    let again = request("CANCEL", "b1", "<sip:b@h>", "").replace("To: ", "X: y\r\nTo: ");
    assert_eq!(bench.ask(&again).len(), 1);
}

#[test]
fn a_request_with_a_fault_is_refused_with_its_reason() {
    let mut bench = Bench::new(answerer_config(0));
    let bad = request("OPTIONS", "b1", "<sip:b@h>", "").replace("CSeq: 7", "CSeq: 7000000000");
    let responses = bench.ask(&bad);
    assert!(responses[0].1.starts_with("SIP/2.0 400 "), "{responses:?}");
    assert_eq!(bench.ask(&bad.replace("OPTIONS", "ACK")), [], "an ACK is never answered");
}

#[test]
fn a_second_party_that_answers_is_hung_up() {
    let config =
        CallerConfig { holding: RandomTime::Fixed(Duration::from_mins(1)), ..caller_config(10.0, 1) };
    let mut net = Net::new(config, vec![answerer_config(0), answerer_config(1)], 2);
    net.run_until(5.0);
    let answer = net.sent(true, "SIP/2.0 200")[0].2.clone();
    net.inject(address(20_002), address(20_000), &fork(&answer));
    net.run();
    let to_fork: Vec<_> = net.trace.iter().filter(|(_, to, _)| *to == address(20_002)).collect();
    assert_eq!(to_fork.len(), 2);
    assert!(
        to_fork[0].2.starts_with("ACK sip:answerer-1@") && to_fork[1].2.starts_with("BYE sip:answerer-1@")
    );
    assert!(to_fork.iter().all(|(_, _, text)| to(text).ends_with(";tag=another")));
    let results = net.caller.results();
    assert_eq!((results.forks_hung_up, results.calls_completed, results.bye_refused.len()), (1, 1, 0));
}

/// RFC 3261 §8.1.1.7: a proxy would take two requests with one branch for a retransmission, and absorb the second.
#[test]
fn the_byes_to_two_forks_have_branches_of_their_own() {
    let config =
        CallerConfig { holding: RandomTime::Fixed(Duration::from_mins(1)), ..caller_config(10.0, 1) };
    let mut net = Net::new(config, vec![answerer_config(0), answerer_config(1)], 2);
    net.run_until(5.0);
    let one = fork(&net.sent(true, "SIP/2.0 200")[0].2);
    for answer in [&one, &one, &one.replace("another", "third")] {
        net.inject(address(20_002), address(20_000), answer);
    }
    net.run();
    let byes = net.trace.iter().filter(|(_, to, text)| *to == address(20_002) && text.starts_with("BYE "));
    let branches: Vec<_> = byes.map(|(.., text)| text.split_once("branch=").map(|via| via.1)).collect();
    let branches: Vec<_> = branches.iter().map(|via| via.and_then(|via| via.split_once("\r\n"))).collect();
    let [first, again, other] = branches[..] else { panic!("{branches:?}") };
    let branch = |via: Option<(&str, &str)>| via.map(|via| via.0.to_owned());
    assert_eq!(branch(first), branch(again), "the 2xx came again, and so does the BYE");
    assert_ne!(branch(first), branch(other));
}

/// Returns the 2xx of answerer 1 to the INVITE that answerer 0 answered with `answer`.
fn fork(answer: &str) -> String {
    let fork = answer.replace("sip:answerer-0@127.0.0.1:20001", "sip:answerer-1@127.0.0.1:20002");
    let fork = fork.replace("Server: answerer-0\r\n", "").replacen("\r\nFrom", "\r\nX: y\r\nFrom", 1);
    let tag = to(answer).rsplit_once("tag=").map(|(_, tag)| tag).unwrap_or_default();
    fork.replace(tag, "another")
}

#[test]
fn a_second_party_may_answer_until_64_t1_after_the_first() {
    let mut net = Net::new(caller_config(10.0, 1), vec![answerer_config(0), answerer_config(1)], 2);
    net.run_until(10.0);
    assert!(net.caller.finished(), "called, talked for 5 s, and hung up");
    let (answered, _, answer) = net.sent(true, "SIP/2.0 200")[0].clone();
    let before = net.trace.len();
    // RFC 3261 §13.2.2.4: timer M of RFC 6026, started when the 2xx came.
    let last = answered + net.delay + load::Timers::default().t1 * 64 - Instant::ZERO;
    net.inject(address(20_001), address(20_000), &answer);
    net.run_until(last.as_secs_f64() - 0.01);
    net.inject(address(20_002), address(20_000), &fork(&answer));
    net.run_until(last.as_secs_f64() + 0.01);
    net.inject(address(20_002), address(20_000), &fork(&answer));
    net.run();
    let requests = net.trace[before..].iter().map(|(_, _, text)| start(text));
    let requests: Vec<_> = requests.filter(|line| !line.starts_with("SIP/2.0")).collect();
    let [again, first, second] = [
        "ACK sip:answerer-0@127.0.0.1:20001 SIP/2.0",
        "ACK sip:answerer-1@127.0.0.1:20002 SIP/2.0",
        "BYE sip:answerer-1@127.0.0.1:20002 SIP/2.0",
    ];
    assert_eq!(requests, [again, first, second]);
    let results = net.caller.results();
    assert_eq!((results.forks_hung_up, results.stray_datagrams, results.calls_completed), (1, 1, 1));
}

#[test]
fn a_refusal_is_acknowledged_each_time_and_counted_once() {
    let mut net = Net::new(caller_config(10.0, 1), Vec::new(), 3);
    // No answerer runs: the test writes the response.
    net.loss = 1.0;
    net.run_until(0.4);
    net.loss = 0.0;
    let invite = net.trace[0].2.clone();
    let part = |name: &str| invite.lines().find(|line| line.starts_with(name)).unwrap_or_default();
    let busy = format!(
        "SIP/2.0 486 Busy Here\r\n{}\r\n{}\r\n{};tag=x\r\n{}\r\n{}\r\n\r\n",
        part("Via"),
        part("From"),
        part("To"),
        part("Call-ID"),
        part("CSeq"),
    );
    for _ in 0..3 {
        net.inject(address(20_001), address(20_000), &busy);
    }
    // A response with two Vias was not meant for this caller.
    let stray = busy.replacen("\r\nFrom", "\r\nVia: SIP/2.0/UDP 127.0.0.1:1;branch=z9hG4bKq\r\nFrom", 1);
    net.inject(address(20_001), address(20_000), &stray);
    net.redirect = |_, _| address(20_000);
    net.run();
    let results = net.caller.results();
    assert_eq!(
        (results.calls_refused[&486], results.calls_failed(), results.refusal_response.count()),
        (1, 1, 1)
    );
    assert_eq!(net.events, [load::AgentEvent::CallEnded { call: 0, outcome: CallOutcome::Refused(486) }]);
    let acks: Vec<_> = net.trace.iter().filter(|(_, _, text)| text.starts_with("ACK")).collect();
    assert_eq!((acks.len(), to(&acks[0].2)), (3, "<sip:service@127.0.0.1:20001>;tag=x"));
}

#[test]
fn a_provisional_response_slows_the_bye_down_and_may_name_another_server() {
    let mut net = Net::new(caller_config(10.0, 1), vec![answerer_config(0)], 4);
    net.run_until(4.0);
    let (_, _, answer) = net.sent(true, "SIP/2.0 200")[0].clone();
    net.loss = 1.0;
    net.run_until(5.2);
    let (sent, _, bye) = net.sent(false, "BYE")[0].clone();
    let via = |text: &str| text.lines().find(|line| line.starts_with("Via")).unwrap_or_default().to_owned();
    let trying = answer.replace("200 OK", "100 Trying").replace("1 INVITE", "2 BYE");
    let trying = trying.replace("Server: answerer-0", "Server: proxy").replace(&via(&answer), &via(&bye));
    net.loss = 0.0;
    net.inject(address(20_001), address(20_000), &trying);
    net.run_until(5.3);
    net.loss = 1.0;
    net.run_until(13.0);
    net.loss = 0.0;
    net.run();
    let times: Vec<_> = net.sent(false, "BYE").iter().map(|(at, _, _)| (*at - sent).as_millis()).collect();
    // RFC 3261 §17.1.2.2: timer E fires once more as it was set, then at intervals of T2.
    assert_eq!(times, [0, 500, 4_500, 8_500]);
    assert_eq!((net.caller.results().wrong_server, net.caller.results().calls_completed), (0, 1));
}

/// RFC 3261 §18.2.2: a response takes the connection of its request, whatever the Via says.
#[test]
fn over_a_stream_the_answer_goes_back_by_the_connection() {
    let config = AnswererConfig { transport: Transport::Tcp, ..answerer_config(0) };
    let mut answerer = Answerer::new(config, Rng::from_seed(1));
    let connection = NonZeroU32::new(7).map(Connection);
    let from = Flow { transport: Transport::Tcp, listener: 3, peer: address(40_000), connection };
    let mut out = Outbox::default();
    let request = request("INVITE", "1", "<sip:b@h>", "");
    answerer.handle(Instant::ZERO, AgentInput::Message { from, bytes: request.as_bytes() }, &mut out);
    let flows: Vec<_> = out.transmits().iter().map(|transmit| transmit.flow).collect();
    assert_eq!(flows, [from, from], "180 and 200");
    let answer = String::from_utf8_lossy(out.message(&out.transmits()[1])).into_owned();
    assert!(answer.contains("Contact: <sip:answerer-0@127.0.0.1:20001;transport=tcp>\r\n"), "{answer}");
}

#[test]
fn a_caller_spreads_its_calls_over_its_connections() {
    let config =
        CallerConfig { transport: Transport::Tls, connections: 3, listener: 5, ..caller_config(10.0, 6) };
    let mut caller = Caller::new(config, Instant::ZERO, Rng::from_seed(1));
    let mut out = Outbox::default();
    caller.handle(Instant::ZERO + Duration::from_mins(1), AgentInput::Tick, &mut out);
    let ports: Vec<_> = out.transmits().iter().map(|transmit| transmit.flow.listener).collect();
    assert_eq!(ports, [5, 6, 7, 5, 6, 7]);
    assert!(out.transmits().iter().all(|transmit| transmit.flow.transport == Transport::Tls));
    let invite = String::from_utf8_lossy(out.message(&out.transmits()[0])).into_owned();
    for part in
        ["Via: SIP/2.0/TLS 127.0.0.1:20000;", "Contact: <sip:caller@127.0.0.1:20000;transport=tls>\r\n"]
    {
        assert!(invite.contains(part), "{invite}");
    }
}
