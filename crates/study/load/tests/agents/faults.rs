//! Loss, misrouting and silence: every call ends, and each fault is counted under its own name.
use crate::net::{Net, address, answerer_config, caller_config};
use load::{AgentEvent, AnswererConfig, CallOutcome, CallerConfig, RandomTime};
use std::time::Duration;

#[test]
fn loss_both_ways_is_repaired() {
    let config = CallerConfig {
        holding: RandomTime::Exponential(Duration::from_secs(3)),
        ..caller_config(50.0, 3_000)
    };
    let ring = RandomTime::Exponential(Duration::from_secs(1));
    let mut net = Net::new(config, vec![AnswererConfig { ring, ..answerer_config(0) }], 1);
    net.loss = 0.05;
    net.run();
    let results = net.caller.results();
    assert_eq!((results.calls_started, results.calls_completed), (3_000, 3_000));
    assert_eq!((results.wrong_server, results.calls_in_progress), (0, 0));
    assert!(results.retransmissions_sent > 300, "{}", results.progress());
    let server = net.answerers[0].results();
    assert_eq!((server.calls_answered, server.calls_completed), (3_000, 3_000));
    assert_eq!((server.calls_in_progress, server.wrong_server, server.ack_timeouts), (0, 0, 0));
    assert!(server.retransmissions_received > 100 && server.retransmissions_sent > 100);
}

#[test]
fn heavy_loss_and_cancel_still_end_every_call() {
    let config = CallerConfig { answer_wait: Duration::from_secs(2), ..caller_config(50.0, 3_000) };
    let ring = RandomTime::Exponential(Duration::from_secs(2));
    let mut net = Net::new(config, vec![AnswererConfig { ring, ..answerer_config(0) }], 2);
    net.loss = 0.3;
    net.run();
    let results = net.caller.results();
    let late = results.calls_answered_late;
    let ended = results.calls_completed + results.calls_abandoned + late + results.calls_failed();
    assert_eq!((results.calls_started, ended, results.calls_in_progress), (3_000, 3_000, 0));
    assert!(results.calls_completed > 1_000 && results.calls_abandoned > 1_000, "{}", results.progress());
    assert_eq!((results.wrong_server, net.answerers[0].results().wrong_server), (0, 0));
    let outcomes = net.events.iter().filter(|event| matches!(event, AgentEvent::CallEnded { .. }));
    assert_eq!(outcomes.count(), 3_000);
}

#[test]
fn silence_times_out_after_64_t1_with_seven_copies() {
    let mut net = Net::new(caller_config(10.0, 1), vec![answerer_config(0)], 3);
    net.loss = 1.0;
    net.run();
    assert_eq!(net.events, [AgentEvent::CallEnded { call: 0, outcome: CallOutcome::InviteTimeout }]);
    let start = net.trace[0].0;
    let sent: Vec<_> = net.trace.iter().map(|(at, _, _)| (*at - start).as_millis()).collect();
    assert_eq!(sent, [0, 500, 1_500, 3_500, 7_500, 15_500, 31_500]);
    assert!(
        net.trace.iter().all(|(_, _, text)| *text == net.trace[0].2),
        "copies are the same, byte for byte"
    );
    assert_eq!((net.caller.results().invite_timeouts, net.caller.results().retransmissions_sent), (1, 6));
}

#[test]
fn a_cancelled_call_without_an_answer_times_out() {
    let config = CallerConfig { answer_wait: Duration::from_secs(3), ..caller_config(10.0, 1) };
    let ring = RandomTime::Fixed(Duration::from_mins(5));
    let mut net = Net::new(config, vec![AnswererConfig { ring, ..answerer_config(0) }], 3);
    net.run_until(2.0);
    net.loss = 1.0;
    let start = net.trace[0].0;
    net.run_until(60.0);
    assert_eq!(net.events, [AgentEvent::CallEnded { call: 0, outcome: CallOutcome::InviteTimeout }]);
    let cancels = net.sent(false, "CANCEL");
    let times: Vec<_> = cancels.iter().map(|(at, _, _)| (*at - start).as_millis()).collect();
    assert_eq!(times, [3_000, 3_500, 4_500, 6_500, 10_500, 14_500, 18_500, 22_500, 26_500, 30_500, 34_500]);
    // A 2xx after the end of the call is acknowledged and hung up.
    let ringing = net.sent(true, "SIP/2.0 180")[0].2.clone();
    net.inject(address(20_001), address(20_000), &ringing.replace("180 Ringing", "200 OK"));
    net.loss = 0.0;
    net.inject(address(20_001), address(20_000), &ringing.replace("180 Ringing", "200 OK"));
    net.run();
    assert_eq!((net.sent(false, "ACK").len(), net.sent(false, "BYE").len()), (1, 1));
    assert_eq!((net.caller.results().invite_timeouts, net.caller.results().forks_hung_up), (1, 1));
    assert_eq!(net.caller.results().calls_answered, 0);
}

#[test]
fn a_bye_without_answer_is_repeated_up_to_t2_and_times_out() {
    let mut net = Net::new(caller_config(10.0, 1), vec![answerer_config(0)], 4);
    net.run_until(3.0);
    net.loss = 1.0;
    net.run();
    assert_eq!(net.events, [AgentEvent::CallEnded { call: 0, outcome: CallOutcome::ByeTimeout }]);
    let byes = net.sent(false, "BYE");
    let times: Vec<_> = byes.iter().map(|(at, _, _)| (*at - byes[0].0).as_millis()).collect();
    assert_eq!(times, [0, 500, 1_500, 3_500, 7_500, 11_500, 15_500, 19_500, 23_500, 27_500, 31_500]);
    assert_eq!(net.answerers[0].results().calls_in_progress, 1, "the answerer cannot know");
}

#[test]
fn an_answer_without_ack_is_repeated_up_to_t2_and_given_up() {
    let config =
        CallerConfig { holding: RandomTime::Fixed(Duration::from_mins(5)), ..caller_config(10.0, 1) };
    let mut net = Net::new(config, vec![answerer_config(0)], 5);
    net.redirect = |bytes, to| if bytes.starts_with(b"ACK") { address(20_002) } else { to };
    net.answerers.push(load::Answerer::new(answerer_config(1), base::Rng::from_seed(9)));
    net.run_until(100.0);
    let answers = net.sent(true, "SIP/2.0 200");
    let times: Vec<_> = answers.iter().map(|(at, _, _)| (*at - answers[0].0).as_millis()).collect();
    assert_eq!(times, [0, 500, 1_500, 3_500, 7_500, 11_500, 15_500, 19_500, 23_500, 27_500, 31_500]);
    assert_eq!(net.sent(false, "ACK").len(), 11, "each repetition is acknowledged again");
    assert_eq!(net.answerers[1].results().wrong_server, 11);
    // RFC 3261 §13.3.1.4: the session is ended after that.
    let byes = net.sent(true, "BYE");
    assert_eq!(byes.iter().map(|(at, ..)| (*at - answers[0].0).as_millis()).collect::<Vec<_>>(), [32_000]);
    assert_eq!(net.events[11..], [AgentEvent::CallEnded { call: 0, outcome: CallOutcome::Completed }]);
    let server = net.answerers[0].results();
    assert_eq!((server.ack_timeouts, server.calls_completed, server.calls_in_progress), (1, 0, 0));
}

#[test]
fn a_bye_at_the_wrong_server_is_noticed_on_both_sides() {
    let mut net = Net::new(caller_config(10.0, 10), vec![answerer_config(0), answerer_config(1)], 6);
    net.redirect = |bytes, to| if bytes.starts_with(b"BYE") { address(20_002) } else { to };
    net.run();
    let results = net.caller.results();
    assert_eq!((results.wrong_server, results.bye_refused[&481], results.calls_completed), (10, 10, 0));
    assert_eq!((net.answerers[0].results().wrong_server, net.answerers[1].results().wrong_server), (0, 10));
    assert_eq!(net.events.iter().filter(|event| matches!(event, AgentEvent::WrongServer { .. })).count(), 20);
}

#[test]
fn a_cancel_at_the_wrong_server_is_noticed() {
    let config = CallerConfig { answer_wait: Duration::from_secs(1), ..caller_config(10.0, 10) };
    let ring = RandomTime::Fixed(Duration::from_secs(2));
    let answerers = vec![AnswererConfig { ring, ..answerer_config(0) }, answerer_config(1)];
    let mut net = Net::new(config, answerers, 7);
    net.redirect = |bytes, to| if bytes.starts_with(b"CANCEL") { address(20_002) } else { to };
    net.run();
    assert_eq!((net.caller.results().wrong_server, net.answerers[1].results().wrong_server), (10, 10));
    assert_eq!(net.caller.results().calls_answered_late, 10, "answered in spite of the CANCEL, and hung up");
}

#[test]
fn a_full_queue_drops_and_the_caller_tries_again() {
    let service = load::ServiceModel {
        service_per_work: Duration::from_millis(100),
        queue_max: Some(2),
        ..load::ServiceModel::default()
    };
    let mut net =
        Net::new(caller_config(100.0, 10), vec![AnswererConfig { service, ..answerer_config(0) }], 8);
    net.run();
    let (results, server) = (net.caller.results(), net.answerers[0].results());
    assert_eq!(results.calls_completed, 10);
    assert!(server.queue_drops > 5 && results.retransmissions_sent >= server.queue_drops);
}

#[test]
fn garbage_has_no_effect_on_calls() {
    let mut net = Net::new(caller_config(10.0, 1), vec![answerer_config(0)], 9);
    net.run_until(1.0);
    let (caller, answerer) = (address(20_000), address(20_001));
    let own_answer = net.sent(true, "SIP/2.0 200")[0].2.clone();
    for text in ["", "\r\n\r\n", "x", "SIP/2.0 200 OK\r\n\r\n", &own_answer[..own_answer.len() / 2]] {
        net.inject(answerer, caller, text);
        net.inject(caller, answerer, text);
    }
    net.inject(answerer, caller, &own_answer.replace("z9hG4bK", "z9hG4bKffff"));
    // The slot of a known call with another call's id.
    let at = own_answer.find("z9hG4bK").map_or(0, |at| at + 7);
    let digit = if own_answer.as_bytes()[at] == b'0' { "1" } else { "0" };
    let mut other_call = own_answer.clone();
    other_call.replace_range(at..=at, digit);
    net.inject(answerer, caller, &other_call);
    net.run();
    assert_eq!(net.caller.results().calls_completed, 1);
    assert_eq!((net.caller.results().stray_datagrams, net.answerers[0].results().stray_datagrams), (7, 5));
}
