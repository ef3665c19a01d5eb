//! Valid dialogs through the proxy, usual and unusual: their requests reach the targets that the parties have named.

use crate::common::*;
use base::Operation;

fn callee() -> SocketAddr {
    addr(HOPS[0])
}

/// Requests of an established call from both sides.
fn talk(bed: &mut ProxyBed, call: &Dialog) {
    call.caller_asks(bed, "ACK", 1);
    for (cseq, method) in
        (20..).zip(["INFO", "UPDATE", "REFER", "NOTIFY", "MESSAGE", "STRANGE", "INVITE", "ACK"])
    {
        call.caller_asks(bed, method, cseq);
        call.callee_asks(bed, method, cseq);
    }
}

/// 180 and 183 of two branches of a call that was forked behind this proxy, then a 200 of each.
#[test]
fn early_dialogs_of_a_forked_call() {
    let mut bed = ProxyBed::plain();
    let at_hop = bed.invite(&Req::new("INVITE", "forked", client()));
    let mut calls = Vec::new();
    // The numbers also determine the branches, so each dialog has its own.
    for (tag, status, contact, cseq) in
        [("bob", 180, "127.0.4.1:5060", 2), ("carol", 183, "127.0.4.2:5060", 4)]
    {
        let rings = Resp { tag, ..Resp::new(status, addr(contact)) };
        let rings = bed.one(callee(), &rings.bytes(&at_hop.bytes));
        let call = Dialog::of(&at_hop, &rings);
        call.caller_asks(&mut bed, "PRACK", cseq);
        call.callee_asks(&mut bed, "UPDATE", 1);
        call.caller_asks(&mut bed, "UPDATE", cseq + 1);
        calls.push(call);
    }
    assert_ne!(calls[0].caller.routes, calls[1].caller.routes, "each token leads to its own target");
    for call in &calls {
        let tag = if call.callee.tag == "bob" { "bob" } else { "carol" };
        let ok = Resp { tag, ..Resp::new(200, call.callee.at) };
        let ok = bed.one(callee(), &ok.bytes(&at_hop.bytes));
        assert_eq!(Dialog::of(&at_hop, &ok).caller.routes, call.caller.routes);
        call.caller_asks(&mut bed, "ACK", 1);
        call.callee_asks(&mut bed, "BYE", 2);
    }
    // The token of one dialog does not lead to the other's target.
    let crossed = Req { uri: format!("sip:{}", calls[1].callee.at), ..calls[0].by_caller("INFO", 9) };
    assert_eq!(bed.one(client(), &crossed.bytes()).status(), 403);
    bed.assert_forgets();
}

/// RFC 3261 §8.1.1.3: From has a tag, in requests within a dialog the local one (§12.2.1.1). A sender without it got
/// the token elsewhere. The token is as invalid as an invented one, and is verified once.
#[test]
fn a_token_does_not_hold_without_a_from_tag() {
    for mode in [Service::HOPS, STATELESS, Service::Calls(Spread::Found)] {
        for method in ["INFO", "BYE", "INVITE"] {
            let mut bed = ProxyBed::plain().with_mode(mode);
            let at_hop = bed.invite(&Req::new("INVITE", "call", client()));
            let ok = Resp::new(200, addr("127.0.4.1:5060")).bytes(&at_hop.bytes);
            let ok = bed.one(callee(), &ok);
            let call = Dialog::of(&at_hop, &ok);
            call.caller_asks(&mut bed, "ACK", 1);
            let before = verified(&bed);
            let bare = Req { from_tag: String::new(), ..call.by_caller(method, 2) }.via(&via("bare"));
            assert_eq!(bed.one(client(), &bare.bytes()).status(), 403, "{mode:?} {method}");
            assert_eq!((bed.shard.counters().tokens_refused, verified(&bed) - before), (1, 1));
            call.caller_asks(&mut bed, "BYE", 3);
        }
    }
}

/// Returns the number of verified tokens.
fn verified(bed: &ProxyBed) -> u64 {
    let done = bed.shard.ledger();
    done.iter().find(|(operation, _)| *operation == Operation::VerifyToken).map_or(0, |(_, times)| times)
}

/// A caller keeps the route set of the 180, and the 200 comes with another Contact.
#[test]
fn the_contact_changes_between_180_and_200() {
    let mut bed = ProxyBed::plain();
    let at_hop = bed.invite(&Req::new("INVITE", "call", client()));
    let rings = bed.one(callee(), &Resp::new(180, addr("127.0.4.1:5060")).bytes(&at_hop.bytes));
    let mut call = Dialog::of(&at_hop, &rings);
    call.caller_asks(&mut bed, "PRACK", 2);
    bed.one(callee(), &Resp::new(200, addr("127.0.4.2:5060")).bytes(&at_hop.bytes));
    call.callee.at = addr("127.0.4.2:5060");
    talk(&mut bed, &call);
    bed.assert_forgets();
}

/// A caller may keep the route set of any response before the 200, or use that of the 200 (RFC 3261 §13.2.2.4).
#[test]
fn the_contact_changes_between_provisional_responses() {
    let places = ["127.0.4.1:5060", "127.0.4.2:5060"].map(addr);
    for (first, second, last, kept, ok_records) in [
        (0, 1, 1, 0, true),
        (0, 1, 1, 1, true),
        (0, 1, 1, 2, true),
        (0, 1, 0, 0, true),
        (0, 1, 0, 1, true),
        (0, 0, 1, 0, true),
        (0, 0, 1, 0, false),
        (0, 1, 1, 0, false),
    ] {
        let mut bed = ProxyBed::plain();
        let at_hop = bed.invite(&Req::new("INVITE", "call", client()));
        let mut responses = Vec::new();
        for (status, place) in [(180, first), (183, second), (200, last)] {
            let mut response = Resp::new(status, places[place]);
            if status == 200 && !ok_records {
                response.routes = Some(Vec::new());
            }
            responses.push(bed.one(callee(), &response.bytes(&at_hop.bytes)));
        }
        let mut call = Dialog::of(&at_hop, &responses[kept]);
        call.callee.at = places[last];
        call.caller_asks(&mut bed, "ACK", 1);
        call.caller_asks(&mut bed, "INFO", 2);
        call.callee_asks(&mut bed, "BYE", 1);
        bed.assert_forgets();
    }
}

/// A party behind a proxy without Record-Route can move, since that proxy only passes its messages on.
#[test]
fn a_party_behind_a_proxy_that_does_not_record_moves() {
    let between = addr("127.0.2.1:5060");
    let mut bed = ProxyBed::plain();
    let mut call = bed.call("call");
    for (cseq, method) in [(2, "UPDATE"), (3, "INVITE")] {
        call.caller.at.set_port(7_000 + cseq as u16);
        let mut request = call.by_caller(method, cseq);
        request.via = format!("SIP/2.0/UDP {between};branch=z9hG4bK-between-{cseq}, {}", request.via);
        let arrived = bed.receive(0, between, &request.bytes()).pop().expect("the request is forwarded");
        assert_eq!(bed.one(callee(), &Resp::new(200, callee()).bytes(&arrived.bytes)).to, between);
        call.callee_asks(&mut bed, "INFO", cseq);
    }
    bed.assert_forgets();
}

/// RFC 3261 §12.2: re-INVITE and UPDATE, from either side, with a new Contact, and likewise the 2xx. A telephone that
/// has changed its network also sends from the new address.
#[test]
fn either_side_may_change_its_contact() {
    for method in ["INVITE", "UPDATE", "SUBSCRIBE"] {
        let mut bed = ProxyBed::plain();
        let mut call = bed.call("call");
        talk(&mut bed, &call);
        call.caller.at = addr("127.0.9.2:7000");
        call.caller_asks(&mut bed, method, 40);
        call.callee_asks(&mut bed, "INFO", 41);
        call.callee.at = addr("127.0.4.7:7000");
        call.callee_asks(&mut bed, method, 42);
        call.caller_asks(&mut bed, "INFO", 43);
        // The receiver has moved, and says so in its response.
        let asked = bed.receive(0, call.caller.at, &call.by_caller(method, 44).bytes());
        let asked = asked.last().expect("the request is forwarded");
        let moved = addr("127.0.4.8:7000");
        bed.one(moved, &Resp::new(200, moved).bytes(&asked.bytes));
        call.callee.at = moved;
        call.caller_asks(&mut bed, "INFO", 45);
        call.caller_asks(&mut bed, "BYE", 46);
        bed.assert_forgets();
    }
}

/// A refused target refresh changes nothing (RFC 3261 §14.1), nor does a request that is no target refresh.
#[test]
fn a_refused_target_refresh_changes_nothing() {
    let mut bed = ProxyBed::plain();
    let mut call = bed.call("call");
    let home = call.caller.at;
    call.caller.at = addr("127.0.9.2:7000");
    let update = bed.one(call.caller.at, &call.by_caller("UPDATE", 2).bytes());
    assert_eq!(answered(&mut bed, &update, 488).status(), 488);
    call.caller_asks(&mut bed, "INFO", 3);
    assert_eq!(bed.one(callee(), &call.by_callee("INFO", 1).bytes()).status(), 403);
    call.caller.at = home;
    call.callee_asks(&mut bed, "INFO", 2);
}

/// After a restart only the table of moved targets is lost. A peer balancer never had it.
#[test]
fn after_a_restart_tokens_lead_where_they_did() {
    let mut bed = ProxyBed::plain();
    let mut call = bed.call("call");
    let home = call.caller.at;
    call.caller.at = addr("127.0.9.2:7000");
    call.caller_asks(&mut bed, "UPDATE", 2);
    call.callee_asks(&mut bed, "INFO", 1);
    let mut bed = ProxyBed::plain();
    assert_eq!(bed.one(callee(), &call.by_callee("INFO", 2).bytes()).status(), 403);
    call.caller_asks(&mut bed, "UPDATE", 3);
    call.callee_asks(&mut bed, "INFO", 3);
    call.caller.at = home;
    call.callee_asks(&mut bed, "BYE", 4);
}

#[test]
fn the_key_changes_in_a_call() {
    let mut bed = ProxyBed::plain();
    let mut call = bed.call("call");
    call.caller.at = addr("127.0.9.2:7000");
    call.caller_asks(&mut bed, "UPDATE", 2);
    change_key(&mut bed);
    talk(&mut bed, &call);
    assert_eq!(bed.shard.counters().tokens_refused, 0);
    bed.set(|setup| {
        setup.settings.tokens = Arc::new(Tokens::new(TokenKey([9; 16]), &[], LIFETIME));
    });
    let victim = Req { uri: "sip:127.0.8.8".to_owned(), ..call.by_caller("INFO", 50) };
    assert_eq!(bed.one(call.caller.at, &victim.bytes()).status(), 403);
    assert_eq!(bed.shard.counters().tokens_refused, 1);
}

/// RFC 6665 §4.1.2.4: the NOTIFY may come before the 200 to its SUBSCRIBE. REFER creates a subscription, too.
#[test]
fn a_notify_comes_before_the_200() {
    for method in ["SUBSCRIBE", "REFER"] {
        let mut bed = ProxyBed::plain();
        let request = Req::new(method, "watch", client());
        let at_hop = bed.one(client(), &request.bytes());
        let mut early = Dialog::of(&at_hop, &at_hop);
        (early.caller.at, early.callee.at) = (client(), callee());
        early.callee_asks(&mut bed, "NOTIFY", 1);
        let accepted = bed.one(callee(), &Resp::new(202, callee()).bytes(&at_hop.bytes));
        let dialog = Dialog::of(&at_hop, &accepted);
        dialog.callee_asks(&mut bed, "NOTIFY", 2);
        dialog.caller_asks(&mut bed, "SUBSCRIBE", 2);
        bed.assert_forgets();
    }
}

/// Other proxies before and behind this one: requests go to them, whatever the Contacts are.
#[test]
fn between_other_proxies() {
    let (before, behind) = ("127.0.2.1:5060", callee());
    let mut bed = ProxyBed::plain();
    let mut invite =
        Req::new("INVITE", "chain", client()).with("Record-Route", &format!("<sip:{before};lr>"));
    invite.via = format!("SIP/2.0/UDP {before};branch=z9hG4bKbefore, {}", invite.via);
    let at_hop = bed.receive(0, addr(before), &invite.bytes()).pop().expect("the request is forwarded");
    // For example a balancer with one address for this proxy and one for its servers.
    let (near, far) = (format!("<sip:{behind};lr;sbt=x>"), "<sip:127.0.2.3:5060;lr;sbt=x>".to_owned());
    let mut routes = vec![far.clone(), near.clone()];
    routes.extend(record_routes(&at_hop.bytes));
    let ok = Resp { routes: Some(routes), ..Resp::new(200, addr("127.0.4.1:5060")) };
    let ok = bed.one(behind, &ok.bytes(&at_hop.bytes));
    let mut call = Dialog::of(&at_hop, &ok);
    // As the neighbours send them: each has removed its own Route values.
    assert_eq!(call.caller.routes.remove(0), format!("<sip:{before};lr>"));
    for (request, from, to) in
        [(call.by_caller("INFO", 2), addr(before), behind), (call.by_callee("INFO", 2), behind, addr(before))]
    {
        let sent = bed.receive(0, from, &request.bytes()).pop().expect("the request is forwarded");
        assert_eq!(sent.to, to);
        let rest = if from == behind { 1 } else { 2 };
        assert_eq!(sent.message().routes().count(), rest);
    }
    // Bypassing its neighbour to the Contact, a party would use a target that no dialog has named.
    let past = Req { routes: call.caller.routes[..1].to_vec(), ..call.by_caller("INFO", 3) };
    assert_eq!(bed.one(addr(before), &past.bytes()).status(), 403);
}

/// RFC 5658: two addresses of this proxy, of one family or of two.
#[test]
fn two_listeners() {
    for (listeners, client_at, hop) in [
        ([PROXY, "127.0.0.2:5060"], "127.0.9.1:6000", "127.0.1.1:5060"),
        (["[::1]:5060", "127.0.0.2:5060"], "[::1]:6000", "127.0.1.1:5060"),
        ([PROXY, "[::1]:5060"], "127.0.9.1:6000", "[::1]:5081"),
    ] {
        let mut bed = ProxyBed::new(&listeners, &[(hop, 1)]);
        let at_hop = bed.invite_from(0, addr(client_at), &Req::new("INVITE", "call", addr(client_at)));
        assert_eq!((at_hop.to, at_hop.message().record_routes().count()), (addr(hop), 2));
        let ok = bed.one_at(1, addr(hop), &Resp::new(200, addr(hop)).bytes(&at_hop.bytes));
        let call = Dialog::of(&at_hop, &ok);
        assert_eq!((call.caller.routes.len(), call.callee.routes.len()), (2, 2));
        talk(&mut bed, &call);
        let misdirected = Req { uri: "sip:127.0.8.8".to_owned(), ..call.by_caller("INFO", 50) };
        assert_eq!(bed.one_at(0, call.caller.at, &misdirected.bytes()).status(), 403);
        bed.assert_forgets();
    }
}

/// A next hop sends the request back with another Request-URI, and it goes on to another target (RFC 3261 §16.3). The
/// next hop's Record-Route may stand between the two of this proxy.
#[test]
fn a_spiral() {
    for records in [false, true] {
        let mut bed = ProxyBed::new(&[PROXY], &[(HOPS[0], 0)]);
        let first = bed.invite(&Req::new("INVITE", "spiral", client()));
        let mut text = replaced(&first.bytes, "sip:bob@pool.example SIP", "sip:carol@pool.example SIP");
        let via = format!("Via: SIP/2.0/UDP {};branch=z9hG4bKhop\r\nVia: ", callee());
        text = string(&text).replacen("Via: ", &via, 1).into_bytes();
        if records {
            let route = format!("Record-Route: <sip:{};lr>\r\nRecord-Route: ", callee());
            text = string(&text).replacen("Record-Route: ", &route, 1).into_bytes();
        }
        let contact = addr("127.0.4.1:5060");
        let second = bed.receive(0, callee(), &text).pop().expect("the request is forwarded");
        assert_eq!(second.message().record_routes().count(), if records { 3 } else { 2 });
        // Back through the hop, which removes its Via.
        let back = bed.one(callee(), &Resp::new(200, contact).bytes(&second.bytes));
        assert_eq!(back.to, callee());
        let popped = remove_line(&string(&back.bytes), "Via: SIP/2.0/UDP 127.0.1.1");
        let ok = bed.one(callee(), popped.as_bytes());
        assert_eq!((ok.to, ok.status()), (client(), 200));
        let mut call = Dialog::of(&second, &ok);
        call.callee.at = if records { callee() } else { contact };
        let info = Req { uri: format!("sip:{contact}"), ..call.by_caller("INFO", 2) };
        let sent = bed.one(client(), &info.bytes());
        assert_eq!(sent.to, call.callee.at);
        if records {
            // The next hop removes its Route, and the request comes here again.
            let rest = Req { routes: call.caller.routes[2..].to_vec(), ..info }
                .via(&format!("SIP/2.0/UDP {};branch=z9hG4bKagain", callee()));
            assert_eq!(bed.one(callee(), &rest.bytes()).to, contact);
        }
        let bye = bed.one(callee(), &call.by_callee("BYE", 2).bytes());
        assert_eq!(bye.to, if records { callee() } else { client() });
    }
}

fn remove_line(text: &str, start: &str) -> String {
    assert!(text.contains(start), "{start} in {text}");
    text.split_inclusive("\r\n").filter(|line| !line.starts_with(start)).collect()
}

/// RFC 3261 §16.4: strict routers before and behind this proxy.
#[test]
fn strict_routers() {
    let mut bed = ProxyBed::plain();
    let call = bed.call("call");
    for (request, from, to) in
        [(call.by_caller("INFO", 2), client(), callee()), (call.by_callee("INFO", 2), callee(), client())]
    {
        let mut strict = request.clone();
        strict.uri = strict.routes.remove(0).trim_matches(['<', '>']).to_owned();
        strict.routes.push(format!("<{}>", request.uri));
        let sent = bed.one(from, &strict.bytes());
        assert_eq!((sent.to, sent.message().uri()), (to, Some(request.uri.as_bytes())));
    }
    // Behind this proxy, in place of the callee's only proxy.
    let strict = addr("127.0.5.5:5060");
    let at_hop = bed.invite(&Req::new("INVITE", "behind", client()));
    let mut routes = vec![format!("<sip:{strict}>")];
    routes.extend(record_routes(&at_hop.bytes));
    let ok = Resp { routes: Some(routes), ..Resp::new(200, addr("127.0.4.1:5060")) };
    let ok = bed.one(callee(), &ok.bytes(&at_hop.bytes));
    let call = Dialog::of(&at_hop, &ok);
    let sent = bed.one(client(), &call.by_caller("INFO", 3).bytes());
    assert_eq!((sent.to, sent.message().uri()), (strict, Some(format!("sip:{strict}").as_bytes())));
}

/// A peer balancer at another address, with the same key, before or behind this one: each follows only its own values.
#[test]
fn a_peer_balancer_in_the_chain() {
    let (ours, theirs) = (PROXY, "127.0.0.9:5060");
    for peer_is_first in [false, true] {
        let mut bed = ProxyBed::new(&[ours], &[(if peer_is_first { HOPS[0] } else { theirs }, 0)]);
        let mut peer = ProxyBed::new(&[theirs], &[(if peer_is_first { ours } else { HOPS[0] }, 0)]);
        let (first, second, between, entry) = if peer_is_first {
            (&mut peer, &mut bed, addr(theirs), ours)
        } else {
            (&mut bed, &mut peer, addr(ours), theirs)
        };
        let middle = first.invite(&Req::new("INVITE", "call", client()));
        assert_eq!(middle.to, addr(entry));
        let at_callee = second.receive(0, between, &middle.bytes).pop().expect("the request is forwarded");
        let ok = second.one(callee(), &Resp::new(200, callee()).bytes(&at_callee.bytes));
        let ok = first.one(addr(entry), &ok.bytes);
        let call = Dialog::of(&at_callee, &ok);
        assert_eq!(call.caller.routes.len(), 2);
        let sent = first.one(client(), &call.by_caller("BYE", 2).bytes());
        assert_eq!(sent.to, addr(entry));
        assert_eq!(second.one(between, &sent.bytes).to, callee());
        let sent = second.one(callee(), &call.by_callee("INFO", 2).bytes());
        assert_eq!(sent.to, between);
        assert_eq!(first.one(addr(entry), &sent.bytes).to, client());
    }
}

/// A request to a callee whose Contact is an address or name of this proxy goes to the hop of its dialog.
#[test]
fn a_request_to_ourselves_goes_to_the_hop_of_its_dialog() {
    for uri in [format!("sip:bob@{PROXY}"), "sip:bob@proxy.example".to_owned()] {
        let mut bed = ProxyBed::two_hops();
        for n in 0..8 {
            let call_id = format!("call-{n}");
            let at_hop = bed.invite(&Req::new("INVITE", &call_id, client()));
            // Its Contact is elsewhere, or is this proxy.
            let contact = if n % 2 == 0 { uri.clone() } else { "sip:127.0.4.1".to_owned() };
            let ok = Resp { contact, ..Resp::new(200, at_hop.to) };
            let ok = bed.one(at_hop.to, &ok.bytes(&at_hop.bytes));
            let call = Dialog::of(&at_hop, &ok);
            for (cseq, method) in [(1, "ACK"), (2, "INFO"), (3, "BYE")] {
                let request = Req { uri: uri.clone(), ..call.by_caller(method, cseq) };
                let sent = Dialog::exchange(&mut bed, &call.caller, &call.callee, &request);
                assert_eq!(sent.message().uri(), Some(uri.as_bytes()));
            }
            // The target of the caller is unknown.
            let hang_up = Req { uri: uri.clone(), ..call.by_callee("BYE", 4) };
            assert_eq!(bed.one(call.callee.at, &hang_up.bytes()).status(), 404);
        }
        bed.assert_forgets();
    }
}

/// The 200 contains the name, so that it is resolved before the ACK, which is not retransmitted; also if a party moves
/// to a name.
#[test]
fn the_name_of_a_contact_is_resolved_when_the_200_passes() {
    for (contact, by_dns, port) in [("phone.example", true, None), ("phone.example:5070", false, Some(5070))]
    {
        for moves in [false, true] {
            let mut bed = ProxyBed::plain();
            let (invite, cseq) = if moves {
                (bed.call("call").by_caller("INVITE", 2), 2)
            } else {
                (Req::new("INVITE", "call", client()), 1)
            };
            bed.events.clear();
            let at_hop = bed.invite(&invite);
            let ok = Resp { contact: format!("sip:bob@{contact}"), ..Resp::new(200, callee()) };
            let ok = bed.one(callee(), &ok.bytes(&at_hop.bytes));
            let (transport, host) = (Transport::Udp, "phone.example".to_owned());
            let name = HopName { transport, by_dns, host, port };
            assert_eq!(bed.events, [ShardEvent::LookUp(name.clone())]);
            let at = addr("127.0.4.1:5070");
            bed.input(ShardInput::Name { name: &name, answer: &found(transport, &[at]) });
            let routes = if moves { invite.routes } else { Dialog::of(&at_hop, &ok).caller.routes };
            let uri = format!("sip:bob@{contact}");
            let ack = Req { uri, routes, ..Dialog::of(&at_hop, &ok).by_caller("ACK", cseq) };
            assert_eq!(bed.one(client(), &ack.bytes()).to, at, "{contact} {moves}");
        }
    }
}

/// RFC 3263 §4.1: a URI with a transport that this proxy lacks gets no datagram.
#[test]
fn a_contact_that_asks_for_another_transport_is_refused() {
    for (transport, is_refused) in
        [("tcp", true), ("TLS", true), ("ws", true), ("udp", false), ("UDP", false)]
    {
        let mut bed = ProxyBed::plain();
        let at_hop = bed.invite(&Req::new("INVITE", "call", client()));
        let contact = format!("sip:bob@{};transport={transport}", callee());
        let ok = Resp { contact: contact.clone(), ..Resp::new(200, callee()) };
        let ok = bed.one(callee(), &ok.bytes(&at_hop.bytes));
        let call = Dialog::of(&at_hop, &ok);
        let sent = bed.one(client(), &Req { uri: contact, ..call.by_caller("BYE", 2) }.bytes());
        if is_refused {
            assert_eq!((sent.to, sent.status()), (client(), 502), "{transport}");
        } else {
            assert_eq!(sent.to, callee(), "{transport}");
        }
    }
}

/// A call whose requests pass this proxy only by the route set that the caller was given beforehand. Tokens of the
/// dialog do not matter, since this proxy added no Record-Route.
#[test]
fn a_party_that_ignores_record_route_reaches_the_next_hops() {
    let mut bed = ProxyBed::plain();
    let mut call = bed.call("call");
    for routes in [Vec::new(), vec![format!("<sip:{PROXY};lr>")]] {
        call.caller.routes = routes;
        let cseq = 2 + call.caller.routes.len() as u32;
        let sent = bed.one(client(), &call.by_caller("INFO", cseq).bytes());
        assert_eq!(sent.to, callee());
    }
}

/// The ACK of such a party to a 2xx belongs to no transaction (RFC 3261 §13.2.2.4). It goes to the next hop that its
/// Request-URI names, or else to that of its call, and nowhere else.
#[test]
fn an_ack_that_ignores_record_route_reaches_the_next_hops() {
    for spread in [Spread::Found, Spread::Counted] {
        let mode = Service::Proxy { spread, record_route: true };
        let mut bed = ProxyBed::two_hops().with_mode(mode);
        bed.set(|setup| setup.settings.forwards_orphans = false);
        for number in 0..8 {
            let mut call = bed.call(&format!("call{number}"));
            call.caller.routes = Vec::new();
            let ack = call.by_caller("ACK", 1);
            let elsewhere = Req { uri: "sip:127.0.8.8".to_owned(), ..ack.clone() };
            for ack in [ack, elsewhere] {
                assert_eq!(bed.one(client(), &ack.bytes()).to, call.callee.at, "{spread:?}");
            }
            let named = Req { uri: format!("sip:{}", HOPS[number % 2]), ..call.by_caller("ACK", 1) };
            assert_eq!(bed.one(client(), &named.bytes()).to, addr(HOPS[number % 2]));
        }
    }
}
