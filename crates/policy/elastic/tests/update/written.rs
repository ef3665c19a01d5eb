//! Exact text on a connection: other programs are written from `docs/capacity-updates.md`.

use elastic::update::{
    Key, KeyKind, SendError, ServerName, Update, UpdateKeys, UpdateReceiver, UpdateRefusal, UpdateSender,
};
use std::sync::Arc;

const KEY: [u8; 16] = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15];
const NONCE: [u8; 16] =
    [0x00, 0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88, 0x99, 0xaa, 0xbb, 0xcc, 0xdd, 0xee, 0xff];
const GREETING: &str = "sarabande-capacity 2 00112233445566778899aabbccddeeff\n";
// The codes were made with Python's `hmac`.
const FIRST: &str =
    "UPDATE 1 10.0.0.1:5060 312.500 da16b25b3e6a128c5cddf668081d8c878105e5d0a4eafe7c01a1b6b7a70cd69f\n";
const SECOND: &str =
    "UPDATE 2 sip1.example.com 0.000 376889aed32fb19097d1628637c80e32320c4a69fdfc237975dc723db17f9e4c\n";

fn server(text: &str) -> ServerName {
    text.parse().expect("a server")
}

fn receiver() -> UpdateReceiver {
    UpdateReceiver::new(Arc::new(UpdateKeys { shared: Some(Key::new(&KEY)), ..UpdateKeys::default() }), NONCE)
}

fn sender() -> UpdateSender {
    UpdateSender::greeted(Key::new(&KEY), GREETING.trim_end().as_bytes()).expect("a greeting")
}

#[test]
fn a_conversation_matches_the_documentation() {
    let (mut receiver, mut sender) = (receiver(), sender());
    assert_eq!(receiver.greeting(), GREETING);
    assert_eq!(sender.update(&server("10.0.0.1"), 312.5), FIRST);
    let first = receiver.line(FIRST.trim_end().as_bytes()).unwrap();
    assert_eq!(
        first,
        Update { number: 1, server: server("10.0.0.1:5060"), capacity: 312.5, key: KeyKind::Shared }
    );
    assert_eq!(first.ok(0), "OK 1 0\n");
    assert_eq!(sender.answer(b"OK 1 0"), Ok(0));
    assert_eq!(sender.update(&server("sip1.example.com"), -3.0), SECOND);
    let second = receiver.line(SECOND.trim_end().as_bytes()).unwrap();
    assert_eq!(
        (second.ok(1207).as_str(), second.server),
        ("OK 2 1207\n", ServerName::Name("sip1.example.com".to_owned()))
    );
    assert_eq!(sender.answer(b"OK 2 1207"), Ok(1207));
    let docs = include_str!("../../../../../docs/capacity-updates.md");
    for line in [GREETING, FIRST] {
        assert!(docs.contains(line.trim_end()), "the documentation lacks the example {line}");
    }
    for refusal in UpdateRefusal::ALL {
        assert!(docs.contains(&format!("| `{}` |", refusal.name())), "{refusal:?}");
    }
}

#[test]
fn a_capacity_is_written_as_it_is_read() {
    for (capacity, text) in [
        (0.0, " 0.000 "),
        (0.0004, " 0.000 "),
        (1.0, " 1.000 "),
        (499.9996, " 500.000 "),
        (f64::NAN, " 0.000 "),
        (-1.0, " 0.000 "),
        (-0.0, " 0.000 "),
        (f64::INFINITY, " 999999999.000 "),
    ] {
        let (mut receiver, mut sender) = (receiver(), sender());
        let line = sender.update(&server("a"), capacity);
        assert!(line.contains(text), "{line}");
        assert_eq!(format!(" {:.3} ", receiver.line(line.trim_end().as_bytes()).unwrap().capacity), text);
    }
}

#[test]
fn a_server_is_an_address_or_a_name() {
    for (read, written) in [
        ("10.0.0.1:5070", "10.0.0.1:5070"),
        ("10.0.0.1", "10.0.0.1:5060"),
        ("::1", "[::1]:5060"),
        ("[::1]", "[::1]:5060"),
        ("[2001:db8::1]:5070", "[2001:db8::1]:5070"),
        ("sip1.example.com:5070", "sip1.example.com:5070"),
        ("_sip._udp.example.com", "_sip._udp.example.com"),
        ("SIP1.Example.com.", "sip1.example.com"),
    ] {
        assert_eq!(server(read).to_string(), written);
        assert_eq!(server(written).to_string(), written);
    }
    for wrong in ["", ".", "a b", "a\n", "é", "sip:a@b", "a/b", &"a".repeat(262)] {
        assert!(wrong.parse::<ServerName>().is_err(), "{wrong:?}");
    }
}

#[test]
fn a_sender_knows_its_receiver_and_its_answers() {
    let greeted = |line: &str| UpdateSender::greeted(Key::new(&KEY), line.as_bytes()).map(|_| ());
    assert_eq!(greeted(GREETING.trim_end()), Ok(()));
    let other = GREETING.replace(" 2 ", " 1 ");
    assert_eq!(greeted(other.trim_end()), Err(SendError::OtherVersion(1)));
    assert_eq!(greeted("sarabande-capacity 3 and more to come"), Err(SendError::OtherVersion(3)));
    let told = SendError::OtherVersion(3).to_string();
    assert!(told.contains("version 3") && told.contains("version 2"), "{told}");
    for wrong in ["", "HTTP/1.1 400 Bad Request", "sarabande-capacity", "sarabande-capacity 2 0011", GREETING]
    {
        assert_eq!(greeted(wrong), Err(SendError::NoReceiver), "{wrong}");
    }
    assert!(UpdateSender::greeted(Key::new(&KEY), b"\xff").is_err());
    let mut sender = sender();
    sender.update(&server("a"), 1.0);
    for wrong in [
        "", "OK", "OK 1", "OK 2 0", "OK 01 0", "OK 1 ", "OK 1 00", "OK 1 -1", "OK 1 0 0", "ok 1 0",
        "OK 1 0\r",
    ] {
        assert_eq!(sender.answer(wrong.as_bytes()), Err(SendError::InvalidAnswer), "{wrong}");
    }
    for refusal in UpdateRefusal::ALL {
        let line = refusal.line();
        assert_eq!(sender.answer(line.trim_end().as_bytes()), Err(SendError::Refused(Some(refusal))));
    }
    assert_eq!(sender.answer(b"ERROR of another kind"), Err(SendError::Refused(None)));
}

#[test]
fn the_key_is_not_printed() {
    let shown = format!("{:?}{:?}", receiver(), sender());
    assert!(shown.contains("Key(..)") && !shown.contains("[0, 1, 2"), "{shown}");
}
