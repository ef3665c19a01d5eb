//! Results of the scan for ordinary messages, and its refusals.
#![allow(clippy::unwrap_used, reason = "a helper that fails fails its test")]

use std::fmt::Write as _;

use base::Transport;
use wire::{Discard, Method, Rport, Start, peek_call_id, scan};

const INVITE: &str = "INVITE sip:bob@example.net SIP/2.0\r\n\
    Via: SIP/2.0/UDP 192.0.2.1:5062;branch=z9hG4bKa;rport\r\n\
    Max-Forwards: 70\r\n\
    Route: <sip:192.0.2.9;lr>\r\n\
    From: \"Alice\" <sip:alice@example.com>;tag=f1\r\n\
    To: <sip:bob@example.net>\r\n\
    Call-ID: c1@192.0.2.1\r\n\
    CSeq: 314159 INVITE\r\n\
    Contact: <sip:alice@192.0.2.1:5062>\r\n\
    Content-Length: 4\r\n\
    \r\n\
    v=0\n";

const OK: &str = "SIP/2.0 200 OK\r\n\
    Via: SIP/2.0/UDP 192.0.2.9;branch=z9hG4bKp, SIP/2.0/UDP 192.0.2.1:5062;branch=z9hG4bKa;rport=5062;received=192.0.2.1\r\n\
    f: <sip:alice@example.com>;tag=f1\r\n\
    t: <sip:bob@example.net>;tag=t1\r\n\
    i: c1@192.0.2.1\r\n\
    CSeq: 314159 INVITE\r\n\
    Retry-After: 5 (busy)\r\n\
    l: 0\r\n\
    \r\n";

/// `INVITE` with one header line replaced by other text, which may be empty.
fn with(old: &str, new: &str) -> Vec<u8> {
    assert!(INVITE.contains(old), "{old}");
    INVITE.replace(old, new).into_bytes()
}

fn fault(message: &[u8]) -> Option<(u16, &'static str)> {
    let scanned = scan(message).unwrap_or_else(|e| panic!("{e:?}: {}", message.escape_ascii()));
    scanned.fault().map(|fault| (fault.status, fault.reason))
}

#[test]
fn request() {
    let m = scan(INVITE.as_bytes()).unwrap();
    assert_eq!(m.fault(), None);
    assert_eq!(m.bytes(), INVITE.as_bytes());
    assert_eq!(m.body(), b"v=0\n");
    assert!(matches!(m.start(), Start::Request { method: Method::Invite, .. }));
    assert_eq!((m.method(), m.status()), (Some(Method::Invite), None));
    assert_eq!(m.uri(), Some(&b"sip:bob@example.net"[..]));
    assert_eq!(m.call_id(), b"c1@192.0.2.1");
    assert_eq!((m.cseq().number, m.cseq().method), (314_159, Method::Invite));
    assert_eq!((m.from_tag(), m.to_tag()), (Some(&b"f1"[..]), None));
    assert_eq!(m.from(), b"\"Alice\" <sip:alice@example.com>;tag=f1");
    assert_eq!(m.to(), b"<sip:bob@example.net>");
    assert_eq!(
        (m.top_via().transport, m.top_via().port, m.top_via().rport),
        (Some(Transport::Udp), Some(5062), Rport::Flag)
    );
    assert!(m.second_via().is_none());
    let (hops, at) = m.max_forwards().unwrap();
    assert_eq!((hops, at.of(m.bytes())), (70, &b"70"[..]));
    assert_eq!(m.routes().map(|r| r.uri).collect::<Vec<_>>(), [b"sip:192.0.2.9;lr"]);
    assert_eq!(m.header("Contact"), Some(&b"<sip:alice@192.0.2.1:5062>"[..]));
    assert_eq!(m.header("Server"), None);
    assert_eq!(m.contact(), Some(&b"sip:alice@192.0.2.1:5062"[..]));
    assert!(!m.has_record_routes());
}

/// The first value of the first line. Any text may follow the URI, since forwarding does not need it.
#[test]
fn contact() {
    let cases = [
        ("m: sip:a@b;expires=1", Some("sip:a@b")),
        ("CONTACT : \"x, <sip:no@x>\" <sip:a@b;transport=tcp>;;q=,", Some("sip:a@b;transport=tcp")),
        ("Contact:\r\n <sip:a@b>, <sip:c@d>\r\nContact: <sip:e@f>", Some("sip:a@b")),
        ("Contact: *", None),
        ("Contact: <sip:a@b", None),
        ("Contact:", None),
        ("X-Contact: <sip:a@b>", None),
    ];
    for (line, uri) in cases {
        let text = with("Contact: <sip:alice@192.0.2.1:5062>", line);
        let m = scan(&text).unwrap();
        assert_eq!((m.fault(), m.contact()), (None, uri.map(str::as_bytes)), "{line}");
    }
}

#[test]
fn response() {
    let m = scan(OK.as_bytes()).unwrap();
    assert_eq!((m.method(), m.status(), m.uri()), (None, Some(200), None));
    assert_eq!(m.to_tag(), Some(&b"t1"[..]));
    assert_eq!(m.retry_after(), Some(5));
    assert_eq!(m.cseq().method, Method::Invite);
    assert_eq!(m.second_via().unwrap().branch, Some(&b"z9hG4bKa"[..]));
    assert_eq!(m.vias().map(|v| v.unwrap().branch.unwrap()).collect::<Vec<_>>(), [b"z9hG4bKp", b"z9hG4bKa"]);
}

#[test]
fn vias_and_routes_over_lines_lists_and_folds() {
    let message = with(
        "Max-Forwards: 70\r\n",
        "Max-Forwards: 70\r\nSubject: Via: no\r\nv :\r\n SIP/2.0/TCP b,\r\n\tSIP/2.0/TLS c;x=\"a,b\"\r\n\
         VIA: SIP/2.0/SCTP [::1]\r\nroute: <sip:1;lr>,\r\n <sip:2,x;lr>;p , \"a,<\" <sip:3>\r\n",
    );
    let m = scan(&message).unwrap();
    assert_eq!(m.fault(), None);
    let vias: Vec<_> = m.vias().map(|via| via.unwrap().transport).collect();
    assert_eq!(vias, [Some(Transport::Udp), Some(Transport::Tcp), Some(Transport::Tls), None]);
    assert_eq!(m.second_via().unwrap().transport, Some(Transport::Tcp));
    let routes: Vec<_> = m.routes().map(|route| String::from_utf8_lossy(route.uri)).collect();
    assert_eq!(routes, ["sip:1;lr", "sip:2,x;lr", "sip:3", "sip:192.0.2.9;lr"]);
}

#[test]
fn lower_vias_are_not_checked() {
    let message = with("Max-Forwards: 70\r\n", "Max-Forwards: 70\r\nVia: junk;;\r\nVia: SIP/2.0/WS c\r\n");
    let m = scan(&message).unwrap();
    assert_eq!(m.fault(), None);
    assert_eq!(
        m.vias().map(|via| via.ok().map(|via| via.transport)).collect::<Vec<_>>(),
        [Some(Some(Transport::Udp)), None, Some(Some(Transport::Ws))]
    );
    assert!(m.second_via().is_none());
}

#[test]
fn option_tags() {
    let message =
        with("Max-Forwards: 70\r\n", "Proxy-Require: a , b\r\nproxy-require:\r\n c\r\nProxy-Require: \r\n");
    let m = scan(&message).unwrap();
    assert_eq!(m.fault(), None);
    assert_eq!(m.proxy_require().collect::<Vec<_>>(), [b"a", b"b", b"c"]);
    assert_eq!(m.max_forwards(), None);
}

#[test]
fn refused_requests() {
    let cases: [(&str, &str, &str); 34] = [
        ("Call-ID: c1@192.0.2.1\r\n", "", "Missing Call-ID"),
        ("Call-ID: c1@192.0.2.1\r\n", "Call-ID:\r\n", "Malformed Call-ID"),
        ("Call-ID: c1@192.0.2.1\r\n", "Call-ID: a b\r\n", "Malformed Call-ID"),
        ("Call-ID: c1@192.0.2.1\r\n", "Call-ID: a\r\ni: a\r\n", "Duplicate Call-ID"),
        ("From: ", "Form: ", "Missing From"),
        ("From: ", "f: <sip:a>\r\nFrom: ", "Duplicate From"),
        ("From: \"Alice\"", "From: \"Alice", "Malformed From"),
        ("To: ", "Too: ", "Missing To"),
        ("To: ", "t: <sip:a>\r\nTo: ", "Duplicate To"),
        (";tag=f1", ";tag=f1;tag=f2", "Malformed From"),
        ("To: ", "To: Bell, Alexander ", "Malformed To"),
        ("CSeq: ", "CSec: ", "Missing CSeq"),
        ("CSeq: ", "CSeq: 1 INVITE\r\ncseq: ", "Duplicate CSeq"),
        ("CSeq: 314159 INVITE", "CSeq: 2147483648 INVITE", "Malformed CSeq"),
        ("CSeq: 314159 INVITE", "CSeq: 314159 invite", "CSeq Method Differs"),
        ("CSeq: 314159 INVITE", "CSeq: 314159 BYE", "CSeq Method Differs"),
        ("Max-Forwards: 70", "Max-Forwards: 256", "Malformed Max-Forwards"),
        ("Max-Forwards: 70", "Max-Forwards: 70\r\nMax-Forwards: 70", "Duplicate Max-Forwards"),
        ("Max-Forwards: 70", "Max-Breadth: +70", "Malformed Max-Breadth"),
        ("Max-Forwards: 70", "Max-Breadth: 5\r\nMax-Breadth: 5", "Duplicate Max-Breadth"),
        ("Content-Length: 4", "Content-Length: 5", "Body Shorter Than Content-Length"),
        ("Content-Length: 4", "Content-Length: -4", "Malformed Content-Length"),
        ("Content-Length: 4", "Content-Length: four", "Malformed Content-Length"),
        ("Content-Length: 4", "Content-Length: 4\r\nl: 4", "Duplicate Content-Length"),
        ("Route: <sip:192.0.2.9;lr>", "Route: sip:192.0.2.9;lr", "Malformed Route"),
        ("Route: <sip:192.0.2.9;lr>", "Route: <sip:192.0.2.9;lr>,", "Malformed Route"),
        ("Route: ", "Route: <sip:a\r\n b>\r\nRoute: ", "Malformed Route"),
        (";rport", ";rport=0", "Malformed Via"),
        ("Max-Forwards", "Max Forwards", "Malformed Header Line"),
        ("Max-Forwards:", "Max-Forwards\r\n :", "Malformed Header Line"),
        ("70\r\n", "70\n", "Line End Is Not CRLF"),
        ("70\r\n", "70\r\r\n", "Line End Is Not CRLF"),
        ("SIP/2.0\r\n", "SIP/2.0\n", "Line End Is Not CRLF"),
        ("\r\n\r\nv=0\n", "\r\n", "Header Without End"),
    ];
    for (old, new, reason) in cases {
        let message = INVITE.replacen(old, new, 1).into_bytes();
        assert_eq!(fault(&message), Some((400, reason)), "{}", message.escape_ascii());
    }
    assert_eq!(fault(INVITE.as_bytes()), None);
}

#[test]
fn the_version_comes_first() {
    let message = with("bob@example.net SIP/2.0\r\n", "bob@example.net SIP/3.0\r\nJunk\r\n");
    assert_eq!(fault(&message), Some((505, "Version Not Supported")));
}

#[test]
fn discarded() {
    let cases: [(&[u8], &str); 14] = [
        (b"", "empty"),
        (b"\r\n\r\n", "keep_alive"),
        (b"\r\n", "keep_alive"),
        (b"\0\0\0\0", "not_sip"),
        (b"GET / HTTP/1.1\r\n\r\n", "not_sip"),
        (b"INVITE sip:a SIP/2.0", "not_sip"),
        (b"INVITE sip:a SIP/2.0\r\n\r\n", "no_via"),
        (b"INVITE sip:a SIP/2.0\r\nVia: SIP/2.0/UDP\r\n\r\n", "bad_via"),
        (b"SIP/2.0 200 OK\r\n\r\n", "no_via"),
        (b"SIP/2.0 4294967301 OK\r\n\r\n", "bad_response"),
        (b"SIP/2.0 200 OK\nVia: SIP/2.0/UDP h\n\n", "bad_response"),
        (b"SIP/1.0 200 OK\r\n\r\n", "bad_response"),
        (b"\xff\xfe\r\n\r\n", "not_sip"),
        (b" \r\n\r\n", "not_sip"),
    ];
    for (bytes, reason) in cases {
        assert_eq!(scan(bytes).err().map(Discard::reason), Some(reason), "{}", bytes.escape_ascii());
    }
    let long = vec![b'a'; wire::MAX_LEN + 1];
    assert_eq!(scan(&long).err(), Some(Discard::TooLong));
    // Fields that match or frame a response must be present and unambiguous.
    for (old, new) in [
        ("CSeq: 314159", "CSeq: 2147483648"),
        ("CSeq: ", "CSeq: 1 BYE\r\nCSeq: "),
        ("l: 0", "l: 1"),
        ("l: 0", "l: 0\r\nContent-Length: 1"),
        ("i: c1@192.0.2.1\r\n", ""),
        ("i: c1", "i: c2\r\ni: c1"),
    ] {
        let message = OK.replace(old, new);
        assert_eq!(scan(message.as_bytes()).err().map(Discard::reason), Some("bad_response"), "{new}");
    }
}

#[test]
fn a_response_passes_with_any_from_and_to() {
    for (old, new, from, to) in [
        ("l: 0", "l: 0\r\nContent-Length:  0", true, true),
        ("i: c1@192.0.2.1", "i: c1@192.0.2.1\r\nCall-ID: c1@192.0.2.1", true, true),
        ("CSeq: 314159 INVITE", "CSeq: 314159 INVITE\r\ncseq: 0314159  INVITE", true, true),
        ("t: ", "To: <sip:b>;tag=first\r\nt: ", true, true),
        (";tag=t1", ";tag=t1;TAG=t1", true, true),
        (";tag=t1", ";tag=t1;tag=t2", true, false),
        ("t: ", "t: \"", true, false),
        ("f: ", "f: \"", false, true),
    ] {
        assert!(OK.contains(old), "{old}");
        let message = OK.replacen(old, new, 1);
        let m = scan(message.as_bytes()).unwrap();
        assert_eq!((m.fault(), m.from_tag().is_some(), m.to_tag().is_some()), (None, from, to), "{new}");
    }
}

#[test]
fn framing() {
    let mut message = b"\r\n\r\n".to_vec();
    message.extend_from_slice(INVITE.as_bytes());
    message.extend_from_slice(b"INVITE noise");
    let m = scan(&message).unwrap();
    assert_eq!(m.bytes(), INVITE.as_bytes());
    assert_eq!(peek_call_id(&message), Some(m.call_id()));
    // Without Content-Length the datagram is the body.
    let message = with("Content-Length: 4\r\n", "");
    assert_eq!(scan(&message).unwrap().body(), b"v=0\n");
}

#[test]
fn a_long_header_is_read_to_its_end() {
    let mut message = "OPTIONS sip:a SIP/2.0\r\n".to_owned();
    for i in 0..2000 {
        write!(message, "X-{i}: {i}\r\nVia: SIP/2.0/UDP h;branch={i}\r\n").unwrap();
    }
    message += "To: sip:a\r\nFrom: sip:b\r\nCall-ID: z\r\nCSeq: 1 OPTIONS\r\n\r\n";
    let m = scan(message.as_bytes()).unwrap();
    assert_eq!(m.fault(), None);
    assert_eq!(m.vias().count(), 2000);
    assert_eq!(m.header("x-1999"), Some(&b"1999"[..]));
    assert_eq!(peek_call_id(message.as_bytes()), Some(&b"z"[..]));
}
