//! A node that was removed by a reload: it may finish its calls, and no other request of it is forwarded.

use crate::common::*;

const VICTIM: &str = "127.0.8.8:7000";

fn outside() -> SocketAddr {
    addr("127.0.7.7:5080")
}

/// A pool with a call from outside and one to the outside, both with a node that is then removed.
fn bed() -> (Bed, Dialog, Dialog) {
    let mut bed = Bed::new(Site::plain());
    let inbound = Dialog::inbound(&mut bed, "inbound", client(), 0);
    let node = usize::from(bed.slot(inbound.callee.at));
    let outbound = Dialog::outbound(&mut bed, "outbound", node, outside());
    take_out(&mut bed, node);
    (bed, inbound, outbound)
}

fn take_out(bed: &mut Bed, node: usize) {
    let stay: Vec<_> = (0..3).filter(|&slot| slot != node).collect();
    bed.set_members(&stay);
}

fn to_victim(request: Req) -> Req {
    Req { uri: format!("sip:{VICTIM}"), ..request }
}

#[test]
fn a_removed_node_relays_nothing() {
    let (_, inbound, outbound) = bed();
    let node = inbound.callee.at;
    let new = |method| to_victim(Req::new(method, "new", node));
    let past = |mut request: Req| {
        request.routes.push(format!("<sip:{VICTIM};lr>"));
        request
    };
    let attacks = [
        ("INVITE", new("INVITE")),
        ("OPTIONS", new("OPTIONS")),
        ("MESSAGE with a To tag", Req { to_tag: Some("x".to_owned()), ..new("MESSAGE") }),
        ("CANCEL", new("CANCEL")),
        ("ACK", new("ACK")),
        ("in the call of a client", to_victim(inbound.by_callee("INFO", 2))),
        ("in the call of a client, ACK", to_victim(inbound.by_callee("ACK", 2))),
        ("in the call of a client, by Route", past(inbound.by_callee("INFO", 2))),
        (
            "in the call of a client, without To tag",
            Req { to_tag: None, ..to_victim(inbound.by_callee("INVITE", 2)) },
        ),
        (
            "in the call of a client, without a token",
            Req { routes: Vec::new(), ..inbound.by_callee("INFO", 2) },
        ),
        ("in its own call", to_victim(outbound.by_caller("INFO", 2))),
        ("in its own call, by Route", past(outbound.by_caller("INFO", 2))),
        (
            "in its own call, another To tag",
            Req { to_tag: Some("x".to_owned()), ..outbound.by_caller("INFO", 2) },
        ),
        (
            "in its own call, with the token of the callee",
            Req { routes: outbound.callee.routes.clone(), ..to_victim(outbound.by_caller("INFO", 2)) },
        ),
        (
            "across calls",
            Req { routes: inbound.callee.routes.clone(), ..to_victim(outbound.by_caller("INFO", 2)) },
        ),
    ];
    let mut reached = Vec::new();
    for (name, attack) in attacks {
        let (mut fresh, ..) = bed();

        for sent in fresh.receive(0, node, &attack.bytes()) {
            if sent.to != node || sent.status() != 403 {
                reached.push(format!("{name}: {sent:?}"));
            }
        }
    }
    assert!(reached.is_empty(), "{} attacks succeed:\n{}", reached.len(), reached.join("\n"));
}

#[test]
fn calls_of_a_removed_node_continue_and_end() {
    let (mut bed, inbound, outbound) = bed();
    for call in [&inbound, &outbound] {
        call.caller_asks(&mut bed, "ACK", 1);
        for (cseq, method) in (2..).zip(["INFO", "UPDATE", "INVITE"]) {
            call.caller_asks(&mut bed, method, cseq);
            call.callee_asks(&mut bed, method, cseq);
        }
    }
    inbound.callee_asks(&mut bed, "BYE", 9);
    outbound.caller_asks(&mut bed, "BYE", 9);
    assert_eq!(bed.shard.counters().tokens_refused, 0);
    bed.assert_idle();
    for n in 0..4 {
        let sent = bed.one(0, client(), &Req::new("INVITE", &format!("new-{n}"), client()).bytes());
        assert_ne!(sent.to, inbound.callee.at);
    }
}

/// The token has the target of a party at the beginning of the call. A later target is kept in a table.
#[test]
fn a_removed_node_reaches_refreshed_targets() {
    for moved_before in [true, false] {
        let mut bed = Bed::new(Site::plain());
        let mut inbound = Dialog::inbound(&mut bed, "inbound", client(), 0);
        let node = usize::from(bed.slot(inbound.callee.at));
        let mut outbound = Dialog::outbound(&mut bed, "outbound", node, outside());
        if !moved_before {
            take_out(&mut bed, node);
        }
        inbound.caller.at = addr("127.0.9.2:7000");
        inbound.caller_asks(&mut bed, "INVITE", 2);
        outbound.callee.at = addr("127.0.7.8:7000");
        outbound.callee_asks(&mut bed, "UPDATE", 2);
        // And back to the first target, as in the token.
        inbound.caller.at = client();
        inbound.caller_asks(&mut bed, "INVITE", 3);
        if moved_before {
            take_out(&mut bed, node);
        }
        inbound.callee_asks(&mut bed, "INFO", 3);
        inbound.caller.at = addr("127.0.9.3:7000");
        inbound.caller_asks(&mut bed, "UPDATE", 4);
        inbound.callee_asks(&mut bed, "BYE", 4);
        outbound.caller_asks(&mut bed, "BYE", 3);
        bed.assert_idle();
    }
}

/// A proxy without Record-Route only passes on the messages of a party.
#[test]
fn a_removed_node_reaches_a_refreshed_target_behind_a_proxy() {
    let between = addr("127.0.2.1:5060");
    let mut bed = Bed::new(Site::plain());
    let mut inbound = Dialog::inbound(&mut bed, "inbound", client(), 0);
    let node = usize::from(bed.slot(inbound.callee.at));
    inbound.caller.at = addr("127.0.9.2:7000");
    let mut update = inbound.by_caller("UPDATE", 2);
    update.via = format!("SIP/2.0/UDP {between};branch=z9hG4bKbetween, {}", update.via);
    let arrived = bed.one(0, between, &update.bytes());
    bed.one(0, arrived.to, &Resp::new(200, arrived.to).bytes(&arrived.bytes));
    take_out(&mut bed, node);
    inbound.callee_asks(&mut bed, "INFO", 3);
    inbound.callee_asks(&mut bed, "BYE", 4);
    bed.assert_idle();
}

/// Open transactions of a removed node: an INVITE is retransmitted, cancelled, or refused and acknowledged.
#[test]
fn open_transactions_of_a_removed_node_end() {
    let mut bed = Bed::new(Site::plain());
    let node = addr(bed.site.nodes[0].0);
    let invite = Req { uri: format!("sip:carol@{}", outside()), ..Req::new("INVITE", "started", node) };
    let arrived = bed.one(0, node, &invite.bytes());
    take_out(&mut bed, 0);
    assert_eq!(bed.one(0, node, &invite.bytes()), arrived, "a retransmission");
    for elsewhere in [to_victim(invite.clone()), to_victim(invite.same_branch("CANCEL", None))] {
        let refusal = bed.one(0, node, &elsewhere.bytes());
        assert_eq!((refusal.to, refusal.status()), (node, 403), "{} to another target", elsewhere.method);
    }
    assert_eq!(bed.receive(0, node, &to_victim(invite.same_branch("ACK", Some("x"))).bytes()), []);
    let cancel = bed.one(0, node, &invite.same_branch("CANCEL", None).bytes());
    assert_eq!((cancel.to, cancel.branch()), (outside(), arrived.branch()));
    assert_eq!(bed.one(0, outside(), &Resp::new(200, outside()).bytes(&cancel.bytes)).to, node);
    let refusal = Resp { routes: Some(Vec::new()), ..Resp::new(487, outside()) };
    // The ACK comes again for each copy of the failure (RFC 3261 §17.1.1.2).
    let ack = invite.same_branch("ACK", Some("bob"));
    for _ in 0..3 {
        assert_eq!(bed.one(0, outside(), &refusal.bytes(&arrived.bytes)).status(), 487);
        bed.wait(Duration::from_secs(10));
        let passed_on = bed.one(0, node, &ack.bytes());
        assert_eq!((passed_on.to, passed_on.branch()), (outside(), arrived.branch()));
    }
    let other_branch = ack.via.replace("started-1", "started-2");
    for attack in [
        to_victim(ack.clone()),
        Req { cseq: 2, ..ack.clone() },
        ack.clone().via(&other_branch),
        Req { method: "INFO".to_owned(), ..ack.clone() },
    ] {
        let sent = bed.receive(0, node, &attack.bytes());
        assert!(sent.iter().all(|sent| sent.to == node && sent.status() == 403), "{sent:?}");
    }
    bed.wait(Duration::from_secs(33));
    assert_eq!(bed.receive(0, node, &ack.bytes()), [], "after the failure has had its time");
    assert_eq!(
        bed.one(0, node, &Req { cseq: 2, ..invite }.bytes()).status(),
        403,
        "a new request is refused"
    );
    bed.assert_idle();
}

/// A strict router puts this proxy's address into the Request-URI, and the target behind the Route. Such a request
/// belongs to the open call, too.
#[test]
fn open_transactions_behind_a_strict_router_keep_their_target() {
    let mut bed = Bed::new(Site::plain());
    let call = Dialog::outbound(&mut bed, "outbound", 0, outside());
    let strict = |target: SocketAddr| {
        let mut info = call.by_caller("INFO", 2);
        let ours = info.routes.remove(0);
        info.uri = ours.trim_matches(['<', '>']).to_owned();
        info.routes.push(format!("<sip:bob@{target}>"));
        info
    };
    let node = call.caller.at;
    assert_eq!(bed.one(0, node, &strict(outside()).bytes()).to, outside());
    take_out(&mut bed, 0);
    assert_eq!(bed.one(0, node, &strict(outside()).bytes()).to, outside(), "a retransmission");
    let elsewhere = bed.one(0, node, &strict(addr(VICTIM)).bytes());
    assert_eq!((elsewhere.to, elsewhere.status()), (node, 403));
}

/// Each side of a call from a node sees its own token. A response that begins no call contains none.
#[test]
fn a_node_is_given_the_token_of_the_initiator() {
    for (status, is_led) in [(180, true), (200, true), (302, false), (486, false)] {
        let mut bed = Bed::new(Site::plain());
        let node = addr(bed.site.nodes[0].0);
        let invite = Req { uri: format!("sip:carol@{}", outside()), ..Req::new("INVITE", "call", node) };
        let arrived = bed.one(0, node, &invite.bytes());
        let response = Resp::new(status, outside()).bytes(&arrived.bytes);
        let back = bed.one(0, outside(), &response);
        assert_ne!(record_routes(&back.bytes), record_routes(&arrived.bytes), "{status}");
        assert_eq!(bed.one(0, outside(), &response), back, "each copy is handled alike");
        take_out(&mut bed, 0);
        let call = Dialog::of(&arrived, &back);
        let prack = bed.one(0, node, &call.by_caller("PRACK", 2).bytes());
        assert_eq!(prack.to == outside(), is_led, "{status}: {prack:?}");
    }
}
