//! Requests that a source is charged for: all except retransmissions and the one or two requests that follow a
//! challenge.

use crate::common::*;
use std::collections::BTreeSet;

/// Members and next hops, with and without transactions.
const MODES: [Service; 4] = [Service::Balance, Service::BalanceTransactions, STATELESS, Service::HOPS];

fn beds() -> [ProxyBed; 4] {
    MODES.map(|mode| ProxyBed::plain().with_mode(mode))
}

/// Limits a source to `burst` new requests at once, and one more each second.
fn limit(bed: &mut ProxyBed, burst: u32) {
    bed.set(|setup| setup.settings.rates = rate(1, burst));
}

/// A request of one call, with its own CSeq number and branch.
fn number(cseq: u32) -> Req {
    Req { cseq, ..Req::new("INVITE", "call", client()) }.via(&via(&cseq.to_string()))
}

/// Returns the request that reaches a next hop, if any.
fn passes_from(bed: &mut ProxyBed, from: SocketAddr, request: &Req) -> Option<Sent> {
    bed.receive(0, from, &request.bytes()).into_iter().find(|sent| sent.message().status().is_none())
}

fn passes(bed: &mut ProxyBed, request: &Req) -> Option<Sent> {
    passes_from(bed, client(), request)
}

/// The next hop refuses a request, and the ACK comes.
fn refuse(bed: &mut ProxyBed, request: &Req, sent: &Sent, status: u16) {
    respond(bed, sent, status);
    if request.method == "INVITE" {
        bed.receive(0, client(), &request.same_branch("ACK", Some("bob")).bytes());
    }
}

/// The queue of the pool is full and drops calls silently, so copies come until there is room. The source is charged
/// once for all of them, and a copy waits like the first one.
#[test]
fn a_call_dropped_by_a_queue_is_charged_once() {
    let mut bed = Bed::new(Site::plain());
    let mut queue = queue(1.0);
    queue.settings.overflow = elastic::queue::Overflow::Drop;
    (queue.settings.length.least, queue.settings.length.most) = (1, 1);
    bed.set_queues([Some(queue)]);
    bed.set(|setup| setup.settings.rates = rate(0, 5));
    let invite = |call: &str| Req::new("INVITE", call, client()).bytes();
    for (call, sent) in [("1", 1), ("2", 1), ("3", 1), ("waits", 0), ("5", 0)] {
        assert_eq!(bed.receive(0, client(), &invite(call)).len(), sent, "{call}");
    }
    for _ in 0..4 {
        bed.dropped(0, client(), &invite("5"), "queue_full");
    }
    assert_eq!(bed.one(0, client(), &invite("6")).status(), 503, "an INVITE of another call");
    bed.wait(Duration::from_millis(990));
    assert_eq!(bed.receive(0, client(), &invite("5")), [], "the copy waits now");
    let sent = bed.wait(Duration::from_millis(240));
    assert!(sent.iter().any(|sent| sent.message().call_id() == b"5"), "{sent:#?}");
}

/// The same for calls that a rule drops.
#[test]
fn a_call_dropped_by_a_rule_is_charged_once() {
    let mut bed = Bed::new(Site::plain());
    let silent = Rule { conditions: users("3"), target: Target::Silence, ..Rule::default() };
    set_rules(&mut bed, [silent, to_pool(0, Conditions::default())]);
    bed.set(|setup| setup.settings.rates = rate(0, 2));
    for _ in 0..4 {
        let silenced = Req { uri: "sip:300@pool.example".to_owned(), ..number(1) };
        bed.dropped(0, client(), &silenced.bytes(), "silenced");
    }
    let sent = bed.one(0, client(), &number(2).bytes());
    assert!(bed.is_node(sent.to));
}

#[test]
fn each_request_of_a_call_is_charged() {
    for mut bed in beds() {
        let mode = bed.mode;
        limit(&mut bed, 3);
        let passed = (1..100).filter(|cseq| passes(&mut bed, &number(*cseq)).is_some()).count();
        assert_eq!(passed, 3, "{mode:?}: CSeq numbers that rise");
        bed.wait(Duration::from_secs(3));
        let passed = (1..100).filter(|cseq| passes(&mut bed, &number(1_000 - *cseq)).is_some()).count();
        assert_eq!(passed, 3, "{mode:?}: that fall");
    }
}

#[test]
fn a_request_with_any_difference_is_no_retransmission() {
    for mut bed in beds() {
        let mode = bed.mode;
        limit(&mut bed, 1);
        assert!(passes(&mut bed, &number(1)).is_some(), "{mode:?}");
        let others = [
            Req { cseq: 2, ..number(1) },
            number(1).via(&via("other")),
            Req { uri: "sip:other@pool.example".to_owned(), ..number(1) },
            Req { method: "OPTIONS".to_owned(), ..number(1) },
            Req { from_tag: "other".to_owned(), ..number(1) },
            Req { call_id: "other".to_owned(), ..number(1) },
        ];
        for other in others {
            assert!(passes(&mut bed, &other).is_none(), "{mode:?}: {other:?}");
        }
        // With another `rport` the response goes elsewhere, so it is another request at the next hop.
        let elsewhere = SocketAddr::new(client().ip(), 7000);
        if !bed.mode.has_transactions() {
            assert!(passes_from(&mut bed, elsewhere, &number(1)).is_none(), "{mode:?}");
        }
    }
}

#[test]
fn retransmissions_are_free_as_often_as_clients_send_them() {
    for mut bed in beds() {
        let mode = bed.mode;
        if bed.mode.has_transactions() {
            continue;
        }
        limit(&mut bed, 1);
        let first = passes(&mut bed, &number(1)).expect("the first request is free");
        for interval in [500, 1_000, 2_000, 4_000, 8_000, 16_000] {
            bed.wait(Duration::from_millis(interval));
            // Others use up the whole allowance.
            while passes(&mut bed, &number(interval as u32)).is_some() {}
            assert_eq!(passes(&mut bed, &number(1)), Some(first.clone()), "{mode:?}: after {interval} ms");
        }
        let more = (0..100).filter(|_| passes(&mut bed, &number(1)).is_some()).count();
        assert_eq!(more, 4, "{mode:?}: ten in all");
        let mut bed = ProxyBed::plain().with_mode(mode);
        limit(&mut bed, 1);
        passes(&mut bed, &number(1)).expect("the first request is free");
        bed.wait(Duration::from_secs(32));
        passes(&mut bed, &number(2)).expect("the allowance suffices");
        assert_eq!(passes(&mut bed, &number(1)), None, "{mode:?}: no client sends it after 32 s");
    }
}

#[test]
fn a_copy_of_an_answered_request_is_charged() {
    for mut bed in beds() {
        let mode = bed.mode;
        // RFC 2543: a branch without the magic cookie means nothing.
        let old = format!("SIP/2.0/UDP {};branch=1", client());
        let requests = [("INVITE", via("1")), ("OPTIONS", via("1")), ("OPTIONS", old)];
        for (call, (method, via)) in requests.into_iter().enumerate() {
            limit(&mut bed, 1);
            bed.wait(Duration::from_secs(10));
            let call_id = format!("call-{call}");
            let request = Req { method: method.to_owned(), call_id, ..number(1) }.via(&via);
            let sent = passes(&mut bed, &request).expect("the first request is free");
            refuse(&mut bed, &request, &sent, 486);
            // A transaction answers copies itself for as long as it exists.
            bed.wait(Duration::from_secs(10));
            let mut again = 0;
            while again < 100
                && let Some(sent) = passes(&mut bed, &request)
            {
                refuse(&mut bed, &request, &sent, 486);
                again += 1;
            }
            assert!(again <= 1, "{mode:?}, {request:?}: {again}, more than something new");
        }
    }
}

#[test]
fn two_requests_may_follow_challenges() {
    for mut bed in beds() {
        let mode = bed.mode;
        for (status, method) in [(401, "INVITE"), (407, "INVITE"), (422, "INVITE"), (401, "REGISTER")] {
            limit(&mut bed, 1);
            bed.wait(Duration::from_secs(40));
            let request = |cseq| Req {
                method: method.to_owned(),
                call_id: format!("{method}-{status}"),
                ..number(cseq)
            };
            let mut reached = Vec::new();
            for cseq in 1..10 {
                // Only a challenged request may be followed, and only once.
                let Some(sent) = passes(&mut bed, &request(cseq)) else { break };
                reached.push(sent.to);
                assert!(passes(&mut bed, &request(cseq + 100)).is_none(), "{mode:?}: not asked for");
                refuse(&mut bed, &request(cseq), &sent, status);
            }
            assert_eq!(reached.len(), 3, "{mode:?}: {method}, {status}");
        }
        for status in [403, 486, 500] {
            limit(&mut bed, 1);
            bed.wait(Duration::from_secs(40));
            let request = |cseq| Req { call_id: format!("refused-{status}"), ..number(cseq) };
            let sent = passes(&mut bed, &request(1)).expect("the first request is free");
            refuse(&mut bed, &request(1), &sent, status);
            assert!(passes(&mut bed, &request(2)).is_none(), "{mode:?}: {status} asks for nothing");
        }
    }
}

/// Credentials are for the challenged request. Otherwise the sender of a challenged call could send two other requests
/// free of charge.
#[test]
fn only_the_challenged_request_may_follow() {
    for other in [
        Req { uri: "sip:other@pool.example".to_owned(), ..number(2) },
        Req { method: "OPTIONS".to_owned(), ..number(2) },
    ] {
        for mut bed in beds() {
            let mode = bed.mode;
            limit(&mut bed, 1);
            let sent = passes(&mut bed, &number(1)).expect("the first");
            refuse(&mut bed, &number(1), &sent, 407);
            assert!(passes(&mut bed, &other).is_none(), "{mode:?}: {other:?}");
            assert!(passes(&mut bed, &number(3)).is_some(), "{mode:?}: the same");
        }
    }
    // The same for requests that share the key of a Call-ID.
    for mut bed in beds() {
        let mode = bed.mode;
        limit(&mut bed, 1);
        let [first, other, same] = [(1, "MESSAGE"), (2, "REGISTER"), (3, "MESSAGE")]
            .map(|(cseq, method)| Req { method: method.to_owned(), ..number(cseq) });
        let sent = passes(&mut bed, &first).expect("the first");
        refuse(&mut bed, &first, &sent, 401);
        assert!(passes(&mut bed, &other).is_none(), "{mode:?}");
        assert!(passes(&mut bed, &same).is_some(), "{mode:?}: the same");
    }
}

/// Three members, each with room for one call at once and ten per second.
fn queued(mode: Service) -> Bed {
    let mut bed = Bed::new(Site::plain()).with_mode(mode);
    // Room depends on credit alone, however many calls are unanswered.
    let mut setup = queue(10.0);
    setup.capacity.threshold = Duration::from_secs(10);
    bed.set_queues([Some(setup)]);
    bed
}

const BALANCED: [Service; 2] = [Service::Balance, Service::BalanceTransactions];

fn to_members(bed: &Bed, sent: &[Sent]) -> Vec<SocketAddr> {
    sent.iter().map(|sent| sent.to).filter(|to| bed.is_node(*to)).collect()
}

/// A client sends a hundred INVITEs of one call. Each has to wait for a member with room.
#[test]
fn each_invite_of_a_call_waits_for_room() {
    for mode in BALANCED {
        let mut bed = queued(mode);
        let mut branches = vec![BTreeSet::new(); 3];
        for cseq in 1..=100 {
            let mut sent = bed.receive(0, client(), &number(cseq).bytes());
            sent.extend(bed.wait(Duration::from_millis(10)));
            for sent in sent.iter().filter(|sent| bed.is_node(sent.to)) {
                branches[usize::from(bed.slot(sent.to))].insert(sent.branch());
            }
        }
        let reached: Vec<_> = branches.iter().map(BTreeSet::len).collect();
        // Each member takes ten per second, and one at once.
        assert!(reached.iter().all(|calls| (9..=11).contains(calls)), "{mode:?}: {reached:?}");
    }
}

#[test]
fn a_challenged_request_goes_to_its_challenger_without_waiting() {
    for mode in BALANCED {
        let mut bed = queued(mode);
        let here = addr(bed.site.listeners[0]);
        let sent = bed.receive(0, client(), &number(1).bytes());
        let asked = sent.into_iter().find(|sent| bed.is_node(sent.to)).expect("the first has room");
        bed.receive(0, asked.to, &answer(&asked.bytes, here, 407, asked.to));
        bed.receive(0, client(), &number(1).same_branch("ACK", Some("bob")).bytes());
        // Other calls use up the room of all members.
        for other in 0..10 {
            let via = via(&format!("other-{other}"));
            bed.receive(
                0,
                client(),
                &Req::new("INVITE", &format!("other-{other}"), client()).via(&via).bytes(),
            );
        }
        let sent = bed.receive(0, client(), &number(2).bytes());
        assert_eq!(to_members(&bed, &sent), [asked.to], "{mode:?}");
        let sent = bed.receive(0, client(), &number(3).bytes());
        assert_eq!(to_members(&bed, &sent), [], "the second INVITE was not challenged");
    }
}

/// A ringing call stays at its member, however often its caller retransmits and whichever member has room.
#[test]
fn a_ringing_call_stays_at_its_member() {
    let mut bed = queued(Service::Balance);
    let here = addr(bed.site.listeners[0]);
    let first = bed.one(0, client(), &number(1).bytes());
    bed.receive(0, first.to, &answer(&first.bytes, here, 180, first.to));
    for copy in 0..20 {
        bed.wait(Duration::from_millis(500));
        let sent = bed.receive(0, client(), &number(1).bytes());
        assert_eq!(to_members(&bed, &sent), [first.to], "copy {copy}");
    }
    assert_eq!(bed.shard.open_transactions(), 1);
}

/// A limit that a reload sets does not stop calls in progress.
#[test]
fn requests_from_before_a_limit_are_free() {
    let mut bed = ProxyBed::plain();
    let mode = Service::Balance;
    bed.set_services([mode]);
    let first = passes(&mut bed, &number(1)).expect("no limit is set yet");
    bed.wait(Duration::from_millis(500));
    limit(&mut bed, 1);
    let other = Req { call_id: "other".to_owned(), ..number(1) };
    passes(&mut bed, &other).expect("the only request is within the limit");
    assert_eq!(passes(&mut bed, &number(1)), Some(first));
    let more = (2..10).filter(|cseq| passes(&mut bed, &Req { cseq: *cseq, ..other.clone() }).is_some());
    assert_eq!(more.count(), 0, "requests after the reload are charged");
}

/// Members and next hops send the requests of many callers, so they have no limit.
#[test]
fn hosts_of_nodes_have_no_limit() {
    for mut bed in beds() {
        let mode = bed.mode;
        limit(&mut bed, 1);
        let node = bed.setup.topology.nodes()[0].peer;
        let elsewhere = SocketAddr::new(node.ip(), 40_000);
        for (call, from) in (0..10).flat_map(|call| [(call, node), (call + 10, elsewhere)]) {
            let request = Req { call_id: format!("of-node-{call}"), ..number(call + 10) };
            let sent = bed.receive(0, from, &request.bytes());
            assert!(sent.iter().all(|sent| sent.message().status() != Some(503)), "{mode:?}: {sent:?}");
        }
        assert!(passes(&mut bed, &number(1)).is_some() && passes(&mut bed, &number(2)).is_none(), "{mode:?}");
    }
}

/// A limit that only floods reach need not recognise copies.
#[test]
fn copies_are_charged_if_requests_are_not_remembered() {
    let mut bed = ProxyBed::plain().with_mode(STATELESS);
    limit(&mut bed, 3);
    bed.set(|setup| setup.settings.rates.counts_copies = true);
    let passed = (0..10).filter(|_| passes(&mut bed, &number(1)).is_some()).count();
    assert_eq!(passed, 3);
}
