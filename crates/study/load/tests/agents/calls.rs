//! Calls without faults, and calls without an answer.
use crate::net::{Net, answerer_config, caller_config};
use load::{AgentEvent, AnswererConfig, CallOutcome, CallerConfig, RandomTime};
use std::time::Duration;

fn header<'a>(message: &'a str, name: &str) -> &'a str {
    let mut values = message.lines().filter_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
    values.next().unwrap_or_else(|| panic!("no {name} in {message}"))
}

#[test]
fn a_plain_call_is_six_messages() {
    let mut net = Net::new(caller_config(10.0, 1), vec![answerer_config(0)], 1);
    net.run_until(3.0);
    assert!(!net.caller.finished(), "a call is in progress");
    net.run();
    let lines: Vec<_> = net.trace.iter().map(|(_, _, text)| text.lines().next().unwrap()).collect();
    assert_eq!(
        lines,
        [
            "INVITE sip:service@127.0.0.1:20001 SIP/2.0",
            "SIP/2.0 180 Ringing",
            "SIP/2.0 200 OK",
            "ACK sip:answerer-0@127.0.0.1:20001 SIP/2.0",
            "BYE sip:answerer-0@127.0.0.1:20001 SIP/2.0",
            "SIP/2.0 200 OK",
        ]
    );
    let text = |index: usize| net.trace[index].2.as_str();
    assert!(!header(text(0), "To").contains("tag="));
    for index in 2..5 {
        assert_eq!(header(text(index), "To"), header(text(1), "To"));
        assert_eq!(header(text(index), "From"), header(text(0), "From"));
        assert_eq!(header(text(index), "Call-ID"), header(text(0), "Call-ID"));
    }
    assert!(header(text(1), "To").contains(";tag="));
    assert_eq!([0, 3, 4].map(|index| header(text(index), "CSeq")), ["1 INVITE", "1 ACK", "2 BYE"]);
    // The ACK to a 2xx is a transaction of its own, the BYE another one.
    let mut branches = [0, 3, 4].map(|index| header(text(index), "Via"));
    branches.sort_unstable();
    assert!(branches[0] != branches[1] && branches[1] != branches[2]);
    assert!(text(0).ends_with("a=rtpmap:0 PCMU/8000\r\n") && text(2).ends_with("a=rtpmap:0 PCMU/8000\r\n"));
    assert_eq!(net.trace[4].0 - net.trace[3].0, Duration::from_secs(5));
    assert_eq!(net.events, [AgentEvent::CallEnded { call: 0, outcome: CallOutcome::Completed }]);
    let server = net.answerers[0].results();
    assert_eq!((server.calls_answered, server.calls_completed, server.calls_in_progress), (1, 1, 0));
    assert_eq!(server.requests.iter().collect::<Vec<_>>(), [(&"BYE", &1), (&"INVITE", &1)]);
}

#[test]
fn many_calls_end_and_are_counted_once() {
    let config = CallerConfig {
        holding: RandomTime::Exponential(Duration::from_secs(20)),
        ..caller_config(100.0, 5_000)
    };
    let ring = RandomTime::Normal(Duration::from_secs(2), Duration::from_secs(1));
    let mut net = Net::new(config, vec![AnswererConfig { ring, trying: true, ..answerer_config(0) }], 2);
    net.run();
    let results = net.caller.results();
    assert_eq!(
        (results.calls_started, results.calls_answered, results.calls_completed),
        (5_000, 5_000, 5_000)
    );
    assert_eq!((results.calls_in_progress, results.calls_failed(), results.wrong_server), (0, 0, 0));
    assert_eq!((results.retransmissions_sent, results.stray_datagrams), (0, 0));
    assert_eq!(results.calls_by_server["answerer-0"], 5_000);
    assert_eq!((results.invite_response.count(), results.bye_response.count()), (5_000, 5_000));
    assert_eq!(net.sent(true, "SIP/2.0 100 Trying").len(), 5_000);
    let ids: std::collections::BTreeSet<_> =
        net.sent(false, "INVITE").iter().map(|(_, _, text)| header(text, "Call-ID")).collect();
    assert_eq!(ids.len(), 5_000);
}

#[test]
fn a_call_that_is_not_answered_in_time_is_cancelled() {
    let config = CallerConfig { answer_wait: Duration::from_secs(3), ..caller_config(10.0, 20) };
    let ring = RandomTime::Fixed(Duration::from_secs(30));
    let mut net = Net::new(config, vec![AnswererConfig { ring, ..answerer_config(0) }], 3);
    net.run();
    let results = net.caller.results();
    assert_eq!((results.calls_abandoned, results.calls_answered, results.calls_failed()), (20, 0, 0));
    let server = net.answerers[0].results();
    assert_eq!((server.calls_cancelled, server.ack_timeouts, server.calls_in_progress), (20, 0, 0));
    let (invite, cancel) = (&net.sent(false, "INVITE")[0], &net.sent(false, "CANCEL")[0]);
    assert_eq!(cancel.0 - invite.0, Duration::from_secs(3));
    let ack = &net.sent(false, "ACK")[0];
    for other in [cancel, ack] {
        // RFC 3261 §9.1 and §17.1.1.3: the properties that the three requests share.
        assert_eq!(other.2.lines().next().unwrap().split(' ').nth(1), Some("sip:service@127.0.0.1:20001"));
        for name in ["Via", "From", "Call-ID"] {
            assert_eq!(header(&other.2, name), header(&invite.2, name));
        }
    }
    assert_eq!((header(&cancel.2, "CSeq"), header(&ack.2, "CSeq")), ("1 CANCEL", "1 ACK"));
    assert_eq!(header(&ack.2, "To"), header(&net.sent(true, "SIP/2.0 487")[0].2, "To"));
    assert_eq!(net.sent(true, "SIP/2.0 487").len(), 20);
}

#[test]
fn an_answer_that_crosses_the_cancel_is_hung_up() {
    let config = CallerConfig { answer_wait: Duration::from_secs(3), ..caller_config(10.0, 5) };
    // The answer leaves a millisecond before the CANCEL arrives.
    let ring = RandomTime::Fixed(Duration::from_millis(2_999));
    let mut net = Net::new(config, vec![AnswererConfig { ring, ..answerer_config(0) }], 4);
    net.run();
    let results = net.caller.results();
    assert_eq!((results.calls_answered, results.calls_answered_late), (5, 5));
    // The caller had given up these calls.
    assert_eq!((results.calls_completed, results.calls_abandoned, results.calls_failed()), (0, 0, 0));
    assert!(net.events.contains(&AgentEvent::CallEnded { call: 0, outcome: CallOutcome::AnsweredLate }));
    let (answer, bye) = (&net.sent(true, "SIP/2.0 200 OK")[0], &net.sent(false, "BYE")[0]);
    assert_eq!(bye.0 - answer.0, net.delay, "hung up as soon as it is answered");
    assert_eq!(net.answerers[0].results().calls_completed, 5);
}

#[test]
fn the_other_side_may_hang_up() {
    let config =
        CallerConfig { holding: RandomTime::Fixed(Duration::from_secs(1_000)), ..caller_config(10.0, 1) };
    let mut net = Net::new(config, vec![answerer_config(0)], 5);
    net.run_until(10.0);
    let answer = net.sent(true, "SIP/2.0 200")[0].2.clone();
    let bye = |from: &str| {
        format!(
            "BYE sip:caller@127.0.0.1:20000 SIP/2.0\r\nVia: SIP/2.0/UDP 127.0.0.1:20001;branch=z9hG4bKx\r\n\
             From: {from}\r\nTo: {}\r\nCall-ID: {}\r\nCSeq: 9 BYE\r\n\r\n",
            header(&answer, "From"),
            header(&answer, "Call-ID"),
        )
    };
    let (caller, answerer) = (net.trace[1].1, net.trace[0].1);
    net.inject(answerer, caller, &bye("<sip:a@b>;tag=stranger"));
    for _ in 0..2 {
        // The second one is a repetition.
        net.inject(answerer, caller, &bye(header(&answer, "To")));
    }
    net.run();
    assert_eq!(net.caller.results().calls_completed, 1);
    assert_eq!(net.events, [AgentEvent::CallEnded { call: 0, outcome: CallOutcome::Completed }]);
    assert_eq!((net.sent(false, "SIP/2.0 481").len(), net.sent(false, "SIP/2.0 200").len()), (1, 2));
    assert!(net.sent(false, "BYE").is_empty());
}

#[test]
fn a_stopped_caller_ends_its_calls() {
    // Half of the calls are answered when the caller stops, the others ring.
    let ring = RandomTime::Fixed(Duration::from_secs(2));
    let holding = RandomTime::Fixed(Duration::from_mins(10));
    let config = CallerConfig { holding, ..caller_config(50.0, 10_000) };
    let mut net = Net::new(config, vec![AnswererConfig { ring, ..answerer_config(0) }], 3);
    net.run_until(4.0);
    let before = net.caller.results().clone();
    assert!(before.calls_answered > 50 && before.calls_in_progress > before.calls_answered + 50);
    let now = net.now;
    net.caller.stop(now);
    net.run();
    let results = net.caller.results();
    assert_eq!(results.calls_started, before.calls_started, "no more calls");
    assert_eq!((results.calls_in_progress, results.calls_failed()), (0, 0));
    assert_eq!(results.calls_completed + results.calls_abandoned, before.calls_started);
    assert!(results.calls_completed >= before.calls_answered && results.calls_abandoned > 50);
    assert_eq!(net.answerers[0].results().calls_in_progress, 0, "the other side knows");
    let last = net.trace.last().map(|(at, ..)| *at - now);
    assert!(
        last.is_some_and(|last| last < Duration::from_secs(40)),
        "it waits no longer than that: {last:?}"
    );
}
