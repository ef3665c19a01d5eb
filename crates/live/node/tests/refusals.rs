//! Requests that are not forwarded, with their responses (RFC 3261 §16.3); loops and spirals, the rules for orphans,
//! and nodes that want no calls.

use crate::common::*;

/// Sends a request, expects this proxy's response with this status, and returns it.
fn refusal(bed: &mut Bed, request: &Req, status: u16) -> Sent {
    let sent = bed.one(0, client(), &request.bytes());
    assert_eq!((sent.to, sent.status()), (client(), status), "{}", request.method);
    assert_eq!(bed.one(0, client(), &request.bytes()), sent, "RFC 3261 §8.2.7: the same to a retransmission");
    let replies = &bed.shard.counters().replies;
    let of_status = replies.iter().filter(|(reply, _)| reply.0 == status);
    assert_eq!(of_status.map(|(_, count)| count).sum::<u64>(), 2);
    bed.assert_idle();
    sent
}

#[test]
fn no_hops_left() {
    let mut bed = Bed::new(Site::plain());
    for method in ["INVITE", "OPTIONS", "CANCEL", "BYE"] {
        let request = Req { max_forwards: Some(0), ..Req::new(method, method, client()) };
        assert_eq!(bed.one(0, client(), &request.bytes()).status(), 483);
    }
    let last = Req { max_forwards: Some(1), ..Req::new("OPTIONS", "last", client()) };
    assert_eq!(bed.one(0, client(), &last.bytes()).message().max_forwards().unwrap().0, 0);
    let ack = Req { max_forwards: Some(0), ..Req::new("ACK", "ack", client()) };
    bed.dropped(0, client(), &ack.bytes(), "refused_ack");
}

#[test]
fn an_unknown_scheme_is_refused_and_known_ones_are_not() {
    let mut bed = Bed::new(Site::plain());
    refusal(&mut bed, &Req { uri: "http://a/".to_owned(), ..Req::new("INVITE", "http", client()) }, 416);
    for uri in ["sip:a@b", "SIP:a@b", "tel:+1", "urn:service:sos"] {
        let sent =
            bed.one(0, client(), &Req { uri: uri.to_owned(), ..Req::new("INVITE", uri, client()) }.bytes());
        assert!(bed.is_node(sent.to), "{uri}");
    }
}

#[test]
fn extensions_that_a_proxy_would_have_to_know() {
    let mut bed = Bed::new(Site::plain());
    let invite = Req::new("INVITE", "require", client()).with("Proxy-Require", "foo, bar");
    let sent = refusal(&mut bed, &invite.clone().with("Proxy-Require", "baz"), 420);
    assert_eq!(sent.message().header("Unsupported"), Some(&b"foo,bar,baz"[..]));
    // Require concerns only the user agents.
    let sent = bed.one(0, client(), &Req::new("INVITE", "ua", client()).with("Require", "foo").bytes());
    assert!(bed.is_node(sent.to));
}

#[test]
fn a_malformed_request_is_refused() {
    let mut bed = Bed::new(Site::plain());
    let bytes = replaced(&Req::new("INVITE", "bad", client()).bytes(), "CSeq: 1 INVITE", "CSeq: 1 BYE");
    assert_eq!(bed.one(0, client(), &bytes).status(), 400);
    let bytes = replaced(&Req::new("ACK", "bad", client()).bytes(), "CSeq: 1 ACK", "CSeq: 1 BYE");
    bed.dropped(0, client(), &bytes, "refused_ack");
    bed.dropped(0, client(), b"\r\n\r\n", "keep_alive");
    bed.dropped(0, client(), b"hello", "not_sip");
}

/// Faults are counted by reason, both in refused and in dropped messages.
#[test]
fn faults_are_counted_by_their_reason() {
    let mut bed = Bed::new(Site::plain());
    let text = string(&Req::new("OPTIONS", "fault", client()).bytes());
    let twice = |name: &str| {
        let line = text.lines().find(|line| line.starts_with(name)).expect("a header line");
        text.replacen(line, &format!("{line}\r\n{line}"), 1)
    };
    let endless = text.replace("\r\n\r\nv=0\r\n", "\r\nX-Endless: x");
    let refused = [
        ("Duplicate From", twice("From:")),
        ("Duplicate To", twice("To:")),
        ("Duplicate Call-ID", twice("Call-ID:")),
        ("Duplicate CSeq", twice("CSeq:")),
        ("Duplicate Max-Forwards", twice("Max-Forwards:")),
        ("Duplicate Content-Length", twice("Content-Length:")),
        ("Header Without End", endless),
    ];
    for (reason, bytes) in refused {
        assert_eq!(bed.one(0, client(), bytes.as_bytes()).status(), 400, "{reason}");
        assert_eq!(bed.shard.counters().replies.get(&(400, reason)), Some(&1));
    }
    let invite = &text.as_bytes()[..20];
    for not_sip in [invite, "A".repeat(65_507).as_bytes(), &[0; 500]] {
        bed.dropped(0, client(), not_sip, "not_sip");
    }
    bed.dropped(0, client(), b"OPTIONS sip:a SIP/2.0\r\nCall-ID: a\r\n\r\n", "no_via");
    let nameless = text.replace("CSeq: 1 OPTIONS\r\n", "");
    bed.dropped(0, client(), nameless.as_bytes(), "unanswerable");
    bed.dropped(0, client(), b"", "empty");
}

#[test]
fn a_response_leaves_by_a_socket_of_its_family() {
    let via = "SIP/2.0/UDP [::1]:6000;branch=z9hG4bK1;maddr=127.0.9.9";
    let request = Req { max_forwards: Some(0), ..Req::new("OPTIONS", "maddr", client()) }.via(via);
    let mut bed = Bed::new(Site::mixed());
    let sent = bed.one(1, addr("[::1]:6000"), &request.bytes());
    assert_eq!((sent.to, sent.listener, sent.status()), (addr("127.0.9.9:6000"), 0, 483));
    let mut bed = Bed::new(Site { listeners: vec!["[::1]:5060"], nodes: Vec::new(), ..Site::plain() });
    bed.dropped(0, addr("[::1]:6000"), &request.bytes(), "no_target");
}

/// RFC 3261 §16.3 step 4: a request that comes back unchanged is a loop; with another Request-URI it is a spiral, and
/// passes.
#[test]
fn loops_are_stopped_and_spirals_are_not() {
    let mut bed = Bed::new(Site::plain());
    let sent = bed.one(0, client(), &Req::new("INVITE", "loop", client()).bytes());
    let far = addr("127.0.7.7:5060");
    let hop = format!("Via: SIP/2.0/UDP {far};branch=z9hG4bKfar\r\nVia: SIP/2.0/UDP {PROXY}");
    let back = replaced(&sent.bytes, &format!("Via: SIP/2.0/UDP {PROXY}"), &hop);
    let answered = bed.one(0, far, &back);
    assert_eq!((answered.to, answered.status()), (far, 482));
    let spiral = replaced(&back, "INVITE sip:bob@pool.example", "INVITE sip:robert@pool.example");
    let again = bed.one(0, far, &spiral);
    assert_eq!(again.to, sent.to, "the same call, the same node");
    assert_ne!(again.branch(), sent.branch());
}

/// Returns the request with a header field that makes it `length` bytes long.
fn of_length(request: &Req, length: usize) -> Vec<u8> {
    let missing = length - request.clone().with("X-Fill", "").bytes().len();
    request.clone().with("X-Fill", &"x".repeat(missing)).bytes()
}

/// Creates the request with this Call-ID.
type Write<'a> = &'a dyn Fn(&str) -> Req;

/// RFC 3261 §21.5.14: a request that would not fit into a datagram with the added header fields is refused before any
/// state is created.
#[test]
fn a_request_that_our_headers_would_make_too_large() {
    const LARGEST: usize = 65_507;
    let far = addr("[2001:db8:1111:2222:3333:4444:5555:6666]:65535");
    let plain = |call: &str| Req::new("INVITE", call, client());
    // Grows by the maximum: two Record-Routes, Max-Forwards, received and rport.
    let bare = |call: &str| {
        let via = format!("SIP/2.0/UDP a;rport;branch=z9hG4bK-{call}");
        Req { max_forwards: None, ..Req::new("INVITE", call, far).via(&via) }
    };
    let mixed = || Site { nodes: vec![("127.0.1.1:5060", 0)], ..Site::mixed() };
    let sites: [(Site, Service, u16, SocketAddr, Write<'_>); 4] = [
        (Site::plain(), Service::Balance, 0, client(), &plain),
        (mixed(), Service::Balance, 1, far, &bare),
        // With a transaction, a datagram that no socket accepts would be sent for 32 s.
        (Site::plain(), Service::HOPS, 0, client(), &plain),
        (mixed(), Service::HOPS, 1, far, &bare),
    ];
    for (site, mode, listener, from, write) in sites {
        let mut bed = Bed::new(site).with_mode(mode);
        for length in [65_300, 65_400, 65_450, 65_507] {
            let request = write(&length.to_string());
            let bytes = of_length(&request, length);
            assert_eq!(bytes.len(), length);
            let sent = bed.one(listener, from, &bytes);
            assert_eq!((sent.to, sent.status(), transactions(&bed)), (from, 513, 0), "{length}");
            bed.assert_idle();
            // An ACK gets no response.
            let ack = of_length(&request.same_branch("ACK", None), length);
            bed.dropped(listener, from, &ack, "refused_ack");
        }
        assert_eq!(bed.shard.counters().replies[&(513, "Message Too Large")], 4);
        assert_eq!(bed.shard.counters().requests_forwarded, 0);
        let sent = bed.one_by(Flow::udp(listener, from), &of_length(&write("fits"), LARGEST - 640));
        assert!(bed.is_node(sent.to) && sent.bytes.len() <= LARGEST);
    }
}

/// A response copies From, To and Via (RFC 3261 §8.2.6.2).
#[test]
fn a_response_too_long_for_a_datagram() {
    let mut bed = Bed::new(Site::plain());
    let request = |tag: &str| {
        format!(
            "OPTIONS sip:a SIP/2.0\r\nVia: SIP/2.0/UDP a;rport;branch=z9hG4bK1\r\nFrom: <sip:a@b>;tag={tag}\r\n\
             To: <sip:b@b>\r\nCall-ID: long\r\nCSeq: 1 OPTIONS\r\n\r\n"
        )
    };
    let longest = request(&"x".repeat(65_507 - request("").len()));
    bed.dropped(0, client(), longest.as_bytes(), "too_long");
    assert!(bed.shard.counters().replies.is_empty());
}

/// The Via of a balancer in front is no loop, even if it is of the same kind.
#[test]
fn a_chain_of_balancers_is_no_loop() {
    let mut front = Bed::new(Site { nodes: vec![("127.0.0.3:5060", 0)], ..Site::plain() });
    let mut back = Bed::new(Site { listeners: vec!["127.0.0.3:5060"], ..Site::plain() });
    let sent = front.one(0, client(), &Req::new("INVITE", "chain", client()).bytes());
    let at_node = back.one(0, addr(PROXY), &sent.bytes);
    assert!(back.is_node(at_node.to));
    let ok = answer(&at_node.bytes, addr("127.0.0.3:5060"), 200, at_node.to);
    let ok = back.one(0, at_node.to, &ok);
    assert_eq!(ok.to, addr(PROXY));
    assert_eq!(front.one(0, addr("127.0.0.3:5060"), &ok.bytes).to, client());
}

#[test]
fn requests_of_an_unknown_dialog_follow_the_rule() {
    let orphan =
        |method| Req { to_tag: Some("bob".to_owned()), cseq: 2, ..Req::new(method, "orphan", client()) };
    for method in ["BYE", "INVITE", "INFO", "UPDATE", "NOTIFY", "STRANGE"] {
        let with = |forwards_orphans| Bed::new(Site { forwards_orphans, ..Site::plain() });
        refusal(&mut with(false), &orphan(method), 481);
        let mut bed = with(true);
        let sent = bed.one(0, client(), &orphan(method).bytes());
        assert!(bed.is_node(sent.to));
        answered(&mut bed, &sent, 481);
        bed.assert_forgets();
    }
}

#[test]
fn a_503_pauses_the_node_at_once() {
    for (header, seconds) in
        [(None, 2), (Some("30"), 30), (Some("30 (maintenance)"), 30), (Some("999999"), 60)]
    {
        let mut bed = Bed::new(Site::plain());
        let sent = bed.one(0, client(), &Req::new("INVITE", "busy", client()).bytes());
        let busy = sent.to;
        let extra: Vec<_> = header.map(|value| ("Retry-After", value)).into_iter().collect();
        let back = bed.one(0, busy, &answer_with(&sent.bytes, addr(PROXY), 503, busy, &extra));
        assert_eq!((back.to, back.status()), (client(), 503));
        let goes_there = |bed: &mut Bed| {
            (0..3).any(|n| {
                let call = format!("call-{n}-{}", bed.now);
                let sent = bed.one(0, client(), &Req::new("OPTIONS", &call, client()).bytes());
                sent.to == busy
            })
        };
        assert!(!goes_there(&mut bed));
        bed.wait(Duration::from_millis(seconds * 1_000 - 1));
        assert!(!goes_there(&mut bed), "{header:?}");
        bed.wait(Duration::from_millis(1));
        assert!(goes_there(&mut bed), "{header:?}");
        let is_pause = |event: &&ShardEvent| matches!(event, ShardEvent::Sign(balance::Sign::Pause { .. }));
        let pauses = bed.events.iter().filter(is_pause).count();
        assert_eq!(pauses, 1, "the pause is reported once to the other shards");
    }
}

#[test]
fn no_node_takes_calls() {
    let mut bed = Bed::new(Site::plain());
    let call = Dialog::inbound(&mut bed, "before", client(), 0);
    for slot in 0..3 {
        bed.port_closed(slot);
    }
    refusal(&mut bed, &Req::new("INVITE", "after", client()), 503);
    // Requests that are bound to a node still go there.
    assert_eq!(bed.one(0, client(), &call.by_caller("BYE", 2).bytes()).to, call.callee.at);
}

#[test]
fn while_stopping_only_new_calls_are_refused() {
    let mut bed = Bed::new(Site::plain());
    let call = Dialog::inbound(&mut bed, "running", client(), 0);
    let ringing = Req::new("INVITE", "ringing", client());
    let at_node = bed.one(0, client(), &ringing.bytes());
    stop(&mut bed);
    for method in ["INVITE", "REGISTER", "OPTIONS", "SUBSCRIBE"] {
        let request = Req::new(method, method, client()).bytes();
        let foretold = bed.explain(client(), &request).unwrap_err();
        assert!(foretold.starts_with("refused: 503 "), "{method}: {foretold}");
        let sent = bed.one(0, client(), &request);
        assert_eq!((sent.to, sent.status()), (client(), 503), "{method}");
        let answer = wire::scan(&sent.bytes).expect("a response");
        assert_eq!(answer.header("Retry-After"), Some(&b"21"[..]), "{method}: when the process has stopped");
    }
    assert!(bed.explain(client(), &ringing.bytes()).is_ok(), "no new call");
    assert_eq!(bed.one(0, client(), &ringing.bytes()), at_node, "retransmitted");
    assert_eq!(bed.one(0, client(), &ringing.same_branch("CANCEL", None).bytes()).to, at_node.to);
    call.caller_asks(&mut bed, "ACK", 1);
    call.callee_asks(&mut bed, "INVITE", 1);
    call.caller_asks(&mut bed, "BYE", 2);
    bed.assert_forgets();
}
