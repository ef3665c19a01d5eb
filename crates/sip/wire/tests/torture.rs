//! Torture tests of RFC 4475 and RFC 5118: the result of the scan for each message.

#![allow(clippy::unwrap_used, reason = "a helper that fails fails its test")]

use std::path::Path;

use base::Transport;
use wire::{Discard, Edits, Host, Method, SipUri, request_source_target, response_target, scan};

/// One line of the index.
struct Case {
    name: String,
    /// Acceptable outcomes.
    expect: Vec<String>,
    bytes: Vec<u8>,
}

fn read(path: &str) -> Vec<u8> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../tests/torture").join(path);
    std::fs::read(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

fn cases() -> Vec<Case> {
    let index = String::from_utf8(read("INDEX.tsv")).unwrap();
    let mut lines = index.lines().map(|line| line.split('\t').collect::<Vec<_>>());
    let head = lines.next().unwrap();
    let column =
        |name: &str| head.iter().position(|h| *h == name).unwrap_or_else(|| panic!("no column {name}"));
    let (name, expect, file) = (column("name"), column("expect"), column("wire_file"));
    let cases: Vec<_> = lines
        .map(|line| Case {
            name: line[name].to_owned(),
            expect: line[expect].split('|').map(str::to_owned).collect(),
            bytes: read(line[file]),
        })
        .collect();
    assert_eq!(cases.len(), 62, "49 of RFC 4475, one more of its archive, 12 of RFC 5118");
    cases
}

fn bytes(name: &str) -> Vec<u8> {
    cases().into_iter().find(|case| case.name == name).unwrap_or_else(|| panic!("no case {name}")).bytes
}

/// All messages that the scan does not accept, with the reason.
const STOPPED: [(&str, &str); 21] = [
    ("badinv01", "400 Malformed Via"),
    ("clerr", "400 Body Shorter Than Content-Length"),
    ("ncl", "400 Malformed Content-Length"),
    ("scalar02", "400 Malformed CSeq"),
    ("scalarlg", "drop: Malformed CSeq"),
    ("quotbal", "400 Malformed To"),
    ("ltgtruri", "400 Malformed Request-URI"),
    ("lwsruri", "400 Malformed Request-URI"),
    ("lwsstart", "400 Malformed Request-URI"),
    ("trws", "400 Malformed Request-Line"),
    ("escruri", "400 Request-URI With Headers"),
    ("baddn", "400 Malformed From"),
    ("badvers", "505 Version Not Supported"),
    ("mismatch01", "400 CSeq Method Differs"),
    ("mismatch02", "400 CSeq Method Differs"),
    ("bigcode", "drop: Malformed Status-Line"),
    ("insuf", "400 Missing Call-ID"),
    ("multi01", "400 Duplicate CSeq"),
    ("mcl01", "400 Duplicate Content-Length"),
    ("test", "drop: not_sip"),
    ("ipv6-bad", "400 Malformed Request-URI"),
];

#[test]
fn every_message_has_an_outcome_allowed_by_the_index() {
    // Verdicts of the proxy or its routes, after a clean scan.
    let later = ["forward", "forward-if-matched", "404", "416", "420", "483"];
    let mut stopped = Vec::new();
    for case in cases() {
        let (outcome, detail) = match scan(&case.bytes) {
            Ok(m) => match m.fault() {
                None => (None, String::new()),
                Some(fault) => (Some(fault.status.to_string()), format!("{} {}", fault.status, fault.reason)),
            },
            Err(Discard::BadResponse(reason)) => (Some("drop".to_owned()), format!("drop: {reason}")),
            Err(discard) => (Some("drop".to_owned()), format!("drop: {}", discard.reason())),
        };
        let legal = match &outcome {
            Some(outcome) => case.expect.contains(outcome),
            // The sender of the response checks a broadcast address in the next Via.
            None if case.name == "bcast" => true,
            None => case.expect.iter().any(|e| later.contains(&e.as_str())),
        };
        assert!(legal, "{}: {detail:?} instead of {:?}", case.name, case.expect);
        if outcome.is_some() {
            stopped.push((case.name, detail));
        }
    }
    let stopped: Vec<_> = stopped.iter().map(|(name, detail)| (name.as_str(), detail.as_str())).collect();
    assert_eq!(stopped, STOPPED);
}

#[test]
fn every_message_keeps_the_invariants_cut_anywhere() {
    for case in cases() {
        for end in 0..=case.bytes.len() {
            invariants::message(&case.bytes[..end]);
        }
    }
}

#[test]
fn values_are_read_as_the_rfcs_explain_them() {
    let text = bytes("wsinv");
    let m = scan(&text).unwrap();
    assert_eq!((m.max_forwards().unwrap().0, m.cseq().number, m.cseq().method), (68, 9, Method::Invite));
    assert_eq!((m.from_tag(), m.to_tag()), (Some(&b"98asjd8"[..]), Some(&b"1918181833n"[..])));
    let vias: Vec<_> = m.vias().map(|via| via.unwrap().branch.unwrap()).collect();
    assert_eq!(vias, [&b"390skdjuw"[..], b"z9hG4bK9ikj8", b"z9hG4bK30239"]);
    assert_eq!(m.routes().count(), 1);

    let text = bytes("intmeth");
    let m = scan(&text).unwrap();
    assert_eq!(m.method(), Some(Method::Other));
    assert_eq!(m.cseq().method_name.of(m.bytes()), b"!interesting-Method0123456789_*+`.%indeed'~");
    let uri = SipUri::parse(m.uri().unwrap()).unwrap();
    assert_eq!(uri.user, Some(&b"1_unusual.URI~(to-be!sure)&isn't+it$/crazy?,/;;*"[..]));
    assert_eq!(m.from_tag(), Some(&b"_token~1'+`*%!-."[..]));

    for (name, user) in
        [("esc01", &b"sips%3Auser%40example.com"[..]), ("semiuri", b"user;par=u%40example.net")]
    {
        let text = bytes(name);
        assert_eq!(SipUri::parse(scan(&text).unwrap().uri().unwrap()).unwrap().user, Some(user), "{name}");
    }
    assert_eq!(scan(&bytes("esc02")).unwrap().method(), Some(Method::Other));
    assert_eq!(scan(&bytes("longreq")).unwrap().vias().flatten().count(), 34);
    assert_eq!(scan(&bytes("dblreq")).unwrap().bytes().windows(8).filter(|w| w == b"REGISTER").count(), 2);
    let transports: Vec<_> =
        scan(&bytes("transports")).unwrap().vias().map(|via| via.unwrap().transport).collect();
    let expected = [Some(Transport::Udp), None, Some(Transport::Tls), None, Some(Transport::Tcp)];
    assert_eq!(transports, expected);
    assert_eq!(scan(&bytes("mpart01")).unwrap().body().len(), 553);
    assert_eq!(scan(&bytes("bext01")).unwrap().proxy_require().count(), 2);
    assert_eq!(scan(&bytes("zeromf")).unwrap().max_forwards().unwrap().0, 0);
    assert_eq!(scan(&bytes("inv2543")).unwrap().max_forwards(), None);
}

#[test]
fn addresses_are_read_as_the_rfcs_explain_them() {
    let address = |text: &str| Host::V6(text.parse().unwrap());
    for (name, host, port) in [
        ("port-ambiguous", "2001:db8::10:5070", None),
        ("port-unambiguous", "2001:db8::10", Some(5070)),
        ("ipv6-bug-abnf-3-colons", "2001:db8::192.0.2.1", None),
        ("ipv6-correct-abnf-2-colons", "2001:db8::192.0.2.1", None),
    ] {
        let text = bytes(name);
        let uri = SipUri::parse(scan(&text).unwrap().uri().unwrap()).unwrap();
        assert_eq!((uri.host, uri.port), (address(host), port), "{name}");
    }
    for (name, target) in [
        ("via-received-param-with-delim", "[2001:db8::9:255]:5060"),
        ("via-received-param-no-delim", "[2001:db8::9:255]:5060"),
        ("mult-ip-in-header", "[2001:db8::9:1]:6050"),
        ("ipv4-mapped-ipv6", "192.0.2.10:19823"),
    ] {
        let text = bytes(name);
        assert_eq!(response_target(scan(&text).unwrap().top_via()), Some(target.parse().unwrap()), "{name}");
    }
    // RFC 4475 §3.3.10: the next hop is the broadcast address.
    let text = bytes("bcast");
    assert_eq!(response_target(&scan(&text).unwrap().second_via().unwrap()), None);
    // RFC 4475 §3.1.2.6: the response goes to the port of the sent-by.
    let text = bytes("quotbal");
    let source = "192.0.2.99:7777".parse().unwrap();
    let target = request_source_target(scan(&text).unwrap().top_via(), source);
    assert_eq!(target, Some("192.0.2.99:5050".parse().unwrap()));
}

#[test]
fn received_is_sent_without_brackets() {
    let text = bytes("via-received-param-with-delim");
    let m = scan(&text).unwrap();
    let mut edits = Edits::new();
    edits.mark_received(&m, "[2001:db8::7]:5060".parse().unwrap());
    let mut out = Vec::new();
    edits.render(&m, &mut out);
    assert!(memchr::memmem::find(&out, b";received=2001:db8::7;branch=").is_some(), "{}", out.escape_ascii());
}
