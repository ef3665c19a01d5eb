//! What strangers send with the Call-ID of a call: it goes on in the books until one of its parties ends it.
mod common;

use common::dialog::Dialog;
use common::text::{Req, answer};
use common::*;
use std::net::SocketAddr;
use std::time::Duration;

fn client() -> SocketAddr {
    addr("127.0.9.1:6000")
}

fn stranger() -> SocketAddr {
    addr("127.0.9.66:6000")
}

/// A stranger's request with the Call-ID and one or no tag of a call: it may reach the node, which says 481 then.
fn meddle(bed: &mut Bed, request: &Req) {
    for sent in bed.receive(0, stranger(), &request.bytes()) {
        if bed.is_node(sent.to) {
            let refusal = answer(&sent.bytes, addr(bed.site.listeners[0]), 481, sent.to);
            bed.receive(0, sent.to, &refusal);
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

/// A call that only its token tells of, after a restart.
#[test]
fn nor_one_that_began_before_a_restart() {
    let mut bed = Bed::new(Site::plain());
    let call = Dialog::inbound(&mut bed, "before", client(), 0);
    let mut bed = bed.restarted();
    call.caller_asks(&mut bed, "ACK", 1);
    assert_eq!(bed.load().calls, 1);
    let bye = Req { to_tag: Some("wrong".to_owned()), cseq: 77, ..Req::new("BYE", "before", stranger()) };
    meddle(&mut bed, &bye);
    assert_eq!(bed.load().calls, 1);
    call.caller_asks(&mut bed, "BYE", 2);
    bed.assert_idle();
}
