//! SIP on the wire: properties of any datagram, stream and PROXY header.

use std::net::SocketAddr;
use wire::proxy_header::{self, Read, V2_MAX};
use wire::{
    Acknowledgement, ContactValue, Discard, Edits, Framed, Framer, FramingFault, HEADER_MAX, Message, Method,
    RouteValue, Span, Start, begins_message, is_header, peek_call_id, request_source_target, response_target,
    same_uri, scan, write_response,
};

/// Sources of messages: an IPv4 client, an IPv6 client, and an IPv4 client of a dual-stack socket.
const SOURCES: [&str; 3] = ["192.0.2.66:50600", "[2001:db8::66]:50600", "[::ffff:192.0.2.66]:50600"];

const OWN_VIA: &[u8] = b"SIP/2.0/UDP 198.51.100.1;branch=z9hG4bKfuzz";

/// Scans `data` and, if it is a message, reads, edits and answers it in every way.
pub fn message(data: &[u8]) {
    let m = match scan(data) {
        Ok(m) => m,
        Err(discard) => {
            assert!(!discard.reason().is_empty());
            return;
        }
    };
    framing(data, &m);
    readable(&m);
    for source in SOURCES {
        let source = source.parse().expect("the constants are addresses");
        answer(&m, source);
        if m.fault().is_none() {
            find_fields(&m);
            forward_request(&m, source);
        }
    }
    if m.fault().is_none() {
        via_round_trip(&m);
        turn_response(&m);
    }
}

/// Divides a stream into messages. The first byte is the size of pieces, the others are the stream. The messages must
/// not depend on the pieces, memory must be bounded, and the scan must accept each message.
pub fn stream(data: &[u8]) {
    let Some((&size, stream)) = data.split_first() else { return };
    let at_once = framed(stream, stream.len());
    assert_eq!(framed(stream, 1), at_once);
    assert_eq!(framed(stream, size.into()), at_once);
    for bytes in at_once.0.iter().filter(|bytes| !bytes.starts_with(b"\r")) {
        assert!(begins_message(bytes));
        match scan(bytes) {
            Ok(m) if m.fault().is_none() => assert_eq!(m.bytes(), bytes),
            Ok(_) => {}
            Err(discard) => assert_ne!(discard, Discard::NotSip),
        }
    }
}

/// Returns the messages and keep-alives of a stream that comes in pieces of `size` bytes, and the fault that ends it.
fn framed(stream: &[u8], size: usize) -> (Vec<Vec<u8>>, Option<FramingFault>) {
    /// Short, so that small inputs can exceed it.
    const LONGEST: usize = 400;
    let (mut framer, mut found) = (Framer::new(LONGEST), Vec::new());
    for piece in stream.chunks(size.max(1)) {
        framer.take(piece);
        loop {
            match framer.next() {
                Ok(None) => break,
                Ok(Some(Framed::Ping)) => found.push(b"\r\n\r\n".to_vec()),
                Ok(Some(Framed::Pong)) => found.push(b"\r\n".to_vec()),
                Ok(Some(Framed::Message(bytes))) => {
                    assert!(bytes.len() <= LONGEST);
                    found.push(bytes.to_vec());
                }
                Err(fault) => {
                    assert!(!fault.to_string().is_empty() && framer.next() == Err(fault));
                    return (found, Some(fault));
                }
            }
        }
        assert!(framer.held() <= 2 * (HEADER_MAX + piece.len()));
    }
    (found, None)
}

/// Reads a PROXY header from growing prefixes of `data`. A final result never changes, and the reader asks for no more
/// bytes than the longest header has.
pub fn proxy_header(data: &[u8]) {
    let mut answer = Ok(Read::More);
    for end in 0..=data.len() {
        let next = proxy_header::read(&data[..end]);
        if answer == Ok(Read::More) {
            answer = next;
        }
        assert_eq!(next, answer);
        match next {
            Ok(Read::More) => assert!(end < V2_MAX),
            Ok(Read::Whole { length, .. }) => assert!(length <= end && length <= V2_MAX),
            Err(fault) => assert!(!fault.to_string().is_empty()),
        }
    }
}

/// The message is a part of the datagram, and scanning it alone gives the same result.
fn framing(data: &[u8], m: &Message<'_>) {
    assert!(contains(data, m.bytes()));
    assert!(m.bytes().ends_with(m.body()));
    let found = peek_call_id(data).unwrap_or_default();
    assert_eq!(found, m.call_id());
    if m.method() == Some(Method::Ack) && m.fault().is_none() {
        let peeked = Acknowledgement::peek(data).map(|ack| (ack.to_tag, ack.call_id, ack.cseq));
        assert_eq!(peeked, m.to_tag().map(|tag| (tag, m.call_id(), m.cseq().number)));
    }
    let again = scan(m.bytes()).expect("a message stays one without the noise around it");
    assert_eq!(again.bytes(), m.bytes());
    assert_eq!(again.body(), m.body());
    assert_eq!(again.start(), m.start());
    assert_eq!(again.fault(), m.fault());
}

fn contains(bytes: &[u8], part: &[u8]) -> bool {
    part.is_empty() || bytes.windows(part.len()).any(|window| window == part)
}

/// Every accessor ends, and returns values within the header.
fn readable(m: &Message<'_>) {
    let header = m.bytes().len() - m.body().len();
    let inside = |span: Span| assert!(span.start <= span.end && span.end as usize <= header);
    assert_eq!(m.method().is_some(), m.uri().is_some());
    assert_ne!(m.method().is_some(), m.status().is_some());
    inside(m.top_via().value);
    inside(m.cseq().method_name);
    if let Some((hops, at)) = m.max_forwards() {
        inside(at);
        assert!(hops <= 255);
    }
    if let Some((_, at)) = m.max_breadth() {
        inside(at);
    }
    let vias: Vec<_> = m.vias().collect();
    match m.fault() {
        // In a valid message, the iterator's first two values are the Vias of the scan.
        None => {
            assert_eq!(vias[0].as_ref(), Ok(m.top_via()));
            assert_eq!(vias.get(1).copied().and_then(Result::ok), m.second_via());
            assert!(!m.call_id().is_empty());
            // The parties of a response are checked by the client.
            assert!(m.status().is_some() || !m.from().is_empty() && !m.to().is_empty());
        }
        Some(fault) => assert!((400..700).contains(&fault.status) && m.method().is_some()),
    }
    for via in vias.into_iter().flatten() {
        inside(via.value);
        response_target(&via);
    }
    m.routes().chain(m.record_routes()).for_each(|route| inside(route.value));
    assert!(m.proxy_require().all(|tag| !tag.is_empty()));
    m.retry_after();
    m.session_expires();
    m.min_se();
    registration(m);
    assert_eq!(m.header("Call-ID").unwrap_or_default(), m.call_id());
}

/// The fields that a registrar reads: each value is a part of the message, and equals itself.
fn registration(m: &Message<'_>) {
    m.expires();
    assert!(m.option_tags("Supported").all(|tag| !tag.is_empty()));
    assert!(m.path().flatten().all(|value| contains(m.bytes(), value)));
    for contact in m.contacts().flatten() {
        let ContactValue::Address(address) = contact else { continue };
        assert!(address.q <= 1000 && same_uri(address.uri, address.uri));
        let others = address.other_params();
        assert!(others.map(<[u8]>::len).sum::<usize>() <= address.params.len());
    }
}

/// RFC 3261 §8.2.6: a well-formed request gets a well-formed response with the same identity.
fn answer(m: &Message<'_>, source: SocketAddr) {
    let mut out = Vec::new();
    write_response(m, source, 499, "Fuzzed", "own", &[("Server", "x\r\ny")], &mut out);
    // Status line, mark of the topmost Via, tag, long names for compact ones, Server, Content-Length. No other text is
    // added, whatever the number of lines.
    let added = 20 + 28 + 8 + 14 + 14 + 21;
    assert!(out.len() <= m.bytes().len() + added, "{} bytes for {}", out.len(), m.bytes().len());
    let allowed = [
        "SIP/2.0 499 Fuzzed",
        "From: ",
        "To: ",
        "Call-ID: ",
        "CSeq: ",
        "Server: x  y",
        "Content-Length: 0",
        "",
    ];
    let text = out.strip_suffix(b"\r\n").expect("ends with an empty line");
    for line in text.split(|&b| b == b'\n') {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let is_via = |line: &[u8]| {
            let name = line.split(|&b| b == b':').next().unwrap_or_default();
            name.eq_ignore_ascii_case(b"v") || name.eq_ignore_ascii_case(b"Via")
        };
        assert!(is_via(line) || allowed.iter().any(|name| line.starts_with(name.as_bytes())));
        assert!(!line.contains(&b'\r'));
    }
    if m.fault().is_none() && m.method().is_some() {
        let response = scan(&out).expect("a well-formed response");
        assert_eq!(response.call_id(), m.call_id());
        assert_eq!(response.cseq().number, m.cseq().number);
        assert_eq!(response.from_tag(), m.from_tag());
        assert_eq!(response.to_tag(), m.to_tag().or(Some(b"own")));
        assert_eq!(response.vias().count(), m.vias().count());
        assert_eq!(response_target(response.top_via()), request_source_target(m.top_via(), source));
    }
}

/// A search for fields by first letter finds the same fields as a look at each.
fn find_fields(m: &Message<'_>) {
    for letter in [b's', b'x', b'v', b'c'] {
        let is_wanted = |first: u8| first | 0x20 == letter;
        let is_it = |(name, _): &(&[u8], _)| name.first().is_some_and(|first| is_wanted(*first));
        assert!(m.fields_beginning(is_wanted).filter(is_it).eq(m.fields().filter(is_it)));
    }
}

/// All edits of a proxy at once: each has its effect, and nothing else changes.
fn forward_request(m: &Message<'_>, source: SocketAddr) {
    let Start::Request { method_span, .. } = *m.start() else { return };
    let mut edits = Edits::new();
    edits.mark_received(m, source);
    edits.push_via(m, OWN_VIA);
    edits.push_record_route(m, b"<sip:198.51.100.1;lr>");
    edits.set_max_forwards(m, 42);
    edits.set_max_breadth(m, 7);
    edits.pop_route(m, 1);
    edits.append_route(m, b"<sip:last>");
    edits.set_uri(m, b"sip:new@198.51.100.2");
    edits.remove_headers(m, |name| is_header(name, "Subject"));
    edits.add_header(m, "X-Fuzzed", b"a\r\nEvil: b");
    let out = rendered(&edits, m);
    let after = scan(&out).expect("an edited message is one");
    assert_eq!(after.fault(), None);
    assert_eq!(after.bytes(), out);
    assert_eq!(after.body(), m.body());
    assert_eq!(after.uri(), Some(&b"sip:new@198.51.100.2"[..]));
    assert!(
        matches!(*after.start(), Start::Request { method_span: new, .. } if new.of(&out) == method_span.of(m.bytes()))
    );
    assert_eq!(after.max_forwards().map(|(hops, _)| hops), Some(42));
    assert_eq!(after.max_breadth().map(|(branches, _)| branches), Some(7));
    assert_eq!(after.top_via().value.of(&out), OWN_VIA);
    let below = after.second_via().expect("the former topmost Via");
    assert_eq!(below.branch, m.top_via().branch);
    assert_eq!(response_target(&below), request_source_target(m.top_via(), source));
    assert_eq!(after.vias().count(), m.vias().count() + 1);
    assert_eq!(after.record_routes().next().map(|r| r.uri), Some(&b"sip:198.51.100.1;lr"[..]));
    let uris =
        |routes: &mut dyn Iterator<Item = RouteValue<'_>>| routes.map(|r| r.uri.to_vec()).collect::<Vec<_>>();
    let mut expected = uris(&mut m.routes().skip(1));
    expected.push(b"sip:last".to_vec());
    assert_eq!(uris(&mut after.routes()), expected);
    assert_eq!((after.from(), after.to(), after.call_id()), (m.from(), m.to(), m.call_id()));
    assert_eq!(after.header("Subject"), None);
    let added = after.fields().last().expect("one was added");
    assert_eq!(added, (&b"X-Fuzzed"[..], &b"a  Evil: b"[..]));
    // Removing the routes from both ends leaves none, and no trace of them.
    edits.clear();
    edits.pop_last_route(m);
    edits.pop_route(m, m.routes().count().saturating_sub(1));
    let out = rendered(&edits, m);
    assert_eq!(scan(&out).expect("an edited message is one").header("Route"), None);
}

/// A Via that is pushed and popped leaves no trace.
fn via_round_trip(m: &Message<'_>) {
    let mut edits = Edits::new();
    let before = rendered(&edits, m);
    edits.push_via(m, OWN_VIA);
    let pushed = rendered(&edits, m);
    let m = scan(&pushed).expect("an edited message is one");
    edits.clear();
    edits.pop_via(&m);
    assert_eq!(rendered(&edits, &m), before);
}

/// A response on its way back: the topmost Via is removed, all others stay.
fn turn_response(m: &Message<'_>) {
    let mut edits = Edits::new();
    edits.pop_via(m);
    let out = rendered(&edits, m);
    // Without a readable second Via it cannot be forwarded.
    let Some(next) = m.second_via() else { return };
    let after = scan(&out).expect("a response with a readable Via");
    assert_eq!(after.fault(), None);
    assert_eq!(after.top_via().value.of(&out), next.value.of(m.bytes()));
    assert_eq!(after.vias().count() + 1, m.vias().count());
    assert_eq!(after.body(), m.body());
}

fn rendered(edits: &Edits, m: &Message<'_>) -> Vec<u8> {
    let mut out = Vec::new();
    edits.render(m, &mut out);
    assert!(out.ends_with(m.body()));
    let mut applied = Vec::new();
    edits.patch(m).apply(m.bytes(), &mut applied);
    assert_eq!(applied, out);
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::seeds;
    use proptest::prelude::*;

    /// Each seed is named after its fault, if it has one.
    #[test]
    fn the_seeds_of_streams_have_their_named_faults() {
        let seeds = seeds("stream");
        for (name, data) in &seeds {
            stream(data);
            let (found, fault) = framed(&data[1..], 1);
            match fault {
                Some(fault) => assert_eq!(fault.reason(), name),
                None => assert!(found.len() > 2, "{name}: {found:?}"),
            }
        }
        // All faults except a too long header, since the inputs are too short.
        assert!(seeds.iter().filter(|(_, data)| framed(&data[1..], 1).1.is_some()).count() == 6);
    }

    #[test]
    fn the_seeds_of_proxy_headers_have_their_named_results() {
        let answers = seeds("proxy_header").into_iter().map(|(name, data)| {
            proxy_header(&data);
            match proxy_header::read(&data) {
                Ok(Read::Whole { ends, .. }) => {
                    assert_eq!(ends.is_some(), name.starts_with("ends"), "{name}");
                }
                Ok(Read::More) => panic!("{name} is not whole"),
                Err(fault) => assert_eq!(fault.reason(), name),
            }
        });
        assert_eq!(answers.count(), 9);
    }

    const STARTS: [&[u8]; 5] =
        [b"", b"PROXY ", b"PROXY TCP4 1.2.3.4", b"\r\n\r\n\0\r\nQUIT\n", b"\r\n\r\n\0\r\nQUIT\n\x21\x11"];

    proptest! {
        #[test]
        fn any_bytes_get_one_answer_in_bounded_memory(
            bytes in prop::collection::vec(any::<u8>(), 0..700),
            start in prop::sample::select(&STARTS[..]),
        ) {
            proxy_header(&[start, &bytes].concat());
        }
    }
}
