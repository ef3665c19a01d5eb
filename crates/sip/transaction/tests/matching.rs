//! Matching of messages to transactions, and requests made from an INVITE, on bytes.

use base::{Flow, Instant};
use transaction::{
    Keys, Layer, New, Packet, Sending, ServerKey, StatusClass, Timers, TransactionEffect, TransactionKey,
    TransactionKind, TransactionNews, TransportKind, ack_for, cancel_for,
};
use wire::build::ResponseBuilder;
use wire::{Message, Method, scan};

const INVITE: &str = "INVITE sip:bob@example.com SIP/2.0\r\n\
    Via: SIP/2.0/UDP 192.0.2.1:5060;branch=z9hG4bKkjshdyff\r\n\
    Via: SIP/2.0/UDP 192.0.2.9;branch=z9hG4bKbelow\r\n\
    Route: <sip:192.0.2.2;lr>, <sip:192.0.2.3;lr>\r\n\
    Route: <sip:192.0.2.4;lr>\r\n\
    To: Bob <sip:bob@example.com>\r\n\
    From: Alice <sip:alice@example.com>;tag=88sja8x\r\n\
    Max-Forwards: 70\r\n\
    Proxy-Require: foo\r\nRequire: bar\r\n\
    Call-ID: 987asjd97y7atg\r\n\
    CSeq: 986759 INVITE\r\n\
    Content-Length: 4\r\n\r\nbody";

const OLD_INVITE: &str = "INVITE sip:bob@example.com SIP/2.0\r\n\
    Via: SIP/2.0/UDP 192.0.2.1:5060\r\n\
    To: Bob <sip:bob@example.com>\r\n\
    From: Alice <sip:alice@example.com>;tag=88sja8x\r\n\
    Call-ID: 987asjd97y7atg\r\n\
    CSeq: 1 INVITE\r\n\r\n";

fn keys() -> Keys {
    Keys::new([7; 16])
}

fn message(bytes: &[u8]) -> Message<'_> {
    scan(bytes).expect("a message")
}

fn request_key(text: &str) -> ServerKey {
    keys().request(&message(text.as_bytes()))
}

/// `text` with another method.
fn as_method(text: &str, method: &str) -> String {
    text.replace("INVITE", method)
}

fn response_to(request: &str, status: u16) -> Vec<u8> {
    let mut out = Vec::new();
    let request = message(request.as_bytes());
    ResponseBuilder::reply(
        &mut out,
        &request,
        "192.0.2.1:5060".parse().expect("an address"),
        status,
        "X",
        "99sa0xk",
    )
    .finish(b"");
    out
}

fn packet(bytes: &[u8]) -> Packet {
    let flow = Flow::udp(3, "192.0.2.7:5060".parse().expect("an address"));
    Packet::new(bytes.to_vec(), flow)
}

#[test]
fn responses_match_by_branch_and_method() {
    // [17.1.3-1] [17.1.3-2]
    let own = keys().client(b"z9hG4bKkjshdyff", Method::Invite, b"");
    let key = |text: &str| keys().response(&scan(&response_to(text, 200)).unwrap());
    assert_eq!(key(INVITE), Some(own));
    assert_eq!(key(&INVITE.replace("bKkjshdyff", "bkKJSHDYFF")), Some(own), "branches compare in any case");
    assert_ne!(key(&INVITE.replace("kjshdyff", "other")), Some(own));
    assert_ne!(key(&as_method(INVITE, "CANCEL")), Some(own));
    assert_eq!(key(OLD_INVITE), None, "a response without a branch is not ours");
    // Methods unknown to the crate are distinguished by their text.
    let other = |name: &[u8]| keys().client(b"z9hG4bKa", Method::Other, name);
    assert_ne!(other(b"FOO"), other(b"BAR"));
}

#[test]
fn requests_match_by_branch_sent_by_and_method() {
    // [17.2.3-1] [17.2.3-2] [17.2.3-3]
    let key = request_key(INVITE);
    assert_eq!(request_key(&INVITE.replace("Max-Forwards: 70", "Max-Forwards: 69")), key);
    assert_eq!(request_key(&INVITE.replace("192.0.2.1:5060", "192.0.2.1")), key, "5060 is the port of UDP");
    for (from, to) in [("kjshdyff", "other"), ("192.0.2.1", "192.0.2.5"), (":5060", ":5061")] {
        assert_ne!(request_key(&INVITE.replace(from, to)).key, key.key, "{to}");
    }
    let ack = request_key(&as_method(INVITE, "ACK"));
    assert!(ack.is_ack && ack.key == key.key && ack.tag == key.tag);
    for method in ["BYE", "CANCEL", "FOO"] {
        assert_ne!(request_key(&as_method(INVITE, method)).key, key.key, "{method}");
    }
    assert_ne!(request_key(&as_method(INVITE, "FOO")).key, request_key(&as_method(INVITE, "BAR")).key);
    // Both sides of one hop within one process.
    let own = keys().client(b"z9hG4bKkjshdyff", Method::Invite, b"");
    assert_ne!(key.key, own);
    // Another secret gives another key.
    assert_ne!(Keys::new([8; 16]).request(&scan(INVITE.as_bytes()).unwrap()).key, key.key);
}

#[test]
fn requests_of_rfc_2543_match_by_their_header_fields() {
    // [17.2.3-4]
    let bare = OLD_INVITE.replace(":5060", ":5060;branch=z9hG4bK");
    for text in [OLD_INVITE, &bare, &OLD_INVITE.replace(":5060", ":5060;branch=1")] {
        let key = request_key(text);
        assert_eq!(request_key(&text.replace("Bob <", "<")), key);
        for (from, to) in [
            ("INVITE sip:bob", "INVITE sip:carol"),
            ("tag=88sja8x", "tag=other"),
            ("987asjd", "other"),
            ("CSeq: 1", "CSeq: 2"),
            ("192.0.2.1", "192.0.2.5"),
            ("UDP 192.0.2.1:5060", "UDP 192.0.2.1:5060;hidden"),
        ] {
            assert_ne!(request_key(&text.replacen(from, to, 1)).key, key.key, "{to}");
        }
        let tagged = request_key(&text.replace("bob@example.com>", "bob@example.com>;tag=a"));
        assert_ne!(tagged.tag, key.tag);
        assert_ne!(request_key(&as_method(text, "BYE")).key, key.key);
    }
}

/// A server transaction for `text` that was answered with `status`.
fn answered(text: &str, status: u16) -> Layer<(), Packet> {
    let mut layer = Layer::new(Timers::default());
    let key = request_key(text);
    let new = New { key, kind: TransactionKind::Invite, transport: TransportKind::Unreliable, user: () };
    let mut out = Vec::new();
    let id = layer.accept(Instant::ZERO, new, &mut out).expect("a new key");
    let response = packet(&response_to(text, status));
    assert!(layer.respond(Instant::ZERO, id, StatusClass::of(status), response, &mut out));
    layer
}

#[test]
fn the_ack_of_an_rfc_2543_peer_is_known_by_the_tag_of_the_response() {
    // [17.2.3-5] [17.2.3-6]
    let ack = as_method(OLD_INVITE, "ACK").replace("bob@example.com>", "bob@example.com>;tag=99sa0xk");
    let foreign = ack.replace("99sa0xk", "other");
    let mut out = Vec::new();
    let mut layer = answered(OLD_INVITE, 486);
    assert!(layer.received(Instant::ZERO, &request_key(&foreign), &mut out).is_none());
    assert!(layer.received(Instant::ZERO, &request_key(&ack), &mut out).is_some());
    assert!(layer.received(Instant::ZERO, &request_key(&ack), &mut out).is_some(), "absorbed again");
    assert!(layer.received(Instant::ZERO, &request_key(OLD_INVITE), &mut out).is_some());
    assert!(out.is_empty());
    // [6026-2] [17.2.1-20] The ACK to a 2xx goes to the user, whether it matches or belongs to another branch of a
    // fork.
    let mut layer = answered(OLD_INVITE, 200);
    assert!(layer.received(Instant::ZERO, &request_key(&foreign), &mut out).is_none());
    let id = layer.received(Instant::ZERO, &request_key(&ack), &mut out).unwrap();
    assert_eq!(out, [TransactionEffect::Tell(id, (), TransactionNews::Message)]);
}

#[test]
fn requests_that_match_go_to_their_transaction_and_others_to_the_user() {
    // [18.2.1-1]
    let mut out = Vec::new();
    let mut layer = answered(INVITE, 486);
    let other = INVITE.replace("kjshdyff", "other");
    assert!(layer.received(Instant::ZERO, &request_key(&other), &mut out).is_none() && out.is_empty());
    let id = layer.received(Instant::ZERO, &request_key(INVITE), &mut out).unwrap();
    let [TransactionEffect::Send(sent, message, Sending::Repeat)] = &out[..] else { panic!("{out:?}") };
    assert_eq!((*sent, &message.bytes.whole()[..]), (id, &response_to(INVITE, 486)[..]));
}

#[test]
fn a_cancel_finds_its_invite_and_is_a_transaction_of_its_own() {
    // [9.2-1]
    for text in [INVITE, OLD_INVITE] {
        let layer = answered(text, 180);
        let mut cancel = Vec::new();
        cancel_for(&scan(text.as_bytes()).unwrap(), &mut cancel);
        let cancel = scan(&cancel).unwrap();
        assert!(layer.find(&keys().cancelled(&cancel)).is_some());
        assert!(layer.find(&keys().request(&cancel)).is_none());
    }
}

/// RFC 3261 §16.10: a proxy must answer the CANCEL of any pending request.
#[test]
fn a_cancel_finds_requests_of_other_methods() {
    for text in [INVITE, OLD_INVITE] {
        for method in ["OPTIONS", "MESSAGE", "BYE", "STRANGE"] {
            let layer = answered(&as_method(text, method), 200);
            let cancel = as_method(text, "CANCEL");
            let about = |cancel: &str| keys().cancelled(&message(cancel.as_bytes()));
            assert!(layer.find(&about(&cancel)).is_none(), "{method} is not an INVITE");
            assert!(layer.find_other_method(&about(&cancel)).is_some(), "{method}");
            for other in [cancel.replace("192.0.2.1", "192.0.2.7"), cancel.replace("kjshdyff", "x")] {
                let differs = other != cancel;
                assert!(!differs || layer.find_other_method(&about(&other)).is_none(), "{method}");
            }
            assert!(answered(text, 200).find(&request_key(&as_method(text, method))).is_none(), "{method}");
        }
    }
}

/// Checks the fields that a request shares with the request made from it.
fn assert_same_hop(made: &Message<'_>, invite: &Message<'_>) {
    assert!(made.fault().is_none(), "{:?}", made.fault());
    assert_eq!(made.uri(), invite.uri());
    assert_eq!((made.call_id(), made.from()), (invite.call_id(), invite.from()));
    assert_eq!(made.cseq().number, 986_759);
    assert_eq!(made.vias().count(), 1);
    assert_eq!(made.top_via().branch, invite.top_via().branch);
    assert!(made.headers("Route").eq(invite.headers("Route")) && made.routes().count() == 3);
}

#[test]
fn the_ack_to_a_failure_is_made_from_invite_and_response() {
    // [17.1.1.3-1] [17.1.1.3-2] [17.1.1.3-3] [17.1.1.3-4] [17.1.1.3-5] [17.1.1.3-6]
    let (invite, response) = (scan(INVITE.as_bytes()).unwrap(), response_to(INVITE, 486));
    let mut bytes = Vec::new();
    ack_for(&invite, &scan(&response).unwrap(), &mut bytes);
    let ack = scan(&bytes).unwrap();
    assert_same_hop(&ack, &invite);
    assert_eq!((ack.method(), ack.to_tag()), (Some(Method::Ack), Some(&b"99sa0xk"[..])));
    assert!(ack.body().is_empty());
}

#[test]
fn a_cancel_is_made_from_its_invite() {
    // [9.1-1] [9.1-2] [9.1-3] [9.1-4]
    let invite = scan(INVITE.as_bytes()).unwrap();
    let mut bytes = Vec::new();
    cancel_for(&invite, &mut bytes);
    let cancel = scan(&bytes).unwrap();
    assert_same_hop(&cancel, &invite);
    assert_eq!((cancel.method(), cancel.to()), (Some(Method::Cancel), invite.to()));
    assert!(cancel.header("Require").is_none() && cancel.proxy_require().next().is_none());
}

#[test]
fn the_layer_acknowledges_on_the_way_of_the_invite() {
    // [17.1.1.2-17] [17.1.1.2-18] [18.1.2-1]
    let mut layer = Layer::new(Timers::default());
    let key = keys().client(b"z9hG4bKkjshdyff", Method::Invite, b"");
    let new = New { key, kind: TransactionKind::Invite, transport: TransportKind::Unreliable, user: () };
    let mut out = Vec::new();
    layer.request(Instant::ZERO, new, packet(INVITE.as_bytes()), &mut out).unwrap();
    let bytes = response_to(INVITE, 486);
    let response = scan(&bytes).unwrap();
    let key = keys().response(&response).unwrap();
    out.clear();
    assert!(layer.response(Instant::ZERO, key, StatusClass::Failure, &response, &mut out).is_some());
    let [
        TransactionEffect::Send(_, ack, Sending::First),
        TransactionEffect::Tell(_, (), TransactionNews::Message),
    ] = &out[..]
    else {
        panic!("{out:?}")
    };
    assert_eq!(ack.flow, packet(b"").flow);
    assert_eq!(scan(&ack.bytes.whole()).unwrap().method(), Some(Method::Ack));
    // [6026-1] A response without a match is dropped.
    let stray = TransactionKey(key.0 ^ 1);
    assert!(layer.response(Instant::ZERO, stray, StatusClass::Success, &response, &mut out).is_none());
    assert_eq!(out.len(), 2);
}

#[test]
fn a_100_gets_no_tag() {
    // [17.2.1-2]
    assert_eq!(scan(&response_to(INVITE, 100)).unwrap().to_tag(), None);
    assert!(scan(&response_to(INVITE, 180)).unwrap().to_tag().is_some());
}
