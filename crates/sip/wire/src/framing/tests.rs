//! Tests of the framer: streams in any pieces, keep-alives, faults, memory and time.

use super::*;
use proptest::prelude::*;

const LONGEST: usize = 64 << 10;

/// Result of a framer, with owned bytes.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Given {
    Message(String),
    Ping,
    Pong,
    Fault(FramingFault),
}

fn message(number: usize, body: &str) -> String {
    format!(
        "INVITE sip:b{number}@x SIP/2.0\r\nCall-ID: {number}\r\ncontent-length : {}\r\n\r\n{body}",
        body.len()
    )
}

/// All items available now. Nothing follows a fault.
fn drain(framer: &mut Framer) -> Vec<Given> {
    let mut given = Vec::new();
    loop {
        given.push(match framer.next() {
            Ok(None) => return given,
            Ok(Some(Framed::Message(bytes))) => Given::Message(String::from_utf8_lossy(bytes).into_owned()),
            Ok(Some(Framed::Ping)) => Given::Ping,
            Ok(Some(Framed::Pong)) => Given::Pong,
            Err(fault) => {
                assert_eq!(framer.next(), Err(fault), "a fault stays");
                given.push(Given::Fault(fault));
                return given;
            }
        });
    }
}

fn in_pieces(stream: &[u8], cuts: &[usize]) -> (Vec<Given>, Framer) {
    let (mut framer, mut given, mut rest) = (Framer::new(LONGEST), Vec::new(), stream);
    for cut in cuts.iter().cycle() {
        let (piece, after) = rest.split_at(rest.len().min(*cut));
        framer.take(piece);
        given.extend(drain(&mut framer));
        rest = after;
        if rest.is_empty() || matches!(given.last(), Some(Given::Fault(_))) {
            break;
        }
    }
    (given, framer)
}

fn fault(stream: &[u8]) -> FramingFault {
    match in_pieces(stream, &[stream.len()]).0.as_slice() {
        [Given::Fault(fault)] => *fault,
        other => panic!("{other:?} for {}", stream.escape_ascii()),
    }
}

/// Parts of streams, well formed and malformed.
fn part() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        6 => (0..100_usize, "[a-zIA: /\r\n]{0,40}").prop_map(|(number, body)| message(number, &body).into_bytes()),
        3 => "(\r\n){1,5}".prop_map(String::into_bytes),
        1 => "[\r\n]{1,3}".prop_map(String::into_bytes),
        1 => "SIP/2.0 200 OK\r\n(l: [0-9]{1,2}x?\r\n){0,2}\r\n".prop_map(String::into_bytes),
        1 => "[A-Z/ ]{1,20}( SIP/2.0)?\r?\n".prop_map(String::into_bytes),
        1 => Just(vec![b'A'; HEADER_MAX + 5]),
        1 => prop::collection::vec(any::<u8>(), 0..40),
    ]
}

fn stream() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(part(), 1..8).prop_map(|parts| parts.concat())
}

proptest! {
    /// A stream, well formed or not, is divided in the same way for all pieces, up to and including the fault.
    #[test]
    fn any_pieces_give_the_same_sequence(stream in stream(), cuts in prop::collection::vec(1..50_usize, 1..60)) {
        let (at_once, _) = in_pieces(&stream, &[stream.len()]);
        prop_assert_eq!(&in_pieces(&stream, &cuts).0, &at_once);
        prop_assert_eq!(&in_pieces(&stream, &[1]).0, &at_once);
    }

    #[test]
    fn pipelined_messages_are_returned_unchanged_and_in_order(
        bodies in prop::collection::vec(("[a-z\r\n ]{0,40}", 0..6_usize), 1..8),
        cuts in prop::collection::vec(1..50_usize, 1..60),
    ) {
        let (mut stream, mut expected) = (String::new(), Vec::new());
        for (at, (body, empty)) in bodies.iter().enumerate() {
            stream += &"\r\n".repeat(*empty);
            expected.extend((0..empty / 2).map(|_| Given::Ping));
            expected.extend((0..empty % 2).map(|_| Given::Pong));
            stream += &message(at, body);
            expected.push(Given::Message(message(at, body)));
        }
        let (given, framer) = in_pieces(stream.as_bytes(), &cuts);
        prop_assert_eq!(given, expected);
        prop_assert_eq!((framer.held(), framer.is_within_message()), (0, false));
    }

    #[test]
    fn memory_is_bounded_for_any_stream(
        parts in prop::collection::vec(part(), 0..60),
        longest in prop_oneof![Just(100), Just(LONGEST)],
    ) {
        let mut framer = Framer::new(longest);
        for part in parts {
            framer.take(&part);
            let given = drain(&mut framer);
            // The capacity of a vector at most doubles.
            prop_assert!(framer.held() <= 2 * (HEADER_MAX.max(longest) + part.len()));
            if matches!(given.last(), Some(Given::Fault(_))) {
                break;
            }
        }
    }

    /// The scan reads each message of the framer as one complete message.
    #[test]
    fn the_scan_finds_the_same_end(stream in stream()) {
        for given in in_pieces(&stream, &[stream.len()]).0 {
            let Given::Message(text) = given else { continue };
            prop_assert_ne!(crate::scan(text.as_bytes()).err(), Some(crate::Discard::NotSip));
            prop_assert!(begins_message(text.as_bytes()));
            if let Ok(message) = crate::scan(text.as_bytes()) && message.fault().is_none() {
                prop_assert_eq!(message.bytes().len(), text.len());
            }
        }
    }
}

/// RFC 5626 §3.5.1: a ping is two CRLFs, even if they arrive apart.
#[test]
fn keep_alives_between_messages() {
    let mut framer = Framer::new(LONGEST);
    framer.take(b"\r\n");
    assert_eq!(drain(&mut framer), [], "a CRLF may be half of a ping");
    assert!(!framer.is_within_message());
    framer.take(b"\r");
    assert_eq!(drain(&mut framer), []);
    framer.take(b"\n");
    assert_eq!(drain(&mut framer), [Given::Ping]);
    framer.take(b"\r\n\r\n\r\n");
    assert_eq!(drain(&mut framer), [Given::Ping]);
    framer.take(message(1, "").as_bytes());
    assert_eq!(drain(&mut framer), [Given::Pong, Given::Message(message(1, ""))]);
    assert_eq!(framer.held(), 0);
}

#[test]
fn a_message_is_incomplete_until_its_last_byte() {
    let text = message(7, "body");
    let mut framer = Framer::new(LONGEST);
    for byte in &text.as_bytes()[..text.len() - 1] {
        framer.take(&[*byte]);
        assert_eq!(framer.next(), Ok(None));
        assert!(framer.is_within_message());
    }
    framer.take(b"y");
    assert_eq!(framer.next(), Ok(Some(Framed::Message(text.as_bytes()))));
    assert!(!framer.is_within_message());
}

/// A peer that sends a long message and then short ones does not occupy the memory of the long message.
#[test]
fn returned_messages_take_no_memory() {
    let mut framer = Framer::new(LONGEST);
    framer.take((message(1, &"x".repeat(50_000)) + "INVITE").as_bytes());
    assert_eq!(drain(&mut framer).len(), 1);
    assert!(framer.held() <= 16, "{}", framer.held());
    assert!(framer.is_within_message());
}

#[test]
fn each_fault_has_its_name() {
    use FramingFault as F;
    let with = |fields: &str| format!("BYE sip:b@x SIP/2.0\r\n{fields}\r\n").into_bytes();
    assert_eq!(fault(b"\x16\x03\x01\x02"), F::NotSip);
    assert_eq!(fault(b"GET / HTTP/1.1\r\n"), F::NotSip);
    assert_eq!(fault(b"\nBYE sip:b@x SIP/2.0\r\n"), F::NotSip);
    assert_eq!(fault(b"OPTIONS sip:b@x SIP/2.0\n"), F::LineEnd);
    assert_eq!(fault(&with("")), F::MissingContentLength);
    assert_eq!(fault(&with("X-Content-Length: 0\r\n")), F::MissingContentLength);
    for malformed in ["many", "-1", "", "1, 1", "4294967296", "+1"] {
        assert_eq!(fault(&with(&format!("l: {malformed}\r\n"))), F::MalformedContentLength, "{malformed}");
    }
    assert_eq!(fault(&with("l: 0\r\nContent-Length: 1\r\n")), F::DifferentContentLengths);
    let long = with(&format!("Content-Length: {LONGEST}\r\n"));
    let length = (long.len() + LONGEST) as u64;
    assert_eq!(fault(&long), F::MessageTooLong { length, longest: LONGEST });
    let header_of = |length: usize| with(&format!("l: 0\r\nX: {}\r\n", "x".repeat(length - 34)));
    assert_eq!(header_of(HEADER_MAX).len(), HEADER_MAX);
    assert_eq!(fault(&header_of(HEADER_MAX + 1)), F::HeaderTooLong);
    assert!(matches!(in_pieces(&header_of(HEADER_MAX), &[1_000]).0[..], [Given::Message(_)]));
    for fault in [F::NotSip, F::LineEnd, F::MessageTooLong { length: 70_000, longest: LONGEST }] {
        assert!(!fault.to_string().is_empty() && !fault.reason().contains(' '));
    }
}

/// Content-Length may be folded, compact, in upper or lower case, and repeated with the same number.
#[test]
fn content_length_in_every_spelling() {
    for fields in ["l:3\r\n", "CONTENT-LENGTH \t:\r\n\t003\r\n", "l: 3\r\nContent-length: 03\r\n"] {
        let text = format!("SIP/2.0 200 OK\r\n{fields}\r\nabc");
        assert_eq!(in_pieces(text.as_bytes(), &[1]).0, [Given::Message(text.clone())], "{fields}");
    }
}

/// A header that arrives byte by byte takes linear time: searched bytes are not searched again.
#[test]
fn no_byte_is_searched_twice() {
    let first = b"BYE sip:b@x SIP/2.0\r\nl: 0\r\nX: 1234567890".to_vec();
    let mut search = HeaderSearch::default();
    assert_eq!(search.find(&first), Ok(None));
    let mut other = first.clone();
    other[5..9].copy_from_slice(b"\r\n\r\n");
    assert_eq!(search.find(&other), Ok(None));
    let end = first.len() + 4;
    assert_eq!(
        search.find(&[&first[..], b"\r\n\r\n"].concat()),
        Ok(Some(FoundHeader { end, content_length: Some(0) }))
    );
}

#[test]
fn first_lines() {
    for line in
        ["SIP/2.0 200 OK", "NEW!%~ tel:+1 sip/2.0", "INVITE sip:b@x SIP/7.0\r\nTo: x", "INVITE SIP/2.0"]
    {
        assert!(begins_message(line.as_bytes()), "{line}");
    }
    for line in ["", "v=0", "Via: SIP/2.0/UDP x", "GET / HTTP/1.1\r\n SIP/2.0", " INVITE sip:b@x SIP/2.0"] {
        assert!(!begins_message(line.as_bytes()), "{line}");
    }
}
