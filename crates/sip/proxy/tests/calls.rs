//! A proxy with one call, on virtual time.

use crate::common::{Bed, CALL, Reply, STATELESS};
use core::time::Duration;
use wire::Method::{Ack, Bye, Cancel, Invite, Options};

const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_hours(1);
const NONE: [&str; 0] = [];

/// An INVITE was forwarded to next hop a as branch 1.
fn invited(hops: u8) -> Bed {
    let mut bed = Bed::new(hops);
    assert_eq!(bed.request(Invite, CALL), ["100 < 7", "INVITE 1 > a"], "§16.2: 100 at once");
    bed
}

fn finished(mut bed: Bed) {
    bed.wait(HOUR);
    bed.assert_empty();
}

#[test]
fn a_call_passes_with_all_its_messages() {
    let mut bed = invited(1);
    assert_eq!(bed.answer(Invite, 1, 100), NONE, "a 100 is not forwarded");
    assert_eq!(bed.answer(Invite, 1, 180), ["180 < 7"]);
    assert_eq!(bed.answer(Invite, 1, 200), ["200 < 7"]);
    assert_eq!(bed.request(Ack, 8), [format!("ACK {} > a", STATELESS + 8)]);
    assert_eq!(bed.request(Bye, 9), ["BYE 2 > a"]);
    assert_eq!(bed.request(Bye, 9), NONE, "a retransmission is absorbed");
    assert_eq!(bed.answer_below(Bye, 2, Reply { status: 200, below: Some(9) }), ["200 < 9"]);
    assert_eq!(bed.request(Bye, 9), ["200 < 9"]);
    let counters = *bed.proxy.counters();
    assert_eq!((counters.forwarded, counters.stateless, counters.relayed), (2, 1, 3));
    finished(bed);
}

#[test]
fn an_invite_without_an_answer_is_sent_seven_times_and_answered_408() {
    let mut bed = invited(1);
    let sent = bed.wait(40 * SECOND);
    let again = [500, 1500, 3500, 7500, 15500, 31500].map(|at| format!("{at}: INVITE 1 > a"));
    assert_eq!(sent[..6], again);
    assert_eq!(sent[6], "32000: 408 < 7");
    assert_eq!(bed.request(Ack, CALL), NONE, "the ACK to a failure is absorbed");
    finished(bed);
}

/// RFC 4320 §4.1 and §4.2.
#[test]
fn another_request_gets_a_late_100_and_never_a_408() {
    let mut bed = Bed::new(1);
    assert_eq!(bed.request(Options, CALL), ["OPTIONS 1 > a"]);
    let sent = bed.wait(40 * SECOND);
    assert!(sent.contains(&"3500: 100 < 7".to_owned()), "{sent:?}");
    assert_eq!(sent.iter().filter(|line| line.contains('<')).count(), 1, "{sent:?}");
    assert_eq!(sent.iter().filter(|line| line.contains("OPTIONS")).count(), 10, "{sent:?}");
    // A twelfth copy, 35.5 s after the first, from a client with other timers, or delayed by the network: §17.2.2 and
    // RFC 4320 §4.2.
    assert_eq!(
        bed.request(Options, CALL),
        NONE,
        "an abandoned request absorbs retransmissions like an answered one"
    );
    finished(bed);
}

#[test]
fn a_cancel_goes_on_after_a_provisional_response() {
    let mut bed = invited(1);
    bed.answer(Invite, 1, 180);
    assert_eq!(bed.request(Cancel, CALL), ["200 < 7", "CANCEL 1 > a"]);
    assert_eq!(bed.request(Cancel, CALL), ["200 < 7"], "§9.2: once");
    assert_eq!(bed.answer(Cancel, 1, 200), NONE, "the response to a CANCEL is not forwarded");
    assert_eq!(bed.answer(Invite, 1, 487), ["ACK 1 > a", "487 < 7"]);
    assert_eq!(bed.request(Ack, CALL), NONE);
    finished(bed);
}

#[test]
fn a_cancel_waits_for_a_provisional_response() {
    let mut bed = invited(1);
    assert_eq!(bed.request(Cancel, CALL), ["200 < 7"], "§9.1: not before a response");
    assert_eq!(bed.answer(Invite, 1, 100), ["CANCEL 1 > a"]);
    assert_eq!(bed.answer(Invite, 1, 487), ["ACK 1 > a", "487 < 7"]);
    finished(bed);
}

#[test]
fn a_cancel_without_a_transaction_is_forwarded() {
    let mut bed = Bed::new(1);
    assert_eq!(bed.request(Cancel, CALL), [format!("CANCEL {} > a", STATELESS + CALL)]);
    bed.assert_empty();
}

#[test]
fn a_cancel_after_the_answer_changes_nothing() {
    let mut bed = invited(1);
    bed.answer(Invite, 1, 200);
    assert_eq!(bed.request(Cancel, CALL), ["200 < 7"]);
    finished(bed);
}

#[test]
fn an_invite_that_keeps_ringing_is_cancelled_by_timer_c() {
    let mut bed = invited(1);
    bed.wait(SECOND);
    bed.answer(Invite, 1, 180);
    bed.wait(100 * SECOND);
    bed.answer(Invite, 1, 183);
    let sent = bed.wait(185 * SECOND);
    assert_eq!(sent[0], "181000: CANCEL 1 > a", "§16.7 step 2: counted from the last provisional response");
    let sent = bed.wait(40 * SECOND);
    assert!(
        sent.iter().any(|line| line.ends_with(" 408 < 7")),
        "§9.1: without a final response the INVITE times out: {sent:?}"
    );
    finished(bed);
}

#[test]
fn a_503_becomes_a_500() {
    let mut bed = invited(1);
    assert_eq!(bed.answer(Invite, 1, 503), ["ACK 1 > a", "500 < 7"]);
    finished(bed);
}

#[test]
fn an_alternate_is_tried_after_a_503_and_its_answer_goes_back() {
    let mut bed = invited(2);
    bed.answer(Invite, 1, 180);
    assert_eq!(bed.answer(Invite, 1, 503), ["ACK 1 > a", "INVITE 2 > b"]);
    assert_eq!(bed.answer(Invite, 1, 503), ["ACK 1 > a"], "a retransmitted failure is acknowledged again");
    assert_eq!(bed.answer(Invite, 2, 180), ["180 < 7"]);
    assert_eq!(bed.answer(Invite, 2, 200), ["200 < 7"]);
    assert_eq!(bed.proxy.counters().retried, 1);
    finished(bed);
}

#[test]
fn all_alternates_fail() {
    let mut bed = invited(3);
    assert_eq!(bed.unreachable(Invite, 1), ["INVITE 2 > b"]);
    assert_eq!(bed.answer(Invite, 2, 503), ["ACK 2 > b", "INVITE 3 > c"]);
    let sent = bed.wait(40 * SECOND);
    assert!(sent.contains(&"32000: 408 < 7".to_owned()), "{sent:?}");
    finished(bed);
}

/// RFC 3263 §4.3.
#[test]
fn an_alternate_is_tried_after_silence() {
    let mut bed = invited(2);
    let sent = bed.wait(33 * SECOND);
    assert!(sent.contains(&"32000: INVITE 2 > b".to_owned()), "{sent:?}");
    assert_eq!(bed.answer(Invite, 2, 200), ["200 < 7"]);
    finished(bed);
}

#[test]
fn a_cancelled_call_tries_no_alternate() {
    let mut bed = invited(2);
    bed.answer(Invite, 1, 180);
    bed.request(Cancel, CALL);
    assert_eq!(bed.answer(Invite, 1, 503), ["ACK 1 > a", "500 < 7"]);
    finished(bed);
}

/// A promised alternate is no longer available.
#[test]
fn a_missing_alternate_leaves_the_failure() {
    let mut bed = invited(2);
    bed.script.hops = 1;
    assert_eq!(bed.answer(Invite, 1, 503), ["ACK 1 > a", "500 < 7"]);
    assert_eq!(bed.proxy.unanswered(), 0);
    finished(bed);
}

/// RFC 6026 §8.9 and §7.1: through Accepted, for 32 s.
#[test]
fn a_2xx_is_relayed_each_time_it_comes_and_strays_are_dropped() {
    let mut bed = invited(1);
    for _ in 0..3 {
        assert_eq!(bed.answer(Invite, 1, 200), ["200 < 7"]);
        bed.wait(SECOND);
    }
    assert_eq!(bed.answer(Invite, 1, 486), NONE);
    bed.wait(40 * SECOND);
    assert_eq!(bed.answer(Invite, 1, 200), NONE);
    assert_eq!(bed.answer(Invite, 99, 200), NONE);
    assert_eq!(bed.proxy.counters().stray, 2);
    finished(bed);
}

/// RFC 3261 §16.7 step 5: each 2xx is forwarded, also after the failure of the same call.
#[test]
fn a_2xx_after_a_failure_goes_back_each_time_it_comes() {
    for acknowledged in [false, true] {
        let mut bed = invited(1);
        assert_eq!(bed.answer(Invite, 1, 487), ["ACK 1 > a", "487 < 7"]);
        if acknowledged {
            assert_eq!(bed.request(Ack, CALL), NONE);
        }
        assert_eq!(bed.answer(Invite, 1, 200), ["200 < 7"]);
        assert_eq!(bed.answer(Invite, 1, 200), ["200 < 7"]);
        assert_eq!(bed.request(Ack, 8), [format!("ACK {} > a", STATELESS + 8)]);
        assert_eq!(bed.answer(Invite, 1, 487), ["ACK 1 > a"], "a retransmitted failure is not forwarded");
        let failure: &[&str] = if acknowledged { &[] } else { &["487 < 7"] };
        assert_eq!(bed.request(Invite, CALL), failure);
        finished(bed);
    }
}

/// The next hop that the caller waits for now decides. A response of an earlier hop after its 503 would be a second
/// final response.
#[test]
fn a_2xx_of_a_failed_hop_is_not_forwarded() {
    let mut bed = invited(2);
    assert_eq!(bed.answer(Invite, 1, 503), ["ACK 1 > a", "INVITE 2 > b"]);
    assert_eq!(bed.answer(Invite, 1, 200), NONE);
    assert_eq!(bed.answer(Invite, 2, 486), ["ACK 2 > b", "486 < 7"]);
    assert_eq!(bed.answer(Invite, 1, 200), NONE);
    assert_eq!(bed.answer(Invite, 2, 200), ["200 < 7"]);
    finished(bed);
}

/// §9.2: a CANCEL has no effect on a request other than INVITE.
#[test]
fn a_cancel_changes_nothing_for_other_requests() {
    let mut branch = proxy::Branch::new(false, true);
    let before = branch;
    assert!(branch.on(proxy::ProxyEvent::Cancelled).is_empty());
    assert_eq!(branch, before);
    let mut context = proxy::Context::new(false);
    context.begin();
    assert!(context.on(proxy::ContextEvent::Cancelled).is_empty());
}

/// Some clients send the ACK to a 2xx with the branch of the INVITE.
#[test]
fn an_ack_to_a_2xx_passes_with_any_branch() {
    let mut bed = invited(1);
    bed.answer(Invite, 1, 200);
    assert_eq!(bed.request(Ack, CALL), [format!("ACK {} > a", STATELESS + CALL)]);
    finished(bed);
}

#[test]
fn a_final_response_without_a_return_path_becomes_a_500() {
    let mut bed = invited(1);
    assert_eq!(bed.answer_below(Invite, 1, Reply { status: 180, below: None }), NONE);
    assert_eq!(bed.answer_below(Invite, 1, Reply { status: 200, below: None }), ["500 < 7"]);
    finished(bed);
}

#[test]
fn a_request_without_a_next_hop_is_refused_with_a_transaction() {
    let mut bed = Bed::new(0);
    assert_eq!(bed.request(Invite, CALL), ["404 < 7"]);
    assert_eq!(bed.request(Invite, CALL), ["404 < 7"]);
    assert_eq!(bed.request(Ack, CALL), NONE);
    assert_eq!(bed.request(Ack, 8), NONE, "an ACK is dropped");
    finished(bed);
}
