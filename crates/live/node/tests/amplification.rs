//! Maximum length of responses: a sender with a forged source address must not have much more sent there than it sends
//! itself.

use crate::common::*;

/// Maximum bytes by which a response may be longer than its request.
const GROWTH_MAX: usize = 100;

fn victim() -> SocketAddr {
    addr("127.0.9.1:6000")
}

/// Returns the responses to a request, which may be none.
fn answers(request: &[u8]) -> Vec<Sent> {
    let mut bed = Bed::new(Site::plain());
    let sent = bed.receive(0, victim(), request);
    bed.assert_idle();
    sent
}

#[test]
fn a_tiny_request_gets_no_response() {
    for request in [
        "X x SIP/2.0\r\nv:SIP/2.0/UDP a\r\n\r\n",
        "A a:a SIP/2.0\r\nv:SIP/2.0/UDP a\r\nCSeq:1 A\r\n\r\n",
        "A a:a SIP/2.0\r\nv:SIP/2.0/UDP a;rport\r\nf:a:a\r\nt:a:a\r\ni:1\r\nCSeq:1 A\r\n\r\n",
        "X x SIP/2.0",
    ] {
        let sent = answers(request.as_bytes());
        assert_eq!(sent, [], "{} bytes for {}", sent[0].bytes.len(), request.len());
    }
}

/// Bytes are copied unchanged: an invalid byte does not become three.
#[test]
fn a_response_is_hardly_longer_than_its_request() {
    let options = || Req::new("OPTIONS", "large", victim());
    let with = |name: &str, value: &[u8]| {
        let text = string(&options().bytes());
        let (head, rest) = text.split_once("Contact:").expect("a header line");
        [head.as_bytes(), name.as_bytes(), b": ", value, b"\r\nContact:", rest.as_bytes()].concat()
    };
    let vias = "v:SIP/2.0/UDP a\r\n".repeat(3_000);
    let cases = [
        ("no text", with("Proxy-Require", &vec![0xff; 20_800])),
        ("a list", with("Proxy-Require", "a,".repeat(30_000).as_bytes())),
        ("many Vias", with("Proxy-Require", &[b"a\r\n", vias.trim_end().as_bytes()].concat())),
    ];
    for (case, request) in cases {
        let sent = answers(&request);
        assert_eq!(sent.len(), 1, "{case}");
        assert_eq!(sent[0].status(), 420);
        let (asked, got) = (request.len(), sent[0].bytes.len());
        assert!(got <= asked + GROWTH_MAX, "{case}: {got} bytes for {asked}");
    }
}

/// A proxy's transactions retransmit their responses, so a request that is too short begins none.
#[test]
fn a_tiny_request_to_a_proxy_gets_no_response() {
    for method in ["INVITE", "MESSAGE", "CANCEL"] {
        let mut bed = ProxyBed::plain();
        let request = format!(
            "{method} tel:1 SIP/2.0\r\nv:SIP/2.0/UDP a\r\nf:a:a;tag=1\r\nt:a:a\r\ni:1\r\nCSeq:1 {method}\r\n\r\n"
        );
        let mut sent = bed.receive(0, victim(), request.as_bytes());
        sent.extend(bed.wait(Duration::from_secs(64)));
        assert_eq!(sent, [], "{} bytes", request.len());
        assert_eq!(bed.drops("unanswerable"), 1);
        bed.assert_forgets();
    }
}

/// RFC 3261 §17.2.1: without an ACK a failure is retransmitted for 32 s. All copies together keep the limit, except to
/// a next hop, which is known to want them. The first copy is always allowed, since a client that has got a 100 waits
/// for it.
#[test]
fn all_responses_of_a_proxy_are_at_most_twice_the_request() {
    for (final_answer, status, fit) in [(None, 408, 6), (Some(404), 404, 4)] {
        for (caller, padding, repeats) in [(victim(), 0, 1), (victim(), 700, fit), (addr(HOPS[1]), 0, 10)] {
            let mut bed = ProxyBed::new(&[PROXY], &[(HOPS[0], 0), (HOPS[1], 0)]);
            let (via, padding) = (format!("SIP/2.0/UDP {caller};branch=z9hG4bK-v"), "x".repeat(padding));
            let invite = Req::new("INVITE", "forged", caller).via(&via).with("Subject", &padding).bytes();
            let mut sent = bed.receive(0, caller, &invite);
            let at_hop = sent.pop().expect("the INVITE is forwarded");
            if let Some(status) = final_answer {
                let response = answer(&at_hop.bytes, addr(PROXY), status, at_hop.to);
                sent.extend(bed.receive(0, at_hop.to, &response));
            }
            sent.extend(bed.wait(Duration::from_secs(100)));
            sent.retain(|sent| sent.to == caller && sent.message().status().is_some());
            let statuses: Vec<_> = sent.iter().map(Sent::status).collect();
            assert_eq!(statuses, [&[100][..], &vec![status; 1 + repeats]].concat(), "{caller}");
            assert!(sent.iter().all(|sent| sent.bytes.len() <= invite.len() + GROWTH_MAX));
            let bounded = if repeats == 1 { &sent[..2] } else { &sent[..] };
            let got: usize = bounded.iter().map(|sent| sent.bytes.len()).sum();
            assert!(caller != victim() || got <= 2 * invite.len(), "{got} bytes for {}", invite.len());
            bed.assert_forgets();
        }
    }
}

/// The most that a response can add: an IPv6 address and a port, a tag, Content-Length, long names of header fields.
#[test]
fn a_response_that_would_grow_too_much_is_not_sent() {
    let from = addr("[2001:db8:1111:2222:3333:4444:5555:6666]:60000");
    let mut bed = ProxyBed::new(&["[::1]:5060"], &[("[::1]:5081", 0)]);
    let request = "INVITE tel:1 SIP/2.0\r\nv:SIP/2.0/UDP a;branch=z9hG4bK1;rport\r\nf:a:a;tag=1\r\nt:a:a\r\ni:1\r\n\
                   CSeq:1 INVITE\r\n\r\n";
    assert!(request.len() >= 100);
    let mut sent = bed.receive(0, from, request.as_bytes());
    sent.extend(bed.wait(Duration::from_secs(65)));
    sent.retain(|sent| sent.to == from);
    let grown: Vec<_> = sent.iter().map(|sent| (sent.status(), sent.bytes.len() - request.len())).collect();
    assert!(grown.iter().all(|&(_, grown)| grown <= GROWTH_MAX), "{grown:?}");
    assert_eq!((grown.len(), bed.drops("too_long")), (0, 1), "{grown:?}");
    bed.assert_forgets();
}
