//! Calls that a node begins.

use crate::common::*;

fn name(host: &str, port: Option<u16>) -> HopName {
    HopName { transport: Transport::Udp, by_dns: port.is_none(), host: host.to_owned(), port }
}

fn found(addresses: &[&str]) -> Resolved {
    let addresses: Vec<_> = addresses.iter().map(|at| addr(at)).collect();
    crate::common::found(Transport::Udp, &addresses)
}

#[test]
fn a_node_calls_out() {
    let mut bed = Bed::new(Site::plain());
    let outside = addr("127.0.7.7:5080");
    let call = Dialog::outbound(&mut bed, "outbound", 1, outside);
    assert_eq!(bed.shard.balancer().load(Slot(1)).own.calls, 1);
    call.caller_asks(&mut bed, "ACK", 1);
    call.callee_asks(&mut bed, "INFO", 1);
    call.callee_asks(&mut bed, "INVITE", 2);
    call.callee_asks(&mut bed, "ACK", 2);
    call.caller_asks(&mut bed, "UPDATE", 2);
    call.callee_asks(&mut bed, "BYE", 3);
    bed.assert_idle();
    // Without any state: the token says which side is the node.
    let call = Dialog::outbound(&mut bed, "outbound-2", 2, outside);
    let mut bed = bed.restarted();
    call.callee_asks(&mut bed, "INVITE", 2);
    call.caller_asks(&mut bed, "BYE", 2);
    bed.assert_idle();
}

#[test]
fn a_node_calls_an_unreachable_target() {
    let mut bed = Bed::new(Site::plain());
    let node = addr(bed.site.nodes[0].0);
    for uri in ["tel:+1", "sip:carol@0.0.0.0", "sip:224.0.0.1", "sip:255.255.255.255", "sip:[::1]"] {
        let invite = Req { uri: uri.to_owned(), ..Req::new("INVITE", uri, node) };
        let sent = bed.one(0, node, &invite.bytes());
        assert_eq!((sent.to, sent.status()), (node, 502), "{uri}");
        bed.assert_idle();
    }
    assert_eq!(bed.shard.balancer().counts(), balance::TableCounts::default(), "no session was created");
}

#[test]
fn a_node_calls_a_name() {
    let mut bed = Bed::new(Site::plain());
    let node = addr(bed.site.nodes[0].0);
    let uri = "sip:carol@Example.com:5080";
    let invite = Req { uri: uri.to_owned(), ..Req::new("INVITE", uri, node) };
    bed.dropped(0, node, &invite.bytes(), "unresolved");
    bed.dropped(0, node, &invite.bytes(), "unresolved");
    let asked = name("example.com", Some(5080));
    assert_eq!(bed.events, [ShardEvent::LookUp(asked.clone())], "the name is looked up once");
    assert_eq!(bed.shard.balancer().counts(), balance::TableCounts::default(), "no session was created");
    // The listener is of IPv4, so the other address is useless.
    bed.input(ShardInput::Name { name: &asked, answer: &found(&["[2001:db8::7]:5080", "127.0.7.7:5080"]) });
    let first = bed.one(0, node, &invite.bytes());
    assert_eq!(first.to, addr("127.0.7.7:5080"));
    assert_eq!(bed.load().calls, 1);
    // A stale address is used until a new one is known.
    bed.now += Duration::from_secs(31);
    assert_eq!(bed.one(0, node, &invite.bytes()), first, "a retransmission goes the same way");
    assert_eq!(bed.events[1..], [ShardEvent::LookUp(asked)]);
}

#[test]
fn an_unknown_or_unreachable_name_is_refused() {
    let mut bed = Bed::new(Site::plain());
    let node = addr(bed.site.nodes[0].0);
    let answers = [&[][..], &["0.0.0.0:5060"], &["224.0.0.1:5060", "[::1]:5060"]];
    for (host, addresses) in ["a.example", "b.example", "c.example"].into_iter().zip(answers) {
        let uri = format!("sip:{host}");
        let invite = Req { uri: uri.clone(), ..Req::new("INVITE", &uri, node) };
        bed.dropped(0, node, &invite.bytes(), "unresolved");
        bed.input(ShardInput::Name { name: &name(host, None), answer: &found(addresses) });
        let sent = bed.one(0, node, &invite.bytes());
        assert_eq!((sent.to, sent.status()), (node, 502), "{uri}");
        bed.assert_idle();
    }
}

#[test]
fn only_a_node_can_cause_a_look_up() {
    let mut bed = Bed::new(Site::plain());
    let client = addr("127.0.9.9:5060");
    let invite = Req { uri: "sip:carol@example.com".to_owned(), ..Req::new("INVITE", "stranger", client) };
    let sent = bed.one(0, client, &invite.bytes());
    assert!(bed.is_node(sent.to), "to the pool, whatever the URI says");
    assert_eq!(bed.events, []);
}

#[test]
fn a_bye_reaches_a_callee_with_a_host_name() {
    let mut bed = Bed::new(Site::plain());
    let client = addr("127.0.9.9:5060");
    let call = Dialog::inbound(&mut bed, "named", client, 0);
    let bye = Req { uri: "sip:alice@phone.example".to_owned(), ..call.by_callee("BYE", 1) };
    bed.dropped(0, call.callee.at, &bye.bytes(), "unresolved");
    bed.input(ShardInput::Name { name: &name("phone.example", None), answer: &found(&["127.0.9.9:5060"]) });
    assert_eq!(bed.one(0, call.callee.at, &bye.bytes()).to, client);
}

#[test]
fn an_undeliverable_bye_of_a_node_ends_its_call() {
    let mut bed = Bed::new(Site::plain());
    for (call_id, answers) in [("silent", None), ("nowhere", Some(found(&[])))] {
        let call = Dialog::inbound(&mut bed, call_id, addr("127.0.9.9:5060"), 0);
        let bye = Req { uri: format!("sip:alice@{call_id}.example"), ..call.by_callee("BYE", 1) };
        bed.dropped(0, call.callee.at, &bye.bytes(), "unresolved");
        assert_eq!(bed.load().calls, 1);
        if let Some(answer) = answers {
            bed.input(ShardInput::Name { name: &name("nowhere.example", None), answer: &answer });
            assert_eq!(bed.one(0, call.callee.at, &bye.bytes()).status(), 502);
        }
        bed.wait(Duration::from_secs(33));
        bed.assert_idle();
    }
}
