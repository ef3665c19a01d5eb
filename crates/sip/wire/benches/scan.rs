//! What the messages of a call cost: scanning, editing as a balancer does, steering, refusing.
//!
//! `cargo bench -p wire` prints times; allocations are counted, and there must be none but in the set-up.

use divan::{AllocProfiler, Bencher, black_box};
use wire::{Edits, peek_call_id, scan, write_response};

#[global_allocator]
static ALLOCATIONS: AllocProfiler = AllocProfiler::system();

fn main() {
    divan::main();
}

/// 600 bytes: what a client sends to a balancer, body included.
const INVITE: &str = "INVITE sip:+4930123456@example.net;user=phone SIP/2.0\r\n\
    Via: SIP/2.0/UDP 192.0.2.17:5062;branch=z9hG4bK-524287-1---7a9cbec02ceef655;rport\r\n\
    Max-Forwards: 70\r\n\
    Contact: <sip:alice@192.0.2.17:5062>\r\n\
    To: <sip:+4930123456@example.net;user=phone>\r\n\
    From: \"Alice\" <sip:alice@example.com>;tag=8d3f0a2b\r\n\
    Call-ID: 77091MzE4YjA0ZGQ5NzdmZjNkYTM2@192.0.2.17\r\n\
    CSeq: 1 INVITE\r\n\
    Content-Type: application/sdp\r\n\
    Content-Length: 130\r\n\
    \r\n\
    v=0\r\no=alice 2890844526 2890844526 IN IP4 192.0.2.17\r\ns=-\r\nc=IN IP4 192.0.2.17\r\nt=0 0\r\nm=audio 49172 RTP/AVP 0\r\na=rtpmap:0 PCMU/8000\r\n";

/// A BYE within the dialog: with a Route that carries a token.
const BYE: &str = "BYE sip:bob@192.0.2.33:5060 SIP/2.0\r\n\
    Via: SIP/2.0/UDP 192.0.2.17:5062;branch=z9hG4bK-524287-1---9f9cbec02ceef655;rport\r\n\
    Max-Forwards: 70\r\n\
    Route: <sip:192.0.2.5:5060;lr;tok=AQIDBAUGBwgJCgsMDQ4PEBES>\r\n\
    To: <sip:+4930123456@example.net;user=phone>;tag=99ad7e\r\n\
    From: \"Alice\" <sip:alice@example.com>;tag=8d3f0a2b\r\n\
    Call-ID: 77091MzE4YjA0ZGQ5NzdmZjNkYTM2@192.0.2.17\r\n\
    CSeq: 2 BYE\r\n\
    Content-Length: 0\r\n\r\n";

/// The answer as the server sends it back.
const OK: &str = "SIP/2.0 200 OK\r\n\
    Via: SIP/2.0/UDP 192.0.2.5:5060;branch=z9hG4bKAQIDBAUGBwgJCgsMDQ4PEBES\r\n\
    Via: SIP/2.0/UDP 192.0.2.17:5062;branch=z9hG4bK-524287-1---7a9cbec02ceef655;rport=5062;received=192.0.2.17\r\n\
    Record-Route: <sip:192.0.2.5:5060;lr;tok=AQIDBAUGBwgJCgsMDQ4PEBES>\r\n\
    To: <sip:+4930123456@example.net;user=phone>;tag=99ad7e\r\n\
    From: \"Alice\" <sip:alice@example.com>;tag=8d3f0a2b\r\n\
    Call-ID: 77091MzE4YjA0ZGQ5NzdmZjNkYTM2@192.0.2.17\r\n\
    CSeq: 1 INVITE\r\n\
    Contact: <sip:bob@192.0.2.33:5060>\r\n\
    Content-Length: 0\r\n\r\n";

const MESSAGES: [(&str, &str); 3] = [("invite", INVITE), ("bye", BYE), ("ok", OK)];

fn text(name: &str) -> &'static [u8] {
    let found = MESSAGES.iter().find(|(n, _)| *n == name);
    found.expect("the arguments are the names").1.as_bytes()
}

#[divan::bench(args = ["invite", "bye", "ok"])]
fn scanned(bencher: Bencher<'_, '_>, name: &str) {
    let bytes = text(name);
    bencher.bench(|| scan(black_box(bytes)).map(|m| m.cseq().number));
}

#[divan::bench(args = ["invite", "bye", "ok"])]
fn steered(bencher: Bencher<'_, '_>, name: &str) {
    let bytes = text(name);
    bencher.bench(|| peek_call_id(black_box(bytes)));
}

/// Scan, edit and render as the balancer does.
#[divan::bench(args = ["invite", "bye", "ok"])]
fn forwarded(bencher: Bencher<'_, '_>, name: &str) {
    let bytes = text(name);
    let source = "192.0.2.17:5062".parse().expect("an address");
    let mut edits = Edits::new();
    let mut out = Vec::with_capacity(4096);
    bencher.bench_local(|| {
        let m = scan(black_box(bytes)).expect("a message");
        edits.clear();
        out.clear();
        if let Some((hops, _)) = m.max_forwards() {
            edits.mark_received(&m, source);
            edits.push_via(&m, b"SIP/2.0/UDP 192.0.2.5:5060;branch=z9hG4bKAQIDBAUGBwgJCgsMDQ4PEBES");
            edits.set_max_forwards(&m, hops - 1);
            if m.to_tag().is_some() {
                edits.pop_route(&m, m.routes().count());
            } else {
                edits.push_record_route(&m, b"<sip:192.0.2.5:5060;lr;tok=AQIDBAUGBwgJCgsMDQ4PEBES>");
            }
        } else {
            black_box(m.second_via());
            edits.pop_via(&m);
        }
        edits.render(&m, &mut out);
        out.len()
    });
}

/// Refused before anything else is done: what overload costs.
#[divan::bench]
fn refused(bencher: Bencher<'_, '_>) {
    let source = "192.0.2.17:5062".parse().expect("an address");
    let mut out = Vec::with_capacity(4096);
    bencher.bench_local(|| {
        let m = scan(black_box(INVITE.as_bytes())).expect("a message");
        out.clear();
        write_response(&m, source, 503, "Service Unavailable", "7f3a", &[("Retry-After", "5")], &mut out);
        out.len()
    });
}
