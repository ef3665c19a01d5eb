//! Invariants of the crate (`invariants::messages`) on generated and on damaged messages.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{select, subsequence};

/// White space that may stand between the parts of a value.
fn lws() -> impl Strategy<Value = &'static str> {
    select(vec!["", " ", "  ", "\t", "\r\n ", " \r\n\t"])
}

/// Header line with one of `names`, one of `values`, and white space where the grammar allows it.
fn line(names: &[&'static str], values: &[&'static str]) -> BoxedStrategy<String> {
    let parts = (select(names.to_vec()), select(vec!["", " ", "\t"]), lws(), select(values.to_vec()), lws());
    parts
        .prop_map(|(name, before, after, value, end)| format!("{name}{before}:{after}{value}{end}\r\n"))
        .boxed()
}

/// Comma list on one line, of one to three of `values`.
fn list(names: &[&'static str], values: &[&'static str]) -> BoxedStrategy<String> {
    let values = vec(select(values.to_vec()), 1..4);
    (select(names.to_vec()), values, lws(), lws())
        .prop_map(|(name, values, before, after)| {
            format!("{name}: {}\r\n", values.join(&format!("{before},{after}")))
        })
        .boxed()
}

const VIAS: [&str; 7] = [
    "SIP/2.0/UDP 192.0.2.1;branch=z9hG4bKa",
    "SIP/2.0/UDP a.example.com:5070;rport;branch=z9hG4bKb",
    "SIP / 2.0 / TCP\r\n [2001:db8::1]:5070 ; received = [2001:db8::2] ; branch=z9hG4bKc",
    "SIP/2.0/TLS h;rport=77;received=192.0.2.66;x=\"a,b\\\"\"",
    "SIP/2.0/UDP h;maddr=224.0.1.75;ttl=1;branch=z9hG4bKd",
    "SIP/2.0/UDP 255.255.255.255;rport",
    "SIP/2.0/UDP h;oc-algo=\"loss,A\";oc",
];

const ROUTES: [&str; 4] =
    ["<sip:192.0.2.1;lr>", "\"P, <1>\" <sip:p,q@h>;x=\",\"", "<sips:[::1]:5;lr>", "<sip:strict>"];

/// Request by the grammar: fields in any order and form, some of them optional, and a body of any bytes.
fn request() -> impl Strategy<Value = Vec<u8>> {
    let needed = (
        list(&["Via", "v", "VIA"], &VIAS),
        line(
            &["From", "f"],
            &["<sip:a@b>;tag=1", "\"A, \\\"<\" <sip:a>\r\n ;tag=x", "sip:a@b;tag=2", "A. B<sip:a>"],
        ),
        line(&["To", "t", "TO"], &["<sip:a@b>", "isbn:123 ; tag = y", "Zo\u{eb} <sip:a?b=c>;tag=z"]),
        line(&["Call-ID", "i", "CALL-ID"], &["c1@192.0.2.1", "a<b>:\\/\"][?}{"]),
        line(&["CSeq", "cseq"], &["1 NEW", "0002147483647\r\n NEW", "0\tNEW"]),
    );
    let more = vec![
        list(&["Via", "v"], &VIAS),
        line(&["Max-Forwards"], &["0", "70", "00255"]),
        line(&["Max-Breadth", "max-breadth"], &["0", "60", "99999999999"]),
        list(&["Route", "ROUTE"], &ROUTES),
        list(&["Route"], &ROUTES),
        list(&["Record-Route"], &ROUTES),
        list(&["Proxy-Require"], &["a", "", "b c"]),
        line(&["Retry-After"], &["5 (x)", "soon"]),
        line(&["Subject", "s", "X-Unknown"], &["", "Via: x", "\u{f6}\0,;<\">"]),
    ];
    let count = more.len();
    let optional = (more, subsequence((0..count).collect::<Vec<_>>(), 0..=count))
        .prop_map(|(lines, picked)| picked.into_iter().map(|i| lines[i].clone()).collect::<Vec<_>>());
    let lines = (needed, optional).prop_map(|((via, from, to, call_id, cseq), optional)| {
        let mut lines = vec![via, from, to, call_id, cseq];
        lines.extend(optional);
        lines
    });
    let start =
        select(vec!["NEW sip:a@b SIP/2.0", "NEW tel:+1 sip/2.0", "SIP/2.0 200 OK", "sip/2.0 699 \u{f6}"]);
    (start, lines.prop_shuffle(), vec(any::<u8>(), 0..40), 0..3).prop_map(|(start, lines, body, framing)| {
        let length = match framing {
            0 => String::new(),
            1 => format!("l: {}\r\n", body.len()),
            _ => format!("Content-Length:\r\n {}\r\n", body.len() / 2),
        };
        let mut message = format!("{start}\r\n{}{length}\r\n", lines.concat()).into_bytes();
        message.extend_from_slice(&body);
        message
    })
}

/// Bytes that matter to a parser, and any others.
fn junk() -> impl Strategy<Value = u8> {
    prop_oneof![select(b"\r\n \t:;,<>\"\\/=@%[]0".to_vec()), any::<u8>()]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    #[test]
    fn grammatical_messages_are_accepted_and_keep_the_invariants(message in request()) {
        let m = wire::scan(&message).expect("a message");
        prop_assert_eq!(m.fault(), None);
        invariants::message(&message);
    }

    #[test]
    fn damaged_messages_keep_the_invariants(
        message in request(),
        damage in vec((any::<prop::sample::Index>(), 0..3, junk()), 1..6),
    ) {
        let mut message = message;
        for (index, kind, byte) in damage {
            let at = index.index(message.len().max(1));
            match kind {
                0 if at < message.len() => message[at] = byte,
                1 if at < message.len() => drop(message.remove(at)),
                _ => message.insert(at.min(message.len()), byte),
            }
        }
        invariants::message(&message);
    }

    #[test]
    fn cut_messages_keep_the_invariants(message in request(), end in any::<prop::sample::Index>()) {
        invariants::message(&message[..end.index(message.len())]);
    }

    #[test]
    fn any_bytes_keep_the_invariants(bytes in vec(junk(), 0..300)) {
        invariants::message(&bytes);
        let mut message = b"OPTIONS sip:a SIP/2.0\r\nVia: SIP/2.0/UDP h\r\n".to_vec();
        message.extend_from_slice(&bytes);
        invariants::message(&message);
    }

    #[test]
    fn any_text_is_a_uri_host_and_address_or_none(bytes in vec(junk(), 0..40)) {
        let mut uri = b"sip:".to_vec();
        uri.extend_from_slice(&bytes);
        if let Ok(parsed) = wire::SipUri::parse(&uri) {
            parsed.param("lr");
            prop_assert!(!uri.iter().any(|&b| b <= b' ' || b"<>\"".contains(&b) || !b.is_ascii()));
        }
        if let Some(address) = wire::NameAddr::parse(&bytes) {
            prop_assert!(!address.uri.is_empty());
        }
        wire::Host::parse(&bytes);
        wire::scheme_of(&bytes);
    }
}
