//! What strangers send with the Call-ID of a call: it goes on in the session store until one of its parties ends it.
mod common;

use balance::{ClusterMember, PoolId};
use common::dialog::Dialog;
use common::text::{self, Req, answer};
use common::*;
use node::node_id;
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

/// The INVITE of one of many parties that all use one Call-ID.
fn invite(party: usize) -> Req {
    let via = format!("SIP/2.0/UDP {};branch=z9hG4bK-party-{party};rport", client());
    Req { from_tag: format!("party-{party}"), ..Req::new("INVITE", "common", client()) }.via(&via)
}

#[test]
fn calls_with_one_call_id_count_one_by_one() {
    let mut bed = Bed::new(Site::plain());
    let id = |&(address, _): &(&str, u16)| node_id(base::Peer::new(base::Transport::Udp, addr(address)));
    let limited = bed.site.nodes.iter().map(|node| ClusterMember {
        id: id(node),
        capacity: 1.0,
        max_calls: 5,
        max_rate: 0,
        pool: PoolId::default(),
    });
    let limited: Vec<_> = limited.collect();
    let now = bed.now;
    bed.cluster.set_members(now, &limited);
    bed.set_nodes();
    let mut taken = Vec::new();
    for party in 0..60 {
        let sent = bed.one(0, client(), &invite(party).bytes());
        if bed.is_node(sent.to) {
            // Sent again, it goes to the same node.
            assert_eq!(bed.one(0, client(), &invite(party).bytes()), sent);
            taken.push((party, sent));
        } else {
            assert_eq!(sent.status(), 503);
        }
    }
    assert_eq!((taken.len(), bed.load().calls), (15, 15));
    let here = addr(bed.site.listeners[0]);
    for (at, (party, sent)) in taken.iter().enumerate() {
        // Credentials are asked for; the INVITE that has them goes to who asked.
        let refused = bed.one(0, sent.to, &answer(&sent.bytes, here, 407, sent.to));
        assert_eq!((refused.status(), bed.load().calls), (407, 14));
        let ack = invite(*party).same_branch("ACK", Some("bob"));
        assert_eq!(bed.one(0, client(), &ack.bytes()).to, sent.to);
        let via = format!("SIP/2.0/UDP {};branch=z9hG4bK-again-{party};rport", client());
        let again = bed.one(0, client(), &Req { cseq: 2, ..invite(*party) }.via(&via).bytes());
        assert_eq!((again.to, bed.load().calls), (sent.to, 15));
        let ok = bed.one(0, again.to, &answer(&again.bytes, here, 200, again.to));
        // Either party hangs up.
        let bye = Req {
            cseq: 3,
            to_tag: ok.message().to_tag().map(text::string),
            routes: text::record_routes(&ok.bytes),
            uri: format!("sip:{}", again.to),
            ..Req { method: "BYE".to_owned(), ..invite(*party) }
        };
        let (from, bye) = if at % 2 == 0 {
            (client(), bye)
        } else {
            let (from_tag, to_tag) =
                (bye.to_tag.clone().expect("it was answered"), Some(bye.from_tag.clone()));
            let uri = format!("sip:{}", client());
            (again.to, Req { from_tag, to_tag, uri, routes: text::record_routes(&again.bytes), ..bye })
        };
        let via = format!("SIP/2.0/UDP {from};branch=z9hG4bK-bye-{party};rport");
        let bye = bed.one(0, from, &bye.via(&via).bytes());
        assert_eq!(bye.to, if at % 2 == 0 { again.to } else { client() });
        bed.one(0, bye.to, &answer(&bye.bytes, here, 200, bye.to));
        assert_eq!(bed.load().calls, 14, "{at}");
        // Its place is free for the next one.
        let next = bed.one(0, client(), &invite(100 + at).bytes());
        assert_eq!((next.to, bed.load().calls), (again.to, 15));
    }
    bed.assert_forgets();
}

/// As some clients do it. Another member knows nothing of the challenge.
#[test]
fn a_registration_with_credentials_and_another_tag_goes_to_who_asked_for_them() {
    let mut bed = Bed::new(Site::plain());
    let here = addr(bed.site.listeners[0]);
    for n in 0..20 {
        let call_id = format!("registration-{n}");
        let plain = Req::new("REGISTER", &call_id, client());
        let asked = bed.one(0, client(), &plain.bytes());
        bed.one(0, asked.to, &answer(&asked.bytes, here, 401, asked.to));
        let via = format!("SIP/2.0/UDP {};branch=z9hG4bK-{call_id}-2;rport", client());
        let again = Req { from_tag: "another".to_owned(), cseq: 2, ..plain }.via(&via);
        let again = bed.one(0, client(), &again.bytes());
        assert_eq!(again.to, asked.to);
        bed.one(0, again.to, &answer(&again.bytes, here, 200, again.to));
        assert_eq!((bed.load().calls, bed.load().transactions), (0, 0));
    }
    bed.assert_forgets();
}

/// RFC 3261 §12.1.1, §12.2.1.1: an RFC 2543 client has no tag, and what its callee sends has no To tag.
#[test]
fn a_caller_without_a_tag_is_one_all_the_same() {
    let mut bed = Bed::new(Site::plain());
    let here = addr(bed.site.listeners[0]);
    let without = |request: &Req| {
        let text = text::string(&request.bytes());
        text.replace(";tag=alice", "").into_bytes()
    };
    let invite = Req::new("INVITE", "old", client());
    let sent = bed.one(0, client(), &without(&invite));
    assert_eq!(bed.one(0, client(), &without(&invite)), sent);
    let cancel = bed.one(0, client(), &without(&invite.same_branch("CANCEL", None)));
    assert_eq!((cancel.to, cancel.branch()), (sent.to, sent.branch()));
    bed.one(0, cancel.to, &answer(&cancel.bytes, here, 200, cancel.to));
    bed.one(0, sent.to, &answer(&sent.bytes, here, 200, sent.to));
    assert_eq!((bed.load().calls, bed.load().transactions), (1, 0));
    let call = bed.shard.balancer().counts();
    let bye = Req { from_tag: "bob".to_owned(), uri: format!("sip:{}", client()), ..invite.clone() };
    let via = format!("SIP/2.0/UDP {};branch=z9hG4bK-bye;rport", sent.to);
    let bye = bed.one(0, sent.to, &Req { method: "BYE".to_owned(), ..bye }.via(&via).bytes());
    assert_eq!(bye.to, client());
    bed.one(0, client(), &answer(&bye.bytes, here, 200, client()));
    assert_eq!(bed.shard.balancer().counts(), call, "it is of the same session");
}
