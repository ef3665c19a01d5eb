use super::room::ENDED;
use super::*;
use proptest::prelude::*;
use std::collections::BTreeMap;

const KEY: DialogKey = DialogKey { call: 7, tag: 1 };
const OTHER: DialogKey = DialogKey { call: 7, tag: 2 };
const PEER: ([u8; 4], u16) = ([192, 0, 2, 9], 5060);

fn at(secs: u64) -> Instant {
    Instant::ZERO + Duration::from_secs(secs)
}

fn about(call_id: &[u8]) -> About {
    let source = Some(SocketAddr::from(([192, 0, 2, 1], 5060)));
    About::new([call_id, b"a", b"sip:a@x", b"sip:b@x", b"sip:b@x", b"", b"phones"], source)
}

const ENDS: fn() -> Option<Ends> = || Some(Ends::default());

fn invite(call_id: &[u8]) -> Invited {
    Invited { about: about(call_id), unix: 1_800_000_000, cseq: 5, is_spiral: false }
}

fn calls(settings: CallSettings) -> Calls {
    Calls::new(settings)
}

fn limited() -> CallSettings {
    CallSettings { longest: Some(Duration::from_mins(10)), ..CallSettings::default() }
}

fn invited(calls: &mut Calls, now: Instant) {
    calls.invited(now, 7, &invite(b"c")).expect("there is room");
}

fn accepted(calls: &mut Calls, now: Instant, key: DialogKey, session: Option<u64>) {
    calls.accepted(
        now,
        key,
        (b"b", PEER.into()),
        Some(&invite(b"c")),
        session.map(Duration::from_secs),
        ENDS,
    );
}

fn records(calls: &mut Calls) -> Vec<CallRecord> {
    let record = |event| match event {
        CallEvent::Record(record) => Some(*record),
        CallEvent::HangUp(_) => None,
    };
    calls.drain_events().filter_map(record).collect()
}

/// Lets time pass, by the timers alone.
fn pass(calls: &mut Calls, until: Instant) {
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
    assert!(calls.heard(at(60), KEY, Side::Callee, 1));
    calls.bye(at(61), KEY, Side::Callee, b"Q.850;cause=16");
    calls.bye(at(62), KEY, Side::Callee, b"");
    assert_eq!(records(&mut calls), [], "it is written with the answer");
    calls.bye_answered(at(62), KEY, 200);
    calls.bye_answered(at(63), KEY, 200);
    let [record] = &records(&mut calls)[..] else { panic!("one record") };
    assert_eq!((record.rang, record.ended, record.began), (Some(at(2)), at(61), Began::Seen(at(1))));
    assert_eq!(record.accepted.as_ref().and_then(|accepted| accepted.at), Some(at(4)));
    assert_eq!((record.cause, record.by, record.status), (Some(Cause::Bye), Some(Side::Callee), 200));
    assert_eq!((record.bye_status, &*record.reason), (200, &b"Q.850;cause=16"[..]));
    assert!(calls.heard(at(70), KEY, Side::Caller, 3), "remembered: a repetition does not find it again");
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
    assert_eq!((record.status, record.cause, record.by), (480, Some(Cause::Refused), Some(Side::Callee)));
    assert!(calls.is_empty());
}

/// One INVITE cannot hide behind another of the same name.
#[test]
fn another_invite_of_the_same_name_is_another_call() {
    let mut calls = calls(CallSettings::default());
    invited(&mut calls, at(1));
    accepted(&mut calls, at(2), KEY, None);
    let dear = Invited { about: about(b"dear"), ..invite(b"c") };
    calls.invited(at(3), 7, &dear).expect("there is room");
    calls.accepted(at(4), OTHER, (b"d", PEER.into()), Some(&dear), None, ENDS);
    calls.invited(at(5), 7, &dear).expect("there is room");
    calls.failed(at(6), (7, &dear), 486, (None, b""));
    for key in [KEY, OTHER] {
        calls.bye(at(9), key, Side::Caller, b"");
        calls.bye_answered(at(9), key, 200);
    }
    let told: Vec<_> =
        records(&mut calls).into_iter().map(|told| (told.about.call_id().to_vec(), told.status)).collect();
    assert_eq!(told, [(b"dear".to_vec(), 486), (b"c".to_vec(), 200), (b"dear".to_vec(), 200)]);
    // Of a spiral only the first pass is told of.
    let spiral = Invited { is_spiral: true, ..dear };
    invited(&mut calls, at(60));
    calls.invited(at(60), 7, &spiral).expect("there is room");
    calls.failed(at(61), (7, &spiral), 486, (None, b""));
    calls.failed(at(61), (7, &invite(b"c")), 486, (None, b""));
    assert_eq!(records(&mut calls).len(), 1);
}

/// A BYE that is refused ends nothing, unless nothing more is heard.
#[test]
fn a_refused_bye_is_the_end_only_if_nothing_follows() {
    let mut calls = calls(CallSettings::default());
    invited(&mut calls, at(0));
    accepted(&mut calls, at(1), KEY, None);
    calls.bye(at(2), KEY, Side::Caller, b"");
    calls.bye_answered(at(2), KEY, 500);
    assert_eq!((records(&mut calls), calls.counts().answered), (vec![], 1));
    calls.bye(at(500), KEY, Side::Callee, b"");
    calls.bye_answered(at(500), KEY, 500);
    pass(&mut calls, at(100_000));
    let [record] = &records(&mut calls)[..] else { panic!("one record") };
    assert_eq!((record.ended, record.by, record.bye_status), (at(500), Some(Side::Callee), 500));
    // Something follows: it is lost later, and by nobody.
    let start = 200_000;
    invited(&mut calls, at(start));
    accepted(&mut calls, at(start), KEY, None);
    calls.bye(at(start + 2), KEY, Side::Caller, b"");
    calls.bye_answered(at(start + 2), KEY, 500);
    calls.heard(at(start + 9), KEY, Side::Caller, 9);
    pass(&mut calls, at(start + 100_000));
    let [record] = &records(&mut calls)[..] else { panic!("one record") };
    assert_eq!((record.cause, record.by), (Some(Cause::Lost), None));
}

/// Who says that a session is short, and talks on, is hung up all the same.
#[test]
fn a_short_session_hides_no_call_from_its_limit() {
    let mut calls = calls(limited());
    invited(&mut calls, at(0));
    accepted(&mut calls, at(0), KEY, Some(1));
    pass(&mut calls, at(89));
    assert_eq!(calls.drain_events().count(), 0, "no session is that short");
    pass(&mut calls, at(92));
    assert_eq!(records(&mut calls)[0].cause, Some(Cause::SessionExpired));
    pass(&mut calls, at(599));
    assert_eq!(calls.drain_events().count(), 0);
    pass(&mut calls, at(602));
    let events: Vec<_> = calls.drain_events().collect();
    assert!(matches!(events[..], [CallEvent::HangUp(_)]), "{events:?}");
    assert!(calls.is_empty());
}

/// What comes of a call that has failed yet is no call from before a restart.
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
    calls.cancelled(7, Side::Caller, b"SIP;cause=200");
    calls.failed(at(4), (7, &invite(b"c")), 487, (Some(PEER.into()), b""));
    invited(&mut calls, at(5));
    calls.provisional(at(6), KEY, false);
    calls.bye(at(7), KEY, Side::Callee, b"");
    calls.failed(at(8), (7, &invite(b"c")), 487, (Some(PEER.into()), b""));
    invited(&mut calls, at(9));
    calls.failed(at(10), (7, &invite(b"c")), 408, (None, b""));
    let told: Vec<_> = records(&mut calls).into_iter().map(|record| (record.cause, record.by)).collect();
    let wanted =
        [(Cause::Cancelled, Side::Caller), (Cause::Cancelled, Side::Callee), (Cause::Refused, Side::Proxy)];
    assert_eq!(told, wanted.map(|(cause, by)| (Some(cause), Some(by))));
}

/// [12.1-2] [8.2-5]
#[test]
fn several_answers_are_several_dialogs() {
    let mut calls = calls(CallSettings::default());
    invited(&mut calls, at(1));
    accepted(&mut calls, at(2), KEY, None);
    accepted(&mut calls, at(3), OTHER, None);
    calls.bye(at(4), OTHER, Side::Caller, b"");
    calls.bye_answered(at(4), OTHER, 200);
    assert_eq!(calls.counts().answered, 1);
    calls.bye(at(9), KEY, Side::Caller, b"");
    calls.bye_answered(at(9), KEY, 200);
    assert_eq!(records(&mut calls).len(), 2);
}

/// [8.2-4] [8.3-1]
#[test]
fn a_session_that_is_not_refreshed_ends() {
    let mut calls = calls(CallSettings::default());
    invited(&mut calls, at(0));
    accepted(&mut calls, at(0), KEY, Some(90));
    calls.refreshed(at(60), KEY, Some(Duration::from_secs(90)), [None; 2]);
    pass(&mut calls, at(149));
    assert_eq!(records(&mut calls), []);
    pass(&mut calls, at(151));
    let [record] = &records(&mut calls)[..] else { panic!("one record") };
    assert_eq!((record.cause, record.by), (Some(Cause::SessionExpired), None));
    assert_eq!(calls.counts().expired, 1);
}

#[test]
fn a_refresh_without_an_interval_ends_the_watch() {
    let mut calls = calls(CallSettings::default());
    invited(&mut calls, at(0));
    accepted(&mut calls, at(0), KEY, Some(90));
    calls.refreshed(at(60), KEY, None, [None; 2]);
    pass(&mut calls, at(3600));
    assert_eq!(calls.counts().answered, 1);
}

/// [12.2.2-1]
#[test]
fn a_call_that_has_had_its_time_is_hung_up() {
    let mut calls = calls(limited());
    invited(&mut calls, at(0));
    accepted(&mut calls, at(10), KEY, None);
    calls.heard(at(20), KEY, Side::Caller, 9);
    calls.heard(at(21), KEY, Side::Callee, 4);
    calls.refreshed(at(22), KEY, None, [None, Some(b"sip:b@new")]);
    pass(&mut calls, at(609));
    assert_eq!(calls.drain_events().count(), 0);
    pass(&mut calls, at(611));
    let events: Vec<_> = calls.drain_events().collect();
    let [CallEvent::HangUp(hang_up), CallEvent::Record(record)] = &events[..] else { panic!("{events:?}") };
    assert_eq!((hang_up.cseq, &*hang_up.ends.contacts[1]), ([9, 4], &b"sip:b@new"[..]));
    assert_eq!((record.cause, record.by), (Some(Cause::TimeLimit), Some(Side::Proxy)));
    // The answers, and BYEs that cross ours.
    calls.bye(at(612), KEY, Side::Caller, b"");
    calls.bye_answered(at(612), KEY, 200);
    assert_eq!(calls.drain_events().count(), 0);
}

/// [15.1.1-1]
#[test]
fn a_bye_without_an_answer_ends_the_call_all_the_same() {
    let mut calls = calls(CallSettings::default());
    invited(&mut calls, at(0));
    accepted(&mut calls, at(1), KEY, None);
    calls.bye(at(5), KEY, Side::Caller, b"");
    calls.bye_answered(at(5), KEY, 407);
    calls.bye(at(6), KEY, Side::Caller, b"");
    pass(&mut calls, at(39));
    let [record] = &records(&mut calls)[..] else { panic!("one record") };
    assert_eq!((record.bye_status, record.ended, record.cause), (408, at(6), Some(Cause::Bye)));
}

#[test]
fn a_call_from_before_a_restart_is_found_again_by_its_token() {
    let mut calls = calls(CallSettings { most: 1, ..limited() });
    assert!(!calls.heard(at(1), KEY, Side::Caller, 3));
    assert!(calls.found(at(1), KEY, about(b"c"), b"b", 1_800_000_000));
    assert!(!calls.found(at(1), DialogKey { call: 8, tag: 1 }, about(b"d"), b"b", 1_800_000_000), "full");
    assert!(calls.heard(at(1), KEY, Side::Caller, 3));
    calls.bye(at(1), KEY, Side::Caller, b"");
    calls.bye_answered(at(2), KEY, 200);
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

/// Who is remembered for the repetitions of the last BYE takes nobody's place.
#[test]
fn what_has_ended_leaves_its_room_at_once() {
    let mut calls = calls(CallSettings { most: 2, ..CallSettings::default() });
    for number in 0..1_000 {
        let (now, key) = (Instant::from_millis(number), DialogKey { call: 1_000 + number, tag: 1 });
        calls.invited(now, key.call, &invite(b"d")).expect("there is room");
        calls.accepted(now, key, (b"b", PEER.into()), Some(&invite(b"d")), None, ENDS);
        // One goes on all the time, and there is no room for a third.
        let first = DialogKey { call: 1_000, tag: 1 };
        if number > 0 {
            assert_eq!(calls.invited(now, 7, &invite(b"c")), Err(CallsFull));
            calls.bye(now, key, Side::Caller, b"");
            assert_eq!(calls.invited(now, 7, &invite(b"c")), Err(CallsFull), "its BYE is not answered");
            calls.bye_answered(now, key, 200);
            assert!(calls.has_room(key.call) && calls.has_room(7));
        }
        assert!(calls.heard(now, first, Side::Caller, 1));
    }
    let again = DialogKey { call: 1_999, tag: 1 };
    assert!(calls.heard(at(2), again, Side::Caller, 1), "it is remembered all the same");
    assert_eq!(records(&mut calls).len(), 999);
}

#[test]
fn what_has_ended_takes_no_memory_without_bound() {
    let mut calls = calls(CallSettings { most: 10, ..CallSettings::default() });
    for number in 0..2 * ENDED as u64 {
        let key = DialogKey { call: number, tag: 1 };
        calls.invited(at(0), key.call, &invite(b"d")).expect("there is room");
        calls.accepted(at(0), key, (b"b", PEER.into()), Some(&invite(b"d")), None, ENDS);
        calls.bye(at(0), key, Side::Caller, b"");
        calls.bye_answered(at(0), key, 200);
        records(&mut calls);
        assert!(calls.table.len() <= ENDED + 1);
    }
    assert!(!calls.heard(at(1), DialogKey { call: 0, tag: 1 }, Side::Caller, 1), "the first is forgotten");
    pass(&mut calls, at(33));
    assert!(calls.is_empty());
}

/// Calls of one Call-ID and tag have one key: a call that has just ended is not taken for the one that ended first.
#[test]
fn calls_of_one_name_push_out_none_that_ended_later() {
    let mut calls = Calls::remembering(CallSettings { most: 2, ..CallSettings::default() }, 2);
    for number in 0..10 {
        invited(&mut calls, at(number));
        accepted(&mut calls, at(number), KEY, None);
        calls.bye(at(number), KEY, Side::Caller, b"");
        calls.bye_answered(at(number), KEY, 200);
        assert!(calls.heard(at(number), KEY, Side::Caller, 2), "it has just ended");
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
    calls.heard(at(3000), KEY, Side::Caller, 1);
    pass(&mut calls, at(6599));
    assert_eq!(records(&mut calls), []);
    pass(&mut calls, at(6601));
    let [record] = &records(&mut calls)[..] else { panic!("one record") };
    assert_eq!((record.cause, record.by), (Some(Cause::Lost), None));
}

/// Call-ID and tag of a dialog.
type Name = (Box<[u8]>, Box<[u8]>);

/// What may come by, of two calls with two callees each.
#[derive(Clone, Copy, Debug)]
enum Step {
    Invite,
    Ring(u64),
    Accept(u64, Option<u8>),
    Fail(u16),
    Cancel,
    Bye(u64),
    ByeAnswered(u64, u16),
    Refresh(u64, Option<u8>),
    Found(u64),
    Wait(u16),
}

fn step() -> impl Strategy<Value = (u64, Step)> {
    let tag = 1..3_u64;
    let step = prop_oneof![
        Just(Step::Invite),
        tag.clone().prop_map(Step::Ring),
        (tag.clone(), prop::option::of(any::<u8>())).prop_map(|(tag, session)| Step::Accept(tag, session)),
        prop::sample::select(vec![407, 486, 487, 503]).prop_map(Step::Fail),
        Just(Step::Cancel),
        tag.clone().prop_map(Step::Bye),
        (tag.clone(), prop::sample::select(vec![200, 401, 481, 500]))
            .prop_map(|(tag, status)| Step::ByeAnswered(tag, status)),
        (tag.clone(), prop::option::of(any::<u8>())).prop_map(|(tag, session)| Step::Refresh(tag, session)),
        tag.prop_map(Step::Found),
        (0..400_u16).prop_map(Step::Wait),
    ];
    (7..9_u64, step)
}

proptest! {
    /// Whatever comes in whatever order: each dialog that is answered has one record of its end, no other has, none is left for
    /// ever, and what is counted is what is there.
    #[test]
    fn each_answered_dialog_has_one_record(steps in prop::collection::vec(step(), 0..120)) {
        let settings = CallSettings {
            longest: Some(Duration::from_mins(15)),
            silence: Duration::from_secs(2000),
            ..CallSettings::default()
        };
        let mut calls = Calls::new(settings);
        let mut now = at(1);
        let mut answered: BTreeMap<Name, (usize, usize)> = BTreeMap::new();
        for (call, step) in steps {
            let key = |tag| DialogKey { call, tag };
            let name = [b'c', call as u8];
            let tag_of = |tag: u64| [tag as u8];
            let before = calls.counts().answered;
            match step {
                Step::Invite => {
                    let _ = calls.invited(now, call, &invite(&name));
                }
                Step::Ring(tag) => calls.provisional(now, key(tag), true),
                Step::Accept(tag, session) => {
                    let session = session.map(|session| Duration::from_secs(session.into()));
                    calls.accepted(now, key(tag), (&tag_of(tag), PEER.into()), Some(&invite(&name)), session, ENDS);
                    let new = calls.counts().answered - before;
                    answered.entry((name.into(), tag_of(tag).into())).or_default().0 += new;
                }
                Step::Fail(status) => calls.failed(now, (call, &invite(&name)), status, (None, b"")),
                Step::Cancel => calls.cancelled(call, Side::Caller, b""),
                Step::Bye(tag) => calls.bye(now, key(tag), Side::Callee, b""),
                Step::ByeAnswered(tag, status) => calls.bye_answered(now, key(tag), status),
                Step::Refresh(tag, session) => {
                    let session = session.map(|session| Duration::from_secs(session.into()));
                    calls.refreshed(now, key(tag), session, [None; 2]);
                }
                Step::Found(tag) => {
                    if !calls.heard(now, key(tag), Side::Caller, 1) {
                        calls.found(now, key(tag), about(&name), &tag_of(tag), 1);
                        let new = calls.counts().answered - before;
                        answered.entry((name.into(), tag_of(tag).into())).or_default().0 += new;
                    }
                }
                Step::Wait(secs) => {
                    now += Duration::from_secs(secs.into());
                    pass(&mut calls, now);
                }
            }
            for record in records(&mut calls) {
                prop_assert!(record.cause.is_some() && record.ended <= now);
                if let Some(accepted) = &record.accepted {
                    prop_assert!(accepted.at.is_none_or(|at| at <= record.ended));
                    let name = (record.about.call_id().into(), accepted.tag.clone());
                    answered.entry(name).or_default().1 += 1;
                }
            }
            let counts = calls.counts();
            let open: usize = answered.values().map(|(began, ended)| began - ended).sum();
            prop_assert_eq!(counts.answered, open);
            let going_on = calls.table.iter().filter(|(_, call)| call.is_open()).count();
            prop_assert_eq!(calls.open, going_on, "calls that go on");
        }
        pass(&mut calls, now + Duration::from_secs(10_000));
        for record in records(&mut calls) {
            if let Some(accepted) = &record.accepted {
                let name = (record.about.call_id().into(), accepted.tag.clone());
                answered.entry(name).or_default().1 += 1;
            }
        }
        for (name, (began, ended)) in answered {
            prop_assert_eq!(began, ended, "{:?}", name);
        }
        prop_assert!(calls.open == 0 && calls.is_empty() && calls.deadline().is_none(), "nothing is left for ever");
    }
}
