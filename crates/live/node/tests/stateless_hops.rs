//! The stateless proxy in front of next hops (RFC 3261 §16.11): every message finds its way by what it carries
//! itself.
mod common;

use allocation_counter::measure;
use balance::{Members, Slot};
use base::{Flow, Outbox};
use common::dialog::Dialog;
use common::proxy::{HOPS, LIMITS, PROXY, ProxyBed as Bed, STATELESS, client, hops};
use common::text::{Req, Resp, answer, record_routes, replaced, string};
use common::{KEY, LIFETIME, Sent, addr};
use node::{ProxyLimits, Routes, ShardInput, TokenKey, Tokens};
use route::{Conditions, Field, Part, Pattern, Place, Pools, Rule, Service, Spread, Table, Target};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

fn bed() -> Bed {
    Bed::new(&[PROXY], &HOPS.map(|hop| (hop, 0))).with_mode(STATELESS)
}

/// A process that has just started: it has the configuration and the key.
fn restarted(bed: &Bed) -> Bed {
    self::bed().at(bed.now)
}

fn response(bed: &mut Bed, request: &Sent, status: u16) -> Sent {
    bed.one(request.to, &answer(&request.bytes, addr(PROXY), status, request.to))
}

fn assert_keeps_nothing(bed: &Bed) {
    let report = bed.shard.proxy_report().expect("it has next hops");
    assert_eq!((report.transactions, report.memory, bed.shard.deadline()), (0, 0, None));
    bed.shard.calls(|_| panic!("it knows of a call"));
}

/// Both sides hang up, in turn; after every message the process is another one.
#[test]
fn a_call_goes_on_whatever_the_process_forgets() {
    for by_caller in [true, false] {
        let mut bed = bed();
        let at_hop = bed.invite(&Req::new("INVITE", "call", client()));
        let message = at_hop.message();
        assert_eq!((message.vias().count(), message.record_routes().count()), (2, 1));
        assert_eq!(message.max_forwards().expect("one").0, 69);
        assert_keeps_nothing(&bed);
        let mut bed = restarted(&bed);
        for status in [100, 180, 200, 200] {
            let back = response(&mut bed, &at_hop, status);
            assert_eq!((back.to, back.status(), back.message().vias().count()), (client(), status, 1));
        }
        let mut bed = restarted(&bed);
        let ok = response(&mut bed, &at_hop, 200);
        let call = Dialog::of("call", (client(), 0), (at_hop.to, 0), &at_hop, &ok);
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
        assert_eq!(restarted(&bed).one(from, &bye.bytes()), sent, "a repetition goes the same way");
        let mut bed = self::bed();
        let ok = bed.one(to, &answer(&sent.bytes, addr(PROXY), 200, to));
        assert_eq!((ok.to, ok.status()), (from, 200));
        let counters = bed.shard.counters();
        assert_eq!((counters.tokens_refused, counters.replies.len(), counters.drops.len()), (0, 0, 0));
        assert_keeps_nothing(&bed);
    }
}

/// RFC 3261 §16.11: a retransmission gets the same branch and the same Record-Route; CANCEL and the ACK to a failure
/// match the INVITE downstream, so they have its branch and go to its hop. Seconds may pass between, and restarts.
#[test]
fn what_belongs_to_an_invite_has_its_branch_and_its_hop() {
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
                assert_eq!(response(&mut bed, &sent, 200).to, client());
            }
        }
        assert_eq!(response(&mut bed, &at_hop, 487).status(), 487);
        let other = Req { cseq: 2, ..invite.clone() };
        assert_ne!(bed.invite(&other).branch(), at_hop.branch());
        let forked = invite.via(&format!("SIP/2.0/UDP {};branch=z9hG4bKother;rport", client()));
        assert_ne!(bed.invite(&forked).branch(), at_hop.branch());
    }
    assert_eq!(reached.len(), HOPS.len(), "calls are shared out");
}

/// RFC 3261 §16.11: whoever is behind would take a copy with another branch for another request.
#[test]
fn copies_keep_their_branch_when_the_key_changes() {
    let mut bed = bed();
    let invite = Req::new("INVITE", "call", client());
    let at_hop = bed.invite(&invite);
    bed.set(|setup| setup.settings.tokens = Arc::new(Tokens::new(TokenKey([8; 16]), &[KEY], LIFETIME)));
    bed.wait(Duration::from_millis(500));
    for request in
        [invite.clone(), invite.same_branch("CANCEL", None), invite.same_branch("ACK", Some("bob"))]
    {
        let sent = bed.one(client(), &request.bytes());
        assert_eq!((sent.to, sent.branch()), (at_hop.to, at_hop.branch()), "{}", request.method);
    }
    assert_eq!(response(&mut bed, &at_hop, 487).status(), 487);
    let next = bed.invite(&Req { cseq: 2, ..invite.clone() });
    let newer = Tokens::new(TokenKey([8; 16]), &[], LIFETIME);
    let mut other = Bed::with_tokens(&[PROXY], &HOPS.map(|hop| (hop, 0)), newer).with_mode(STATELESS);
    assert_eq!(response(&mut other, &next, 180).status(), 180, "what begins later has the new key");
}

/// The same where the Route of the request names the next hop.
#[test]
fn copies_to_a_named_hop_keep_their_branch_when_the_key_changes() {
    let mut bed = bed();
    let route = format!("<sip:{};lr>", HOPS[1]);
    let invite = Req::new("INVITE", "call", client()).with("Route", &route);
    let at_hop = bed.invite(&invite);
    assert_eq!(at_hop.to, addr(HOPS[1]));
    bed.set(|setup| setup.settings.tokens = Arc::new(Tokens::new(TokenKey([8; 16]), &[KEY], LIFETIME)));
    bed.wait(Duration::from_millis(500));
    for request in [invite.clone(), invite.same_branch("CANCEL", None).with("Route", &route)] {
        let sent = bed.one(client(), &request.bytes());
        assert_eq!((sent.to, sent.branch()), (at_hop.to, at_hop.branch()), "{}", request.method);
    }
}

/// Another branch would be another transaction to whoever has answered the BYE, who knows the call no more.
#[test]
fn copies_within_a_dialog_keep_their_branch_when_the_key_changes() {
    let mut bed = bed();
    let call = bed.call("call");
    let bye = call.by_caller("BYE", 2).bytes();
    let first = bed.one(client(), &bye);
    bed.now += Duration::from_millis(500);
    bed.set(|setup| setup.settings.tokens = Arc::new(Tokens::new(TokenKey([8; 16]), &[KEY], LIFETIME)));
    assert_eq!(bed.one(client(), &bye).branch(), first.branch());
    bed.wait(Duration::from_millis(1));
    let next = bed.one(call.callee.at, &call.by_callee("INFO", 1).bytes());
    let newer = Tokens::new(TokenKey([8; 16]), &[], LIFETIME);
    let mut other = Bed::with_tokens(&[PROXY], &HOPS.map(|hop| (hop, 0)), newer).with_mode(STATELESS);
    assert_eq!(response(&mut other, &next, 200).status(), 200, "what begins later has the new key");
}

#[test]
fn a_response_that_answers_nothing_of_ours_goes_nowhere() {
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

/// RFC 5393 §4.2.
#[test]
fn a_loop_is_found() {
    let mut bed = bed();
    let at_hop = bed.invite(&Req::new("INVITE", "loop", client()));
    assert_eq!(bed.one(at_hop.to, &at_hop.bytes).status(), 482);
}

#[test]
fn a_token_that_is_too_old_or_of_another_key_leads_to_no_party() {
    for (wait, key) in [(2 * LIFETIME, KEY), (Duration::ZERO, TokenKey([1; 16]))] {
        let mut bed = bed();
        let call = bed.call("call");
        bed.now += wait;
        bed.set(|setup| setup.settings.tokens = Arc::new(Tokens::new(key, &[], LIFETIME)));
        let elsewhere = Req { uri: "sip:127.0.8.8:7000".to_owned(), ..call.by_caller("INFO", 2) };
        assert_eq!(bed.one(client(), &elsewhere.bytes()).status(), 403);
        assert_eq!(bed.one(call.callee.at, &call.by_callee("INFO", 1).bytes()).status(), 403);
        // A next hop may be addressed by everybody.
        assert_eq!(bed.one(client(), &call.by_caller("BYE", 3).bytes()).to, call.callee.at);
        assert_eq!(bed.shard.counters().tokens_refused, 3);
        assert_keeps_nothing(&bed);
    }
}

/// A token is good for its whole lifetime, though its time is a coarse one.
#[test]
fn a_token_lives_as_long_as_others() {
    for offset in [0, 1, 200, 449, 450, 451] {
        let mut bed = bed();
        bed.now += Duration::from_secs(offset);
        let call = bed.call("call");
        bed.now += LIFETIME;
        assert_eq!(bed.one(call.callee.at, &call.by_callee("INFO", 1).bytes()).to, client(), "{offset}");
    }
}

/// RFC 3261 §12.2: either party may say, in a request or in the answer to one, that it is reached elsewhere.
#[test]
fn a_party_that_moves_is_followed() {
    let elsewhere = addr("127.0.7.7:7000");
    for (by_caller, in_request) in [(true, true), (true, false), (false, true), (false, false)] {
        let mut bed = bed();
        let call = bed.call("call");
        let ask = |method, cseq, by_caller: bool| {
            if by_caller { call.by_caller(method, cseq) } else { call.by_callee(method, cseq) }
        };
        let place = |caller: bool| if caller { client() } else { call.callee.at };
        // Who asks, and who of them has moved.
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

/// Without Record-Route the two parties go on without us, with transactions as without.
#[test]
fn who_records_no_route_sees_no_more_of_the_call() {
    let record_route = false;
    for mode in [Service::Proxy { spread: Spread::Found, record_route }, Service::Relay { record_route }] {
        let mut bed = bed().with_mode(mode);
        let at_hop = bed.invite(&Req::new("INVITE", "call", client()));
        assert_eq!(record_routes(&at_hop.bytes).len(), 0);
        let ok = response(&mut bed, &at_hop, 200);
        assert_eq!(record_routes(&ok.bytes).len(), 0);
        assert_eq!(bed.shard.counters().drops.len(), 0);
    }
}

#[test]
fn what_is_invalid_is_refused_and_what_is_about_us_answered() {
    let mut bed = bed();
    let new = |method: &str, call: &str| Req::new(method, call, client());
    let cases = [
        (483, Req { max_forwards: Some(0), ..new("INVITE", "hops") }),
        (416, Req { uri: "gopher:x".to_owned(), ..new("INVITE", "scheme") }),
        (420, new("INVITE", "extension").with("Proxy-Require", "x")),
        (200, Req { uri: format!("sip:{PROXY}"), ..new("OPTIONS", "us") }),
        (403, Req { routes: vec!["<sip:127.0.8.8:5060;lr>".to_owned()], ..new("INVITE", "elsewhere") }),
    ];
    for (status, request) in cases {
        assert_eq!(bed.one(client(), &request.bytes()).status(), status);
    }
    assert_keeps_nothing(&bed);
}

/// What keeps nothing has no limit of transactions.
#[test]
fn it_is_never_full() {
    let mut bed = bed();
    bed.set(|setup| setup.settings.limits = ProxyLimits { transactions: 0, memory: 0, ..LIMITS });
    let call = bed.call("call");
    assert_eq!(bed.one(client(), &call.by_caller("BYE", 2).bytes()).to, call.callee.at);
    bed.set(|setup| setup.settings.limits = LIMITS);
}

/// A call that began with transactions ends with them, and one that began without ends without, whatever is set
/// meanwhile.
#[test]
fn a_change_of_mode_moves_no_call() {
    for (before, after, transactions) in [(Service::HOPS, STATELESS, 2), (STATELESS, Service::HOPS, 0)] {
        let mut bed = bed().with_mode(before);
        let call = bed.call("call");
        bed.wait(Duration::from_secs(40));
        let mut bed = bed.with_mode(after);
        assert_eq!(bed.one(client(), &call.by_caller("BYE", 2).bytes()).to, call.callee.at);
        assert_eq!(bed.shard.proxy_report().expect("it has next hops").transactions, transactions);
    }
}

#[test]
fn a_message_in_a_call_allocates_nothing() {
    let mut bed = bed();
    let call = bed.call("call");
    let mut out = Outbox::default();
    for round in 0..3 {
        let requests = [(client(), call.by_caller("ACK", 1)), (client(), call.by_caller("BYE", 2)), {
            (call.callee.at, call.by_callee("INFO", 2))
        }];
        for (from, request) in requests {
            let bytes = request.bytes();
            out.clear();
            let now = bed.now;
            let info = measure(|| {
                let input = ShardInput::Message { flow: Flow::udp(0, from), bytes: &bytes };
                bed.shard.handle(now, input, &mut out);
            });
            assert_eq!(out.transmits().len(), 1);
            assert!(round == 0 || info.count_total == 0, "{} in round {round}", request.method);
        }
    }
}

/// RFC 3261 §16.11: whatever becomes of the hop, copies, CANCEL and ACK go where the INVITE went; and where nobody
/// remembers that, to one of the hops.
#[test]
fn what_belongs_to_an_invite_follows_it_to_a_hop_that_rests() {
    let mut bed = bed();
    let (invite, other) = (Req::new("INVITE", "call", client()), Req::new("INVITE", "other", client()));
    let at_hop = bed.invite(&invite);
    // Another call has the hop rest: both, so that new calls find none.
    for hop in HOPS {
        for number in 0..20 {
            let request = Req::new("INVITE", &format!("full-{number}"), client());
            let sent = bed.receive(0, client(), &request.bytes());
            let Some(sent) = sent.into_iter().find(|sent| sent.to == addr(hop)) else { continue };
            let busy =
                Resp::new(503, addr(hop)).with("Retry-After", "30").bytes_from(&sent.bytes, addr(PROXY));
            bed.receive(0, addr(hop), &busy);
            break;
        }
    }
    assert_eq!(bed.resting().len(), 2);
    assert_eq!(bed.one(client(), &other.bytes()).status(), 503, "new calls find nobody");
    assert_eq!(bed.one(client(), &invite.bytes()), at_hop, "a copy");
    assert_eq!(bed.one(client(), &invite.same_branch("CANCEL", None).bytes()).to, at_hop.to);
    assert_eq!(bed.one(client(), &invite.same_branch("ACK", Some("bob")).bytes()).to, at_hop.to);
    let unknown = Req::new("INVITE", "unknown", client());
    let cancel = bed.one(client(), &unknown.same_branch("CANCEL", None).bytes());
    assert!(HOPS.map(addr).contains(&cancel.to), "{cancel:?}");
}

/// Two pools of a next hop each, and a rule for each of two users.
fn two_pools(mode: Service) -> Bed {
    let to = |pool: u16, user: &str| Rule {
        name: user.to_owned(),
        conditions: Conditions {
            texts: vec![(
                Field::Uri(Place::RequestUri, Part::User),
                vec![Pattern::Prefix(user.as_bytes().to_vec())],
            )],
            ..Conditions::default()
        },
        target: Target::Pools(Pools::one(pool)),
        ..Rule::default()
    };
    let mut bed = bed();
    bed.set_pools([0, 1].map(|slot| hops(mode, Members::of([Slot(slot)]))));
    let table = Table::new(vec![to(0, "x"), to(1, "y")], &[addr(PROXY)]);
    bed.set(|setup| setup.settings.routes = Arc::new(Routes { table, access: Vec::new() }));
    Bed { mode, ..bed }
}

/// The INVITE to another user, in another branch or not: of one call all the same, and with one CSeq.
fn other_branch(invite: &Req, user: &str, branch: &str) -> Req {
    let via = format!("SIP/2.0/UDP {};branch={branch};rport", client());
    Req { uri: format!("sip:{user}@pool.example"), ..invite.clone().via(&via) }
}

/// RFC 3261 §16.6: whoever forks upstream sends an INVITE in several branches. Each goes by its own Request-URI, and
/// what belongs to it follows.
#[test]
fn each_branch_of_a_forked_invite_goes_its_own_way() {
    let mut bed = two_pools(STATELESS);
    let invite = other_branch(&Req::new("INVITE", "call", client()), "x", "z9hG4bK-1");
    // In the second case they differ in nothing but the Request-URI, and in the third in nothing but the branch.
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

/// RFC 3261 §16.3 step 4: a hop writes another Request-URI and sends the request back here.
#[test]
fn a_spiral_passes() {
    let mut bed = two_pools(STATELESS);
    let first = bed.invite(&other_branch(&Req::new("INVITE", "call", client()), "x", "z9hG4bK-1"));
    assert_eq!(first.to, addr(HOPS[0]));
    let via = format!("Via: SIP/2.0/UDP {};branch=z9hG4bK-hop\r\nVia: ", HOPS[0]);
    let back = replaced(&first.bytes, "sip:x@", "sip:y@");
    let at = string(&back).find("Via: ").expect("one");
    let back = [&back[..at], via.as_bytes(), &back[at + 5..]].concat();
    let second = bed.one(addr(HOPS[0]), &back);
    assert_eq!((second.to, second.message().vias().count()), (addr(HOPS[1]), 4));
    assert_eq!(bed.one(addr(HOPS[0]), &back), second, "a copy");
    // All the way back: the hop takes its own Via away.
    let ringing = string(&response(&mut bed, &second, 180).bytes);
    let lines = ringing.split_inclusive("\r\n").filter(|line| !line.contains("z9hG4bK-hop"));
    let at_client = bed.one(addr(HOPS[0]), lines.collect::<String>().as_bytes());
    assert_eq!((at_client.to, at_client.message().vias().count()), (client(), 1));
}

/// RFC 2543: without the magic cookie a branch tells nothing; copies, CANCEL and ACK go where the INVITE went.
#[test]
fn what_belongs_to_an_invite_without_a_cookie_follows_it() {
    let via = |branch: &str| format!("SIP/2.0/UDP {}{branch}", client());
    for branches in
        [["", "", ""], [";branch=1", ";branch=1", ";branch=1"], [";branch=1", ";branch=2", ";branch=3"]]
    {
        let mut bed = bed();
        let invite = Req::new("INVITE", "call", client()).via(&via(branches[0]));
        let at_hop = bed.invite(&invite);
        // Another call has the hop rest, so that what is new would go elsewhere.
        for number in 0..20 {
            let sent = bed.invite(&Req::new("INVITE", &format!("full-{number}"), client()));
            if sent.to == at_hop.to {
                let busy =
                    Resp::new(503, sent.to).with("Retry-After", "30").bytes_from(&sent.bytes, addr(PROXY));
                bed.receive(0, sent.to, &busy);
                break;
            }
        }
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
