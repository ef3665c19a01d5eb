//! Overload control at the gate: requests that a busy shard refuses, and those that it never refuses.

use crate::common::*;
use node::{OverloadControl, OverloadCounts};
use overload::{LocalLaw, MessageClass, OverloadSettings};
use route::Network;

const SERVICES: [Service; 4] = [Service::Balance, Service::BalanceTransactions, Service::HOPS, STATELESS];

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn judged(bed: &mut ProxyBed) -> (OverloadCounts, OverloadCounts) {
    let now = bed.now;
    let report = bed.shard.overload_report(now);
    (report.usual, report.priority)
}

/// Returns the status of a request while messages wait this long; `None`: it is forwarded.
fn refusal(bed: &mut ProxyBed, millis: u64, request: &Req) -> Option<u16> {
    waited(bed, ms(millis));
    let sent = bed.receive(0, client(), &request.bytes());
    let status = sent.iter().find(|sent| sent.to == client()).map(Sent::status);
    status.filter(|status| *status != 100)
}

#[test]
fn a_new_request_that_waited_too_long_is_refused() {
    for service in SERVICES {
        let mut bed = ProxyBed::plain().with_mode(service);
        waited(&mut bed, ms(126));
        let invite = Req::new("INVITE", "call", client());
        let refusal = bed.one(client(), &invite.bytes());
        assert_eq!((refusal.to, refusal.status()), (client(), 503), "{service:?}");
        assert!(refusal.message().header("Retry-After").is_none(), "the refusal concerns only this request");
        let tag = testkit::tag(&refusal.bytes, "To");
        let ack = invite.same_branch("ACK", tag.as_deref());
        assert!(bed.receive(0, client(), &ack.bytes()).is_empty(), "{service:?}: its ACK ends here");
        assert_eq!(judged(&mut bed).0, OverloadCounts { offered: 1, refused: 1 });
        assert_eq!(bed.shard.tickets().given(), 0, "a refused request has no ticket");
        waited(&mut bed, ms(0));
        let copy = bed.one(client(), &invite.bytes());
        assert_eq!(
            (copy.to, copy.status()),
            (client(), 503),
            "{service:?}: its caller has given up the call"
        );
        bed.invite(&Req::new("INVITE", "another", client()));
        assert_eq!(bed.shard.tickets().given(), 1, "{service:?}: calm again");
        bed.shard.audit().expect("leases and tickets agree");
    }
}

/// Requests of a source above its limit do not cause refusals of other sources.
#[test]
fn a_source_above_its_limit_is_refused_before_overload_control() {
    let mut bed = ProxyBed::plain().with_mode(Service::Balance);
    bed.set(|setup| setup.settings.rates = RateSettings { refusal: AccessRefusal::Forbidden, ..rate(0, 1) });
    waited(&mut bed, ms(126));
    for (call, status) in [503, 403, 403, 403].into_iter().enumerate() {
        let refusal = bed.one(client(), &Req::new("INVITE", &format!("flood-{call}"), client()).bytes());
        assert_eq!(refusal.status(), status);
    }
    assert_eq!(judged(&mut bed).0.offered, 1);
}

/// Probes and emergency calls have their own order of service, so their waits say nothing about other requests.
#[test]
fn short_waits_of_other_classes_do_not_end_the_law() {
    let mut bed = ProxyBed::plain();
    let mut wait = |class, millis| {
        let waited = Duration::from_millis(millis);
        bed.input(ShardInput::Waited { waited, queue: 0, class });
        bed.now += Duration::from_millis(20);
        let now = bed.now;
        bed.shard.overload_report(now).acceptance
    };
    for _ in 0..10 {
        wait(MessageClass::NewInvite, 160);
        wait(MessageClass::Priority, 1);
        wait(MessageClass::Probe, 1);
    }
    assert!(wait(MessageClass::NewInvite, 160) < 0.1, "the law is in force");
    assert!(wait(MessageClass::Priority, 1) > 0.9, "an emergency call is judged by its own wait");
}

#[test]
fn requests_of_a_call_are_never_refused() {
    for service in SERVICES {
        let mut bed = ProxyBed::plain().with_mode(service);
        let call = bed.call("call");
        let ringing = Req::new("INVITE", "ringing", client());
        let at_hop = bed.invite(&ringing);
        for (case, request) in [
            ("a retransmission", ringing.clone()),
            ("a re-INVITE", call.by_caller("INVITE", 2)),
            ("an ACK", call.by_caller("ACK", 2)),
            ("an OPTIONS within the dialog", call.by_caller("OPTIONS", 3)),
            ("a BYE", call.by_caller("BYE", 4)),
            ("a CANCEL", ringing.same_branch("CANCEL", None)),
        ] {
            let status = refusal(&mut bed, 60_000, &request).filter(|status| *status != 200);
            assert_eq!(status, None, "{service:?}: {case}");
        }
        waited(&mut bed, ms(60_000));
        let back = respond(&mut bed, &at_hop, 487);
        assert!(back.iter().any(|sent| sent.to == client() && sent.status() == 487), "{service:?}");
        assert_eq!(judged(&mut bed).0.refused, 0, "{service:?}");
    }
}

#[test]
fn explain_names_the_law_and_the_wait() {
    let mut bed = ProxyBed::plain().with_mode(Service::Balance);
    let invite = Req::new("INVITE", "call", client()).bytes();
    waited(&mut bed, ms(126));
    let why = bed.explain(client(), &invite).expect_err("the INVITE is refused");
    assert!(
        why.contains("as 100 % of new requests now: controller `delay`") && why.contains("wait 126 ms"),
        "{why}"
    );
    bed.now += Duration::from_millis(126);
    bed.explain(client(), &invite).expect("the wait is over by then");
}

#[test]
fn between_both_waits_a_share_is_admitted() {
    let mut bed = ProxyBed::plain().with_mode(Service::Balance);
    let mut taken = |millis| {
        let call = |at: &u32| Req::new("INVITE", &format!("{millis}-{at}"), client());
        (0..400).filter(|at| refusal(&mut bed, millis, &call(at)).is_none()).count()
    };
    assert_eq!((taken(62), taken(126)), (400, 0));
    assert!(taken(94).abs_diff(200) < 60);
}

#[test]
fn emergency_calls_and_priority_of_neighbours_wait_twice_as_long() {
    let mut bed = ProxyBed::plain().with_mode(STATELESS);
    let sos = |call| Req { uri: "urn:service:sos.fire".to_owned(), ..Req::new("INVITE", call, client()) };
    assert_eq!(refusal(&mut bed, 124, &sos("1")), None);
    assert_eq!(refusal(&mut bed, 251, &sos("2")), Some(503));
    let first = |call| Req::new("INVITE", call, client()).with("Resource-Priority", "ets.0");
    assert_eq!(
        refusal(&mut bed, 126, &first("3")),
        Some(503),
        "the priority of other senders does not count"
    );
    let neighbours = Box::new([Network::host(client().ip())]);
    bed.set(|setup| setup.settings.overload.neighbours = neighbours);
    assert_eq!(refusal(&mut bed, 124, &first("4")), None);
    assert_eq!(refusal(&mut bed, 126, &Req::new("INVITE", "5", client())), Some(503));
    let (_, priority) = judged(&mut bed);
    assert_eq!(priority, OverloadCounts { offered: 3, refused: 1 });
}

#[test]
fn a_late_emergency_call_is_served_if_the_controller_allows() {
    let mut bed = ProxyBed::plain().with_mode(STATELESS);
    // A law that uses the load of the thread, which is zero here, so only the rules of the queue refuse.
    bed.set(|setup| {
        setup.settings.overload.laws.local =
            LocalLaw::Occupancy(overload::local::occupancy::OccupancySettings::default());
    });
    assert!(bed.shard.busy_deadline().is_some());
    assert_eq!(refusal(&mut bed, 499, &Req::new("INVITE", "1", client())), None);
    assert_eq!(refusal(&mut bed, 500, &Req::new("INVITE", "2", client())), Some(503));
    let sos = Req { uri: "urn:service:sos".to_owned(), ..Req::new("INVITE", "3", client()) };
    assert_eq!(refusal(&mut bed, 500, &sos), None);
}

#[test]
fn without_a_law_nothing_is_refused_and_a_reload_changes_the_law() {
    let mut bed = ProxyBed::plain().with_mode(Service::Balance);
    bed.set(|setup| {
        let laws = OverloadSettings::default();
        setup.settings.overload = OverloadControl { laws, neighbours: Box::default() };
    });
    assert_eq!(refusal(&mut bed, 60_000, &Req::new("INVITE", "1", client())), None);
    bed.set(|setup| setup.settings.overload = OverloadControl::default());
    assert_eq!(refusal(&mut bed, 60_000, &Req::new("INVITE", "2", client())), Some(503));
}
