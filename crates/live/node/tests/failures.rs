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
fn reported(bed: &mut Bed) -> Vec<(String, String, SocketAddr, FailureCause)> {
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
fn refusals_of_a_member_are_reported_and_challenges_are_not() {
    let mut bed = bed();
    for (call, status, is_reported) in [
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
        assert_eq!(reported(&mut bed), Vec::from_iter(is_reported.then_some(wanted)), "{status}");
    }
}

#[test]
fn local_refusals_and_drops_are_reported_with_the_rule() {
    let mut bed = bed();
    let late = Req { max_forwards: Some(0), ..Req::new("INVITE", "late", client()) };
    bed.receive(0, client(), &late.bytes());
    let refused = FailureCause::Refused { status: 483, reason: "Too Many Hops" };
    assert_eq!(reported(&mut bed), [("INVITE".to_owned(), "late".to_owned(), client(), refused)]);
    bed.receive(0, client(), b"nonsense");
    let unreadable = FailureCause::Dropped(Drop::Unreadable(wire::Discard::NotSip));
    assert_eq!(reported(&mut bed), [(String::new(), String::new(), client(), unreadable)]);
    bed.receive(0, client(), b"\r\n\r\n");
    assert_eq!(reported(&mut bed), [], "a keep-alive is no failure");
}

#[test]
fn nothing_is_reported_unless_enabled() {
    let mut bed = Bed::new(Site::plain());
    let late = Req { max_forwards: Some(0), ..Req::new("INVITE", "late", client()) };
    bed.receive(0, client(), &late.bytes());
    assert_eq!(bed.events, []);
}

#[test]
fn an_exhausted_pool_is_reported_once_a_second() {
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
fn a_node_without_record_route_is_reported_once() {
    let mut bed = Bed::new(Site::plain());
    let reported = |bed: &mut Bed| {
        let unrecorded = |event| if let ShardEvent::NoRecordRoute(node) = event { Some(node) } else { None };
        bed.events.drain(..).filter_map(unrecorded).collect::<Vec<_>>()
    };
    let call = Dialog::inbound(&mut bed, "well", client(), 0);
    call.caller_asks(&mut bed, "ACK", 1);
    // Within a dialog there is no Record-Route to copy.
    call.caller_asks(&mut bed, "INVITE", 2);
    assert_eq!(reported(&mut bed), []);
    for (name, is_reported) in [("first", true), ("second", false)] {
        let sent = bed.one(0, client(), &Req::new("INVITE", name, client()).bytes());
        let whole = string(&answer(&sent.bytes, addr(PROXY), 200, sent.to));
        let bare: String =
            whole.split_inclusive("\r\n").filter(|line| !line.starts_with("Record-Route:")).collect();
        assert!(bare.len() < whole.len(), "{whole}");
        bed.receive(sent.listener, sent.to, bare.as_bytes());
        assert_eq!(reported(&mut bed), Vec::from_iter(is_reported.then_some(sent.to)), "{name}");
    }
}
