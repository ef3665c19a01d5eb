//! Requests of strangers with the Call-ID of a call, which stays in the session store until one of its parties ends it.

use crate::common::*;

fn stranger() -> SocketAddr {
    addr("127.0.9.66:6000")
}

/// A stranger's request with the Call-ID and at most one tag of a call. It may reach the node, which answers 481.
fn meddle(bed: &mut Bed, request: &Req) {
    for sent in bed.receive(0, stranger(), &request.bytes()) {
        if bed.is_node(sent.to) {
            respond(bed, &sent, 481);
        }
    }
}

#[test]
fn a_request_with_wrong_tags_ends_no_call() {
    let mut bed = Bed::new(Site::plain());
    let call = Dialog::inbound(&mut bed, "meddled", client(), 0);
    call.caller_asks(&mut bed, "ACK", 1);
    let tags = [("alice", "wrong"), ("wrong", "bob"), ("alice", "alice"), ("bob", "bob"), ("wrong", "wrong")];
    for (number, (from_tag, to_tag)) in (0_u32..).zip(tags) {
        for (method, routes) in [("BYE", 0), ("INFO", 0), ("BYE", 1), ("INFO", 1), ("INVITE", 0)] {
            let request = Req {
                from_tag: from_tag.to_owned(),
                to_tag: Some(to_tag.to_owned()),
                cseq: 900_000_000 + number,
                routes: call.caller.routes.iter().take(routes).cloned().collect(),
                ..Req::new(method, "meddled", stranger())
            };
            let via = format!("SIP/2.0/UDP {};branch=z9hG4bK-{method}-{number}-{routes}", stranger());
            meddle(&mut bed, &request.via(&via));
            assert_eq!(bed.load().calls, 1, "{method} from {from_tag} to {to_tag}");
        }
    }
    bed.wait(Duration::from_mins(1));
    assert_eq!((bed.load().calls, bed.load().transactions), (1, 0));
    call.callee_asks(&mut bed, "BYE", 1);
    bed.assert_idle();
    bed.assert_forgets();
}

/// The INVITE of one of many parties that use the same Call-ID.
fn invite(caller: usize) -> Req {
    let via = via(&format!("caller-{caller}"));
    Req { from_tag: format!("caller-{caller}"), ..Req::new("INVITE", "common", client()) }.via(&via)
}

#[test]
fn calls_with_one_call_id_are_counted_separately() {
    let mut bed = Bed::new(Site::plain());
    bed.limit_members(&[0, 1, 2], 5);
    let mut taken = Vec::new();
    for caller in 0..60 {
        let sent = bed.one(0, client(), &invite(caller).bytes());
        if bed.is_node(sent.to) {
            // A retransmission goes to the same node.
            assert_eq!(bed.one(0, client(), &invite(caller).bytes()), sent);
            taken.push(sent);
        } else {
            assert_eq!(sent.status(), 503);
        }
    }
    assert_eq!((taken.len(), bed.load().calls), (15, 15));
    for (at, sent) in taken.iter().enumerate() {
        // Either party sends BYE, which frees the place for the next call.
        let call = Dialog::answered(&mut bed, sent);
        if at % 2 == 0 {
            call.caller_asks(&mut bed, "BYE", 3);
        } else {
            call.callee_asks(&mut bed, "BYE", 3);
        }
        assert_eq!(bed.load().calls, 14, "{at}");
        let next = bed.one(0, client(), &invite(100 + at).bytes());
        assert_eq!((next.to, bed.load().calls), (sent.to, 15));
    }
    bed.assert_forgets();
}

/// RFC 3261 §12.1.1, §12.2.1.1: an RFC 2543 client has no tag, and the requests of its callee have no To tag.
#[test]
fn a_caller_without_a_tag_has_one_session() {
    let mut bed = Bed::new(Site::plain());
    let without = |request: &Req| {
        let text = string(&request.bytes());
        text.replace(";tag=alice", "").into_bytes()
    };
    let invite = Req::new("INVITE", "old", client());
    let sent = bed.one(0, client(), &without(&invite));
    assert_eq!(bed.one(0, client(), &without(&invite)), sent);
    let cancel = bed.one(0, client(), &without(&invite.same_branch("CANCEL", None)));
    assert_eq!((cancel.to, cancel.branch()), (sent.to, sent.branch()));
    answered(&mut bed, &cancel, 200);
    answered(&mut bed, &sent, 200);
    assert_eq!((bed.load().calls, bed.load().transactions), (1, 0));
    let call = bed.shard.balancer().counts();
    let bye = Req { from_tag: "bob".to_owned(), uri: format!("sip:{}", client()), ..invite.clone() };
    let via = format!("SIP/2.0/UDP {};branch=z9hG4bK-bye;rport", sent.to);
    let bye = bed.one(0, sent.to, &Req { method: "BYE".to_owned(), ..bye }.via(&via).bytes());
    assert_eq!(bye.to, client());
    answered(&mut bed, &bye, 200);
    assert_eq!(bed.shard.balancer().counts(), call, "the request belongs to the same session");
}
