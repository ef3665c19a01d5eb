//! Calls from end to end: the receiver and listener of each message, and the state at the end.

use crate::common::*;
use balance::Sign;

#[test]
fn a_plain_call() {
    let mut bed = Bed::new(Site::plain());
    let invite = Req::new("INVITE", "plain", client());
    let at_node = bed.one(0, client(), &invite.bytes());
    let node = at_node.to;
    assert!(bed.is_node(node));
    {
        let message = at_node.message();
        assert_eq!(message.uri(), Some(&b"sip:bob@pool.example"[..]), "the Request-URI stays");
        assert_eq!(message.max_forwards().unwrap().0, 69);
        assert_eq!(message.body(), b"v=0\r\n");
        assert_eq!((message.vias().count(), message.record_routes().count()), (2, 1));
        assert!(message.top_via().branch.unwrap().starts_with(b"z9hG4bK"));
        let below = message.second_via().unwrap();
        assert_eq!(below.rport, wire::Rport::Port(6000));
        assert_eq!(below.received, Some(client().ip()), "RFC 3581 §4: with rport, received in any case");
    }
    for status in [180, 200] {
        let sent = bed.one(0, node, &answer(&at_node.bytes, addr(PROXY), status, node));
        assert_eq!((sent.to, sent.status(), sent.message().vias().count()), (client(), status, 1));
    }
    assert_eq!((bed.load().calls, bed.load().transactions), (1, 0));
    let routes = record_routes(&at_node.bytes);
    let in_dialog = |method, cseq| Req {
        uri: format!("sip:{node}"),
        to_tag: Some("bob".to_owned()),
        cseq,
        routes: routes.clone(),
        ..Req::new(method, "plain", client()).via(&format!("SIP/2.0/UDP {};branch=z9hG4bK{method}", client()))
    };
    let ack = bed.one(0, client(), &in_dialog("ACK", 1).bytes());
    assert_eq!((ack.to, ack.message().routes().count(), ack.message().record_routes().count()), (node, 0, 0));
    let bye = bed.one(0, client(), &in_dialog("BYE", 2).bytes());
    assert_eq!(bye.to, node);
    let ok = bed.one(0, node, &answer(&bye.bytes, addr(PROXY), 200, node));
    // Without rport, the port of the sent-by counts: here the same.
    assert_eq!((ok.to, ok.status()), (client(), 200));
    bed.assert_idle();
    let counters = bed.shard.counters();
    assert_eq!((counters.requests_forwarded, counters.responses_forwarded), (3, 3));
    assert_eq!((counters.tokens_refused, counters.replies.len(), counters.drops.len()), (0, 0, 0));
    bed.assert_forgets();
}

#[test]
fn requests_to_a_member_and_its_responses_are_counted() {
    let mut bed = Bed::new(Site::plain());
    let counts = |bed: &Bed| {
        let stats = |slot| bed.shard.balancer().stats(Slot(slot)).clone();
        let mut sum = stats(0);
        (1..3).for_each(|slot| sum.absorb(stats(slot)));
        let requests = Method::ALL.into_iter().zip(sum.requests).filter(|(_, count)| *count > 0);
        let requests: Vec<_> = requests.map(|(method, count)| (method.name(), count)).collect();
        (requests, sum.responses.iter().collect::<Vec<_>>())
    };
    let invite = Req::new("INVITE", "counted", client());
    bed.one(0, client(), &invite.bytes());
    let again = bed.one(0, client(), &invite.bytes());
    for status in [180, 486] {
        answered(&mut bed, &again, status);
    }
    let seen = (vec![("INVITE", 2)], vec![(180, 1), (486, 1)]);
    assert_eq!(counts(&bed), seen, "retransmissions are counted");
    // Requests of the callee and their responses do not count for its member.
    let call = Dialog::inbound(&mut bed, "callee", client(), 0);
    let before = counts(&bed);
    call.callee_asks(&mut bed, "BYE", 1);
    assert_eq!(counts(&bed), before);
}

#[test]
fn only_the_node_may_send_requests_of_the_callee() {
    let mut bed = Bed::new(Site::plain());
    let call = Dialog::inbound(&mut bed, "stranger", client(), 0);
    let bye = Req { uri: "sip:127.0.6.6:9".to_owned(), ..call.by_callee("BYE", 1) };
    let other_node = bed.site.nodes.iter().map(|&(node, _)| addr(node)).find(|&node| node != call.callee.at);
    for from in [addr("127.0.6.6:5060"), client(), other_node.unwrap()] {
        let sent = bed.one(0, from, &bye.clone().via(&format!("SIP/2.0/UDP {from};branch=z9hG4bKx")).bytes());
        assert_eq!((sent.to, sent.status()), (from, 403), "answered, and nothing reaches the Request-URI");
    }
    // A node may send from another port.
    let from = addr("127.0.1.1:33333");
    assert_eq!(call.callee.at.ip(), from.ip());
    assert_eq!(bed.one(0, from, &call.by_callee("BYE", 1).bytes()).to, client());
}

#[test]
fn responses_go_where_the_request_came_from() {
    let mut bed = Bed::new(Site::plain());
    let from = addr("127.0.9.1:6000");
    let cases = [
        ("127.0.9.1:6000;branch=z9hG4bK1", "127.0.9.1:6000"),
        ("127.0.9.1:7000;branch=z9hG4bK2", "127.0.9.1:7000"),
        ("127.0.9.1;branch=z9hG4bK3", "127.0.9.1:5060"),
        ("127.0.9.1:7000;branch=z9hG4bK4;rport", "127.0.9.1:6000"),
        ("127.0.8.8:7000;branch=z9hG4bK5", "127.0.9.1:7000"),
        ("client.example:7000;branch=z9hG4bK6;rport", "127.0.9.1:6000"),
        ("client.example;branch=z9hG4bK7;received=127.0.6.6;rport=6", "127.0.9.1:6000"),
    ];
    for (via, expected) in cases {
        let options = Req::new("OPTIONS", via, from).via(&format!("SIP/2.0/UDP {via}"));
        let back = asked(&mut bed, from, &options, 200);
        assert_eq!((back.to, back.status()), (addr(expected), 200), "{via}");
    }
    bed.assert_idle();
}

#[test]
fn credentials_go_to_the_node_that_challenged() {
    for (method, status) in [("INVITE", 407), ("REGISTER", 401)] {
        let mut bed = Bed::new(Site::plain());
        let request = Req::new(method, "digest", client());
        let at_node = bed.one(0, client(), &request.bytes());
        assert_eq!(answered(&mut bed, &at_node, status).status(), status);
        if method == "INVITE" {
            let ack = bed.one(0, client(), &request.same_branch("ACK", Some("bob")).bytes());
            assert_eq!((ack.to, ack.branch()), (at_node.to, at_node.branch()));
        }
        bed.assert_idle();
        let again = Req { cseq: 2, ..request.via(&via("second")) };
        let again = again.with("Proxy-Authorization", "Digest x");
        let again = bed.one(0, client(), &again.bytes());
        assert_eq!(again.to, at_node.to, "{method}");
        answered(&mut bed, &again, 200);
        assert_eq!(bed.load().calls, u32::from(method == "INVITE"));
        bed.assert_forgets();
    }
}

/// Two branches of a call that was forked upstream: one CSeq, two transactions (RFC 3261 §8.1.1.7).
#[test]
fn a_call_forked_upstream_survives_its_first_failure() {
    let mut bed = Bed::new(Site::plain());
    let branches = ["one", "two"].map(|name| {
        let via = format!("SIP/2.0/UDP 127.0.9.1:6000;branch=z9hG4bK-{name}");
        Req { uri: format!("sip:{name}@pool.example"), ..Req::new("INVITE", "forked", client()).via(&via) }
    });
    let sent = [0, 1].map(|n| bed.one(0, client(), &branches[n].bytes()));
    for n in [0, 1] {
        assert_eq!(bed.one(0, client(), &branches[n].bytes()), sent[n], "retransmitted");
    }
    assert_ne!(sent[0].branch(), sent[1].branch());
    assert_eq!((bed.load().calls, bed.load().transactions), (1, 2));
    answered(&mut bed, &sent[0], 486);
    let ack = bed.one(0, client(), &branches[0].same_branch("ACK", Some("bob")).bytes());
    assert_eq!((ack.to, ack.branch()), (sent[0].to, sent[0].branch()));
    assert_eq!((bed.load().calls, bed.load().transactions), (1, 1));
    answered(&mut bed, &sent[1], 200);
    assert_eq!((bed.load().calls, bed.load().transactions), (1, 0));
    bed.assert_forgets();
}

#[test]
fn an_rfc_2543_client_without_branch_and_max_forwards() {
    let mut bed = Bed::new(Site::plain());
    let old = |method, cseq| Req {
        max_forwards: None,
        cseq,
        ..Req::new(method, "old", client()).via("SIP/2.0/UDP 127.0.9.1:6000")
    };
    let invite = bed.one(0, client(), &old("INVITE", 1).bytes());
    assert_eq!(invite.message().max_forwards().map(|(hops, _)| hops), Some(70), "RFC 3261 §16.6 step 3");
    assert_eq!(invite, bed.one(0, client(), &old("INVITE", 1).bytes()), "retransmitted");
    let cancel = bed.one(0, client(), &old("CANCEL", 1).bytes());
    assert_eq!((cancel.to, cancel.branch()), (invite.to, invite.branch()));
    for (request, status) in [(&cancel, 200), (&invite, 487)] {
        let back = bed.one(0, invite.to, &answer(&request.bytes, addr(PROXY), status, invite.to));
        assert_eq!((back.to, back.status()), (client(), status));
    }
    let ack = bed.one(0, client(), &Req { to_tag: Some("bob".to_owned()), ..old("ACK", 1) }.bytes());
    assert_eq!((ack.to, ack.branch()), (invite.to, invite.branch()));
    let next = bed.one(0, client(), &old("OPTIONS", 2).bytes());
    assert_ne!(next.branch(), invite.branch());
    bed.assert_forgets();
}

#[test]
fn lost_messages_end_every_lease_in_time() {
    let mut bed = Bed::new(Site::plain());
    // No response at all; a response but no BYE; a BYE without response.
    bed.one(0, client(), &Req::new("INVITE", "silence", client()).bytes());
    Dialog::inbound(&mut bed, "no-bye", client(), 0).caller_asks(&mut bed, "ACK", 1);
    let call = Dialog::inbound(&mut bed, "bye", client(), 0);
    bed.one(0, client(), &call.by_caller("BYE", 2).bytes());
    assert_eq!((bed.load().calls, bed.load().transactions), (3, 2));
    bed.wait(Duration::from_secs(33));
    assert_eq!((bed.load().calls, bed.load().transactions), (1, 0));
    let unanswered = |event: &&ShardEvent| matches!(event, ShardEvent::Sign(Sign::NoAnswer { .. }));
    assert_eq!(bed.events.iter().filter(unanswered).count(), 2, "two requests have no response");
    bed.assert_forgets();
}

#[test]
fn a_body_and_unknown_headers_pass_untouched() {
    let mut bed = Bed::new(Site::plain());
    let invite = Req::new("INVITE", "untouched", client()).with("X-Odd", "\u{fc} \"<>,;").bytes();
    let sent = bed.one(0, client(), &invite);
    assert_eq!(sent.message().header("X-Odd"), Some("\u{fc} \"<>,;".as_bytes()));
    let mut binary = replaced(&invite, "Content-Length: 5\r\n\r\nv=0\r\n", "Content-Length: 4\r\n\r\n");
    binary.extend([0, 255, b'\r', 0]);
    assert_eq!(bed.one(0, client(), &binary).message().body(), [0, 255, b'\r', 0]);
}

/// An INVITE moved on from a node that was found dead, and both nodes are in doubt. The late response of the first is
/// no sign of life of the second.
#[test]
fn a_response_is_a_sign_of_its_sender() {
    let mut bed = Bed::new(Site::plain());
    let invite = Req::new("INVITE", "late", client()).bytes();
    let first = bed.one(0, client(), &invite);
    let slots = |bed: &Bed, nodes: &[&Sent]| nodes.iter().map(|to| Slot(bed.slot(to.to))).collect::<Vec<_>>();
    bed.probed(bed.slot(first.to), false);
    let second = bed.one(0, client(), &invite);
    assert_ne!(first.to, second.to);
    assert_ne!(first.branch(), second.branch(), "another node, another transaction there");
    let cancel = bed.one(0, client(), &Req::new("CANCEL", "late", client()).bytes());
    assert_eq!((cancel.to, cancel.branch()), (second.to, second.branch()));
    bed.probed(bed.slot(second.to), false);
    bed.set_nodes();
    for (node, status) in [(&first, 180), (&first, 487), (&second, 180)] {
        let back = answered(&mut bed, node, status);
        assert_eq!((back.to, back.status()), (client(), status));
    }
    let signs: Vec<_> =
        slots(&bed, &[&first, &second]).into_iter().map(|slot| Sign::Answer { slot }).collect();
    bed.events.retain(|event| !matches!(event, ShardEvent::Sign(Sign::Tally { .. })));
    assert_eq!(bed.events, signs.into_iter().map(ShardEvent::Sign).collect::<Vec<_>>());
}
