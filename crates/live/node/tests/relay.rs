//! Attacks on the proxy with the tokens of Record-Route. It sends only to next hops, and to targets that one party of a
//! dialog has named to the other.

use crate::common::*;

/// An address that no party has named.
const VICTIM: &str = "127.0.8.8:7000";

/// A token of the previous layout, valid for the call that the tests make.
const VERSION_1: &str = "21lkjkg10000006m854aj7uir5v5u6o";

/// Any address: tokens are not bound to one.
fn stranger() -> SocketAddr {
    addr("127.0.66.6:6060")
}

fn callee() -> SocketAddr {
    addr(HOPS[0])
}

/// A request that uses the attacker's knowledge of a call.
type Attack = (&'static str, fn(&Dialog) -> Req);

fn to_victim(request: Req) -> Req {
    Req { uri: format!("sip:{VICTIM}"), ..request }
}

fn uri_of(route: &str) -> String {
    route.trim_matches(['<', '>']).to_owned()
}

fn outside(call: &Dialog, method: &'static str) -> Req {
    to_victim(Req { to_tag: None, ..call.by_caller(method, 7) })
}

const ATTACKS: &[Attack] = &[
    ("OPTIONS without To tag", |call| outside(call, "OPTIONS")),
    ("MESSAGE without To tag", |call| outside(call, "MESSAGE")),
    ("INVITE without To tag", |call| outside(call, "INVITE")),
    ("SUBSCRIBE without To tag", |call| outside(call, "SUBSCRIBE")),
    ("REFER without To tag", |call| outside(call, "REFER")),
    ("REGISTER without To tag", |call| outside(call, "REGISTER")),
    ("ACK without To tag", |call| outside(call, "ACK")),
    ("CANCEL without To tag", |call| outside(call, "CANCEL")),
    ("without To tag, by Route", |call| {
        let mut options = outside(call, "OPTIONS");
        options.routes.push(format!("<sip:{VICTIM};lr>"));
        options
    }),
    ("another To tag", |call| {
        to_victim(Req { to_tag: Some("other".to_owned()), ..call.by_caller("INFO", 7) })
    }),
    ("another From tag", |call| to_victim(Req { from_tag: "other".to_owned(), ..call.by_caller("INFO", 7) })),
    ("the tags exchanged", |call| {
        to_victim(Req {
            from_tag: "bob".to_owned(),
            to_tag: Some("alice".to_owned()),
            ..call.by_caller("INFO", 7)
        })
    }),
    ("one tag on both sides", |call| {
        to_victim(Req { to_tag: Some("alice".to_owned()), ..call.by_caller("INFO", 7) })
    }),
    ("another Request-URI", |call| to_victim(call.by_caller("INFO", 7))),
    ("another Request-URI, ACK", |call| to_victim(call.by_caller("ACK", 1))),
    ("another Request-URI, CANCEL", |call| to_victim(call.by_caller("CANCEL", 7))),
    ("another Request-URI, re-INVITE", |call| to_victim(call.by_caller("INVITE", 7))),
    ("another port", |call| Req {
        uri: format!("sip:bob@{}:7000", callee().ip()),
        ..call.by_caller("INFO", 7)
    }),
    ("maddr", |call| {
        let victim = addr(VICTIM);
        Req { uri: format!("sip:{};maddr={}", call.callee.at, victim.ip()), ..call.by_caller("INFO", 7) }
    }),
    ("another next Route", |call| {
        let mut info = call.by_caller("INFO", 7);
        info.routes.push(format!("<sip:{VICTIM};lr>"));
        info
    }),
    ("our own Route twice, then another", |call| {
        let mut info = call.by_caller("INFO", 7);
        info.routes.extend([format!("<sip:{PROXY};lr>"), format!("<sip:{VICTIM};lr>")]);
        info
    }),
    ("as a strict router", |call| {
        let mut info = call.by_caller("INFO", 7);
        info.uri = uri_of(&info.routes.remove(0));
        info.routes.push(format!("<sip:{VICTIM}>"));
        info
    }),
    ("as a strict router with a next Route", |call| {
        let mut info = call.by_caller("INFO", 7);
        let target = format!("<{}>", info.uri);
        info.uri = uri_of(&info.routes.remove(0));
        info.routes.extend([format!("<sip:{VICTIM};lr>"), target]);
        info
    }),
    ("the callee, another Request-URI", |call| to_victim(call.by_callee("INFO", 7))),
    ("the callee, another To tag", |call| {
        to_victim(Req { to_tag: Some("other".to_owned()), ..call.by_callee("INFO", 7) })
    }),
    ("the callee without To tag", |call| to_victim(Req { to_tag: None, ..call.by_callee("INVITE", 7) })),
    ("the callee, one tag on both sides", |call| {
        to_victim(Req { from_tag: "alice".to_owned(), ..call.by_callee("INFO", 7) })
    }),
    ("the callee without From tag", |call| {
        let info = to_victim(call.by_callee("INFO", 7));
        Req { from_tag: String::new(), ..info }
    }),
    ("with the token of the other side", |call| {
        to_victim(Req { routes: call.callee.routes.clone(), ..call.by_caller("INFO", 7) })
    }),
    ("in another call", |call| to_victim(Req { call_id: "another".to_owned(), ..call.by_caller("INFO", 7) })),
];

/// Returns the receivers that take no part in the call.
fn misdirected(sent: &[Sent]) -> Vec<SocketAddr> {
    let known = [client(), callee(), stranger()];
    sent.iter().map(|sent| sent.to).filter(|to| !known.contains(to)).collect()
}

/// Returns the number of datagrams to the victim.
fn hits(sent: &[Sent]) -> usize {
    sent.iter().filter(|sent| sent.to == addr(VICTIM)).count()
}

/// Returns all messages caused by a datagram, retransmissions included.
fn all_of(bed: &mut ProxyBed, from: SocketAddr, bytes: &[u8]) -> Vec<Sent> {
    let mut sent = bed.receive(0, from, bytes);
    sent.extend(bed.wait(Duration::from_secs(40)));
    sent
}

#[test]
fn a_token_leads_nowhere_but_to_the_target_of_its_dialog() {
    let mut reached = Vec::new();
    let modes = [Service::HOPS, STATELESS];
    for ((name, attack), mode) in ATTACKS.iter().flat_map(|attack| modes.map(|mode| (attack, mode))) {
        for from in [client(), stranger(), callee()] {
            let mut bed = ProxyBed::plain().with_mode(mode);
            let call = bed.call("call");
            let sent = all_of(&mut bed, from, &attack(&call).bytes());
            let misdirected = misdirected(&sent);
            if !misdirected.is_empty() {
                reached.push(format!(
                    "{name}, {mode:?}, from {from}: {} to {}",
                    misdirected.len(),
                    misdirected[0]
                ));
            }
        }
    }
    assert!(reached.is_empty(), "{} attacks succeed:\n{}", reached.len(), reached.join("\n"));
}

/// The response says why, and an ACK gets none.
#[test]
fn a_request_not_allowed_by_its_token_is_refused() {
    let mut bed = ProxyBed::plain();
    let call = bed.call("call");
    let refusal = bed.one(client(), &to_victim(call.by_caller("INFO", 2)).bytes());
    assert_eq!((refusal.to, refusal.status()), (client(), 403));
    assert_eq!(bed.shard.counters().replies[&(403, "Target Is Not Of This Dialog")], 1);
    assert_eq!(bed.shard.counters().tokens_refused, 0);
    let other = Req { to_tag: Some("other".to_owned()), ..to_victim(call.by_caller("BYE", 3)) };
    assert_eq!(bed.one(client(), &other.bytes()).status(), 403);
    assert_eq!(
        (bed.shard.counters().replies[&(403, "Forbidden")], bed.shard.counters().tokens_refused),
        (1, 1)
    );
    assert_eq!(bed.receive(0, client(), &to_victim(call.by_caller("ACK", 1)).bytes()), []);
    assert_eq!(bed.drops("refused_ack"), 1);
    bed.assert_forgets();
}

/// Only the caller knows the victim. It never sees the token that leads to its own Contact.
#[test]
fn a_caller_gets_no_token_to_its_own_contact() {
    let modes = [Service::HOPS, STATELESS];
    let statuses = [180, 183, 200, 202, 302, 404, 486, 603];
    for (status, mode) in statuses.into_iter().flat_map(|status| modes.map(|mode| (status, mode))) {
        let mut bed = ProxyBed::plain().with_mode(mode);
        let invite = Req { contact: format!("sip:{VICTIM}"), ..Req::new("INVITE", "call", client()) };
        let at_hop = bed.invite(&invite);
        let sent = bed.receive(0, at_hop.to, &Resp::new(status, callee()).bytes(&at_hop.bytes));
        let response = sent.iter().find(|sent| sent.to == client()).expect("the response is forwarded");
        let call = Dialog::of(&at_hop, response);
        assert_ne!(call.caller.routes, call.callee.routes, "{status}");
        let tags = [("alice", "bob"), ("bob", "alice"), ("x", "alice"), ("alice", "alice"), ("alice", "x")];
        for (cseq, (from_tag, to_tag)) in (7..).zip(tags) {
            let info = Req {
                from_tag: from_tag.to_owned(),
                to_tag: Some(to_tag.to_owned()),
                ..to_victim(call.by_caller("INFO", cseq))
            };
            assert_eq!(
                hits(&all_of(&mut bed, client(), &info.bytes())),
                0,
                "{status}, {from_tag} to {to_tag}"
            );
        }
    }
}

/// Two cooperating parties may name any address. The victim gets at most three times the messages that they send.
#[test]
fn an_unverified_target_gets_few_retransmissions() {
    for (method, most) in [("INFO", 3), ("OPTIONS", 3), ("INVITE", 3), ("BYE", 3), ("ACK", 1)] {
        let mut bed = ProxyBed::plain();
        let at_hop =
            bed.invite(&Req { contact: format!("sip:{VICTIM}"), ..Req::new("INVITE", "call", client()) });
        let ok = bed.one(at_hop.to, &Resp::new(200, addr(VICTIM)).bytes(&at_hop.bytes));
        let call = Dialog::of(&at_hop, &ok);
        let by_caller = all_of(&mut bed, client(), &to_victim(call.by_caller(method, 7)).bytes());
        assert_eq!(hits(&by_caller), most, "named by the callee: {method}");
        let by_callee = all_of(&mut bed, callee(), &to_victim(call.by_callee(method, 8)).bytes());
        assert_eq!(hits(&by_callee), most, "named by the caller: {method}");
        bed.assert_forgets();
    }
}

/// The same by an accepted target refresh.
#[test]
fn an_unverified_refreshed_target_gets_few_retransmissions() {
    for named_by_caller in [true, false] {
        let mut bed = ProxyBed::plain();
        let call = bed.call("call");
        let (from, to) = if named_by_caller { (client(), callee()) } else { (callee(), client()) };
        let ask = |method, cseq, by_caller| {
            if by_caller { call.by_caller(method, cseq) } else { call.by_callee(method, cseq) }
        };
        let update = Req { contact: format!("sip:{VICTIM}"), ..ask("UPDATE", 2, named_by_caller) };
        let sent = bed.one(from, &update.bytes());
        assert_eq!(bed.one(to, &Resp::new(200, to).bytes(&sent.bytes)).to, from);
        let sent = all_of(&mut bed, to, &to_victim(ask("INFO", 3, !named_by_caller)).bytes());
        assert_eq!(hits(&sent), 3);
        bed.assert_forgets();
    }
}

/// The owner of a name may change its address at any time.
#[test]
fn a_host_name_never_counts_as_verified() {
    let mut bed = ProxyBed::plain();
    let at_hop = bed.invite(&Req::new("INVITE", "call", client()));
    let transport = Transport::Udp;
    let name = HopName { transport, by_dns: false, host: "x.example".to_owned(), port: Some(7000) };
    let ok = Resp { contact: "sip:x.example:7000".to_owned(), ..Resp::new(200, callee()) };
    let ok = bed.one(at_hop.to, &ok.bytes(&at_hop.bytes));
    let call = Dialog::of(&at_hop, &ok);
    let leads_to = |address: SocketAddr| Resolved {
        transport,
        addresses: vec![(address, 1.0)],
        partial: false,
        fresh_for: Duration::from_secs(1),
    };
    bed.input(ShardInput::Name { name: &name, answer: &leads_to(callee()) });
    let info = |cseq| Req { uri: "sip:x.example:7000".to_owned(), ..call.by_caller("INFO", cseq) }.bytes();
    assert_eq!(bed.receive(0, client(), &info(2))[0].to, callee());
    bed.wait(Duration::from_secs(2));
    bed.input(ShardInput::Name { name: &name, answer: &leads_to(addr(VICTIM)) });
    assert_eq!(hits(&all_of(&mut bed, client(), &info(3))), 3);
}

/// Addresses that have sent a message get all retransmissions of RFC 3261 §17.1.2.2.
#[test]
fn a_verified_target_gets_all_retransmissions() {
    let mut bed = ProxyBed::plain();
    let call = bed.call("call");
    for (from, request, to) in
        [(client(), call.by_caller("INFO", 2), callee()), (callee(), call.by_callee("INFO", 2), client())]
    {
        let sent = all_of(&mut bed, from, &request.bytes());
        assert_eq!(sent.iter().filter(|sent| sent.to == to && sent.message().method().is_some()).count(), 11);
    }
}

/// An INVITE that comes back to its sender would begin a new dialog, with a token that lives longer.
#[test]
fn calling_oneself_renews_no_token() {
    let mut bed = ProxyBed::plain();
    let call = bed.call("call");
    let itself = format!("sip:{}", client());
    let fresh = Req { to_tag: None, uri: itself.clone(), ..call.by_caller("INVITE", 7) };
    assert_eq!(bed.invite(&fresh).to, callee(), "a new call");
    let within = Req { uri: itself, ..call.by_caller("INVITE", 8) };
    assert_eq!(bed.one(client(), &within.bytes()).status(), 403);
    let again = bed.invite(&call.by_caller("INVITE", 9));
    assert_eq!(
        (again.to, again.message().record_routes().count()),
        (callee(), 0),
        "no token within a dialog"
    );
}

/// The token of a balancer with the same key, and that of the previous layout, whose tokens led anywhere.
#[test]
fn foreign_tokens_are_invalid() {
    let mut pool = Bed::new(Site::plain());
    let balanced = Dialog::inbound(&mut pool, "call", client(), 0);
    let mut bed = ProxyBed::plain();
    bed.call("call");
    let of_pool = balanced.by_caller("INFO", 2).routes[0].replace(";sbt=", ";sbp=");
    let before = format!("<sip:{PROXY};lr;sbp={VERSION_1}>");
    for (cseq, route) in [(2, of_pool), (4, before)] {
        let refused = bed.shard.counters().tokens_refused;
        let info = |cseq| Req { routes: vec![route.clone()], ..balanced.by_caller("INFO", cseq) };
        assert_eq!(bed.one(client(), &to_victim(info(cseq)).bytes()).status(), 403);
        assert_eq!(bed.shard.counters().tokens_refused, refused + 1);
        // A request to a next hop, which any sender may address, is forwarded: a call from before an upgrade can be
        // ended.
        assert_eq!(bed.one(client(), &info(cseq + 1).bytes()).to, callee());
    }
}
