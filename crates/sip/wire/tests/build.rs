//! Responses and requests of our own, compared with the whole expected message.
#![allow(clippy::unwrap_used, reason = "a helper that fails fails its test")]

use std::net::SocketAddr;

use wire::build::{RequestBuilder, ResponseBuilder};
use wire::{Method, scan, write_response};

fn source() -> SocketAddr {
    "192.0.2.7:6000".parse().unwrap()
}

fn response(request: &str, status: u16, extra: &[(&str, &str)]) -> String {
    let m = scan(request.as_bytes()).unwrap();
    let mut out = Vec::new();
    write_response(&m, source(), status, "Reason", "own", extra, &mut out);
    String::from_utf8(out).unwrap()
}

#[test]
fn a_response_copies_the_required_fields() {
    let request = "BYE sip:b SIP/2.0\r\nv: SIP/2.0/UDP h;rport , SIP/2.0/UDP i\r\nTo: <sip:b>\r\nSubject: x\r\n\
        Via:\r\n SIP/2.0/UDP j\r\nf: \"A\"\r\n <sip:a>;tag=1\r\ni: c\r\nCSEQ:  7  BYE\r\nTimestamp: 54\r\nl: 2\r\n\r\nab";
    let head = "SIP/2.0 404 Reason\r\nv: SIP/2.0/UDP h;rport=6000;received=192.0.2.7 , SIP/2.0/UDP i\r\n\
        Via:   SIP/2.0/UDP j\r\nFrom: \"A\"   <sip:a>;tag=1\r\nTo: <sip:b>;tag=own\r\nCall-ID: c\r\nCSeq: 7  BYE\r\n";
    assert_eq!(
        response(request, 404, &[("Allow", "BYE")]),
        format!("{head}Allow: BYE\r\nContent-Length: 0\r\n\r\n")
    );
    // RFC 3261 §8.2.6: a 100 gets no tag, but the Timestamp.
    let trying = head.replace("404", "100").replace(";tag=own", "");
    assert_eq!(response(request, 100, &[]), format!("{trying}Timestamp: 54\r\nContent-Length: 0\r\n\r\n"));
    // A present tag is kept.
    let tagged = response(&request.replace("To: <sip:b>", "To: <sip:b>;tag=t"), 200, &[]);
    assert!(tagged.contains("To: <sip:b>;tag=t\r\n"), "{tagged}");
}

#[test]
fn response_to_a_fault() {
    let request = "INVITE sip:b SIP/2.0\nVia: SIP/2.0/UDP h;;,\nFrom: a,b\n evil <x\nCSeq: x\n\n";
    assert_eq!(
        response(request, 400, &[("Warning", "a\r\nEvil: yes")]),
        "SIP/2.0 400 Reason\r\nVia: SIP/2.0/UDP h;;;received=192.0.2.7,\r\nFrom: a,b  evil <x\r\nCSeq: x\r\n\
         Warning: a  Evil: yes\r\nContent-Length: 0\r\n\r\n"
    );
}

#[test]
fn built_messages_scan() {
    let mut request = Vec::new();
    RequestBuilder::new(&mut request, "INVITE", "sip:b@x")
        .header("Via", "SIP/2.0/UDP 192.0.2.7:6000;branch=z9hG4bK1")
        .header("Record-Route", "<sip:1;lr>")
        .header_fmt("Max-Forwards", format_args!("{}", 70))
        .header("Record-Route", b"<sip:2;lr>")
        .header("From", "<sip:a@x>;tag=1")
        .header("To", "<sip:b@x>")
        .header("Call-ID", "c")
        .header_fmt("CSeq", format_args!("{} {}", 9, Method::Invite.name()))
        .finish(b"body");
    let m = scan(&request).unwrap();
    assert_eq!(
        (m.fault(), m.body(), m.cseq().number, m.max_forwards().unwrap().0),
        (None, &b"body"[..], 9, 70)
    );
    let mut reply = Vec::new();
    ResponseBuilder::reply(&mut reply, &m, source(), 200, "OK", "t")
        .record_routes(&m)
        .header("Contact", "<sip:b@y>")
        .header_fmt("Expires", format_args!("{}", 5))
        .finish(b"answer");
    let r = scan(&reply).unwrap();
    assert_eq!((r.status(), r.body(), r.to_tag()), (Some(200), &b"answer"[..], Some(&b"t"[..])));
    assert_eq!((r.call_id(), r.from_tag(), r.cseq().method), (m.call_id(), m.from_tag(), Method::Invite));
    assert_eq!(r.record_routes().map(|route| route.uri).collect::<Vec<_>>(), [b"sip:1;lr", b"sip:2;lr"]);
    assert_eq!((r.header("m"), r.header("Contact")), (None, Some(&b"<sip:b@y>"[..])));
    assert_eq!(r.header("Expires"), Some(&b"5"[..]));
}

#[test]
fn no_value_starts_a_line() {
    let mut out = Vec::new();
    RequestBuilder::new(&mut out, "BYE", "sip:b\r\nX: y").header("S", "a\r\n\r\nb").finish(b"");
    assert_eq!(out, b"BYE sip:b  X: y SIP/2.0\r\nS: a    b\r\nContent-Length: 0\r\n\r\n");
}
