//! Next hops with `forward = "dialog"`: parties that try to shorten the record of their call, and proof of a call's
//! end.

use crate::common::{ProxyBed as Bed, answered, record, records, *};
use dialog::session_timer::SessionTimer;
use dialog::{CallRecord, CallSettings, Cause, DialogSide};

const DIALOG: Service = Service::Calls(Spread::Found);

/// An address that answers whatever the caller wants.
const ACCOMPLICE: &str = "203.0.113.66:5060";

fn bed() -> Bed {
    bed_with(&DialogSettings::default())
}

fn bed_with(settings: &DialogSettings) -> Bed {
    let mut bed = Bed::two_hops().with_mode(DIALOG);
    keep_dialogs(&mut bed, settings.clone());
    bed
}

/// A call whose callee is behind a proxy of its own.
fn call_through_a_proxy(bed: &mut Bed) -> Dialog {
    let at_hop = bed.invite(&Req::new("INVITE", "call", client()));
    let own = at_hop.message().record_routes().next().map(|value| value.uri.to_vec()).expect("ours");
    let own = format!("Record-Route: <{}>\r\n", String::from_utf8(own).expect("ASCII"));
    let above = format!("Record-Route: <sip:{};lr>\r\n", at_hop.to);
    let ok = answer(&at_hop.bytes, addr(PROXY), 200, addr("127.0.1.9:5062"));
    let ok = String::from_utf8(ok).expect("ASCII").replacen(&own, &format!("{above}{own}"), 1);
    let ok = bed.one(at_hop.to, ok.as_bytes());
    Dialog::of(&at_hop, &ok)
}

fn calls(bed: &Bed) -> (usize, usize) {
    let calls = bed.shard.proxy_report().and_then(|report| report.calls).expect("dialogs are kept");
    (calls.answered, calls.watched)
}

/// Both sides continue for 50 minutes (tokens last an hour here), then the callee sends BYE. A cheating caller answers
/// it with `status`, as if the call were unknown.
fn talk_for_long(bed: &mut Bed, call: &Dialog, status: u16) {
    bed.wait(Duration::from_mins(50));
    let ended = bed.now;
    let at_caller = bed.one(addr(HOPS[0]), &call.by_callee("BYE", 1).bytes());
    answered(bed, &at_caller, status);
    let call_record = record(bed);
    assert_eq!(
        (call_record.ended, call_record.by, call_record.is_final),
        (ended, Some(DialogSide::Callee), true)
    );
    bed.assert_forgets();
    assert_eq!(records(bed), []);
}

/// [15.1.1-1] A BYE that another element answers does not end the call. It goes by token to another next hop, to
/// another user, by a Route to a third party, or without a Route.
#[test]
fn a_bye_answered_by_another_element_ends_no_call() {
    let elsewhere = format!("sip:me@{ACCOMPLICE}");
    for status in [200, 481] {
        for way in ["hop", "user", "route", "without route"] {
            let mut bed = bed();
            let call = call_through_a_proxy(&mut bed);
            let bye = call.by_caller("BYE", 2);
            let bye = match way {
                "hop" => {
                    let is_other = |hop: &&str| !bye.routes[1].contains(*hop);
                    let other = HOPS.into_iter().find(is_other).expect("there are two hops");
                    Req { uri: format!("sip:x@{other}"), routes: bye.routes[..1].to_vec(), ..bye }
                }
                "user" => Req { uri: elsewhere.clone(), ..bye },
                "route" => {
                    let routes = [&bye.routes[..], &[format!("<{elsewhere};lr>")]].concat();
                    Req { routes, ..bye }
                }
                _ => Req { routes: Vec::new(), ..bye },
            };
            asked(&mut bed, client(), &bye, status);
            let call_record = record(&mut bed);
            assert_eq!((call_record.by, call_record.bye_status), (Some(DialogSide::Caller), status), "{way}");
            assert!(!call_record.is_final, "{way}");
            assert_eq!(calls(&bed), (0, 1), "{way}");
            talk_for_long(&mut bed, &call, 481);
        }
    }
}

#[test]
fn a_bye_that_reaches_the_callee_through_its_proxy_ends_the_call() {
    for by_caller in [true, false] {
        let mut bed = bed();
        let call = call_through_a_proxy(&mut bed);
        let (bye, from) = if by_caller {
            (call.by_caller("BYE", 2), client())
        } else {
            (call.by_callee("BYE", 1), addr(HOPS[0]))
        };
        asked(&mut bed, from, &bye, 200);
        assert!(record(&mut bed).is_final);
        bed.assert_forgets();
        assert_eq!(records(&mut bed), []);
    }
}

/// A re-INVITE that an accomplice answers does not make the accomplice the callee.
#[test]
fn another_element_does_not_become_the_callee() {
    let mut bed = bed();
    let call = call_through_a_proxy(&mut bed);
    let elsewhere = |req: Req| Req { uri: format!("sip:me@{ACCOMPLICE}"), ..req };
    let mut sent = bed.receive(0, client(), &elsewhere(call.by_caller("INVITE", 2)).bytes());
    let forwarded = sent.pop().expect("the request is forwarded");
    bed.one(forwarded.to, &answer(&forwarded.bytes, addr(PROXY), 200, addr(ACCOMPLICE)));
    asked(&mut bed, client(), &elsewhere(call.by_caller("BYE", 3)), 200);
    assert!(!record(&mut bed).is_final);
    talk_for_long(&mut bed, &call, 481);
    // The callee itself may move.
    let mut bed = self::bed();
    let call = call_through_a_proxy(&mut bed);
    let mut sent = bed.receive(0, client(), &call.by_caller("INVITE", 2).bytes());
    let forwarded = sent.pop().expect("the request is forwarded");
    bed.one(forwarded.to, &answer(&forwarded.bytes, addr(PROXY), 200, addr("127.0.1.10:5062")));
    let moved = Req { uri: "sip:127.0.1.10:5062".to_owned(), ..call.by_caller("BYE", 3) };
    asked(&mut bed, client(), &moved, 200);
    assert!(record(&mut bed).is_final);
}

/// A request that the other side accepts reopens a call, with any method. A request alone does not.
#[test]
fn an_accepted_request_reopens_a_call() {
    for method in ["INFO", "UPDATE", "OPTIONS"] {
        let mut bed = bed();
        let call = bed.call("call");
        asked(&mut bed, client(), &call.by_caller("BYE", 2), 481);
        assert!(!record(&mut bed).is_final);
        bed.wait(Duration::from_mins(1));
        asked(&mut bed, client(), &call.by_caller(method, 3), 481);
        assert_eq!((records(&mut bed), calls(&bed)), (vec![], (0, 1)), "{method}");
        asked(&mut bed, addr(HOPS[0]), &call.by_callee(method, 4), 200);
        let call_record = record(&mut bed);
        assert_eq!(
            (call_record.cause, call_record.ended, call_record.is_final),
            (Some(Cause::Reopened), bed.now, false)
        );
        assert_eq!(calls(&bed), (1, 0), "{method}");
        asked(&mut bed, client(), &call.by_caller("BYE", 5), 200);
        let call_record = record(&mut bed);
        assert_eq!((call_record.ended, call_record.is_final), (bed.now, true));
        bed.assert_forgets();
    }
}

/// After any refusal of its BYE the sender regards the call as ended, so the record is written at once. Here the target
/// is unreachable (§16.9, §16.7 step 6: 503 becomes 500), Max-Forwards is 0, or the target is not of the dialog.
#[test]
fn a_bye_answered_by_this_proxy_has_its_record() {
    for (status, change) in [(500, "none"), (483, "hops"), (403, "target")] {
        let mut bed = bed();
        let call = bed.call("call");
        let bye = call.by_caller("BYE", 2);
        let bye = match change {
            "hops" => Req { max_forwards: Some(0), ..bye },
            "target" => Req { uri: format!("sip:me@{ACCOMPLICE}"), ..bye },
            _ => bye,
        };
        let (sent, since) = (bed.one(client(), &bye.bytes()), bed.now);
        let answer = if sent.to == client() {
            sent
        } else {
            let mut call_record = bed.unreachable(sent.to, &sent.bytes);
            call_record.remove(0)
        };
        assert_eq!((answer.to, answer.status()), (client(), status));
        let call_record = record(&mut bed);
        assert_eq!((call_record.ended, call_record.bye_status, call_record.is_final), (since, status, false));
        assert_eq!(calls(&bed), (0, 1), "{status}");
        bed.receive(0, client(), &bye.bytes());
        assert_eq!(records(&mut bed), [], "a repeated BYE writes no record");
        bed.wait(Duration::from_hours(25));
        assert_eq!(record(&mut bed), CallRecord { is_final: true, ..call_record });
        bed.assert_forgets();
    }
}

/// A caller invents the end of a call and continues until the time limit. The callee still has the call, and proves it
/// by accepting the BYE of this proxy.
#[test]
fn the_record_of_a_call_at_its_time_limit_has_its_full_duration() {
    for goes_on in [true, false] {
        let settings = CallSettings { longest: Some(Duration::from_mins(10)), ..CallSettings::default() };
        let mut bed = bed_with(&DialogSettings { calls: settings, ..DialogSettings::default() });
        let call = bed.call("call");
        let began = bed.now;
        let bye = Req { max_forwards: Some(0), ..call.by_caller("BYE", 2) };
        bed.one(client(), &bye.bytes());
        let first = record(&mut bed);
        let byes: Vec<_> = bed.wait(Duration::from_secs(601)).into_iter().take(2).collect();
        assert!(byes.iter().all(|sent| sent.message().method() == Some(Method::Bye)));
        let to_callee = byes.iter().find(|sent| sent.to == call.callee.at).expect("the callee gets a BYE");
        let (status, headers) = (if goes_on { 200 } else { 481 }, []);
        bed.receive(
            0,
            to_callee.to,
            &answer_with(&to_callee.bytes, addr(PROXY), status, to_callee.to, &headers),
        );
        assert_eq!(records(&mut bed), []);
        bed.wait(Duration::from_secs(40));
        let call_record = record(&mut bed);
        if goes_on {
            assert_eq!(
                (call_record.cause, call_record.by, call_record.is_final),
                (Some(Cause::TimeLimit), Some(DialogSide::Proxy), true)
            );
            assert!(call_record.ended >= began + Duration::from_mins(10));
        } else {
            assert_eq!(call_record, CallRecord { is_final: true, ..first });
        }
        bed.assert_forgets();
    }
}

/// In a pool that counts calls, a watched call is no load of its member. It becomes a load again when it continues,
/// even if the balancer has forgotten it.
#[test]
fn a_call_that_continues_counts_as_load_again() {
    let session = SessionTimer { expires: None, least: 90 };
    for (why, pause, method) in [
        ("refused", 10, "INFO"),
        ("refused", 10, "INVITE"),
        ("refused", 600, "INFO"),
        ("ours", 10, "UPDATE"),
        ("ours", 600, "UPDATE"),
        ("expired", 10, "INFO"),
        ("expired", 600, "INVITE"),
    ] {
        let mut bed = bed_with(&DialogSettings { session, ..DialogSettings::default() })
            .with_mode(Service::Calls(Spread::Counted));
        let invite = Req::new("INVITE", "call", client()).line("Supported: timer");
        let invite = if why == "expired" { invite.line("Session-Expires: 90") } else { invite };
        let at_hop = bed.invite(&invite);
        let ok = answered(&mut bed, &at_hop, 200);
        let call = Dialog::of(&at_hop, &ok);
        bed.one(client(), &call.by_caller("ACK", 1).bytes());
        assert_eq!(load(&bed), 1, "{why} {pause} {method}");
        match why {
            "refused" => {
                asked(&mut bed, client(), &call.by_caller("BYE", 2), 481);
            }
            "ours" => {
                let bye = Req { max_forwards: Some(0), ..call.by_caller("BYE", 2) };
                assert_eq!(bed.one(client(), &bye.bytes()).status(), 483);
            }
            _ => drop(bed.wait(Duration::from_secs(91))),
        }
        assert!(!record(&mut bed).is_final);
        assert_eq!((load(&bed), calls(&bed)), (0, (0, 1)), "{why} {pause} {method}");
        bed.wait(Duration::from_secs(pause));
        asked(&mut bed, client(), &call.by_caller(method, 3), 200);
        assert_eq!(record(&mut bed).cause, Some(Cause::Reopened));
        assert_eq!((load(&bed), calls(&bed)), (1, (1, 0)), "{why} {pause} {method}");
        if method == "INVITE" {
            bed.one(client(), &call.by_caller("ACK", 3).bytes());
        }
        asked(&mut bed, client(), &call.by_caller("BYE", 4), 200);
        assert!(record(&mut bed).is_final);
        assert_eq!(load(&bed), 0, "{why} {pause} {method}");
        bed.wait(Duration::from_mins(2));
        assert_eq!(bed.shard.balancer().counts(), balance::TableCounts::default());
    }
}

/// Returns the number of calls that the balancer counts.
fn load(bed: &Bed) -> u32 {
    let balancer = bed.shard.balancer();
    assert_eq!(balancer.audit(), Ok(()));
    HOPS.iter().zip(0..).map(|(_, slot)| balancer.load(Slot(slot)).own.calls).sum()
}
