//! Next hops with `forward = "dialog"`: calls are known from INVITE to BYE, on bytes (RFC 3261 §12, RFC 4028 §8).

use crate::common::{ProxyBed as Bed, answered, record, records, *};
use dialog::session_timer::SessionTimer;
use dialog::{CallRecord, CallSettings, CallStart, Cause, DialogSide, RecordEvent};

/// The time that a call is watched, plus an hour.
const DAY: Duration = Duration::from_hours(25);

const DIALOG: Service = Service::Calls(Spread::Found);

fn bed_with(settings: &DialogSettings) -> Bed {
    let mut bed = Bed::plain().with_mode(DIALOG);
    keep_dialogs(&mut bed, settings.clone());
    bed
}

fn bed() -> Bed {
    bed_with(&DialogSettings { pools: vec!["phones".to_owned()], ..DialogSettings::default() })
}

fn timed(expires: u32, least: u32) -> Bed {
    let session = SessionTimer { expires: Some(expires), least };
    bed_with(&DialogSettings { session, ..DialogSettings::default() })
}

#[test]
fn a_call_is_recorded_when_its_bye_is_answered() {
    let mut bed = bed();
    let invite = Req::new("INVITE", "call", client());
    let at_hop = bed.invite(&invite);
    let began = bed.now;
    bed.wait(Duration::from_secs(2));
    answered(&mut bed, &at_hop, 180);
    let rang = bed.now;
    bed.wait(Duration::from_secs(3));
    let ok = answered(&mut bed, &at_hop, 200);
    let accepted = bed.now;
    let call = Dialog::of(&at_hop, &ok);
    answered(&mut bed, &at_hop, 200);
    bed.one(client(), &call.by_caller("ACK", 1).bytes());
    bed.wait(Duration::from_mins(1));
    let calls = bed.shard.proxy_report().and_then(|report| report.calls).expect("dialogs are kept");
    assert_eq!((calls.ringing, calls.answered), (0, 1));
    let at_caller = bed.one(at_hop.to, &call.by_callee("BYE", 1).line("Reason: Q.850;cause=16").bytes());
    let ended = bed.now;
    assert_eq!(records(&mut bed), []);
    bed.wait(Duration::from_millis(200));
    let done = answered(&mut bed, &at_caller, 200);
    assert_eq!((done.status(), done.to), (200, at_hop.to));
    let call_record = record(&mut bed);
    assert_eq!(
        (call_record.event, call_record.cause, call_record.by),
        (RecordEvent::Ended, Some(Cause::Bye), Some(DialogSide::Callee))
    );
    assert_eq!(
        (call_record.began, call_record.rang, call_record.ended),
        (CallStart::Seen(began), Some(rang), ended)
    );
    assert_eq!(call_record.accepted.as_ref().and_then(|by| by.at), Some(accepted));
    assert_eq!(
        (call_record.status, call_record.bye_status, call_record.peer),
        (200, 200, Some(addr(HOPS[0])))
    );
    let about = &call_record.about;
    assert_eq!((about.call_id(), about.tag(), about.source), (&b"call"[..], &b"alice"[..], Some(client())));
    assert_eq!((about.from(), about.to()), (&b"sip:alice@127.0.0.1"[..], &b"sip:bob@pool.example"[..]));
    assert_eq!((about.uri(), about.pool()), (&b"sip:bob@pool.example"[..], &b"phones"[..]));
    assert_eq!(&*call_record.reason, b"Q.850;cause=16");
    bed.assert_forgets();
    assert_eq!(records(&mut bed), []);
}

#[test]
fn a_record_counts_the_hops_that_got_the_invite() {
    let mut bed = Bed::two_hops().with_mode(DIALOG);
    keep_dialogs(&mut bed, DialogSettings::default());
    let first = bed.invite(&Req::new("INVITE", "call", client()));
    let [second] = &bed.unreachable(first.to, &first.bytes[..200])[..] else { panic!("a retry") };
    assert_ne!(second.to, first.to);
    respond(&mut bed, second, 486);
    let call_record = record(&mut bed);
    assert_eq!((call_record.status, call_record.attempts), (486, 2));
}

#[test]
fn a_refusal_a_challenge_and_a_cancel() {
    let mut bed = bed();
    for (call_id, status) in [("busy", 486), ("asked", 407), ("away", 480)] {
        let at_hop = bed.invite(&Req::new("INVITE", call_id, client()));
        let refusal = answer(&at_hop.bytes, addr(PROXY), status, at_hop.to);
        bed.receive(0, at_hop.to, &refusal);
        bed.receive(0, at_hop.to, &refusal);
    }
    let call_record: Vec<_> = records(&mut bed)
        .into_iter()
        .map(|record| (record.status, record.cause, record.by, record.peer))
        .collect();
    let by_callee = |status| (status, Some(Cause::Refused), Some(DialogSide::Callee), Some(addr(HOPS[0])));
    assert_eq!(call_record, [by_callee(486), by_callee(480)]);
    let invite = Req::new("INVITE", "gone", client());
    let at_hop = bed.invite(&invite);
    answered(&mut bed, &at_hop, 180);
    let cancel = invite.same_branch("CANCEL", None).line("Reason: SIP;cause=200;text=\"elsewhere\"");
    bed.receive(0, client(), &cancel.bytes());
    respond(&mut bed, &at_hop, 487);
    let call_record = record(&mut bed);
    assert_eq!(
        (call_record.status, call_record.cause, call_record.by),
        (487, Some(Cause::Cancelled), Some(DialogSide::Caller))
    );
    assert_eq!(&*call_record.reason, b"SIP;cause=200;text=\"elsewhere\"");
    // A hop that does not respond: Timer B.
    bed.invite(&Req::new("INVITE", "silence", client()));
    bed.wait(Duration::from_secs(40));
    let call_record = record(&mut bed);
    assert_eq!(
        (call_record.status, call_record.cause, call_record.by),
        (408, Some(Cause::Refused), Some(DialogSide::Proxy))
    );
    bed.assert_forgets();
}

#[test]
fn after_a_restart_the_call_is_found_again_by_its_token() {
    for by_caller in [true, false] {
        let mut before = bed();
        let call = before.call("call");
        let mut bed = bed();
        bed.now = before.now + Duration::from_secs(100);
        let (bye, from) = if by_caller {
            (call.by_caller("BYE", 7), client())
        } else {
            let (from, to) = ("<sip:bob@pool.example>".to_owned(), "<sip:alice@127.0.0.1>".to_owned());
            (Req { from, to, ..call.by_callee("BYE", 1) }, addr(HOPS[0]))
        };
        asked(&mut bed, from, &bye, 200);
        let call_record = record(&mut bed);
        assert!(call_record.is_found_again());
        assert_eq!(call_record.began, CallStart::Token(1_800_000_001));
        assert_eq!((call_record.cause, call_record.by), (Some(Cause::Bye), Some(DialogSide::of(by_caller))));
        let about = &call_record.about;
        assert_eq!((about.call_id(), about.tag()), (&b"call"[..], &b"alice"[..]));
        assert_eq!((about.from(), about.to()), (&b"sip:alice@127.0.0.1"[..], &b"sip:bob@pool.example"[..]));
        assert_eq!(call_record.accepted.map(|by| by.tag), Some(b"bob"[..].into()));
        // A retransmission of the BYE creates no second record.
        bed.receive(0, from, &bye.bytes());
        bed.assert_forgets();
        assert_eq!(records(&mut bed), []);
    }
}

/// A BYE from a client without Record-Route. Any element may have answered it, so it ends the call only if nothing
/// follows.
#[test]
fn a_bye_without_a_route_is_watched() {
    for by_caller in [true, false] {
        let mut bed = bed();
        let call = bed.call("call");
        let (bye, from) = if by_caller {
            (call.by_caller("BYE", 2), client())
        } else {
            (call.by_callee("BYE", 1), addr("127.0.9.2:6000"))
        };
        asked(&mut bed, from, &Req { routes: Vec::new(), ..bye }, 200);
        let call_record = record(&mut bed);
        assert_eq!((call_record.cause, call_record.by), (Some(Cause::Bye), Some(DialogSide::of(by_caller))));
        assert!(!call_record.is_final);
        bed.wait(DAY);
        assert_eq!(record(&mut bed), CallRecord { is_final: true, ..call_record });
        bed.assert_forgets();
    }
    // No state is created for an unknown dialog.
    let mut bed = bed();
    let stranger = Req::new("BYE", "other", client());
    let stranger = Req { to_tag: Some("bob".to_owned()), ..stranger };
    bed.receive(0, client(), &stranger.bytes());
    bed.assert_forgets();
    assert_eq!(records(&mut bed), []);
}

/// The token of a call in another mode says nothing about dialogs, so the call does not change to this mode.
#[test]
fn a_call_that_began_without_kept_dialogs_ends_without_them() {
    let mut before = Bed::plain();
    let call = before.call("call");
    let mut bed = bed();
    asked(&mut bed, client(), &call.by_caller("BYE", 2), 200);
    assert_eq!(records(&mut bed), []);
}

/// [8.1-2] [8.2-2] [8.2-3] [8.3-1]
#[test]
fn a_session_timer_is_requested_and_watched() {
    let mut bed = timed(600, 90);
    let invite = Req::new("INVITE", "call", client()).line("Supported: timer, path");
    let at_hop = bed.invite(&invite);
    assert_eq!(at_hop.message().header("Session-Expires"), Some(&b"600"[..]));
    assert_eq!(at_hop.message().header("Min-SE"), None);
    // The callee knows no timers, so the caller refreshes.
    let ok = answered(&mut bed, &at_hop, 200);
    assert_eq!(ok.message().header("Session-Expires"), Some(&b"600;refresher=uac"[..]));
    assert_eq!(ok.message().header("Require"), Some(&b"timer"[..]));
    let call = Dialog::of(&at_hop, &ok);
    bed.wait(Duration::from_secs(500));
    let update =
        call.by_caller("UPDATE", 2).line("Supported: timer").line("Session-Expires: 900;refresher=uac");
    let forwarded = bed.one(client(), &update.bytes());
    assert_eq!(forwarded.message().header("Session-Expires"), Some(&b"600;refresher=uac"[..]));
    let answer = answer_with(
        &forwarded.bytes,
        addr(PROXY),
        200,
        forwarded.to,
        &[("Session-Expires", "300;refresher=uac")],
    );
    let ok = bed.one(forwarded.to, &answer);
    assert_eq!(ok.message().headers("Session-Expires").count(), 1);
    bed.wait(Duration::from_secs(299));
    assert_eq!(records(&mut bed), []);
    let sent = bed.wait(Duration::from_secs(2));
    assert_eq!(sent, [], "§8.3: no BYE of ours");
    let call_record = record(&mut bed);
    assert_eq!((call_record.cause, call_record.is_final), (Some(Cause::SessionExpired), false));
    bed.wait(DAY);
    assert_eq!(record(&mut bed), CallRecord { is_final: true, ..call_record });
    bed.assert_forgets();
}

#[test]
fn a_session_interval_that_is_too_small_is_refused_or_raised() {
    let mut bed = timed(1800, 120);
    let invite = Req::new("INVITE", "call", client()).line("Session-Expires: 100");
    let refused = bed.one(client(), &invite.clone().line("Supported: timer").bytes());
    assert_eq!((refused.status(), refused.message().header("Min-SE")), (422, Some(&b"120"[..])));
    let at_hop = bed.invite(&invite);
    assert_eq!(at_hop.message().header("Session-Expires"), Some(&b"120"[..]));
    assert_eq!(at_hop.message().header("Min-SE"), Some(&b"120"[..]));
    let ok = answered(&mut bed, &at_hop, 200);
    assert_eq!(ok.message().header("Session-Expires"), None, "neither side knows timers");
}

/// [12.1.1-1] [12.1.2-1] [12.2.1.1-1] [12.2.1.1-2]
#[test]
fn a_call_at_its_time_limit_gets_a_bye_on_both_sides() {
    let calls = CallSettings { longest: Some(Duration::from_mins(1)), ..CallSettings::default() };
    let mut bed = bed_with(&DialogSettings { calls, ..DialogSettings::default() });
    let upstream = "<sip:192.0.2.77;lr>, <sip:192.0.2.78;lr>";
    let invite = Req::new("INVITE", "call", client()).line(&format!("Record-Route: {upstream}"));
    let at_hop = bed.invite(&invite);
    let above = "Record-Route: <sip:127.0.1.8;lr>, <sip:127.0.1.7;lr>\r\n";
    let own = at_hop.message().record_routes().next().map(|value| value.uri.to_vec()).expect("ours");
    let own = format!("Record-Route: <{}>\r\n", String::from_utf8(own).expect("ASCII"));
    let contact = addr("127.0.1.9:5062");
    let ok = answer_with(&at_hop.bytes, addr(PROXY), 200, contact, &[]);
    let ok = String::from_utf8(ok).expect("ASCII").replacen(&own, &format!("{above}{own}"), 1);
    assert!(ok.contains(above), "{ok}");
    bed.one(at_hop.to, ok.as_bytes());
    bed.wait(Duration::from_secs(59));
    assert_eq!(records(&mut bed), []);
    let sent = bed.wait(Duration::from_secs(2));
    let byes: Vec<_> = sent.iter().map(|sent| (sent.to, sent.message().method())).collect();
    let bye = Some(Method::Bye);
    assert_eq!(byes[..2], [(addr("192.0.2.77:5060"), bye), (addr("127.0.1.7:5060"), bye)]);
    let (to_caller, to_callee) = (sent[0].message(), sent[1].message());
    assert_eq!(to_caller.header("Route"), Some(upstream.as_bytes()));
    assert_eq!(to_callee.header("Route"), Some(&b"<sip:127.0.1.7;lr>, <sip:127.0.1.8;lr>"[..]));
    assert_eq!(to_callee.uri(), Some(&b"sip:127.0.1.9:5062"[..]));
    assert_eq!((to_caller.from_tag(), to_caller.to_tag()), (Some(&b"bob"[..]), Some(&b"alice"[..])));
    assert_eq!((to_callee.from_tag(), to_callee.to_tag()), (Some(&b"alice"[..]), Some(&b"bob"[..])));
    assert_eq!((to_callee.cseq().number, to_callee.call_id()), (2, &b"call"[..]));
    let call_record = record(&mut bed);
    assert_eq!((call_record.cause, call_record.by), (Some(Cause::TimeLimit), Some(DialogSide::Proxy)));
    // The responses to the BYEs end here.
    for sent in &sent[..2] {
        let done = answer(&sent.bytes, addr(PROXY), 200, sent.to);
        assert_eq!(bed.receive(0, sent.to, &done), []);
    }
    bed.assert_forgets();
    assert_eq!(records(&mut bed), []);
}

/// Returns the load that the balancer counts, in a pool that counts calls.
fn load(bed: &Bed) -> Load {
    assert_eq!(bed.shard.audit(), Ok(()));
    bed.shard.balancer().load(Slot(0)).own
}

/// A refused CANCEL (RFC 3261 §16.3) cancels nothing. Otherwise its sender could remove a ringing call from its
/// member's load.
#[test]
fn a_refused_cancel_cancels_nothing() {
    let mut bed = bed().with_mode(Service::Calls(Spread::Counted));
    let invite = Req::new("INVITE", "call", client());
    let at_hop = bed.invite(&invite);
    answered(&mut bed, &at_hop, 180);
    let (cancel, before) = (invite.same_branch("CANCEL", None), load(&bed));
    let refused = bed.one(client(), &Req { max_forwards: Some(0), ..cancel }.bytes());
    assert_eq!((refused.to, refused.status()), (client(), 483));
    bed.wait(Duration::from_secs(100));
    assert_eq!((load(&bed), before.calls), (before, 1), "the call still rings");
    respond(&mut bed, &at_hop, 486);
    let call_record = record(&mut bed);
    assert_eq!(
        (call_record.status, call_record.cause, call_record.by),
        (486, Some(Cause::Refused), Some(DialogSide::Callee))
    );
    bed.assert_forgets();
}

/// A call that this process ends is no load any more, as after a BYE. Otherwise it would fill a limit of calls.
#[test]
fn a_call_ended_by_the_proxy_is_no_load() {
    let longest = CallSettings { longest: Some(Duration::from_mins(10)), ..CallSettings::default() };
    let silence = CallSettings { silence: Duration::from_mins(8), ..CallSettings::default() };
    let (limit, silence) =
        [longest, silence].map(|calls| DialogSettings { calls, ..Default::default() }).into();
    let session = SessionTimer { expires: Some(300), least: 90 };
    let expiring = DialogSettings { session, ..DialogSettings::default() };
    let why = [(limit, Cause::TimeLimit), (expiring, Cause::SessionExpired), (silence, Cause::Lost)];
    for (settings, cause) in why {
        let mut bed = bed_with(&settings).with_mode(Service::Calls(Spread::Counted));
        for number in 0..20 {
            let invite = Req::new("INVITE", &format!("call-{number}"), client()).line("Supported: timer");
            let at_hop = bed.invite(&invite);
            let ok = answered(&mut bed, &at_hop, 200);
            let call = Dialog::of(&at_hop, &ok);
            bed.one(client(), &call.by_caller("ACK", 1).bytes());
        }
        bed.wait(Duration::from_mins(2));
        assert_eq!(load(&bed), Load { calls: 20, ..Load::default() });
        bed.wait(Duration::from_mins(9));
        assert!(records(&mut bed).iter().all(|record| record.cause == Some(cause)));
        assert_eq!(load(&bed), Load::default(), "{cause:?}");
        bed.wait(Duration::from_mins(1));
        assert_eq!(bed.shard.balancer().counts(), balance::TableCounts::default(), "{cause:?}");
    }
}

/// The BYE will not pass this proxy, so the call counts until it is answered.
#[test]
fn an_answered_call_without_record_route_is_no_load() {
    let mode = Service::Proxy { spread: Spread::Counted, record_route: false };
    let mut bed = Bed::plain().with_mode(mode);
    for status in [200, 486] {
        let at_hop = bed.invite(&Req::new("INVITE", &format!("left-{status}"), client()));
        answered(&mut bed, &at_hop, 180);
        assert_eq!((load(&bed).calls, load(&bed).transactions), (1, 1));
        respond(&mut bed, &at_hop, status);
        assert_eq!(load(&bed), Load::default(), "{status}");
    }
    bed.wait(Duration::from_mins(2));
    assert_eq!(bed.shard.balancer().counts(), balance::TableCounts::default());
}
