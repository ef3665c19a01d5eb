//! Further next hops for an INVITE that earlier ones leave without a response, on virtual time.

use crate::common::{Bed, CALL, WHOLE};
use core::time::Duration;
use wire::Method::{Cancel, Invite, Options};

const PATIENCE: Duration = Duration::from_millis(100);
/// Long enough for its timer, and for no other one.
const A_WHILE: Duration = Duration::from_millis(110);
const HOUR: Duration = Duration::from_hours(1);
const NONE: [&str; 0] = [];

/// One target; each branch has `hops` next hops.
fn bed(hops: u8) -> Bed {
    let mut bed = Bed::new(hops);
    bed.script.patience = Some(PATIENCE);
    bed
}

/// An INVITE was sent to a, and since a was silent, to b as well.
fn raced(hops: u8) -> Bed {
    let mut bed = bed(hops);
    assert_eq!(
        bed.request(Invite, CALL),
        ["100 < 7", "INVITE 1 > a /30"],
        "RFC 5393 §5.3.3: b may need the rest of Max-Breadth"
    );
    assert_eq!(bed.wait(A_WHILE), ["0: INVITE 2 > b /15"]);
    bed
}

fn finished(mut bed: Bed) {
    bed.wait(HOUR);
    bed.assert_empty();
}

#[test]
fn a_hop_that_answers_in_time_keeps_the_invite() {
    for status in [100, 180, 200, 486] {
        let mut bed = bed(1);
        bed.request(Invite, CALL);
        bed.answer(Invite, 1, status);
        assert_eq!(bed.wait(A_WHILE), NONE, "{status}");
        bed.answer(Invite, 1, 486);
        assert_eq!(bed.script.won, [0; 0]);
        finished(bed);
    }
}

#[test]
fn the_second_hop_answers_first_and_the_first_is_cancelled() {
    let mut bed = raced(1);
    assert_eq!(bed.answer(Invite, 2, 100), NONE);
    assert_eq!(bed.answer(Invite, 2, 180), ["180 < 7"]);
    let copies = bed.wait(Duration::from_secs(20));
    assert_eq!(copies.len(), 2, "two copies, in case the provisional response was lost: {copies:?}");
    assert!(copies.iter().all(|copy| copy.ends_with("INVITE 1 > a /30")), "{copies:?}");
    assert_eq!(bed.answer(Invite, 1, 180), ["180 < 7", "CANCEL 1 > a"], "§9.1: now it can be cancelled");
    assert_eq!(bed.answer(Invite, 1, 487), ["ACK 1 > a"]);
    assert_eq!(bed.answer(Invite, 2, 200), ["200 < 7"]);
    assert_eq!(bed.script.won, [1]);
    finished(bed);
}

#[test]
fn the_first_hop_answers_late_and_the_second_is_cancelled() {
    let mut bed = raced(1);
    assert_eq!(bed.answer(Invite, 1, 100), NONE);
    assert_eq!(bed.answer(Invite, 2, 100), ["CANCEL 2 > b"]);
    assert_eq!(bed.answer(Invite, 2, 487), ["ACK 2 > b"]);
    assert_eq!(bed.answer(Invite, 1, 200), ["200 < 7"]);
    assert_eq!(bed.script.won, [0]);
    finished(bed);
}

#[test]
fn both_hops_get_retransmissions_until_one_answers() {
    let mut bed = raced(1);
    assert_eq!(bed.wait(Duration::from_millis(600)).len(), 2);
    bed.answer(Invite, 1, 200);
    finished(bed);
}

#[test]
fn each_silent_hop_is_followed_by_another() {
    let mut bed = raced(1);
    bed.script.others = 2;
    assert_eq!(bed.wait(PATIENCE), ["0: INVITE 3 > c /8"]);
    assert_eq!(bed.answer(Invite, 3, 200), ["200 < 7"]);
    for (silent, hop) in [(1, 'a'), (2, 'b')] {
        assert_eq!(bed.answer(Invite, silent, 180), [format!("CANCEL {silent} > {hop}")]);
        assert_eq!(bed.answer(Invite, silent, 487), [format!("ACK {silent} > {hop}")]);
    }
    finished(bed);
}

#[test]
fn an_alternate_is_hedged_as_well() {
    let mut bed = bed(2);
    bed.request(Invite, CALL);
    assert_eq!(bed.answer(Invite, 1, 503), ["ACK 1 > a", "INVITE 2 > b /30"]);
    assert_eq!(bed.wait(A_WHILE), ["0: INVITE 3 > b /15"]);
    bed.answer(Invite, 3, 200);
    finished(bed);
}

#[test]
fn an_alternate_of_the_first_hop_to_answer_is_hedged_as_well() {
    let mut bed = raced(2);
    bed.script.others = 2;
    assert_eq!(bed.answer(Invite, 2, 100), NONE);
    assert_eq!(bed.answer(Invite, 2, 503), ["ACK 2 > b", "INVITE 3 > c /15"]);
    assert_eq!(bed.wait(A_WHILE), ["0: INVITE 4 > c /8"]);
    assert_eq!(bed.answer(Invite, 1, 180), ["180 < 7", "CANCEL 1 > a"], "a has lost the race already");
    assert_eq!(bed.answer(Invite, 1, 487), ["ACK 1 > a"]);
    assert_eq!(bed.answer(Invite, 4, 486), ["ACK 4 > c", "486 < 7"]);
    assert_eq!(bed.script.won, [1, 2]);
    finished(bed);
}

/// §16.7 step 5, §13.2.2.4.
#[test]
fn both_2xx_are_forwarded() {
    let mut bed = raced(1);
    assert_eq!(bed.answer(Invite, 2, 200), ["200 < 7"]);
    assert_eq!(bed.answer(Invite, 1, 200), ["200 < 7"]);
    finished(bed);
}

/// Both hops may be working on the call. The first 2xx decides.
#[test]
fn the_first_2xx_wins_over_an_earlier_provisional_response() {
    for (one, other) in [(1, 2), (2, 1)] {
        let mut bed = raced(1);
        assert_eq!(bed.answer(Invite, one, 100), NONE);
        let hop = if one == 1 { "a" } else { "b" };
        assert_eq!(bed.answer(Invite, other, 200), [format!("CANCEL {one} > {hop}"), "200 < 7".to_owned()]);
        assert_eq!(bed.script.won, [one as u8 - 1, other as u8 - 1]);
        assert_eq!(bed.answer(Invite, one, 200), ["200 < 7"], "the caller ends the second dialog");
        assert_eq!(bed.script.won.len(), 2);
        finished(bed);
    }
}

/// §16.7 step 5: the server transaction accepts no more 2xx.
#[test]
fn a_2xx_after_the_failure_goes_back() {
    let mut bed = raced(1);
    assert_eq!(bed.answer(Invite, 2, 486), ["ACK 2 > b", "486 < 7"]);
    assert_eq!(bed.answer(Invite, 1, 200), ["200 < 7"]);
    assert_eq!(bed.script.won, [1], "a 2xx after the failure does not change the winner");
    finished(bed);
}

#[test]
fn a_failure_response_is_preferred_to_the_timeout_of_the_other_hop() {
    let mut bed = raced(1);
    // The time of the first branch is over, but not that of the second.
    let mut sent = bed.wait(Duration::from_millis(31_950));
    sent.retain(|sent| !sent.contains("INVITE"));
    assert_eq!(sent, NONE);
    assert_eq!(bed.answer(Invite, 2, 500), ["ACK 2 > b", "500 < 7"]);
    finished(bed);
}

#[test]
fn a_6xx_of_the_other_hop_is_forwarded() {
    let mut bed = raced(1);
    bed.answer(Invite, 1, 100);
    assert_eq!(bed.answer(Invite, 2, 603), ["ACK 2 > b", "CANCEL 1 > a"]);
    assert_eq!(bed.answer(Invite, 1, 487), ["ACK 1 > a", "603 < 7"]);
    finished(bed);
}

#[test]
fn a_failure_of_the_winning_hop_is_forwarded() {
    for answers in [&[100, 486][..], &[486], &[180, 503], &[407]] {
        let mut bed = raced(1);
        let sent: Vec<_> = answers.iter().map(|status| bed.answer(Invite, 2, *status)).collect();
        let status = answers.last().map(|status| if *status == 503 { 500 } else { *status }).expect("some");
        assert_eq!(sent.last().expect("some"), &["ACK 2 > b".to_owned(), format!("{status} < 7")]);
        assert_eq!(bed.answer(Invite, 1, 180), ["CANCEL 1 > a"], "the other hop is cancelled when it rings");
        finished(bed);
    }
}

#[test]
fn a_503_leaves_the_invite_to_the_other_hop() {
    for (one, other) in [(1, 2), (2, 1)] {
        let mut bed = raced(1);
        assert_eq!(bed.answer(Invite, one, 503).len(), 1, "the ACK alone");
        assert_eq!(bed.answer(Invite, other, 200), ["200 < 7"]);
        finished(bed);
    }
    let mut bed = raced(1);
    bed.unreachable(Invite, 2);
    assert_eq!(bed.answer(Invite, 1, 404), ["ACK 1 > a", "404 < 7"]);
    finished(bed);
}

#[test]
fn after_a_failure_the_alternates_of_one_branch_are_tried() {
    let mut bed = raced(2);
    assert_eq!(bed.answer(Invite, 1, 503), ["ACK 1 > a"], "b still has the INVITE");
    assert_eq!(bed.answer(Invite, 2, 503), ["ACK 2 > b", "INVITE 3 > c /15"]);
    assert_eq!(bed.answer(Invite, 3, 200), ["200 < 7"]);
    finished(bed);
    // Or with the alternates of the first branch, if it has the request.
    let mut bed = raced(2);
    bed.answer(Invite, 1, 100);
    assert_eq!(bed.answer(Invite, 1, 503), ["ACK 1 > a", "INVITE 3 > b /30"]);
    bed.answer(Invite, 3, 200);
    finished(bed);
}

#[test]
fn without_any_answer_the_caller_gets_a_408() {
    let mut bed = raced(1);
    let sent = bed.wait(HOUR);
    let answer = sent.iter().find(|sent| sent.ends_with("< 7")).expect("the caller gets an answer");
    assert_eq!(answer, "31500: 408 < 7", "64*T1 after the second hop got the INVITE");
    bed.assert_empty();
}

#[test]
fn a_cancel_of_the_caller_cancels_both_hops() {
    let mut bed = raced(1);
    assert_eq!(bed.request(Cancel, CALL), ["200 < 7"], "§9.1: neither hop has answered");
    assert_eq!(bed.answer(Invite, 2, 100), ["CANCEL 2 > b"]);
    assert_eq!(bed.answer(Invite, 2, 487), ["ACK 2 > b", "487 < 7"], "the answer does not wait for a");
    assert_eq!(bed.answer(Invite, 1, 100), ["CANCEL 1 > a"]);
    finished(bed);
}

#[test]
fn a_cancelled_invite_gets_no_second_hop() {
    let mut bed = bed(1);
    bed.request(Invite, CALL);
    bed.request(Cancel, CALL);
    assert_eq!(bed.wait(A_WHILE), NONE);
    finished(bed);
}

#[test]
fn no_second_hop_without_room_breadth_or_branches() {
    let limits: [fn(&mut Bed); 3] =
        [|bed| bed.script.others = 0, |bed| bed.breadth = 1, |bed| bed.proxy.limit_branches(1)];
    for limit in limits {
        let mut bed = bed(2);
        limit(&mut bed);
        bed.request(Invite, CALL);
        assert_eq!(bed.wait(A_WHILE), NONE);
        // Its alternates are tried as usual.
        assert_eq!(bed.answer(Invite, 1, 503).len(), 2);
        bed.answer(Invite, 2, 200);
        finished(bed);
    }
}

#[test]
fn the_search_for_a_second_hop_is_repeated() {
    let mut bed = bed(1);
    bed.script.others = 0;
    bed.request(Invite, CALL);
    assert_eq!(bed.wait(A_WHILE), NONE);
    bed.script.others = 1;
    assert_eq!(bed.wait(PATIENCE), ["0: INVITE 2 > b /15"]);
    bed.answer(Invite, 2, 200);
    finished(bed);
}

#[test]
fn other_requests_have_one_hop() {
    let mut bed = bed(1);
    bed.request(Options, CALL);
    assert_eq!(bed.wait(A_WHILE), NONE);
    assert_eq!(bed.log.len(), 1);
    assert_eq!(bed.breadth, WHOLE);
    finished(bed);
}
