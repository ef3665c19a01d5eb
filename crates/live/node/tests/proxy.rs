//! The proxy on bytes: header fields, targets, and the senders that may choose them.

use crate::common::{ProxyBed as Bed, *};
use balance::Sign;

/// State that a new process takes over, and its handling of unknown responses.
#[test]
fn requests_in_progress_are_known_by_their_call() {
    let mut bed = Bed::plain();
    let at_hop = bed.invite(&Req::new("INVITE", "call", client()));
    let hash = bed.shard.tokens().call_hash();
    let key = hash.call_key(b"call");
    assert_eq!(key, bed.shard.tokens().call_key(b"call"));
    let known = |bed: &Bed| {
        let mut calls = Vec::new();
        bed.shard.calls(|call| calls.push(call));
        calls
    };
    assert!(known(&bed).contains(&key));
    let ringing = answer(&at_hop.bytes, addr(PROXY), 180, addr(HOPS[0]));
    assert!(!bed.shard.is_stray(&ringing) && !bed.shard.is_stray(&at_hop.bytes[..300]));
    assert!(Bed::plain().shard.is_stray(&ringing), "a transaction of another process");
    respond(&mut bed, &at_hop, 486);
    bed.assert_forgets();
    assert_eq!(known(&bed), []);
    assert!(bed.shard.is_stray(&ringing));
    // An answered INVITE is not retransmitted, but a copy may arrive.
    let at_hop = bed.invite(&Req::new("INVITE", "call", client()));
    respond(&mut bed, &at_hop, 200);
    assert!(known(&bed).contains(&key));
    bed.assert_forgets();
    assert_eq!(known(&bed), []);
}

#[test]
fn a_call_from_invite_to_bye() {
    let mut bed = Bed::plain();
    let invite = Req::new("INVITE", "call", client());
    let at_hop = bed.invite(&invite);
    assert_eq!(at_hop.to, addr(HOPS[0]));
    let message = at_hop.message();
    assert_eq!(message.uri(), Some(&b"sip:bob@pool.example"[..]), "the Request-URI stays");
    assert_eq!(message.max_forwards().unwrap().0, 69);
    assert_eq!((message.vias().count(), message.record_routes().count()), (2, 1));
    assert_eq!(message.second_via().unwrap().rport, wire::Rport::Port(6000));
    assert_eq!(message.body(), b"v=0\r\n");
    let mut at_caller = None;
    let contact = addr("127.0.1.9:5060");
    for status in [180, 200, 200] {
        let sent = bed.one(addr(HOPS[0]), &answer(&at_hop.bytes, addr(PROXY), status, contact));
        assert_eq!((sent.to, sent.status(), sent.message().vias().count()), (client(), status, 1));
        at_caller = Some(sent);
    }
    let at_caller = at_caller.expect("three responses");
    let call = Dialog::of(&at_hop, &at_caller);
    let ack = bed.one(client(), &call.by_caller("ACK", 1).bytes());
    assert_eq!((ack.to, ack.message().routes().count()), (contact, 0), "to the callee's Contact");
    let bye = bed.one(client(), &call.by_caller("BYE", 2).bytes());
    assert_eq!((bye.to, bye.message().record_routes().count()), (contact, 0));
    let again = call.by_caller("BYE", 2).bytes();
    assert_eq!(bed.receive(0, client(), &again), [], "a retransmission is absorbed");
    let ok = answered(&mut bed, &bye, 200);
    assert_eq!((ok.to, ok.status()), (client(), 200));
    assert_eq!(bed.one(client(), &again), ok);
    let counters = bed.shard.counters();
    assert_eq!((counters.requests_forwarded, counters.responses_forwarded), (3, 4));
    assert_eq!((counters.tokens_refused, counters.replies.len(), counters.drops.len()), (0, 0, 0));
    bed.assert_forgets();
}

/// RFC 3261 §16.10: a CANCEL is answered by an element that knows the request. §9.2: it ends only an INVITE.
#[test]
fn a_cancel_of_a_request_other_than_invite_is_answered_and_changes_nothing() {
    for method in ["OPTIONS", "MESSAGE", "SUBSCRIBE", "STRANGE"] {
        let mut bed = Bed::two_hops();
        let request = Req::new(method, "call", client());
        let at_hop = bed.one(client(), &request.bytes());
        let cancel = request.same_branch("CANCEL", None);
        let answer_to_cancel = bed.one(client(), &cancel.bytes());
        assert_eq!((answer_to_cancel.to, answer_to_cancel.status()), (client(), 200), "{method}");
        assert_eq!(answer_to_cancel.message().cseq().method, Method::Cancel);
        assert_eq!(bed.one(client(), &cancel.bytes()), answer_to_cancel, "each copy gets the same response");
        // Another hop gets the request all the same, and its response goes back.
        let unavailable = answer(&at_hop.bytes, addr(PROXY), 503, at_hop.to);
        let at_other = bed.one(at_hop.to, &unavailable);
        assert_ne!(at_other.to, at_hop.to);
        let ok = answered(&mut bed, &at_other, 200);
        assert_eq!((ok.to, ok.status()), (client(), 200));
        // Of another transaction, which is unknown here.
        for other in
            [cancel.clone().via(&via("other")), cancel.clone().via(&cancel.via.replace("6000", "6001"))]
        {
            let passed_on = bed.one(client(), &other.bytes());
            assert_eq!(passed_on.message().method(), Some(Method::Cancel), "{method}");
        }
        bed.assert_forgets();
    }
}

/// RFC 3261 §18.1.2: a response whose topmost Via has another sent-by MUST be discarded.
#[test]
fn a_response_with_the_via_of_another_is_dropped() {
    let mut bed = Bed::plain();
    let at_hop = bed.invite(&Req::new("INVITE", "call", client()));
    let ok = answer(&at_hop.bytes, addr(PROXY), 200, at_hop.to);
    let ours = format!("SIP/2.0/UDP {PROXY};branch");
    let others = ["127.0.0.1:5061", "127.0.0.2:5060", "proxy.example", "[::1]:5060"];
    for other in others {
        let misdirected = replaced(&ok, &ours, &format!("SIP/2.0/UDP {other};branch"));
        assert_eq!(bed.receive(0, at_hop.to, &misdirected), [], "{other}");
    }
    assert_eq!(bed.drops("foreign_response"), others.len() as u64);
    // The default port may be omitted.
    let same = replaced(&ok, &ours, "SIP/2.0/UDP 127.0.0.1;branch");
    assert_eq!(bed.one(at_hop.to, &same).status(), 200);
    bed.assert_forgets();
}

#[test]
fn branches_cannot_be_guessed_and_strays_are_dropped() {
    let mut bed = Bed::plain();
    let first = bed.invite(&Req::new("INVITE", "call", client()));
    let second = bed.invite(&Req::new("INVITE", "other", client()));
    assert_ne!(first.branch(), second.branch());
    let text = String::from_utf8(first.branch()).unwrap();
    let last = text.chars().last().unwrap();
    let forged = format!("{}{}", &text[..text.len() - 1], if last == '0' { 'g' } else { '0' });
    let forged = replaced(&answer(&first.bytes, addr(PROXY), 200, addr(HOPS[0])), &text, &forged);
    assert_eq!(bed.receive(0, addr(HOPS[0]), &forged), []);
    assert_eq!(bed.drops("foreign_response"), 1);
    bed.assert_forgets();
}

/// A Route leads elsewhere only for dialogs through this proxy.
#[test]
fn strangers_cannot_choose_the_target() {
    let mut bed = Bed::plain();
    let victim =
        || Req { routes: vec!["<sip:127.0.8.8:5060;lr>".to_owned()], ..Req::new("OPTIONS", "x", client()) };
    assert_eq!(bed.one(client(), &victim().bytes()).status(), 403);
    let ours = format!("<sip:{PROXY};lr>");
    let preset = Req {
        routes: vec![ours.clone()],
        to_tag: Some("t".to_owned()),
        uri: "sip:127.0.8.8".to_owned(),
        ..victim()
    };
    assert_eq!(bed.one(client(), &preset.bytes()).to, addr(HOPS[0]), "without a token, to the next hop");
    let behind =
        Req { routes: vec![ours, format!("<sip:{};lr>", HOPS[0])], ..Req::new("OPTIONS", "y", client()) };
    let sent = bed.one(client(), &behind.bytes());
    assert_eq!((sent.to, sent.message().routes().count()), (addr(HOPS[0]), 1), "a next hop may be named");
    bed.assert_forgets();
}

/// A call goes to one hop, calls to all of them. ICMP errors, by their quotation, and 503 lead to the other. All shards
/// learn of the failure.
#[test]
fn a_failed_hop_is_skipped() {
    let mut bed = Bed::two_hops();
    let invite = |n: usize| Req::new("INVITE", &format!("call{n}"), client());
    let calls: Vec<_> = (0..20).map(|n| bed.invite(&invite(n))).collect();
    let (dead, other) = (addr(HOPS[0]), addr(HOPS[1]));
    let lost: Vec<_> = calls.iter().filter(|sent| sent.to == dead).collect();
    assert!((4..=16).contains(&lost.len()), "{} of 20", lost.len());
    for sent in &lost {
        let moved = bed.unreachable(dead, &sent.bytes[..200]);
        assert_eq!((moved.len(), moved[0].to), (1, other));
    }
    let (slot, until) = (Slot(0), bed.now + Duration::from_secs(32));
    bed.events.retain(|event| matches!(event, ShardEvent::Sign(Sign::Unreachable { .. })));
    assert_eq!(bed.events, [ShardEvent::Sign(Sign::Unreachable { slot, until })], "once");
    let nodes = bed.shard.balancer().nodes().to_vec();
    let mut informed = Bed::two_hops();
    informed.set(|setup| setup.nodes = nodes.into());
    for bed in [&mut bed, &mut informed] {
        assert!((20..40).all(|n| bed.invite(&invite(n)).to == other), "the failed hop is paused");
        assert_eq!(bed.resting(), [dead]);
        bed.wait(Duration::from_secs(33));
        assert!(
            (40..60).any(|n| bed.invite(&invite(n)).to == dead),
            "the failed hop is used again after its pause"
        );
        bed.assert_forgets();
    }
    assert!(!informed.events.iter().any(|event| matches!(event, ShardEvent::Sign(Sign::Unreachable { .. }))));
}

/// An ICMP error with an unknown branch has no effect. A receiver of a request knows its branch, which counts only for
/// the receiver's address.
#[test]
fn a_forged_icmp_error_does_nothing() {
    let mut bed = Bed::two_hops();
    let at_hop = bed.invite(&Req::new("INVITE", "call", client()));
    let other = addr(HOPS.into_iter().find(|&hop| addr(hop) != at_hop.to).expect("there are two hops"));
    let branch = String::from_utf8(at_hop.branch()).unwrap();
    let last = if branch.ends_with('0') { "g" } else { "0" };
    let forged = replaced(&at_hop.bytes, &branch, &format!("{}{last}", &branch[..branch.len() - 1]));
    let ports = [other, addr("127.0.8.8:5060"), (at_hop.to.ip(), 5061).into()];
    let elsewhere = ports.map(|to| (to, &at_hop.bytes));
    for (to, quoted) in [&[(at_hop.to, &forged)], &elsewhere[..]].concat() {
        assert_eq!(bed.unreachable(to, quoted), [], "{to}");
        assert_eq!(bed.resting(), [], "{to}");
    }
    let sent = bed.unreachable(at_hop.to, &at_hop.bytes);
    assert_eq!((sent.len(), sent[0].to, bed.resting()), (1, other, vec![at_hop.to]));
}

/// A responder may change the Via below this proxy's. The response still goes to the source of the request.
#[test]
fn a_response_goes_where_its_request_came_from() {
    for status in [180, 200, 407, 486] {
        let mut bed = Bed::plain();
        let at_hop = bed.invite(&Req::new("INVITE", "call", client()));
        let response = answer(&at_hop.bytes, addr(PROXY), status, addr(HOPS[0]));
        let forged = replaced(&response, "received=127.0.9.1", "received=127.0.8.8");
        assert_ne!(forged, response);
        let sent = bed.receive(0, addr(HOPS[0]), &forged);
        let back: Vec<_> = sent.iter().filter(|sent| sent.message().status() == Some(status)).collect();
        assert_eq!((back.len(), back[0].to), (1, client()), "{sent:?}");
        let repeated = bed.wait(Duration::from_secs(40));
        assert!(repeated.iter().all(|sent| [client(), addr(HOPS[0])].contains(&sent.to)), "{repeated:?}");
        bed.assert_forgets();
    }
}

/// A `maddr` that is no address is ignored: the response goes to the source of the request.
#[test]
fn a_response_to_a_via_without_an_address() {
    let mut bed = Bed::plain();
    let request = Req::new("INVITE", "call", client()).bytes();
    let request = replaced(&request, ";rport", ";maddr=nowhere.example");
    let at_hop = bed.receive(0, client(), &request).pop().expect("a 100 before it");
    let challenge = [("Proxy-Authenticate", "Digest realm=\"r\", nonce=\"n\"")];
    let response = answer_with(&at_hop.bytes, addr(PROXY), 407, addr(HOPS[0]), &challenge);
    let sent = bed.receive(0, addr(HOPS[0]), &response);
    let back = sent.iter().find(|sent| sent.to == client()).expect("the response is forwarded");
    assert_eq!((back.status(), back.message().header("Proxy-Authenticate").is_some()), (407, true));
}

/// RFC 3261 §8.1.1.3: From MUST have a tag, which RFC 2543 callers omit. The sides of a dialog without it cannot be
/// told apart, so it gets no Record-Route, and its requests do not pass this proxy.
#[test]
fn a_dialog_without_a_from_tag_gets_no_record_route() {
    for mode in [Service::HOPS, STATELESS] {
        for method in ["INVITE", "SUBSCRIBE", "REFER", "OPTIONS", "ACK"] {
            let mut bed = Bed::plain().with_mode(mode);
            let request = Req { from_tag: String::new(), ..Req::new(method, "old", client()) };
            let at_hop = bed.receive(0, client(), &request.bytes()).pop().expect("the request is forwarded");
            assert_eq!((at_hop.to, record_routes(&at_hop.bytes).len()), (addr(HOPS[0]), 0), "{method}");
            assert!(at_hop.message().from_tag().is_none());
            if method == "INVITE" {
                let ok = answered(&mut bed, &at_hop, 200);
                assert_eq!((ok.to, ok.status(), record_routes(&ok.bytes).len()), (client(), 200, 0));
                let is_warned = |event: &ShardEvent| matches!(event, ShardEvent::NoRecordRoute(_));
                assert!(!bed.events.iter().any(is_warned), "no Record-Route of this proxy is missing");
            }
            bed.assert_forgets();
        }
    }
}

/// If the end of a call must be recognised, its INVITE without a From tag is refused.
#[test]
fn a_counted_call_needs_a_from_tag() {
    let counted = Service::Proxy { spread: Spread::Counted, record_route: true };
    let kept = Service::Calls(Spread::Found);
    for mode in [counted, kept] {
        for method in ["INVITE", "SUBSCRIBE", "REFER"] {
            let mut bed = Bed::plain().with_mode(mode);
            let request = Req { from_tag: String::new(), ..Req::new(method, "old", client()) };
            // The Route of another dialog makes no difference.
            let routes = vec![format!("<sip:{PROXY};lr;sbp=x>")];
            let other = Req { routes, ..Req { call_id: "other".to_owned(), ..request.clone() } };
            let other = other.via(&via("other"));
            for request in [request, other] {
                let refusal = bed.one(client(), &request.bytes());
                assert_eq!((refusal.to, refusal.status()), (client(), 400), "{method}");
            }
            assert_eq!(bed.shard.counters().replies[&(400, "From Tag Missing")], 2);
            assert_eq!(transactions(&bed), 0);
        }
    }
}

/// A loop is found even if the key changed meanwhile.
#[test]
fn a_loop_across_a_change_of_key() {
    let mut bed = Bed::plain();
    let looped = bed.invite(&Req::new("INVITE", "loop", client()));
    change_key(&mut bed);
    assert_eq!(bed.one(addr(HOPS[0]), &looped.bytes).status(), 482);
}

#[test]
fn invalid_requests_are_refused_statelessly() {
    for mode in [Service::HOPS, STATELESS] {
        let mut bed = Bed::plain().with_mode(mode);
        let new = |call: &str| Req::new("INVITE", call, client());
        let cases = [
            (483, Req { max_forwards: Some(0), ..new("hops") }),
            (416, Req { uri: "gopher:x".to_owned(), ..new("scheme") }),
            (420, new("extension").with("Proxy-Require", "x")),
            (403, Req { routes: vec!["<sip:127.0.8.8:5060;lr>".to_owned()], ..new("elsewhere") }),
        ];
        for (status, request) in cases {
            let refusal = bed.one(client(), &request.bytes());
            assert_eq!(refusal.status(), status);
            let tag = refusal.message().to_tag().map(string);
            assert_eq!(bed.receive(0, client(), &request.same_branch("ACK", tag.as_deref()).bytes()), []);
        }
        assert_eq!((bed.drops("refused_ack"), transactions(&bed), bed.shard.deadline()), (4, 0, None));
        let looped = bed.invite(&new("loop"));
        assert_eq!(bed.one(addr(HOPS[0]), &looped.bytes).status(), 482, "RFC 5393");
    }
}

#[test]
fn a_full_proxy_refuses_new_requests() {
    let mut bed = Bed::plain();
    bed.set(|setup| setup.settings.limits = ProxyLimits { transactions: 2, ..LIMITS });
    let at_hop = bed.invite(&Req::new("INVITE", "call", client()));
    assert_eq!(bed.one(client(), &Req::new("INVITE", "next", client()).bytes()).status(), 503);
    assert_eq!(transactions(&bed), 2);
    answered(&mut bed, &at_hop, 200);
    bed.assert_forgets();
    bed.invite(&Req::new("INVITE", "later", client()));
}

/// A To tag is easy to invent: 50 MESSAGEs with one must not block a valid BYE.
#[test]
fn the_reserve_is_for_requests_with_a_valid_token() {
    let mut bed = Bed::plain();
    let calls: Vec<_> = (0..4).map(|n| bed.call(&format!("call-{n}"))).collect();
    bed.set(|setup| setup.settings.limits = ProxyLimits { transactions: 16, ..LIMITS });
    for n in 0..50 {
        let made_up =
            Req { to_tag: Some(format!("x{n}")), ..Req::new("MESSAGE", &format!("m{n}"), client()) };
        bed.one(client(), &made_up.bytes());
    }
    assert_eq!(transactions(&bed), 16);
    let forged = Req { to_tag: Some("x".to_owned()), ..calls[0].by_caller("MESSAGE", 9) };
    assert_eq!(bed.one(client(), &forged.bytes()).status(), 503);
    for call in calls.iter().take(2) {
        assert_eq!(bed.one(client(), &call.by_caller("BYE", 2).bytes()).to, call.callee.at);
    }
    assert_eq!(bed.one(client(), &calls[2].by_caller("BYE", 2).bytes()).status(), 503, "a quarter more");
    bed.assert_forgets();
}

/// A party of one call must not keep others from ending.
#[test]
fn one_call_cannot_fill_the_reserve() {
    let mut bed = Bed::plain();
    let calls: Vec<_> = (0..4).map(|n| bed.call(&format!("call-{n}"))).collect();
    bed.set(|setup| setup.settings.limits = ProxyLimits { transactions: 64, ..LIMITS });
    for n in 0..100 {
        bed.one(client(), &Req::new("MESSAGE", &format!("m{n}"), client()).bytes());
    }
    assert_eq!(transactions(&bed), 64);
    for cseq in 2..50 {
        bed.one(client(), &calls[0].by_caller("INFO", cseq).bytes());
    }
    assert_eq!(bed.one(client(), &calls[0].by_caller("INFO", 50).bytes()).status(), 503);
    let reinvite = calls[0].by_caller("INVITE", 51);
    assert_eq!(bed.one(client(), &reinvite.bytes()).status(), 503);
    for call in &calls[1..] {
        assert_eq!(bed.one(client(), &call.by_caller("BYE", 2).bytes()).to, call.callee.at);
    }
    bed.wait(Duration::from_secs(65));
    assert_eq!(bed.one(client(), &reinvite.bytes()).status(), 503, "a late copy, whose 200 would get no ACK");
    assert_eq!(bed.one(client(), &calls[0].by_caller("BYE", 52).bytes()).to, calls[0].callee.at);
    bed.assert_forgets();
}

/// OPTIONS to the proxy is answered by it; OPTIONS to an element behind is forwarded.
#[test]
fn options_to_the_proxy_are_answered() {
    let options = |uri: &str, call: &str| Req { uri: uri.to_owned(), ..Req::new("OPTIONS", call, client()) };
    let itself = [format!("sip:{PROXY}"), "sip:proxy.example".to_owned()];
    let mut stateless = Bed::plain().with_mode(STATELESS);
    assert_eq!(stateless.one(client(), &options(&itself[0], "itself").bytes()).status(), 200);
    let mut bed = Bed::plain();
    for uri in &itself {
        let sent = bed.one(client(), &options(uri, "itself").bytes());
        assert_eq!((sent.status(), sent.to), (200, client()));
        // RFC 3261 §11.2.
        let answer = wire::scan(&sent.bytes).expect("a response");
        let capabilities = ["Accept", "Accept-Encoding", "Accept-Language", "Supported"];
        assert_eq!(
            capabilities.map(|name| answer.header(name)),
            [Some(&b""[..]), Some(b"identity"), Some(b"en"), Some(b"")]
        );
        assert_eq!((answer.header("Allow"), answer.header("Unsupported")), (None, None));
    }
    assert_eq!(transactions(&bed), 0, "without a transaction");
    for uri in [format!("sip:bob@{PROXY}"), format!("sip:{}", HOPS[0])] {
        assert_eq!(bed.one(client(), &options(&uri, &uri).bytes()).to, addr(HOPS[0]));
    }
    bed.set(|setup| setup.settings.limits = ProxyLimits { transactions: 0, memory: 0, ..LIMITS });
    assert_eq!(
        bed.one(client(), &options(&itself[0], "full").bytes()).status(),
        503,
        "an INVITE would be refused, too"
    );
    bed.set(|setup| setup.settings.limits = LIMITS);
    bed.set(|setup| testbed::set_members(setup, &[]));
    assert_eq!(bed.one(client(), &options(&itself[0], "nowhere").bytes()).status(), 503);
    bed.assert_forgets();
}
