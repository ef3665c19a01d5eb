//! A proxy with a request that has several targets, on virtual time.

use crate::common::{Bed, CALL, Reply};
use core::time::Duration;
use wire::Method::{Ack, Cancel, Invite, Message, Options};

const SECOND: Duration = Duration::from_secs(1);
/// Bound of the delay of timers.
const TICK: Duration = Duration::from_millis(100);
const HOUR: Duration = Duration::from_hours(1);
const NONE: [&str; 0] = [];

/// An INVITE was forwarded to hops a, b and so on, as branches 1, 2 and so on.
fn ringing(targets: u8) -> Bed {
    let mut bed = Bed::forking(1, &[targets], None);
    let sent = bed.request(Invite, CALL);
    assert_eq!(sent.len(), usize::from(targets) + 1, "{sent:?}");
    for branch in 1..=targets.into() {
        assert_eq!(
            bed.answer(Invite, branch, 180),
            ["180 < 7"],
            "§16.7 step 5: each provisional response at once"
        );
    }
    bed
}

fn finished(mut bed: Bed) {
    bed.wait(HOUR);
    bed.assert_empty();
}

#[test]
fn all_targets_of_a_group_are_tried_at_once_and_the_first_2xx_cancels_the_others() {
    let mut bed = Bed::forking(1, &[3], None);
    let sent = bed.request(Invite, CALL);
    assert_eq!(sent, ["100 < 7", "INVITE 1 > a /20", "INVITE 2 > b /20", "INVITE 3 > c /20"]);
    bed.answer(Invite, 1, 180);
    bed.answer(Invite, 2, 180);
    assert_eq!(bed.answer(Invite, 2, 200), ["200 < 7", "CANCEL 1 > a"], "§9.1: c has not answered at all");
    assert_eq!(bed.answer(Invite, 3, 180), ["CANCEL 3 > c"], "its 180 is not forwarded");
    assert_eq!(bed.answer(Invite, 1, 487), ["ACK 1 > a"]);
    assert_eq!(bed.answer(Invite, 3, 487), ["ACK 3 > c"]);
    assert_eq!(bed.request(Ack, CALL + 1).len(), 1);
    let counters = *bed.proxy.counters();
    assert_eq!((counters.forwarded, counters.forked, counters.cancelled), (1, 2, 2));
    finished(bed);
}

/// §16.7 step 5 and 10: the CANCEL may come too late.
#[test]
fn a_second_2xx_goes_back_too() {
    let mut bed = ringing(2);
    assert_eq!(bed.answer(Invite, 1, 200), ["200 < 7", "CANCEL 2 > b"]);
    assert_eq!(bed.answer(Invite, 2, 200), ["200 < 7"]);
    assert_eq!(bed.answer(Invite, 1, 200), ["200 < 7"], "a retransmitted 2xx is forwarded as well");
    finished(bed);
}

#[test]
fn the_best_response_goes_back_when_the_last_branch_has_ended() {
    let mut bed = ringing(4);
    assert_eq!(bed.answer(Invite, 1, 503), ["ACK 1 > a"]);
    assert_eq!(bed.answer(Invite, 2, 407), ["ACK 2 > b"]);
    assert_eq!(bed.answer(Invite, 3, 501), ["ACK 3 > c"]);
    assert_eq!(bed.answer(Invite, 4, 404), ["ACK 4 > d", "407 < 7"], "the example of §16.7 step 6");
    finished(bed);
}

#[test]
fn the_challenges_of_all_branches_go_back() {
    let mut bed = ringing(4);
    bed.answer(Invite, 1, 486);
    bed.answer(Invite, 2, 401);
    bed.answer(Invite, 3, 407);
    assert_eq!(bed.answer(Invite, 4, 401), ["ACK 4 > d", "401 < 7 +2"], "§16.7 step 7");
    finished(bed);
}

#[test]
fn a_6xx_cancels_the_others_and_waits_for_them() {
    let mut bed = ringing(3);
    assert_eq!(bed.answer(Invite, 2, 603), ["ACK 2 > b", "CANCEL 1 > a", "CANCEL 3 > c"]);
    assert_eq!(bed.answer(Invite, 1, 487), ["ACK 1 > a"]);
    assert_eq!(bed.answer(Invite, 3, 487), ["ACK 3 > c", "603 < 7"]);
    finished(bed);
}

/// §16.7 step 5: the reason why the context waits.
#[test]
fn a_2xx_that_crosses_the_cancel_of_a_6xx_goes_back_alone() {
    let mut bed = ringing(2);
    bed.answer(Invite, 2, 600);
    assert_eq!(bed.answer(Invite, 1, 200), ["200 < 7"]);
    finished(bed);
}

#[test]
fn a_cancel_cancels_every_branch() {
    let mut bed = ringing(2);
    bed.script.groups.push(1);
    assert_eq!(bed.request(Cancel, CALL), ["200 < 7", "CANCEL 1 > a", "CANCEL 2 > b"]);
    assert_eq!(bed.answer(Invite, 1, 486), ["ACK 1 > a"]);
    assert_eq!(bed.answer(Invite, 2, 487), ["ACK 2 > b", "486 < 7"], "and no other group begins");
    finished(bed);
}

#[test]
fn branches_that_stay_silent_count_as_answered_408() {
    let mut bed = Bed::forking(1, &[2], None);
    bed.request(Invite, CALL);
    let sent = bed.wait(32 * SECOND + TICK);
    assert_eq!(sent.iter().filter(|line| line.contains('<')).collect::<Vec<_>>(), ["32000: 408 < 7"]);
    let mut bed = Bed::forking(1, &[2], None);
    bed.request(Invite, CALL);
    bed.answer(Invite, 2, 404);
    let sent = bed.wait(32 * SECOND + TICK);
    assert_eq!(sent.last().map(String::as_str), Some("32000: 404 < 7"));
    finished(bed);
}

#[test]
fn alternates_are_tried_within_a_branch() {
    let mut bed = Bed::forking(2, &[2], None);
    bed.request(Invite, CALL);
    assert_eq!(bed.answer(Invite, 1, 503), ["ACK 1 > a", "INVITE 3 > b /30"]);
    assert_eq!(bed.answer(Invite, 2, 486), ["ACK 2 > b"]);
    assert_eq!(bed.answer(Invite, 3, 180), ["180 < 7"]);
    assert_eq!(bed.answer(Invite, 3, 503), ["ACK 3 > b", "486 < 7"]);
    finished(bed);
}

/// RFC 6026 §7.2 and RFC 3261 §16.7 step 5: other branches are active, so the 2xx is the final response.
#[test]
fn a_2xx_after_the_failure_of_its_branch_ends_the_search() {
    let mut bed = ringing(2);
    assert_eq!(bed.answer(Invite, 1, 486), ["ACK 1 > a"]);
    assert_eq!(bed.answer(Invite, 1, 200), ["200 < 7", "CANCEL 2 > b"]);
    assert_eq!(bed.answer(Invite, 2, 487), ["ACK 2 > b"]);
    finished(bed);
}

#[test]
fn groups_are_tried_one_after_the_other() {
    let mut bed = Bed::forking(1, &[1, 2, 1], None);
    assert_eq!(bed.request(Invite, CALL), ["100 < 7", "INVITE 1 > a"]);
    assert_eq!(bed.answer(Invite, 1, 486), ["ACK 1 > a", "INVITE 2 > b /30", "INVITE 3 > c /30"]);
    assert_eq!(bed.answer(Invite, 2, 480), ["ACK 2 > b"]);
    assert_eq!(bed.unreachable(Invite, 3), ["INVITE 4 > d"]);
    assert_eq!(bed.answer(Invite, 4, 404), ["ACK 4 > d", "486 < 7"], "the first of equally good responses");
    finished(bed);
}

#[test]
fn a_group_that_has_rung_its_time_is_cancelled_and_the_next_begins() {
    let mut bed = Bed::forking(1, &[1, 1], Some(20 * SECOND));
    assert_eq!(
        bed.request(Invite, CALL),
        ["100 < 7", "INVITE 1 > a /30"],
        "half of Max-Breadth is left for the next group"
    );
    bed.answer(Invite, 1, 180);
    assert_eq!(bed.wait(20 * SECOND + TICK), ["20000: CANCEL 1 > a", "20000: INVITE 2 > b /30"]);
    assert_eq!(bed.proxy.counters().rung_out, 1);
    bed.answer(Cancel, 1, 200);
    assert_eq!(bed.answer(Invite, 1, 487), ["ACK 1 > a"]);
    assert_eq!(bed.answer(Invite, 2, 180), ["180 < 7"]);
    assert_eq!(bed.wait(60 * SECOND), NONE, "the last group has no time limit");
    assert_eq!(bed.answer(Invite, 2, 486), ["ACK 2 > b", "486 < 7"], "486 is better than 487");
    finished(bed);
}

/// §9.1: a CANCEL waits for a provisional response, but the next group does not.
#[test]
fn a_silent_group_does_not_delay_the_next_and_may_still_answer() {
    let mut bed = Bed::forking(1, &[1, 1], Some(10 * SECOND));
    bed.request(Invite, CALL);
    let sent = bed.wait(10 * SECOND + TICK);
    assert_eq!(sent.last().map(String::as_str), Some("10000: INVITE 2 > b /30"));
    bed.answer(Invite, 2, 180);
    assert_eq!(bed.answer(Invite, 1, 200), ["200 < 7", "CANCEL 2 > b"]);
    finished(bed);
}

#[test]
fn for_a_non_invite_the_first_2xx_is_forwarded_and_nothing_is_cancelled() {
    let mut bed = Bed::forking(1, &[3], None);
    assert_eq!(bed.request(Message, CALL).len(), 3);
    assert_eq!(bed.answer(Message, 1, 404), NONE);
    assert_eq!(bed.answer(Message, 2, 200), ["200 < 7"]);
    assert_eq!(bed.answer(Message, 3, 200), NONE);
    finished(bed);
}

/// RFC 4320 §4.2.
#[test]
fn a_non_invite_without_a_response_gets_none() {
    let mut bed = Bed::forking(1, &[2], None);
    bed.request(Options, CALL);
    let sent = bed.wait(40 * SECOND);
    assert!(sent.iter().filter(|line| line.contains('<')).all(|line| line.contains("100")), "{sent:?}");
    finished(bed);
}

/// RFC 5393 §5.3.3.
#[test]
fn max_breadth_is_shared_out_and_never_exceeded() {
    let mut bed = Bed::forking(1, &[3], None);
    bed.breadth = 2;
    assert_eq!(bed.request(Invite, CALL), ["440 < 7"]);
    assert_eq!(bed.request(Ack, CALL), NONE);
    let mut other = Bed::forking(1, &[3], None);
    other.breadth = 5;
    let sent = other.request(Invite, CALL);
    assert_eq!(sent[1..], ["INVITE 1 > a /2", "INVITE 2 > b /2", "INVITE 3 > c /1"]);
    finished(bed);
    finished(other);
}

/// RFC 5393 §5.3.3.1: one hop at a time, each with all of Max-Breadth.
#[test]
fn with_a_max_breadth_of_one_a_group_waits_for_the_end_of_the_group_before() {
    let mut bed = Bed::forking(1, &[1, 1], Some(10 * SECOND));
    bed.breadth = 1;
    assert_eq!(bed.request(Invite, CALL), ["100 < 7", "INVITE 1 > a /1"]);
    bed.answer(Invite, 1, 180);
    assert_eq!(bed.wait(10 * SECOND + TICK), ["10000: CANCEL 1 > a"]);
    assert_eq!(bed.answer(Invite, 1, 487), ["ACK 1 > a", "INVITE 2 > b /1"]);
    finished(bed);
}

#[test]
fn a_later_group_without_enough_max_breadth_counts_as_answered_440() {
    let mut bed = Bed::forking(1, &[1, 3], None);
    bed.breadth = 2;
    bed.request(Invite, CALL);
    assert_eq!(bed.answer(Invite, 1, 503), ["ACK 1 > a", "440 < 7"]);
    finished(bed);
}

#[test]
fn a_request_has_no_more_branches_than_the_limit() {
    let mut bed = Bed::forking(1, &[14], None);
    assert_eq!(bed.request(Invite, CALL).len(), 1 + usize::from(proxy::MOST_BRANCHES));
    let mut other = Bed::forking(1, &[2, 2, 2], None);
    other.proxy.limit_branches(3);
    other.request(Invite, CALL);
    other.answer(Invite, 1, 486);
    assert_eq!(other.answer(Invite, 2, 480), ["ACK 2 > b", "INVITE 3 > c"], "of two targets the first");
    assert_eq!(other.answer(Invite, 3, 480), ["ACK 3 > c", "486 < 7"], "and no third group");
    finished(bed);
    finished(other);
}

#[test]
fn without_memory_there_is_one_branch() {
    let mut bed = Bed::forking(1, &[3, 1], None);
    bed.proxy.limit_memory(1);
    assert_eq!(bed.request(Invite, CALL), ["100 < 7", "INVITE 1 > a /20"]);
    assert_eq!(bed.answer(Invite, 1, 486), ["ACK 1 > a", "486 < 7"]);
    finished(bed);
}

#[test]
fn a_2xx_without_a_return_path_ends_the_search() {
    let mut bed = ringing(2);
    let sent = bed.answer_below(Invite, 1, Reply { status: 200, below: None });
    assert_eq!(sent, ["500 < 7", "CANCEL 2 > b"]);
    finished(bed);
}
