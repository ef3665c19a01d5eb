//! How large an answer of our own may be: whoever forges a source address must not get much more sent there than he
//! sends himself.
mod common;

use common::text::{Req, string};
use common::{Bed, Sent, Site, addr};
use std::net::SocketAddr;

/// The most bytes by which an answer may be longer than its request.
const GROWTH_MAX: usize = 100;

fn victim() -> SocketAddr {
    addr("127.0.9.1:6000")
}

/// What is sent back for this; it may be nothing.
fn answers(request: &[u8]) -> Vec<Sent> {
    let mut bed = Bed::new(Site::plain());
    let sent = bed.receive(0, victim(), request);
    bed.assert_idle();
    sent
}

#[test]
fn a_few_bytes_get_nothing() {
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

/// Bytes are copied as they are: none becomes three.
#[test]
fn an_answer_is_of_the_order_of_its_request() {
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
    for (what, request) in cases {
        let sent = answers(&request);
        assert_eq!(sent.len(), 1, "{what}");
        assert_eq!(sent[0].status(), 420);
        let (asked, got) = (request.len(), sent[0].bytes.len());
        assert!(got <= asked + GROWTH_MAX, "{what}: {got} bytes for {asked}");
    }
}
