//! Messages of user agents and nodes.

use crate::Sent;
use std::net::SocketAddr;
use wire::build::{RequestBuilder, ResponseBuilder};
use wire::{Edits, Message, NameAddr};

const METHODS: [&str; 12] = [
    "INVITE",
    "ACK",
    "BYE",
    "CANCEL",
    "REGISTER",
    "OPTIONS",
    "SUBSCRIBE",
    "NOTIFY",
    "INFO",
    "UPDATE",
    "PRACK",
    "ODD",
];

const STATUSES: [u16; 8] = [100, 180, 200, 302, 407, 481, 487, 503];

/// An uninvolved address that never sends anything.
const BYSTANDER: &str = "192.0.2.88:5060";

/// Returns the contact of a party, mostly its own address.
fn contact(at: SocketAddr, choice: u8) -> String {
    if choice >> 4 & 7 == 7 { format!("<sip:{BYSTANDER}>") } else { format!("<sip:{at}>") }
}

/// Source of the fuzzer's choices.
pub(super) type Choice<'a> = &'a mut dyn FnMut() -> u8;

/// Makes a request with one of few calls, branches and CSeq numbers, so that requests coincide.
pub(super) fn request(from: SocketAddr, targets: &[SocketAddr], choose: Choice<'_>) -> Vec<u8> {
    let (call, cseq) = (choose() % 6, choose() % 3 + 1);
    let tagged = choose();
    let method = METHODS[choose() as usize % METHODS.len()];
    let choice = choose();
    let uri = match (choice % 6, choice) {
        (0, _) => "tel:+1".to_owned(),
        (1, _) => "http://a".to_owned(),
        (2, 0..32) => "sips:b@pool.example".to_owned(),
        (n, _) => format!("sip:b@{}", targets[usize::from(n) % targets.len()]),
    };
    let mut out = Vec::new();
    let mut request =
        RequestBuilder::new(&mut out, method, uri).header("Via", via(from, call ^ cseq, choose()));
    let limits = choose();
    request = match limits % 8 {
        0 => request.header("Max-Forwards", "0"),
        1 => request,
        _ => request.header("Max-Forwards", "70"),
    };
    request = match limits / 8 {
        1 => request.header("Max-Breadth", "0"),
        2 => request.header("Max-Breadth", "7"),
        3 => request.header("Max-Breadth", "70"),
        _ => request,
    };
    request = match choose() % 8 {
        0 => request.header("Route", format!("<sip:{};lr>", targets[0])),
        1 => request.header("Route", format!("<sip:{};lr;sbt=0123456789>", targets[0])),
        2 => request.header("Proxy-Require", "odd"),
        _ => request,
    };
    let to = if tagged < 32 { "<sip:b@pool.example>;tag=b" } else { "<sip:b@pool.example>" };
    request
        .header("From", "<sip:a@pool.example>;tag=a")
        .header("To", to)
        .header("Call-ID", format!("call-{call}"))
        .header("CSeq", format!("{cseq} {method}"))
        .header("Contact", contact(from, tagged))
        .finish(b"body");
    out
}

fn via(from: SocketAddr, branch: u8, kind: u8) -> String {
    match kind % 6 {
        0 => format!("SIP/2.0/UDP {from}"),
        1 => format!("SIP/2.0/UDP name.example:7000;branch=z9hG4bK{branch}"),
        2 => format!("SIP/2.0/UDP {from};branch=z9hG4bK{branch};maddr=192.0.2.77"),
        _ => format!("SIP/2.0/UDP {from};branch=z9hG4bK{branch};rport"),
    }
}

/// Makes a response to a request that a listener at `source` sent to `sent.to`.
pub(super) fn answer(sent: &Sent, source: SocketAddr, choose: Choice<'_>) -> Option<Vec<u8>> {
    let request = wire::scan(&sent.bytes).ok().filter(|request| request.method().is_some())?;
    let status = STATUSES[choose() as usize % STATUSES.len()];
    let retry_after = choose();
    let mut out = Vec::new();
    ResponseBuilder::reply(&mut out, &request, source, status, "", "b")
        .record_routes(&request)
        .header("Contact", contact(sent.to, retry_after))
        .header("Retry-After", retry_after.to_string())
        .finish(b"answer");
    if retry_after % 32 == 31 {
        with_other_via(&mut out);
    }
    Some(out)
}

/// Changes the port of the topmost Via, which then belongs to another element (RFC 3261 §18.1.2).
fn with_other_via(message: &mut [u8]) {
    let port = b":5060;branch=";
    if let Some(at) = message.windows(port.len()).position(|text| text == port) {
        message[at + 4] = b'9';
    }
}

/// Makes a request within the dialog of this message, sent by the recipient of the message, or a request that only
/// looks like one.
pub(super) fn follow(sent: &Sent, choose: Choice<'_>) -> Option<Vec<u8>> {
    let began = wire::scan(&sent.bytes).ok()?;
    let method = METHODS[choose() as usize % METHODS.len()];
    let (mut routes, from, to): (Vec<_>, _, _) = match began.status() {
        // The callee's To is the caller's From; it adds its own tag.
        None => (route_set(&began), began.to(), began.from()),
        Some(_) => (route_set(&began), began.from(), began.to()),
    };
    if began.status().is_some() {
        routes.reverse();
    }
    let own_tag = if began.to_tag().is_none() && began.status().is_none() { ";tag=b" } else { "" };
    let (mut from, mut to) = ([from, own_tag.as_bytes()].concat(), to.to_vec());
    let mut uri = NameAddr::parse(began.header("Contact")?)?.uri.to_vec();
    let how = choose();
    let cseq = how % 4 + 1;
    // Valid and invalid uses of a token.
    match how.checked_sub(128).map_or(0, |twist| twist % 16) {
        1 | 2 => uri = format!("sip:{BYSTANDER}").into_bytes(),
        3 => uri.extend_from_slice(b";maddr=192.0.2.88"),
        4 => routes.push(format!("<sip:{BYSTANDER};lr>").into_bytes()),
        5 => core::mem::swap(&mut from, &mut to),
        6 => to = b"<sip:b@pool.example>".to_vec(),
        7 => to = b"<sip:b@pool.example>;tag=x".to_vec(),
        8 => from = b"<sip:b@pool.example>;tag=x".to_vec(),
        9 => from.clone_from(&to),
        10 => uri = b"sip:b@pool.example".to_vec(),
        _ => {}
    }
    let mut out = Vec::new();
    let mut request = RequestBuilder::new(&mut out, method, uri).header("Via", via(sent.to, cseq, choose()));
    for route in routes {
        request = request.header("Route", route);
    }
    request
        .header("From", from)
        .header("To", to)
        .header("Call-ID", began.call_id())
        .header("CSeq", format!("{cseq} {method}"))
        .header("Contact", contact(sent.to, how))
        .finish(b"");
    Some(out)
}

/// Forwards `sent` as its recipient, a proxy, would. It may change the Request-URI.
pub(super) fn pass_on(sent: &Sent, choose: Choice<'_>) -> Option<Vec<u8>> {
    let request = wire::scan(&sent.bytes).ok().filter(|request| request.method().is_some())?;
    let mut edits = Edits::new();
    edits.push_via(&request, via(sent.to, 0, choose()).as_bytes());
    if choose() & 1 == 1 {
        edits.set_uri(&request, b"sip:c@pool.example");
    }
    let mut out = Vec::new();
    edits.render(&request, &mut out);
    Some(out)
}

fn route_set(message: &Message<'_>) -> Vec<Vec<u8>> {
    message.record_routes().map(|route| [b"<", route.uri, b">"].concat()).collect()
}
