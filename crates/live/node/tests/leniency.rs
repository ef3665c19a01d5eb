//! Parts of a message that forwarding does not need are not checked (RFC 3261 §16.3 step 1), in both roles.

use crate::common::*;

/// Texts in the response to an INVITE, and the errors of a careless server.
const CARELESS: [(&str, &str); 8] = [
    (";tag=bob", ";tag=bob;tag=bob"),
    (";tag=bob", ";tag=bob;tag=carol"),
    ("To: <sip:bob@pool.example>", "To: \"Bob <sip:bob@pool.example>"),
    ("To: ", "To: <sip:bob@pool.example>;tag=bob\r\nTo: "),
    ("From: ", "f: <sip:alice@127.0.0.1>;tag=alice\r\nFrom: "),
    ("Call-ID: ", "Call-ID: call\r\ni: "),
    ("CSeq: ", "CSeq: 1 INVITE\r\nCSeq: "),
    ("Content-Length: 0\r\n", "Content-Length: 0\r\nl:0\r\n"),
];

#[test]
fn a_careless_answer_comes_back_as_it_is() {
    for (text, careless) in CARELESS {
        let invite = Req::new("INVITE", "call", client());
        let mut bed = Bed::new(Site::plain());
        let at_node = bed.one(0, client(), &invite.bytes());
        let ok = replaced(&answer(&at_node.bytes, addr(PROXY), 200, at_node.to), text, careless);
        let back = bed.one(0, at_node.to, &ok);
        assert_eq!((back.to, back.status()), (client(), 200), "{careless}");
        assert!(String::from_utf8_lossy(&back.bytes).contains(careless), "{careless}");
        assert_eq!(bed.load().calls, 1, "{careless}");

        let mut proxy = ProxyBed::plain();
        let at_hop = proxy.invite(&invite);
        let ok = replaced(&answer(&at_hop.bytes, addr(PROXY), 200, at_hop.to), text, careless);
        let back = proxy.one(addr(HOPS[0]), &ok);
        assert_eq!((back.to, back.status()), (client(), 200), "{careless}");
        assert!(String::from_utf8_lossy(&back.bytes).contains(careless), "{careless}");
    }
}

/// A proxy acknowledges a failure with its To unchanged (RFC 3261 §17.1.1.3).
#[test]
fn a_careless_failure_is_acknowledged() {
    for (text, careless) in CARELESS {
        let mut proxy = ProxyBed::plain();
        let at_hop = proxy.invite(&Req::new("INVITE", "call", client()));
        let busy = replaced(&answer(&at_hop.bytes, addr(PROXY), 486, at_hop.to), text, careless);
        let sent = proxy.receive(0, addr(HOPS[0]), &busy);
        let read: Vec<_> = sent.iter().map(|one| wire::scan(&one.bytes).unwrap()).collect();
        assert_eq!(
            read.iter().map(wire::Message::status).collect::<Vec<_>>(),
            [None, Some(486)],
            "{careless}"
        );
        // The sender of the careless text gets it back unchanged.
        let (ack, busy) = (&read[0], wire::scan(&busy).unwrap());
        assert_eq!((ack.method(), sent[0].to), (Some(Method::Ack), at_hop.to));
        assert_eq!((ack.top_via().branch, ack.to()), (at_hop.message().top_via().branch, busy.to()));
    }
}

/// The caller repeats both tags. They are equal, so the dialog is clear.
#[test]
fn two_equal_tags_count_as_one() {
    let mut bed = Bed::new(Site::plain());
    let call = Dialog::inbound(&mut bed, "call", client(), 0);
    for (method, cseq) in [("ACK", 1), ("INFO", 2), ("BYE", 3)] {
        let request = call.by_caller(method, cseq).bytes();
        let request = replaced(&request, ";tag=bob", ";tag=bob;tag=bob");
        assert_eq!(bed.one(0, client(), &request).to, call.callee.at, "{method}");
    }
    let request = replaced(&call.by_caller("BYE", 4).bytes(), ";tag=bob", ";tag=bob;tag=carol");
    assert_eq!(bed.one(0, client(), &request).status(), 400, "two different tags are ambiguous");
}

/// Fields that match a response to its request must occur once, or be equal.
#[test]
fn an_answer_that_cannot_be_matched_is_dropped() {
    for (text, careless) in [
        ("Call-ID: ", "Call-ID: another\r\nCall-ID: "),
        ("CSeq: ", "CSeq: 2 INVITE\r\nCSeq: "),
        ("CSeq: ", "CSeq: 1 BYE\r\nCSeq: "),
        ("Content-Length: 0\r\n", "Content-Length: 0\r\nContent-Length: 1\r\n"),
        ("Content-Length: 0\r\n", "Content-Length: zero\r\n"),
    ] {
        let mut bed = Bed::new(Site::plain());
        let at_node = bed.one(0, client(), &Req::new("INVITE", "call", client()).bytes());
        let ok = replaced(&answer(&at_node.bytes, addr(PROXY), 200, at_node.to), text, careless);
        bed.dropped(0, at_node.to, &ok, "bad_response");
    }
}
