//! Limits of memory, in both roles: requests that are refused, and entries that are evicted.

use crate::common::*;

/// A request of about this length, by its body or by a header field.
fn long(method: &'static str, call: &str, length: usize, by_body: bool) -> Vec<u8> {
    let text = string(&Req::new(method, call, client()).bytes());
    let filler = "x".repeat(length - text.len());
    let text = if by_body {
        let end = format!("Content-Length: {}\r\n\r\nv=0\r\n{filler}", filler.len() + 5);
        text.replace("Content-Length: 5\r\n\r\nv=0\r\n", &end)
    } else {
        text.replace("Contact:", &format!("Subject: {filler}\r\nContact:"))
    };
    assert!(text.len() >= length);
    text.into_bytes()
}

fn memory(bed: &ProxyBed) -> usize {
    bed.shard.proxy_report().expect("the proxy has next hops").memory
}

#[test]
fn a_request_is_in_memory_once() {
    for (method, by_body) in [("INVITE", true), ("INVITE", false), ("MESSAGE", true), ("MESSAGE", false)] {
        let mut bed = ProxyBed::new(&["127.0.0.1:5060"], &[(HOPS[0], 0), (HOPS[1], 0)]);
        let request = long(method, "call", 50_000, by_body);
        let sent = bed.receive(0, client(), &request);
        let at_hop = sent.last().expect("the request is forwarded").clone();
        assert!(at_hop.bytes.len() > 50_000);
        assert!((50_000..52_500).contains(&memory(&bed)), "{} bytes", memory(&bed));
        // The retransmission is the same.
        let again = bed.wait(Duration::from_millis(600));
        assert_eq!(again.iter().find(|sent| sent.to == at_hop.to), Some(&at_hop));
        // It is complete at another next hop.
        let sent = respond(&mut bed, &at_hop, 503);
        let elsewhere = sent.last().expect("the request is forwarded");
        assert_eq!(elsewhere.bytes.len(), at_hop.bytes.len());
        assert!(memory(&bed) < 54_000, "{} bytes", memory(&bed));
        // After the response, the request is gone, and the response is kept.
        respond(&mut bed, elsewhere, 404);
        assert!(memory(&bed) < 6_000, "{} bytes", memory(&bed));
        bed.assert_forgets();
    }
}

#[test]
fn a_flood_of_long_requests_is_refused_before_short_ones_are() {
    let mut bed = ProxyBed::plain();
    let limits = ProxyLimits { transactions: 100_000, memory: 32 << 20, ..LIMITS };
    bed.set(|setup| setup.settings.limits = limits);
    let mut refused = 0;
    for call in 0..2_000 {
        let sent = bed.receive(0, client(), &long("INVITE", &format!("flood-{call}"), 60_000, true));
        if let [answer] = &sent[..] {
            refused += 1;
            // A Retry-After would keep the previous hop from sending short requests, too.
            assert_eq!((answer.status(), answer.message().header("Retry-After")), (503, None));
        }
        assert!(memory(&bed) <= limits.memory);
    }
    assert!((1_500..1_800).contains(&refused), "{refused}");
    // Requests of usual length are forwarded, for thousands of calls.
    for call in 0..2_000 {
        bed.invite(&Req::new("INVITE", &format!("lawful-{call}"), client()));
    }
    // They are answered 408 after 32 s, and that response is kept for as long.
    bed.wait(Duration::from_secs(70));
    assert!(memory(&bed) < 20_000, "{} bytes", memory(&bed));
    assert_eq!(bed.receive(0, client(), &long("INVITE", "later", 60_000, true)).len(), 2, "100 and INVITE");
    bed.assert_forgets();
}

#[test]
fn calls_can_end_when_new_calls_find_no_memory() {
    let mut bed = ProxyBed::plain();
    let call = bed.call("call");
    // Too little for new requests. Requests within a dialog have a quarter more.
    let bye = call.by_caller("BYE", 2).bytes();
    let limit = 256 * (bye.len() - 10);
    bed.set(|setup| setup.settings.limits = ProxyLimits { memory: limit, ..LIMITS });
    let refused = bed.one(client(), &long("INVITE", "next", bye.len(), true));
    assert_eq!((refused.status(), refused.message().header("Retry-After")), (503, Some(&b"10"[..])));
    assert_eq!(bed.one(client(), &bye).to, addr(HOPS[0]));
    bed.assert_forgets();
}

/// A CANCEL frees the memory of its INVITE, so it is never refused. Without free memory it gets no transaction.
#[test]
fn cancels_stay_within_the_memory_limit() {
    let mut bed = ProxyBed::plain();
    let invite = |call: usize| Req::new("INVITE", &format!("call-{call}"), client());
    for call in 0..400 {
        let at_hop = bed.invite(&invite(call));
        answered(&mut bed, &at_hop, 180);
    }
    // A little more than they take, with the reserve.
    let most = memory(&bed) + 10_000;
    bed.set(|setup| setup.settings.limits = ProxyLimits { memory: most / 5 * 4, ..LIMITS });
    for call in 0..400 {
        let cancel = invite(call).same_branch("CANCEL", None).bytes();
        let sent = bed.receive(0, client(), &cancel);
        assert_eq!(sent.iter().map(|sent| sent.to).collect::<Vec<_>>(), [client(), addr(HOPS[0])]);
        assert_eq!((sent[0].status(), sent[1].message().method()), (200, Some(Method::Cancel)));
        assert_eq!(bed.one(client(), &cancel).status(), 200, "a retransmitted CANCEL");
        assert!(memory(&bed) <= most + 1_000, "{} of {most} bytes", memory(&bed));
    }
    bed.assert_forgets();
}

fn pool(max_sessions: usize) -> Bed {
    let mut bed = Bed::new(Site::plain());
    let settings = balance::SessionSettings { max_sessions, ..balance::SessionSettings::default() };
    bed.set(|setup| setup.settings.sessions = settings);
    bed
}

#[test]
fn a_full_session_table_answers_with_retry_after() {
    let mut bed = pool(2);
    let calls = ["a", "b"].map(|call| Dialog::inbound(&mut bed, call, client(), 0));
    let refused = bed.one(0, client(), &Req::new("INVITE", "c", client()).bytes());
    assert_eq!((refused.status(), refused.message().header("Retry-After")), (503, Some(&b"10"[..])));
    let events: Vec<_> = bed.events.iter().filter(|event| !matches!(event, ShardEvent::Sign(_))).collect();
    assert_eq!(events, [&ShardEvent::NoRoom(1)]);
    calls[0].caller_asks(&mut bed, "BYE", 2);
    Dialog::inbound(&mut bed, "d", client(), 0);
    calls[1].caller_asks(&mut bed, "BYE", 2);
    bed.assert_forgets();
}

/// A call that was evicted before any response is answered after all.
#[test]
fn calls_evicted_by_a_flood_are_still_answered() {
    let mut bed = pool(3);
    let invite = Req::new("INVITE", "lawful", client());
    let at_node = bed.one(0, client(), &invite.bytes());
    for call in 0..10 {
        bed.one(0, client(), &Req::new("INVITE", &format!("flood-{call}"), client()).bytes());
    }
    assert_eq!(bed.shard.balancer().counts().active, 3);
    let ok = answer(&at_node.bytes, addr(PROXY), 200, at_node.to);
    let ok = bed.one(0, at_node.to, &ok);
    assert_eq!((ok.to, ok.status()), (client(), 200));
    let routes = record_routes(&ok.bytes);
    let to_tag = ok.message().to_tag().map(string);
    let ack =
        Req { to_tag, routes, uri: format!("sip:{}", at_node.to), ..Req::new("ACK", "lawful", client()) };
    assert_eq!(bed.one(0, client(), &ack.bytes()).to, at_node.to);
    assert_eq!(bed.load().calls, 3, "the call counts again and evicts another one");
    bed.assert_forgets();
}
