//! Failed requests are reported with the reason, on demand.

use crate::common::*;
use node::{Drop, Failure, FailureCause};

/// A bed that reports failures.
fn bed() -> Bed {
    let mut bed = Bed::new(Site::plain());
    bed.set(|setup| setup.settings.tell_failures = true);
    bed
}

/// Takes the reports since the last time, as method, Call-ID, source and cause.
fn told(bed: &mut Bed) -> Vec<(String, String, SocketAddr, FailureCause)> {
    let failure = |event| match event {
        ShardEvent::Failed(failure) => {
            let Failure { method, call_id, from, cause } = *failure;
            Some((method.into(), call_id.into(), from, cause))
        }
        _ => None,
    };
    bed.events.drain(..).filter_map(failure).collect()
}

#[test]
fn what_a_member_refuses_is_told_and_what_it_accepts_or_challenges_is_not() {
    let mut bed = bed();
    for (call, status, is_told) in [
        ("a", 200, false),
        ("b", 401, false),
        ("c", 407, false),
        ("d", 487, false),
        ("e", 486, true),
        ("f", 503, true),
    ] {
        let sent = bed.one(0, client(), &Req::new("INVITE", call, client()).bytes());
        bed.receive(sent.listener, sent.to, &answer(&sent.bytes, addr(PROXY), status, sent.to));
        let wanted = ("INVITE".to_owned(), call.to_owned(), sent.to, FailureCause::Answered { status });
        assert_eq!(told(&mut bed), Vec::from_iter(is_told.then_some(wanted)), "{status}");
    }
}

#[test]
fn what_is_refused_or_dropped_here_is_told_with_the_rule() {
    let mut bed = bed();
    let late = Req { max_forwards: Some(0), ..Req::new("INVITE", "late", client()) };
    bed.receive(0, client(), &late.bytes());
    let refused = FailureCause::Refused { status: 483, reason: "Too Many Hops" };
    assert_eq!(told(&mut bed), [("INVITE".to_owned(), "late".to_owned(), client(), refused)]);
    bed.receive(0, client(), b"nonsense");
    let unreadable = FailureCause::Dropped(Drop::Unreadable(wire::Discard::NotSip));
    assert_eq!(told(&mut bed), [(String::new(), String::new(), client(), unreadable)]);
    bed.receive(0, client(), b"\r\n\r\n");
    assert_eq!(told(&mut bed), [], "a keep-alive is no failure");
}

#[test]
fn nothing_is_told_unless_it_is_asked_for() {
    let mut bed = Bed::new(Site::plain());
    let late = Req { max_forwards: Some(0), ..Req::new("INVITE", "late", client()) };
    bed.receive(0, client(), &late.bytes());
    assert_eq!(bed.events, []);
}

#[test]
fn an_exhausted_pool_is_told_once_a_second() {
    let mut bed = Bed::new(Site::plain());
    bed.set_members(&[]);
    let invite = |bed: &mut Bed, call: &str| {
        assert_eq!(bed.one(0, client(), &Req::new("INVITE", call, client()).bytes()).status(), 503);
        core::mem::take(&mut bed.events)
    };
    assert_eq!(invite(&mut bed, "1"), [ShardEvent::NoServer { pool: PoolId(0), refused: 1 }]);
    assert_eq!(invite(&mut bed, "2"), []);
    assert_eq!(invite(&mut bed, "3"), []);
    bed.now += Duration::from_secs(1);
    assert_eq!(invite(&mut bed, "4"), [ShardEvent::NoServer { pool: PoolId(0), refused: 3 }]);
    bed.now += Duration::from_secs(4);
    assert_eq!(invite(&mut bed, "5"), [ShardEvent::NoServer { pool: PoolId(0), refused: 1 }]);
}

/// RFC 3261 §12.1.1: a response that begins a dialog has the Record-Route of its request. `sipp -sn uas` omits it.
#[test]
fn a_node_that_answers_without_record_route_is_told_of_once() {
    let mut bed = Bed::new(Site::plain());
    let told = |bed: &mut Bed| {
        let unrecorded = |event| if let ShardEvent::NoRecordRoute(node) = event { Some(node) } else { None };
        bed.events.drain(..).filter_map(unrecorded).collect::<Vec<_>>()
    };
    let call = Dialog::inbound(&mut bed, "well", client(), 0);
    call.caller_asks(&mut bed, "ACK", 1);
    // Within a dialog there is no Record-Route to copy.
    call.caller_asks(&mut bed, "INVITE", 2);
    assert_eq!(told(&mut bed), []);
    for (name, is_told) in [("first", true), ("second", false)] {
        let sent = bed.one(0, client(), &Req::new("INVITE", name, client()).bytes());
        let whole = string(&answer(&sent.bytes, addr(PROXY), 200, sent.to));
        let bare: String =
            whole.split_inclusive("\r\n").filter(|line| !line.starts_with("Record-Route:")).collect();
        assert!(bare.len() < whole.len(), "{whole}");
        bed.receive(sent.listener, sent.to, bare.as_bytes());
        assert_eq!(told(&mut bed), Vec::from_iter(is_told.then_some(sent.to)), "{name}");
    }
}
