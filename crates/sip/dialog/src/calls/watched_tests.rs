//! Unproved ends: the call is watched, and later it is active again or ends for good.

use super::tests::{KEY, OTHER, TARGET, WAY, accepted, at, calls, hangs_up, invited, limited, pass, records};
use super::*;
use crate::call::Proof;

const ELSEWHERE: Proof = Proof::Token(DialogPath { contact: 9, ..WAY });

/// A call that was answered at 1 s.
fn call(settings: CallSettings) -> Calls {
    let mut calls = calls(settings);
    invited(&mut calls, at(0));
    accepted(&mut calls, at(1), KEY, None);
    calls
}

/// End in seconds, side that signalled it, cause, status of the BYE, and whether it is final.
type Told = (u64, Option<DialogSide>, Cause, u16, bool);

fn told(calls: &mut Calls) -> Vec<Told> {
    let told = |record: CallRecord| {
        let cause = record.cause.expect("a record of an end");
        (
            record.ended.saturating_since(Instant::ZERO).as_secs(),
            record.by,
            cause,
            record.bye_status,
            record.is_final,
        )
    };
    records(calls).into_iter().map(told).collect()
}

fn bye(then: u64, by: DialogSide, status: u16, is_final: bool) -> Told {
    (then, Some(by), Cause::Bye, status, is_final)
}

/// [15.1.1-1] A caller whose BYE is answered by a third party, refused, or lost, still pays for the call.
#[test]
fn only_a_bye_that_reached_its_target_ends_a_call() {
    for (proof, status) in [
        (Proof::Tags, 200),
        (Proof::Tags, 481),
        (ELSEWHERE, 200),
        (ELSEWHERE, 481),
        (TARGET, 481),
        (TARGET, 408),
        (TARGET, 500),
        (TARGET, 603),
    ] {
        let mut calls = call(CallSettings::default());
        hangs_up(&mut calls, (at(10), at(11)), KEY, (DialogSide::Caller, proof), status);
        assert_eq!(told(&mut calls), [bye(10, DialogSide::Caller, status, false)], "{proof:?} {status}");
        assert_eq!((calls.counts().answered, calls.counts().watched), (0, 1));
        assert_eq!(calls.call_ids().count(), 0);
        // Both sides still talk. Then the callee hangs up, whatever the caller answers.
        hangs_up(&mut calls, (at(5000), at(5001)), KEY, (DialogSide::Callee, TARGET), 481);
        assert_eq!(told(&mut calls), [bye(5000, DialogSide::Callee, 481, true)]);
        pass(&mut calls, at(6000));
        assert!(calls.is_empty());
    }
}

#[test]
fn an_unanswered_bye_ends_a_call_if_nothing_follows() {
    let mut calls = call(CallSettings::default());
    calls.bye(at(5), KEY, DialogSide::Caller, b"", TARGET);
    pass(&mut calls, at(39));
    assert_eq!(told(&mut calls), [bye(5, DialogSide::Caller, 408, false)]);
    calls.heard(at(50), KEY, DialogSide::Caller, 3);
    pass(&mut calls, at(80_000));
    assert_eq!(
        (told(&mut calls), calls.counts().watched),
        (vec![], 1),
        "a request alone does not prove activity"
    );
    pass(&mut calls, at(87_000));
    assert_eq!(told(&mut calls), [bye(5, DialogSide::Caller, 408, true)]);
    assert!(calls.is_empty());
}

/// After a challenge either the BYE with credentials follows, or the challenged BYE was the end.
#[test]
fn a_challenge_of_a_bye_does_not_end_a_call_at_once() {
    for comes_again in [true, false] {
        let mut calls = call(CallSettings::default());
        hangs_up(&mut calls, (at(5), at(5)), KEY, (DialogSide::Caller, TARGET), 407);
        assert_eq!((told(&mut calls), calls.counts().answered), (vec![], 1));
        if comes_again {
            hangs_up(&mut calls, (at(6), at(6)), KEY, (DialogSide::Caller, TARGET), 200);
            assert_eq!(told(&mut calls), [bye(6, DialogSide::Caller, 200, true)]);
        } else {
            pass(&mut calls, at(38));
            assert_eq!(told(&mut calls), [bye(5, DialogSide::Caller, 407, false)]);
        }
    }
}

/// [8.2-4] [8.3-1]
#[test]
fn a_session_that_is_not_refreshed_ends_unproved() {
    let mut calls = calls(CallSettings::default());
    invited(&mut calls, at(0));
    accepted(&mut calls, at(0), KEY, Some(1));
    pass(&mut calls, at(89));
    assert_eq!(told(&mut calls), [], "shorter intervals are not enforced");
    calls.refreshed(at(89), KEY, Some(Duration::from_secs(90)), (DialogSide::Caller, TARGET), [None; 2]);
    pass(&mut calls, at(178));
    assert_eq!(told(&mut calls), []);
    pass(&mut calls, at(180));
    let expired = |is_final| (179, None, Cause::SessionExpired, 0, is_final);
    assert_eq!((told(&mut calls), calls.counts().expired), (vec![expired(false)], 1));
    // Only the caller supports timers, and has not refreshed the session.
    hangs_up(&mut calls, (at(900), at(900)), KEY, (DialogSide::Callee, TARGET), 200);
    assert_eq!(told(&mut calls), [bye(900, DialogSide::Callee, 200, true)]);
    // Both sides have disappeared.
    let mut calls = call(CallSettings::default());
    calls.refreshed(at(89), KEY, Some(Duration::from_secs(90)), (DialogSide::Caller, TARGET), [None; 2]);
    pass(&mut calls, at(90_000));
    assert_eq!(told(&mut calls), [expired(false), expired(true)]);
    assert!(calls.is_empty());
}

#[test]
fn an_accepted_request_reopens_a_call() {
    let mut calls = call(CallSettings::default());
    calls.refreshed(at(10), KEY, Some(Duration::from_secs(90)), (DialogSide::Caller, TARGET), [None; 2]);
    pass(&mut calls, at(101));
    assert_eq!(told(&mut calls).len(), 1);
    assert_eq!(calls.heard(at(200), KEY, DialogSide::Callee, 2), Some(Heard::Watched));
    calls.request_accepted(at(200), KEY);
    assert_eq!(
        told(&mut calls),
        [(200, None, Cause::Reopened, 0, false)],
        "the reopened call is on record if the process is killed"
    );
    assert_eq!((calls.counts().answered, calls.counts().reopened), (1, 1));
    assert_eq!(calls.call_ids().count(), 1);
    pass(&mut calls, at(1000));
    assert_eq!(told(&mut calls), [], "the former session no longer counts");
    calls.refreshed(at(1000), KEY, Some(Duration::from_secs(90)), (DialogSide::Caller, TARGET), [None; 2]);
    pass(&mut calls, at(1091));
    assert_eq!(told(&mut calls).len(), 1);
    // A second BYE comes while the first one waits for its response.
    let second = calls.bye(at(1100), KEY, DialogSide::Caller, b"", TARGET);
    calls.request_accepted(at(1101), KEY);
    calls.bye_answered(at(1102), KEY, 481, second);
    assert_eq!(
        told(&mut calls),
        [(1101, None, Cause::Reopened, 0, false), bye(1101, DialogSide::Caller, 481, false)]
    );
}

/// Repeating a refused BYE changes nothing; a later end that was accepted makes the call longer.
#[test]
fn the_end_of_a_watched_call_never_moves_back() {
    let mut calls = call(CallSettings::default());
    hangs_up(&mut calls, (at(10), at(10)), KEY, (DialogSide::Caller, TARGET), 481);
    hangs_up(&mut calls, (at(20), at(20)), KEY, (DialogSide::Caller, TARGET), 481);
    assert_eq!(told(&mut calls), [bye(10, DialogSide::Caller, 481, false)]);
    hangs_up(&mut calls, (at(30), at(30)), KEY, (DialogSide::Caller, Proof::Tags), 200);
    assert_eq!(told(&mut calls), [bye(30, DialogSide::Caller, 200, false)]);
    hangs_up(&mut calls, (at(40), at(40)), KEY, (DialogSide::Callee, Proof::Tags), 481);
    assert_eq!(told(&mut calls), [bye(40, DialogSide::Callee, 481, false)]);
    hangs_up(&mut calls, (at(50), at(50)), KEY, (DialogSide::Callee, TARGET), 200);
    assert_eq!(told(&mut calls), [bye(50, DialogSide::Callee, 200, true)]);
}

/// A new INVITE with the same key does not hide a watched call.
#[test]
fn another_invite_does_not_replace_a_watched_call() {
    let mut calls = call(CallSettings::default());
    hangs_up(&mut calls, (at(10), at(10)), KEY, (DialogSide::Caller, Proof::Tags), 481);
    invited(&mut calls, at(20));
    accepted(&mut calls, at(21), OTHER, None);
    records(&mut calls);
    hangs_up(&mut calls, (at(90), at(90)), KEY, (DialogSide::Callee, TARGET), 200);
    assert_eq!(told(&mut calls), [bye(90, DialogSide::Callee, 200, true)]);
}

/// A side that continues a call until its time limit pays for the whole call, if the other side accepts this proxy's
/// BYE.
#[test]
fn a_watched_call_has_its_time_limit() {
    for (by, lives, went_on) in [
        (Some(DialogSide::Caller), [true, false], false),
        (Some(DialogSide::Caller), [false, true], true),
        (None, [false, true], false),
        (None, [true, true], true),
    ] {
        let mut calls = call(limited());
        let first = if let Some(by) = by {
            hangs_up(&mut calls, (at(10), at(10)), KEY, (by, Proof::Tags), 481);
            bye(10, by, 481, true)
        } else {
            calls.refreshed(
                at(1),
                KEY,
                Some(Duration::from_secs(90)),
                (DialogSide::Caller, TARGET),
                [None; 2],
            );
            (91, None, Cause::SessionExpired, 0, true)
        };
        pass(&mut calls, at(600));
        assert!(
            core::iter::from_fn(|| calls.next_event()).all(|event| matches!(event, CallEvent::Record(_)))
        );
        pass(&mut calls, at(602));
        let events: Vec<_> = core::iter::from_fn(|| calls.next_event()).collect();
        assert!(matches!(events[..], [CallEvent::HangUp(_)]), "{events:?}");
        for (side, lives) in [DialogSide::Caller, DialogSide::Callee].into_iter().zip(lives) {
            if lives {
                calls.accepted_our_bye(KEY, side);
            }
        }
        pass(&mut calls, at(640));
        let limit = (601, Some(DialogSide::Proxy), Cause::TimeLimit, 0, true);
        assert_eq!(told(&mut calls), [if went_on { limit } else { first }], "{by:?} {lives:?}");
        pass(&mut calls, at(700));
        assert!(calls.is_empty());
    }
}

/// Watched calls take no room of active calls, and their number is limited.
#[test]
fn watched_calls_take_no_room_of_active_calls() {
    let mut calls = calls(CallSettings { most: 8, ..CallSettings::default() });
    let key = |call| DialogKey { call, tag: 1 };
    for call in 0..8 {
        calls.invited(at(call), call, &tests::invite(b"c")).expect("there is room");
        accepted(&mut calls, at(call), key(call), None);
    }
    assert_eq!((calls.open, calls.has_room(100)), (8, false));
    for call in 0..8 {
        hangs_up(
            &mut calls,
            (at(20 + call), at(20 + call)),
            key(call),
            (DialogSide::Caller, Proof::Tags),
            200,
        );
        assert_eq!(calls.open, 7 - call as usize);
    }
    let finals: Vec<_> = told(&mut calls).into_iter().filter(|told| told.4).map(|told| told.0).collect();
    assert_eq!(finals, (20..26).collect::<Vec<_>>(), "a quarter of the limit is watched");
    for call in 100..108 {
        assert!(calls.has_room(call));
        calls.invited(at(50), call, &tests::invite(b"c")).expect("there is room");
    }
    assert_eq!((calls.counts().watched, calls.open), (2, 8));
    // One call turns out to be active, beyond the limit.
    calls.request_accepted(at(51), key(7));
    assert_eq!((calls.counts().watched, calls.open), (1, 9));
    calls.failed(at(52), (100, &tests::invite(b"c")), 486, (None, b""));
    assert_eq!(calls.invited(at(53), 200, &tests::invite(b"c")), Err(CallsFull));
    hangs_up(&mut calls, (at(54), at(54)), key(7), (DialogSide::Callee, TARGET), 200);
    assert_eq!((calls.open, calls.has_room(200)), (7, true));
}
