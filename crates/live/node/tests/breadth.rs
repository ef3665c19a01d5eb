//! Max-Breadth (RFC 5393 §5.3.3), which limits the branches of a request, in both roles.

use crate::common::*;

fn breadth(sent: &Sent) -> Vec<String> {
    sent.message().headers("Max-Breadth").map(string).collect()
}

fn invite(call: &str, value: Option<&str>) -> Req {
    let request = Req::new("INVITE", call, client());
    value.into_iter().fold(request, |request, value| request.with("Max-Breadth", value))
}

/// Returns the Max-Breadth with which a balancer and a proxy forward a request with this value.
fn sent_on(value: Option<&str>) -> [Vec<String>; 2] {
    let by_balancer = Bed::new(Site::plain()).one(0, client(), &invite("breadth", value).bytes());
    let by_proxy = ProxyBed::plain().invite(&invite("breadth", value));
    [breadth(&by_balancer), breadth(&by_proxy)]
}

#[test]
fn max_breadth_is_added_kept_or_lowered() {
    for (value, left) in [
        (None, "60"),
        (Some("1"), "1"),
        (Some("60"), "60"),
        (Some("007"), "007"),
        (Some("61"), "60"),
        (Some("4294967295"), "60"),
        (Some("99999999999999999999"), "60"),
    ] {
        assert_eq!(sent_on(value), [[left]; 2], "{value:?}");
    }
}

/// A request whose Max-Breadth is used up is refused.
#[test]
fn a_used_up_max_breadth_is_refused() {
    let mut bed = Bed::new(Site::plain());
    let mut proxy = ProxyBed::plain();
    for (value, status, reason) in [
        ("0", 440, "Max-Breadth Exceeded"),
        ("000", 440, "Max-Breadth Exceeded"),
        ("-1", 400, "Malformed Max-Breadth"),
        ("5;x", 400, "Malformed Max-Breadth"),
        ("", 400, "Malformed Max-Breadth"),
    ] {
        let request = invite("none", Some(value)).bytes();
        assert_eq!(bed.one(0, client(), &request).status(), status, "{value:?}");
        assert_eq!(proxy.one(client(), &request).status(), status, "{value:?}");
        assert!(bed.shard.counters().replies.contains_key(&(status, reason)), "{value:?}");
    }
    let twice = invite("twice", Some("5")).with("Max-Breadth", "5").bytes();
    assert_eq!(bed.one(0, client(), &twice).status(), 400);
    // RFC 5393 §5.4.1: Max-Breadth means nothing in a CANCEL.
    let ringing = invite("ringing", Some("5"));
    let at_node = bed.one(0, client(), &ringing.bytes());
    let cancel = ringing.same_branch("CANCEL", None).with("Max-Breadth", "0");
    assert_eq!(bed.one(0, client(), &cancel.bytes()).to, at_node.to);
    assert_eq!(transactions(&proxy), 0);
}

/// "All proxied requests MUST contain a single Max-Breadth header field value."
#[test]
fn every_request_has_a_max_breadth() {
    let mut bed = Bed::new(Site::plain());
    let call = Dialog::inbound(&mut bed, "call", client(), 0);
    for (method, cseq) in [("ACK", 1), ("INFO", 2), ("BYE", 3)] {
        assert_eq!(breadth(&call.caller_asks(&mut bed, method, cseq)), ["60"], "{method}");
    }
    assert_eq!(breadth(&call.callee_asks(&mut bed, "OPTIONS", 1)), ["60"]);
}
