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

pub(super) fn about(call_id: &[u8]) -> About {
    let source = Some(SocketAddr::from(([192, 0, 2, 1], 5060)));
    About::new([call_id, b"a", b"sip:a@x", b"sip:b@x", b"sip:b@x", b"", b"phones"], source)
}

pub(super) const WAY: DialogPath = DialogPath { routes: 1, contact: 2 };
/// A BYE with our token that goes to its target.
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

/// A BYE, and its response.
pub(super) fn hangs_up(
    calls: &mut Calls,
    (then, answered): (Instant, Instant),
    key: DialogKey,
    (by, proof): (DialogParty, Proof),
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
    calls.drain_events().filter_map(record).collect()
}

/// Lets time pass, with all timers.
pub(super) fn pass(calls: &mut Calls, until: Instant) {
    for _ in 0..100_000 {
        let Some(due) = calls.deadline().filter(|&due| due <= until) else { return calls.expire(until) };
        calls.expire(due);
    }
    panic!("a timer is due for ever");
}

/// [12.1-1] [12.3-1]
#[test]
fn a_call_rings_is_answered_and_ends_once() {
    let mut calls = calls(CallSettings { tell_answers: true, ..CallSettings::default() });
    invited(&mut calls, at(1));
    calls.provisional(at(2), KEY, true);
    calls.provisional(at(3), OTHER, true);
    assert_eq!((calls.counts().ringing, calls.counts().answered), (1, 0));
    accepted(&mut calls, at(4), KEY, None);
    accepted(&mut calls, at(5), KEY, None);
    let told = records(&mut calls);
    assert_eq!(told.len(), 1, "its repetition tells nothing");
    assert_eq!((told[0].event, told[0].cause), (RecordEvent::Answered, None));
    assert_eq!((calls.counts().ringing, calls.counts().answered), (0, 1));
    assert_eq!(calls.heard(at(60), KEY, DialogParty::Callee, 1), Some(Heard::Known));
    let bye = calls.bye(at(61), KEY, DialogParty::Callee, b"Q.850;cause=16", TARGET);
    calls.bye(at(62), KEY, DialogParty::Callee, b"", TARGET);
    assert_eq!(records(&mut calls), [], "it is written with the answer");
    calls.bye_answered(at(62), KEY, 200, bye);
    calls.bye_answered(at(63), KEY, 200, bye);
    let [record] = &records(&mut calls)[..] else { panic!("one record") };
    assert_eq!((record.rang, record.ended, record.began), (Some(at(2)), at(61), Began::Seen(at(1))));
    assert_eq!(record.accepted.as_ref().and_then(|accepted| accepted.at), Some(at(4)));
    assert_eq!((record.cause, record.by, record.status), (Some(Cause::Bye), Some(DialogParty::Callee), 200));
    assert_eq!((record.bye_status, &*record.reason), (200, &b"Q.850;cause=16"[..]));
    assert!(record.is_final);
    assert!(
        calls.heard(at(70), KEY, DialogParty::Caller, 3).is_some(),
        "remembered: a repetition does not find it again"
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
        (480, Some(Cause::Refused), Some(DialogParty::Callee))
    );
    assert!(calls.is_empty());
}

/// An INVITE cannot hide behind another with the same key.
#[test]
fn another_invite_of_the_same_name_is_another_call() {
    let mut calls = calls(CallSettings::default());
    invited(&mut calls, at(1));
    accepted(&mut calls, at(2), KEY, None);
    let dear = Invited { about: about(b"dear"), ..invite(b"c") };
    calls.invited(at(3), 7, &dear).expect("there is room");
    calls.accepted(at(4), OTHER, (b"d", PEER.into(), [Some(WAY); 2]), Some(&dear), None, ENDS);
    calls.invited(at(5), 7, &dear).expect("there is room");
    calls.failed(at(6), (7, &dear), 486, (None, b""));
    for key in [KEY, OTHER] {
        hangs_up(&mut calls, (at(9), at(9)), key, (DialogParty::Caller, TARGET), 200);
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
    assert!(calls.found(at(1), OTHER, about(b"c"), b"x", 1), "it rings yet");
    calls.failed(at(2), (7, &invite(b"c")), 486, (None, b""));
    assert_eq!(records(&mut calls).len(), 1);
    assert!(calls.found(at(3), KEY, about(b"c"), b"b", 1));
    assert!(calls.is_empty());
}

#[test]
fn who_gives_up_is_told_and_a_challenge_is_no_end() {
    let mut calls = calls(CallSettings::default());
    invited(&mut calls, at(1));
    calls.failed(at(2), (7, &invite(b"c")), 407, (Some(PEER.into()), b""));
    assert_eq!((records(&mut calls).len(), calls.is_empty()), (0, true));
    invited(&mut calls, at(3));
    calls.cancelled(7, DialogParty::Caller, b"SIP;cause=200");
    calls.failed(at(4), (7, &invite(b"c")), 487, (Some(PEER.into()), b""));
    invited(&mut calls, at(5));
    calls.provisional(at(6), KEY, false);
    calls.bye(at(7), KEY, DialogParty::Callee, b"", TARGET);
    calls.failed(at(8), (7, &invite(b"c")), 487, (Some(PEER.into()), b""));
    invited(&mut calls, at(9));
    calls.failed(at(10), (7, &invite(b"c")), 408, (None, b""));
    let told: Vec<_> = records(&mut calls).into_iter().map(|record| (record.cause, record.by)).collect();
    let wanted = [
        (Cause::Cancelled, DialogParty::Caller),
        (Cause::Cancelled, DialogParty::Callee),
        (Cause::Refused, DialogParty::Proxy),
    ];
    assert_eq!(told, wanted.map(|(cause, by)| (Some(cause), Some(by))));
}

/// [12.1-2] [8.2-5]
#[test]
fn several_answers_are_several_dialogs() {
    let mut calls = calls(CallSettings::default());
    invited(&mut calls, at(1));
    accepted(&mut calls, at(2), KEY, None);
    accepted(&mut calls, at(3), OTHER, None);
    hangs_up(&mut calls, (at(4), at(4)), OTHER, (DialogParty::Caller, TARGET), 200);
    assert_eq!(calls.counts().answered, 1);
    hangs_up(&mut calls, (at(9), at(9)), KEY, (DialogParty::Caller, TARGET), 200);
    assert_eq!(records(&mut calls).len(), 2);
}

#[test]
fn a_refresh_without_an_interval_ends_the_watch() {
    let mut calls = calls(CallSettings::default());
    invited(&mut calls, at(0));
    accepted(&mut calls, at(0), KEY, Some(90));
    calls.refreshed(at(60), KEY, None, (DialogParty::Caller, TARGET), [None; 2]);
    pass(&mut calls, at(3600));
    assert_eq!(calls.counts().answered, 1);
}

/// [12.2.2-1]
#[test]
fn a_call_that_has_had_its_time_is_hung_up() {
    let mut calls = calls(limited());
    invited(&mut calls, at(0));
    accepted(&mut calls, at(10), KEY, None);
    calls.heard(at(20), KEY, DialogParty::Caller, 9);
    calls.heard(at(21), KEY, DialogParty::Callee, 4);
    calls.refreshed(at(22), KEY, None, (DialogParty::Caller, TARGET), [None, Some((b"sip:b@new", 3))]);
    pass(&mut calls, at(609));
    assert_eq!(calls.drain_events().count(), 0);
    pass(&mut calls, at(611));
    let events: Vec<_> = calls.drain_events().collect();
    let [CallEvent::HangUp(hang_up), CallEvent::Record(record)] = &events[..] else { panic!("{events:?}") };
    assert_eq!((hang_up.cseq, &*hang_up.ends.contacts[1]), ([9, 4], &b"sip:b@new"[..]));
    assert_eq!((record.cause, record.by), (Some(Cause::TimeLimit), Some(DialogParty::Proxy)));
    // The responses, and BYEs that cross ours.
    hangs_up(&mut calls, (at(612), at(612)), KEY, (DialogParty::Caller, TARGET), 200);
    assert_eq!(calls.drain_events().count(), 0);
}

#[test]
fn a_call_from_before_a_restart_is_found_again_by_its_token() {
    let mut calls = calls(CallSettings { most: 1, ..limited() });
    assert_eq!(calls.heard(at(1), KEY, DialogParty::Caller, 3), None);
    assert!(calls.found(at(1), KEY, about(b"c"), b"b", 1_800_000_000));
    assert!(!calls.found(at(1), DialogKey { call: 8, tag: 1 }, about(b"d"), b"b", 1_800_000_000), "full");
    assert!(calls.heard(at(1), KEY, DialogParty::Caller, 3).is_some());
    // The path is unknown, and without another Route the token names the host.
    let proof = Proof::Token(DialogPath { routes: 0, ..WAY });
    hangs_up(&mut calls, (at(1), at(2)), KEY, (DialogParty::Caller, proof), 200);
    let [record] = &records(&mut calls)[..] else { panic!("one record") };
    assert_eq!((record.began, record.is_found_again()), (Began::Token(1_800_000_000), true));
    assert_eq!(record.accepted.as_ref().map(|accepted| accepted.at), Some(None));
}

#[test]
fn there_are_no_more_than_there_may_be() {
    let mut calls = calls(CallSettings { most: 1, ..CallSettings::default() });
    invited(&mut calls, at(0));
    assert_eq!(calls.invited(at(0), 8, &invite(b"d")), Err(CallsFull));
    invited(&mut calls, at(0));
    assert_eq!(calls.counts().refused, 1);
}

/// A call remembered for retransmissions of its BYE takes no room.
#[test]
fn what_has_ended_leaves_its_room_at_once() {
    let mut calls = calls(CallSettings { most: 2, ..CallSettings::default() });
    for number in 0..1_000 {
        let (now, key) = (Instant::from_millis(number), DialogKey { call: 1_000 + number, tag: 1 });
        calls.invited(now, key.call, &invite(b"d")).expect("there is room");
        calls.accepted(now, key, (b"b", PEER.into(), [Some(WAY); 2]), Some(&invite(b"d")), None, ENDS);
        // One call is always active, and there is no room for a third.
        let first = DialogKey { call: 1_000, tag: 1 };
        if number > 0 {
            assert_eq!(calls.invited(now, 7, &invite(b"c")), Err(CallsFull));
            let bye = calls.bye(now, key, DialogParty::Caller, b"", TARGET);
            assert_eq!(calls.invited(now, 7, &invite(b"c")), Err(CallsFull), "its BYE is not answered");
            calls.bye_answered(now, key, 200, bye);
            assert!(calls.has_room(key.call) && calls.has_room(7));
        }
        assert!(calls.heard(now, first, DialogParty::Caller, 1).is_some());
    }
    let again = DialogKey { call: 1_999, tag: 1 };
    assert!(calls.heard(at(2), again, DialogParty::Caller, 1).is_some(), "it is remembered all the same");
    assert_eq!(records(&mut calls).len(), 999);
}

#[test]
fn what_has_ended_takes_no_memory_without_bound() {
    let mut calls = calls(CallSettings { most: 10, ..CallSettings::default() });
    for number in 0..2 * ENDED as u64 {
        let key = DialogKey { call: number, tag: 1 };
        calls.invited(at(0), key.call, &invite(b"d")).expect("there is room");
        calls.accepted(at(0), key, (b"b", PEER.into(), [Some(WAY); 2]), Some(&invite(b"d")), None, ENDS);
        hangs_up(&mut calls, (at(0), at(0)), key, (DialogParty::Caller, TARGET), 200);
        records(&mut calls);
        assert!(calls.table.len() <= ENDED + 1);
    }
    let first = DialogKey { call: 0, tag: 1 };
    assert_eq!(calls.heard(at(1), first, DialogParty::Caller, 1), None, "the first is forgotten");
    pass(&mut calls, at(33));
    assert!(calls.is_empty());
}

/// Calls with one Call-ID and tag have one key: a call that has just ended is not taken for one that ended earlier.
#[test]
fn calls_of_one_name_push_out_none_that_ended_later() {
    let mut calls = Calls::remembering(CallSettings { most: 2, ..CallSettings::default() }, 2);
    for number in 0..10 {
        invited(&mut calls, at(number));
        accepted(&mut calls, at(number), KEY, None);
        hangs_up(&mut calls, (at(number), at(number)), KEY, (DialogParty::Caller, TARGET), 200);
        assert!(calls.heard(at(number), KEY, DialogParty::Caller, 2).is_some(), "it has just ended");
    }
    assert_eq!(records(&mut calls).len(), 10);
    pass(&mut calls, at(60));
    assert!(calls.is_empty());
}

#[test]
fn a_call_that_nobody_ends_is_lost_after_a_while() {
    let mut calls = calls(CallSettings { silence: Duration::from_hours(1), ..CallSettings::default() });
    invited(&mut calls, at(0));
    accepted(&mut calls, at(0), KEY, None);
    calls.heard(at(3000), KEY, DialogParty::Caller, 1);
    pass(&mut calls, at(6599));
    assert_eq!(records(&mut calls), []);
    pass(&mut calls, at(6601));
    let [record] = &records(&mut calls)[..] else { panic!("one record") };
    assert_eq!((record.cause, record.by), (Some(Cause::Lost), None));
}
