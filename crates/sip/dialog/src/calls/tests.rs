//! Calls from their INVITE to a BYE that proves their end.

use super::room::ENDED;
use super::*;
use crate::call::Proof;

pub(super) const KEY: DialogKey = DialogKey { call: 7, tag: 1 };
pub(super) const OTHER: DialogKey = DialogKey { call: 7, tag: 2 };
pub(super) const PEER: ([u8; 4], u16) = ([192, 0, 2, 9], 5060);

pub(super) fn at(secs: u64) -> Instant {
    Instant::ZERO + Duration::from_secs(secs)
}

pub(super) fn about(call_id: &[u8]) -> CallDescription {
    let source = Some(SocketAddr::from(([192, 0, 2, 1], 5060)));
    CallDescription::new([call_id, b"a", b"sip:a@x", b"sip:b@x", b"sip:b@x", b"", b"phones"], source)
}

pub(super) const WAY: DialogPath = DialogPath { routes: 1, contact: 2 };
/// Proof of a BYE with this proxy's token that goes to its target.
pub(super) const TARGET: Proof = Proof::Token(WAY);

pub(super) const ENDS: fn() -> Option<DialogEnds> = || Some(DialogEnds::default());

pub(super) fn invite(call_id: &[u8]) -> Invited {
    Invited { about: about(call_id), unix: 1_800_000_000, cseq: 5, is_spiral: false }
}

pub(super) fn calls(settings: CallSettings) -> Calls {
    Calls::new(settings)
}

pub(super) fn limited() -> CallSettings {
    CallSettings { longest: Some(Duration::from_mins(10)), ..CallSettings::default() }
}

pub(super) fn invited(calls: &mut Calls, now: Instant) {
    calls.invited(now, 7, &invite(b"c")).expect("there is room");
}

pub(super) fn accepted(calls: &mut Calls, now: Instant, key: DialogKey, session: Option<u64>) {
    calls.accepted(
        now,
        key,
        (b"b", PEER.into(), [Some(WAY); 2]),
        Some(&invite(b"c")),
        session.map(Duration::from_secs),
        ENDS,
    );
}

/// Reports a BYE and its response.
pub(super) fn hangs_up(
    calls: &mut Calls,
    (then, answered): (Instant, Instant),
    key: DialogKey,
    (by, proof): (DialogSide, Proof),
    status: u16,
) {
    let bye = calls.bye(then, key, by, b"", proof);
    calls.bye_answered(answered, key, status, bye);
}

pub(super) fn records(calls: &mut Calls) -> Vec<CallRecord> {
    let record = |event| match event {
        CallEvent::Record(record) => Some(*record),
        CallEvent::HangUp(_) => None,
    };
    core::iter::from_fn(|| calls.next_event()).filter_map(record).collect()
}

/// Lets time pass, with all timers.
pub(super) fn pass(calls: &mut Calls, until: Instant) {
    for _ in 0..100_000 {
        let Some(due) = calls.deadline().filter(|&due| due <= until) else { return calls.expire(until) };
        calls.expire(due);
    }
    panic!("a timer stays due");
}

/// [12.1-1] [12.3-1]
#[test]
fn a_call_rings_is_answered_and_ends_once() {
    let mut calls = calls(CallSettings { record_answers: true, ..CallSettings::default() });
    invited(&mut calls, at(1));
    calls.provisional(at(2), KEY, true);
    calls.provisional(at(3), OTHER, true);
    assert_eq!((calls.counts().ringing, calls.counts().answered), (1, 0));
    accepted(&mut calls, at(4), KEY, None);
    accepted(&mut calls, at(5), KEY, None);
    let told = records(&mut calls);
    assert_eq!(told.len(), 1, "a retransmitted 2xx writes no record");
    assert_eq!((told[0].event, told[0].cause), (RecordEvent::Answered, None));
    assert_eq!((calls.counts().ringing, calls.counts().answered), (0, 1));
    assert_eq!(calls.heard(at(60), KEY, DialogSide::Callee, 1), Some(Heard::Known));
    let bye = calls.bye(at(61), KEY, DialogSide::Callee, b"Q.850;cause=16", TARGET);
    calls.bye(at(62), KEY, DialogSide::Callee, b"", TARGET);
    assert_eq!(records(&mut calls), [], "no record before the answer to the BYE");
    calls.bye_answered(at(62), KEY, 200, bye);
    calls.bye_answered(at(63), KEY, 200, bye);
    let [record] = &records(&mut calls)[..] else { panic!("one record") };
    assert_eq!((record.rang, record.ended, record.began), (Some(at(2)), at(61), CallStart::Seen(at(1))));
    assert_eq!(record.accepted.as_ref().and_then(|accepted| accepted.at), Some(at(4)));
    assert_eq!((record.cause, record.by, record.status), (Some(Cause::Bye), Some(DialogSide::Callee), 200));
    assert_eq!((record.bye_status, &*record.reason), (200, &b"Q.850;cause=16"[..]));
    assert!(record.is_final);
    assert!(
        calls.heard(at(70), KEY, DialogSide::Caller, 3).is_some(),
        "the ended call is remembered for retransmissions"
    );
    pass(&mut calls, at(100));
    assert!(calls.is_empty() && calls.deadline().is_none());
}

#[test]
fn a_failure_counts_once_all_passes_have_failed() {
    let mut calls = calls(CallSettings::default());
    invited(&mut calls, at(1));
    invited(&mut calls, at(1));
    calls.failed(at(2), (7, &invite(b"c")), 486, (Some(PEER.into()), b""));
    assert_eq!(records(&mut calls), []);
    calls.failed(at(3), (7, &invite(b"c")), 480, (Some(PEER.into()), b""));
    let [record] = &records(&mut calls)[..] else { panic!("one record") };
    assert_eq!(
        (record.status, record.cause, record.by),
        (480, Some(Cause::Refused), Some(DialogSide::Callee))
    );
    assert!(calls.is_empty());
}

/// An INVITE does not hide another INVITE with the same key.
#[test]
fn another_invite_with_the_same_key_is_another_call() {
    let mut calls = calls(CallSettings::default());
    invited(&mut calls, at(1));
    accepted(&mut calls, at(2), KEY, None);
    let dear = Invited { about: about(b"dear"), ..invite(b"c") };
    calls.invited(at(3), 7, &dear).expect("there is room");
    calls.accepted(at(4), OTHER, (b"d", PEER.into(), [Some(WAY); 2]), Some(&dear), None, ENDS);
    calls.invited(at(5), 7, &dear).expect("there is room");
    calls.failed(at(6), (7, &dear), 486, (None, b""));
    for key in [KEY, OTHER] {
        hangs_up(&mut calls, (at(9), at(9)), key, (DialogSide::Caller, TARGET), 200);
    }
    let told: Vec<_> =
        records(&mut calls).into_iter().map(|told| (told.about.call_id().to_vec(), told.status)).collect();
    assert_eq!(told, [(b"dear".to_vec(), 486), (b"c".to_vec(), 200), (b"dear".to_vec(), 200)]);
    // Only the first pass of a spiral is recorded.
    let spiral = Invited { is_spiral: true, ..dear };
    invited(&mut calls, at(60));
    calls.invited(at(60), 7, &spiral).expect("there is room");
    calls.failed(at(61), (7, &spiral), 486, (None, b""));
    calls.failed(at(61), (7, &invite(b"c")), 486, (None, b""));
    assert_eq!(records(&mut calls).len(), 1);
}

/// Late messages of a failed call do not belong to a call from before a restart.
#[test]
fn a_failed_call_is_not_found_again() {
    let mut calls = calls(CallSettings::default());
    invited(&mut calls, at(0));
    calls.provisional(at(1), KEY, true);
    assert!(calls.found(at(1), OTHER, about(b"c"), b"x", 1), "the call still rings");
    calls.failed(at(2), (7, &invite(b"c")), 486, (None, b""));
    assert_eq!(records(&mut calls).len(), 1);
    assert!(calls.found(at(3), KEY, about(b"c"), b"b", 1));
    assert!(calls.is_empty());
}

#[test]
fn the_side_that_cancels_is_recorded_and_a_challenge_does_not_end_a_call() {
    let mut calls = calls(CallSettings::default());
    invited(&mut calls, at(1));
    calls.failed(at(2), (7, &invite(b"c")), 407, (Some(PEER.into()), b""));
    assert_eq!((records(&mut calls).len(), calls.is_empty()), (0, true));
    invited(&mut calls, at(3));
    calls.cancelled(7, DialogSide::Caller, b"SIP;cause=200");
    calls.failed(at(4), (7, &invite(b"c")), 487, (Some(PEER.into()), b""));
    invited(&mut calls, at(5));
    calls.provisional(at(6), KEY, false);
    calls.bye(at(7), KEY, DialogSide::Callee, b"", TARGET);
    calls.failed(at(8), (7, &invite(b"c")), 487, (Some(PEER.into()), b""));
    invited(&mut calls, at(9));
    calls.failed(at(10), (7, &invite(b"c")), 408, (None, b""));
    let told: Vec<_> = records(&mut calls).into_iter().map(|record| (record.cause, record.by)).collect();
    let wanted = [
        (Cause::Cancelled, DialogSide::Caller),
        (Cause::Cancelled, DialogSide::Callee),
        (Cause::Refused, DialogSide::Proxy),
    ];
    assert_eq!(told, wanted.map(|(cause, by)| (Some(cause), Some(by))));
}

/// [12.1-2] [8.2-5]
#[test]
fn several_answers_make_several_dialogs() {
    let mut calls = calls(CallSettings::default());
    invited(&mut calls, at(1));
    accepted(&mut calls, at(2), KEY, None);
    accepted(&mut calls, at(3), OTHER, None);
    hangs_up(&mut calls, (at(4), at(4)), OTHER, (DialogSide::Caller, TARGET), 200);
    assert_eq!(calls.counts().answered, 1);
    hangs_up(&mut calls, (at(9), at(9)), KEY, (DialogSide::Caller, TARGET), 200);
    assert_eq!(records(&mut calls).len(), 2);
}

#[test]
fn a_refresh_without_an_interval_removes_the_session_limit() {
    let mut calls = calls(CallSettings::default());
    invited(&mut calls, at(0));
    accepted(&mut calls, at(0), KEY, Some(90));
    calls.refreshed(at(60), KEY, None, (DialogSide::Caller, TARGET), [None; 2]);
    pass(&mut calls, at(3600));
    assert_eq!(calls.counts().answered, 1);
}

#[test]
fn an_operator_ends_an_answered_call_once() {
    for settings in [limited(), CallSettings::default()] {
        let has_ends = settings.longest.is_some();
        let mut calls = calls(settings);
        invited(&mut calls, at(1));
        assert_eq!(calls.hang_up_call(at(2), b"c"), 0, "it is not answered");
        accepted(&mut calls, at(3), KEY, None);
        assert_eq!(calls.hang_up_call(at(4), b"d"), 0);
        assert_eq!(calls.hang_up_call(at(4), b"c"), usize::from(has_ends));
        assert_eq!(calls.hang_up_call(at(5), b"c"), 0);
        assert_eq!(matches!(calls.next_event(), Some(CallEvent::HangUp(_))), has_ends);
        let told: Vec<_> = records(&mut calls).iter().map(|record| (record.cause, record.is_final)).collect();
        assert_eq!(told, if has_ends { vec![(Some(Cause::Operator), true)] } else { vec![] });
        assert_eq!(calls.counts().answered, usize::from(!has_ends));
        pass(&mut calls, at(100));
        assert_eq!(calls.is_empty(), has_ends);
    }
}

/// [12.2.2-1]
#[test]
fn a_call_at_its_time_limit_is_ended_by_byes() {
    let mut calls = calls(limited());
    invited(&mut calls, at(0));
    accepted(&mut calls, at(10), KEY, None);
    calls.heard(at(20), KEY, DialogSide::Caller, 9);
    calls.heard(at(21), KEY, DialogSide::Callee, 4);
    calls.refreshed(at(22), KEY, None, (DialogSide::Caller, TARGET), [None, Some((b"sip:b@new", 3))]);
    pass(&mut calls, at(609));
    assert_eq!(core::iter::from_fn(|| calls.next_event()).count(), 0);
    pass(&mut calls, at(611));
    let events: Vec<_> = core::iter::from_fn(|| calls.next_event()).collect();
    let [CallEvent::HangUp(hang_up), CallEvent::Record(record)] = &events[..] else { panic!("{events:?}") };
    assert_eq!((hang_up.cseq, &*hang_up.ends.contacts[1]), ([9, 4], &b"sip:b@new"[..]));
    assert_eq!((record.cause, record.by), (Some(Cause::TimeLimit), Some(DialogSide::Proxy)));
    // The responses to the BYEs of this proxy, and BYEs that cross them.
    hangs_up(&mut calls, (at(612), at(612)), KEY, (DialogSide::Caller, TARGET), 200);
    assert_eq!(core::iter::from_fn(|| calls.next_event()).count(), 0);
}

#[test]
fn a_call_from_before_a_restart_is_found_again_by_its_token() {
    let mut calls = calls(CallSettings { most: 1, ..limited() });
    assert_eq!(calls.heard(at(1), KEY, DialogSide::Caller, 3), None);
    assert!(calls.found(at(1), KEY, about(b"c"), b"b", 1_800_000_000));
    assert!(!calls.found(at(1), DialogKey { call: 8, tag: 1 }, about(b"d"), b"b", 1_800_000_000), "full");
    assert!(calls.heard(at(1), KEY, DialogSide::Caller, 3).is_some());
    // The path is unknown, and without another Route the token names the host.
    let proof = Proof::Token(DialogPath { routes: 0, ..WAY });
    hangs_up(&mut calls, (at(1), at(2)), KEY, (DialogSide::Caller, proof), 200);
    let [record] = &records(&mut calls)[..] else { panic!("one record") };
    assert_eq!((record.began, record.is_found_again()), (CallStart::Token(1_800_000_000), true));
    assert_eq!(record.accepted.as_ref().map(|accepted| accepted.at), Some(None));
}

#[test]
fn the_limit_of_calls_is_kept() {
    let mut calls = calls(CallSettings { most: 1, ..CallSettings::default() });
    invited(&mut calls, at(0));
    assert_eq!(calls.invited(at(0), 8, &invite(b"d")), Err(CallsFull));
    invited(&mut calls, at(0));
    assert_eq!(calls.counts().refused, 1);
}

/// A call remembered for retransmissions of its BYE takes no room.
#[test]
fn an_ended_call_frees_its_place_at_once() {
    let mut calls = calls(CallSettings { most: 2, ..CallSettings::default() });
    for number in 0..1_000 {
        let (now, key) = (Instant::from_millis(number), DialogKey { call: 1_000 + number, tag: 1 });
        calls.invited(now, key.call, &invite(b"d")).expect("there is room");
        calls.accepted(now, key, (b"b", PEER.into(), [Some(WAY); 2]), Some(&invite(b"d")), None, ENDS);
        // One call is always active, and there is no room for a third.
        let first = DialogKey { call: 1_000, tag: 1 };
        if number > 0 {
            assert_eq!(calls.invited(now, 7, &invite(b"c")), Err(CallsFull));
            let bye = calls.bye(now, key, DialogSide::Caller, b"", TARGET);
            assert_eq!(
                calls.invited(now, 7, &invite(b"c")),
                Err(CallsFull),
                "a call whose BYE is not answered takes room"
            );
            calls.bye_answered(now, key, 200, bye);
            assert!(calls.has_room(key.call) && calls.has_room(7));
        }
        assert!(calls.heard(now, first, DialogSide::Caller, 1).is_some());
    }
    let again = DialogKey { call: 1_999, tag: 1 };
    assert!(calls.heard(at(2), again, DialogSide::Caller, 1).is_some(), "the ended call is remembered");
    assert_eq!(records(&mut calls).len(), 999);
}

#[test]
fn the_memory_of_ended_calls_is_bounded() {
    let mut calls = calls(CallSettings { most: 10, ..CallSettings::default() });
    for number in 0..2 * ENDED as u64 {
        let key = DialogKey { call: number, tag: 1 };
        calls.invited(at(0), key.call, &invite(b"d")).expect("there is room");
        calls.accepted(at(0), key, (b"b", PEER.into(), [Some(WAY); 2]), Some(&invite(b"d")), None, ENDS);
        hangs_up(&mut calls, (at(0), at(0)), key, (DialogSide::Caller, TARGET), 200);
        records(&mut calls);
        assert!(calls.table.len() <= ENDED + 1);
    }
    let first = DialogKey { call: 0, tag: 1 };
    assert_eq!(calls.heard(at(1), first, DialogSide::Caller, 1), None, "the first ended call is forgotten");
    pass(&mut calls, at(33));
    assert!(calls.is_empty());
}

/// Calls with one Call-ID and tag have one key. A call that has just ended is not taken for a call that ended earlier.
#[test]
fn calls_with_one_key_do_not_displace_later_ended_calls() {
    let mut calls = Calls::remembering(CallSettings { most: 2, ..CallSettings::default() }, 2);
    for number in 0..10 {
        invited(&mut calls, at(number));
        accepted(&mut calls, at(number), KEY, None);
        hangs_up(&mut calls, (at(number), at(number)), KEY, (DialogSide::Caller, TARGET), 200);
        assert!(
            calls.heard(at(number), KEY, DialogSide::Caller, 2).is_some(),
            "a call that has just ended is remembered"
        );
    }
    assert_eq!(records(&mut calls).len(), 10);
    pass(&mut calls, at(60));
    assert!(calls.is_empty());
}

#[test]
fn a_call_without_messages_counts_as_lost() {
    let mut calls = calls(CallSettings { silence: Duration::from_hours(1), ..CallSettings::default() });
    invited(&mut calls, at(0));
    accepted(&mut calls, at(0), KEY, None);
    calls.heard(at(3000), KEY, DialogSide::Caller, 1);
    pass(&mut calls, at(6599));
    assert_eq!(records(&mut calls), []);
    pass(&mut calls, at(6601));
    let [record] = &records(&mut calls)[..] else { panic!("one record") };
    assert_eq!((record.cause, record.by), (Some(Cause::Lost), None));
}
