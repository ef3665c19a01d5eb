//! The stateless proxy in front of next hops (RFC 3261 §16.11): every message is routed by its content alone.

use crate::common::{ProxyBed as Bed, *};

fn bed() -> Bed {
    Bed::two_hops().with_mode(STATELESS)
}

/// A process that has just started, with the configuration and the key.
fn restarted(bed: &Bed) -> Bed {
    self::bed().at(bed.now)
}

fn assert_keeps_nothing(bed: &Bed) {
    let report = bed.shard.proxy_report().expect("the proxy has next hops");
    assert_eq!((report.transactions, report.memory, bed.shard.deadline()), (0, 0, None));
    bed.shard.calls(|_| panic!("a call is kept"));
}

/// Either side hangs up; after every message the process restarts.
#[test]
fn a_call_continues_without_any_state() {
    for by_caller in [true, false] {
        let mut bed = bed();
        let at_hop = bed.invite(&Req::new("INVITE", "call", client()));
        let message = at_hop.message();
        assert_eq!((message.vias().count(), message.record_routes().count()), (2, 1));
        assert_eq!(message.max_forwards().expect("one").0, 69);
        assert_keeps_nothing(&bed);
        let mut bed = restarted(&bed);
        for status in [100, 180, 200, 200] {
            let back = answered(&mut bed, &at_hop, status);
            assert_eq!((back.to, back.status(), back.message().vias().count()), (client(), status, 1));
        }
        let mut bed = restarted(&bed);
        let ok = answered(&mut bed, &at_hop, 200);
        let call = Dialog::of(&at_hop, &ok);
        assert_ne!(call.caller.routes, call.callee.routes, "each side has its own token");
        let ack = bed.one(client(), &call.by_caller("ACK", 1).bytes());
        assert_eq!((ack.to, ack.message().routes().count()), (at_hop.to, 0));
        let (from, to, bye) = if by_caller {
            (client(), at_hop.to, call.by_caller("BYE", 2))
        } else {
            (at_hop.to, client(), call.by_callee("BYE", 1))
        };
        let mut bed = restarted(&bed);
        let sent = bed.one(from, &bye.bytes());
        assert_eq!((sent.to, sent.message().record_routes().count()), (to, 0));
        assert_eq!(restarted(&bed).one(from, &bye.bytes()), sent, "a retransmission goes the same way");
        let mut bed = self::bed();
        let ok = bed.one(to, &answer(&sent.bytes, addr(PROXY), 200, to));
        assert_eq!((ok.to, ok.status()), (from, 200));
        let counters = bed.shard.counters();
        assert_eq!((counters.tokens_refused, counters.replies.len(), counters.drops.len()), (0, 0, 0));
        assert_keeps_nothing(&bed);
    }
}

/// RFC 3261 §16.11: a retransmission gets the same branch and the same Record-Route. CANCEL and the ACK to a failure
/// must match the INVITE downstream. So they have its branch and go to its hop, even after seconds or a restart.
#[test]
fn cancel_and_ack_have_the_branch_and_hop_of_the_invite() {
    let mut reached = std::collections::BTreeSet::new();
    for call in 0..20 {
        let mut bed = bed();
        let invite = Req::new("INVITE", &format!("call-{call}"), client());
        let at_hop = bed.invite(&invite);
        reached.insert(at_hop.to);
        bed.wait(Duration::from_millis(16_500));
        let mut bed = restarted(&bed);
        assert_eq!(bed.one(client(), &invite.bytes()), at_hop);
        for (method, to_tag) in [("CANCEL", None), ("ACK", Some("bob"))] {
            let sent = bed.one(client(), &invite.same_branch(method, to_tag).bytes());
            assert_eq!((sent.to, sent.branch()), (at_hop.to, at_hop.branch()), "{method}");
            let via = sent.message().second_via().expect("the client's");
            assert_eq!(via.branch.map(<[u8]>::to_vec), Some(format!("z9hG4bK-call-{call}-1").into_bytes()));
            if method == "CANCEL" {
                assert_eq!(answered(&mut bed, &sent, 200).to, client());
            }
        }
        assert_eq!(answered(&mut bed, &at_hop, 487).status(), 487);
        let other = Req { cseq: 2, ..invite.clone() };
        assert_ne!(bed.invite(&other).branch(), at_hop.branch());
        let forked = invite.via(&via("other"));
        assert_ne!(bed.invite(&forked).branch(), at_hop.branch());
    }
    assert_eq!(reached.len(), HOPS.len(), "calls are shared out");
}

/// RFC 3261 §16.11: an element behind would take a copy with another branch for a new request. So would a callee that
/// has answered a BYE and forgotten the call. The Route may name the next hop.
#[test]
fn copies_keep_their_branch_when_the_key_changes() {
    let route = format!("<sip:{};lr>", HOPS[1]);
    let named = |request: Req| request.with("Route", &route);
    let invite = Req::new("INVITE", "call", client());
    let belong = [invite.same_branch("CANCEL", None), invite.same_branch("ACK", Some("bob"))];
    let mut bed = bed();
    let bye = bed.call("dialog").by_caller("BYE", 2);
    for (first, copies) in [
        (invite.clone(), [core::slice::from_ref(&invite), &belong].concat()),
        (named(invite.clone()), vec![named(invite.clone()), named(belong[0].clone())]),
        (bye.clone(), vec![bye]),
    ] {
        let mut bed = self::bed().at(bed.now);
        let at_hop = bed.one_by(Flow::udp(0, client()), &first.bytes());
        change_key(&mut bed);
        bed.wait(Duration::from_millis(500));
        for request in copies {
            let sent = bed.one(client(), &request.bytes());
            assert_eq!((sent.to, sent.branch()), (at_hop.to, at_hop.branch()), "{}", request.method);
        }
        assert_eq!(answered(&mut bed, &at_hop, 487).status(), 487);
        let other = |previous: &[_]| {
            let tokens = Tokens::new(NEW_KEY, previous, LIFETIME);
            Bed::with_tokens(&[PROXY], &HOPS.map(|hop| (hop, 0)), tokens).with_mode(STATELESS)
        };
        let next = Req { cseq: 3, ..first.clone() }.bytes();
        if first.method == "BYE" {
            let branches = [&mut bed, &mut other(&[KEY])].map(|bed| bed.one(client(), &next).branch());
            assert_eq!(branches[0], branches[1], "within a dialog the key is that of its token");
        } else {
            let next = bed.one(client(), &next);
            assert_eq!(
                answered(&mut other(&[]), &next, 180).status(),
                180,
                "later requests have the new key"
            );
        }
    }
}

#[test]
fn a_response_without_a_request_of_this_proxy_is_dropped() {
    let mut bed = bed();
    let at_hop = bed.invite(&Req::new("INVITE", "call", client()));
    let ok = answer(&at_hop.bytes, addr(PROXY), 200, at_hop.to);
    let branch = String::from_utf8(at_hop.branch()).expect("text");
    let altered = |at: usize| {
        let other = if branch.as_bytes()[at] == b'0' { "1" } else { "0" };
        replaced(&ok, &branch, &format!("{}{other}{}", &branch[..at], &branch[at + 1..]))
    };
    let forged = [
        replaced(&ok, "Call-ID: call", "Call-ID: other"),
        replaced(&ok, "CSeq: 1 ", "CSeq: 2 "),
        replaced(&ok, "z9hG4bK-call-1", "z9hG4bK-call-2"),
        replaced(&ok, "rport=6000", "rport=7000"),
        altered(12),
        altered(branch.len() - 3),
    ];
    for response in &forged {
        assert_eq!(bed.receive(0, at_hop.to, response), []);
    }
    assert_eq!(bed.drops("foreign_response"), forged.len() as u64);
    let keyless = Bed::with_tokens(&[PROXY], &[(HOPS[0], 0)], Tokens::new(TokenKey([1; 16]), &[], LIFETIME));
    assert_eq!(keyless.with_mode(STATELESS).receive(0, at_hop.to, &ok), []);
    let rekeyed = Tokens::new(TokenKey([1; 16]), &[KEY], LIFETIME);
    let mut rekeyed = Bed::with_tokens(&[PROXY], &[(HOPS[0], 0)], rekeyed).with_mode(STATELESS);
    assert_eq!(rekeyed.one(at_hop.to, &ok).to, client(), "the key before is still accepted");
    assert!(!bed.shard.is_stray(&ok), "any process of the site can take it");
}

#[test]
fn an_old_or_foreign_token_leads_to_no_target() {
    for (wait, key) in [(2 * LIFETIME, KEY), (Duration::ZERO, TokenKey([1; 16]))] {
        let mut bed = bed();
        let call = bed.call("call");
        bed.now += wait;
        bed.set(|setup| setup.settings.tokens = Arc::new(Tokens::new(key, &[], LIFETIME)));
        let elsewhere = Req { uri: "sip:127.0.8.8:7000".to_owned(), ..call.by_caller("INFO", 2) };
        assert_eq!(bed.one(client(), &elsewhere.bytes()).status(), 403);
        assert_eq!(bed.one(call.callee.at, &call.by_callee("INFO", 1).bytes()).status(), 403);
        // Any sender may address a next hop.
        assert_eq!(bed.one(client(), &call.by_caller("BYE", 3).bytes()).to, call.callee.at);
        assert_eq!(bed.shard.counters().tokens_refused, 3);
        assert_keeps_nothing(&bed);
    }
}

/// A token is valid for its whole lifetime, although its time is coarse.
#[test]
fn a_coarse_token_lives_its_full_lifetime() {
    for offset in [0, 1, 200, 449, 450, 451] {
        let mut bed = bed();
        bed.now += Duration::from_secs(offset);
        let call = bed.call("call");
        bed.now += LIFETIME;
        assert_eq!(bed.one(call.callee.at, &call.by_callee("INFO", 1).bytes()).to, client(), "{offset}");
    }
}

/// RFC 3261 §12.2: either party may state a new target, in a request or in a response.
#[test]
fn a_refreshed_target_is_followed() {
    let elsewhere = addr("127.0.7.7:7000");
    for (by_caller, in_request) in [(true, true), (true, false), (false, true), (false, false)] {
        let mut bed = bed();
        let call = bed.call("call");
        let ask = |method, cseq, by_caller: bool| {
            if by_caller { call.by_caller(method, cseq) } else { call.by_callee(method, cseq) }
        };
        let place = |caller: bool| if caller { client() } else { call.callee.at };
        // The sender of the request, and the party that has moved.
        let contact = |moves: bool, at: SocketAddr| format!("sip:{}", if moves { elsewhere } else { at });
        let update = Req { contact: contact(in_request, place(by_caller)), ..ask("UPDATE", 2, by_caller) };
        let sent = bed.one(place(by_caller), &update.bytes());
        assert_eq!(sent.to, place(!by_caller));
        let contact = contact(!in_request, sent.to);
        let ok = Resp { contact, ..Resp::new(200, sent.to) }.bytes_from(&sent.bytes, addr(PROXY));
        assert_eq!(bed.one(sent.to, &ok).to, place(by_caller));
        let to_moved = by_caller != in_request;
        let info = Req { uri: format!("sip:{elsewhere}"), ..ask("INFO", 3, to_moved) };
        assert_eq!(bed.one(place(to_moved), &info.bytes()).to, elsewhere, "{by_caller} {in_request}");
        let wrong = Req { uri: format!("sip:{elsewhere}"), ..ask("INFO", 4, !to_moved) };
        assert_eq!(bed.one(place(!to_moved), &wrong.bytes()).status(), 403, "the other side has not moved");
    }
}

/// Without Record-Route, the requests of a dialog do not pass this proxy, with transactions as without.
#[test]
fn without_record_route_the_dialog_does_not_pass() {
    let record_route = false;
    for mode in [Service::Proxy { spread: Spread::Found, record_route }, Service::Relay { record_route }] {
        let mut bed = bed().with_mode(mode);
        let at_hop = bed.invite(&Req::new("INVITE", "call", client()));
        assert_eq!(record_routes(&at_hop.bytes).len(), 0);
        let ok = answered(&mut bed, &at_hop, 200);
        assert_eq!(record_routes(&ok.bytes).len(), 0);
        assert_eq!(bed.shard.counters().drops.len(), 0);
    }
}

/// A proxy without transactions has no limit of them.
#[test]
fn a_stateless_proxy_is_never_full() {
    let mut bed = bed();
    bed.set(|setup| setup.settings.limits = ProxyLimits { transactions: 0, memory: 0, ..LIMITS });
    let call = bed.call("call");
    assert_eq!(bed.one(client(), &call.by_caller("BYE", 2).bytes()).to, call.callee.at);
    bed.set(|setup| setup.settings.limits = LIMITS);
}

/// A call that began with transactions ends with them, and one that began without ends without, even after a change of
/// the mode.
#[test]
fn a_change_of_mode_moves_no_call() {
    for (before, after, transactions) in [(Service::HOPS, STATELESS, 2), (STATELESS, Service::HOPS, 0)] {
        let mut bed = bed().with_mode(before);
        let call = bed.call("call");
        bed.wait(Duration::from_secs(40));
        let mut bed = bed.with_mode(after);
        assert_eq!(bed.one(client(), &call.by_caller("BYE", 2).bytes()).to, call.callee.at);
        assert_eq!(bed.shard.proxy_report().expect("the proxy has next hops").transactions, transactions);
    }
}

#[test]
fn cancel_and_ack_keep_their_branch_when_key_and_mode_change() {
    let mut bed = bed();
    let invite = Req::new("INVITE", "call", client());
    let at_hop = bed.invite(&invite);
    change_key(&mut bed);
    bed.wait(Duration::from_millis(500));
    let mut bed = bed.with_mode(Service::Balance);
    for request in [invite.clone(), invite.same_branch("CANCEL", None)] {
        let sent = bed.one(client(), &request.bytes());
        assert_eq!((sent.to, sent.branch()), (at_hop.to, at_hop.branch()), "{request:?}");
    }
}

/// Another call has this hop paused.
fn has_rest(bed: &mut Bed, hop: SocketAddr) {
    let mut calls = (0..20).map(|number| Req::new("INVITE", &format!("full-{number}"), client()));
    let sent = calls.find_map(|call| bed.receive(0, client(), &call.bytes()).pop().filter(|at| at.to == hop));
    let busy = Resp::new(503, hop).with("Retry-After", "30");
    bed.receive(0, hop, &busy.bytes_from(&sent.expect("the call is forwarded").bytes, addr(PROXY)));
}

/// RFC 3261 §16.11: copies, CANCEL and ACK follow the INVITE, whatever the state of the hop. If its hop is unknown,
/// they go to one of the hops.
#[test]
fn cancel_and_ack_follow_the_invite_to_a_paused_hop() {
    let mut bed = bed();
    let (invite, other) = (Req::new("INVITE", "call", client()), Req::new("INVITE", "other", client()));
    let at_hop = bed.invite(&invite);
    // Both, so that new calls find none.
    for hop in HOPS {
        has_rest(&mut bed, addr(hop));
    }
    assert_eq!(bed.resting().len(), 2);
    assert_eq!(bed.one(client(), &other.bytes()).status(), 503, "new calls find no hop");
    assert_eq!(bed.one(client(), &invite.bytes()), at_hop, "a copy");
    assert_eq!(bed.one(client(), &invite.same_branch("CANCEL", None).bytes()).to, at_hop.to);
    assert_eq!(bed.one(client(), &invite.same_branch("ACK", Some("bob")).bytes()).to, at_hop.to);
    let unknown = Req::new("INVITE", "unknown", client());
    let cancel = bed.one(client(), &unknown.same_branch("CANCEL", None).bytes());
    assert!(HOPS.map(addr).contains(&cancel.to), "{cancel:?}");
}

/// Two pools of a next hop each, and a rule for each of two users.
fn two_pools() -> Bed {
    let mut bed = bed();
    bed.set_pools([0, 1].map(|slot| hops(STATELESS, Members::of([Slot(slot)]))));
    set_rules(&mut bed, [to_pool(0, users("x")), to_pool(1, users("y"))]);
    bed
}

/// The INVITE to another user, perhaps in another branch: of the same call, with the same CSeq.
fn other_branch(invite: &Req, user: &str, branch: &str) -> Req {
    let via = format!("SIP/2.0/UDP {};branch={branch};rport", client());
    Req { uri: format!("sip:{user}@pool.example"), ..invite.clone().via(&via) }
}

/// RFC 3261 §16.6: a proxy upstream forks an INVITE. Each branch goes by its own Request-URI, and its copies, CANCEL
/// and ACK follow it.
#[test]
fn each_branch_of_a_forked_invite_goes_its_own_way() {
    let mut bed = two_pools();
    let invite = other_branch(&Req::new("INVITE", "call", client()), "x", "z9hG4bK-1");
    // The second differs only in the Request-URI, the third only in the branch.
    let others = [
        (other_branch(&invite, "y", "z9hG4bK-2"), HOPS[1]),
        (other_branch(&invite, "y", "z9hG4bK-1"), HOPS[1]),
        (other_branch(&invite, "x", "z9hG4bK-2"), HOPS[0]),
    ];
    let first = bed.invite(&invite);
    assert_eq!(first.to, addr(HOPS[0]));
    for (other, hop) in others {
        let second = bed.invite(&other);
        assert_eq!(second.to, addr(hop), "{}", other.text());
        assert_ne!(second.branch(), first.branch());
        for (request, sent) in [(&invite, &first), (&other, &second)] {
            assert_eq!(bed.invite(request), *sent, "a copy");
            for (method, to_tag) in [("CANCEL", None), ("ACK", Some("bob"))] {
                let follows = bed.one(client(), &request.same_branch(method, to_tag).bytes());
                assert_eq!((follows.to, follows.branch()), (sent.to, sent.branch()), "{method}");
            }
        }
    }
}

/// RFC 3261 §16.3 step 4: a hop changes the Request-URI and sends the request back.
#[test]
fn a_spiral_passes() {
    let mut bed = two_pools();
    let first = bed.invite(&other_branch(&Req::new("INVITE", "call", client()), "x", "z9hG4bK-1"));
    assert_eq!(first.to, addr(HOPS[0]));
    let via = format!("Via: SIP/2.0/UDP {};branch=z9hG4bK-hop\r\nVia: ", HOPS[0]);
    let back = replaced(&first.bytes, "sip:x@", "sip:y@");
    let at = string(&back).find("Via: ").expect("one");
    let back = [&back[..at], via.as_bytes(), &back[at + 5..]].concat();
    let second = bed.one(addr(HOPS[0]), &back);
    assert_eq!((second.to, second.message().vias().count()), (addr(HOPS[1]), 4));
    assert_eq!(bed.one(addr(HOPS[0]), &back), second, "a copy");
    // All the way back: the hop removes its own Via.
    let ringing = string(&answered(&mut bed, &second, 180).bytes);
    let lines = ringing.split_inclusive("\r\n").filter(|line| !line.contains("z9hG4bK-hop"));
    let at_client = bed.one(addr(HOPS[0]), lines.collect::<String>().as_bytes());
    assert_eq!((at_client.to, at_client.message().vias().count()), (client(), 1));
}

/// Clients behind NATs may have one address and equal branches. Their calls are still distinguished.
#[test]
fn equal_branches_of_two_clients_are_two_calls() {
    let mut bed = bed();
    let other = addr("127.0.9.2:6000");
    let invite = |call: &str, from| {
        Req::new("INVITE", call, from).via("SIP/2.0/UDP 192.168.1.2:5060;rport;branch=z9hG4bK1")
    };
    let calls = [("one", client()), ("other", other)].map(|(call, from)| (from, invite(call, from)));
    let first = bed.one(client(), &calls[0].1.bytes()).to;
    has_rest(&mut bed, first);
    let hops = [first, bed.one(other, &calls[1].1.bytes()).to];
    assert_ne!(hops[0], hops[1]);
    for ((from, invite), hop) in calls.iter().zip(hops) {
        for request in [invite.clone(), invite.same_branch("CANCEL", None)] {
            assert_eq!(bed.one(*from, &request.bytes()).to, hop, "{request:?}");
        }
    }
}

/// RFC 2543: without the magic cookie a branch means nothing; copies, CANCEL and ACK follow the INVITE.
#[test]
fn cancel_and_ack_follow_an_invite_without_a_cookie() {
    let via = |branch: &str| format!("SIP/2.0/UDP {}{branch}", client());
    for branches in
        [["", "", ""], [";branch=1", ";branch=1", ";branch=1"], [";branch=1", ";branch=2", ";branch=3"]]
    {
        let mut bed = bed();
        let invite = Req::new("INVITE", "call", client()).via(&via(branches[0]));
        let at_hop = bed.invite(&invite);
        // A new call would go elsewhere.
        has_rest(&mut bed, at_hop.to);
        assert_eq!(bed.resting(), [at_hop.to]);
        assert_eq!(bed.invite(&invite), at_hop, "a copy");
        for ((method, to_tag), branch) in
            [("CANCEL", None), ("ACK", Some("bob"))].into_iter().zip(&branches[1..])
        {
            let sent = bed.one(client(), &invite.same_branch(method, to_tag).via(&via(branch)).bytes());
            assert_eq!(sent.to, at_hop.to, "{method}");
        }
    }
}
