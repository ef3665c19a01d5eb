//! Memory of a transaction. The only test of its process, whose memory is measured.

use base::{Flow, Instant};
use transaction::{
    Layer, New, Packet, ServerKey, Side, StatusClass, Tag, Timers, TransactionKey, TransactionKind,
    TransportKind,
};
use wire::Method;

/// Resident bytes of this process.
fn resident() -> usize {
    let pages = std::fs::read_to_string("/proc/self/statm").expect("Linux has /proc/self/statm");
    pages.split(' ').nth(1).expect("statm has a second number").parse::<usize>().expect("pages") * 4096
}

#[test]
fn a_completed_server_transaction_takes_400_bytes_and_its_response() {
    const MANY: usize = 200_000;
    let flow = Flow::udp(0, "127.0.0.1:5060".parse().unwrap());
    let bytes = [b'x'; 512];
    let mut layer = Layer::<[u64; 4], Packet>::new(Timers::default());
    let mut out = Vec::new();
    let before = resident();
    for branch in 0..MANY as u64 {
        let key = TransactionKey::from_numbers(Side::Server, branch, Method::Bye);
        let key = ServerKey { key, tag: Tag::NONE, is_ack: false };
        // The user's data take 32 bytes.
        let new = New {
            key,
            kind: TransactionKind::NonInvite,
            transport: TransportKind::Unreliable,
            user: [branch; 4],
        };
        let id = layer.accept(Instant::ZERO, new, &mut out).unwrap();
        let response = Packet::new(bytes.to_vec(), flow);
        assert!(layer.respond(Instant::ZERO, id, StatusClass::Success, response, &mut out));
        out.clear();
    }
    let each = (resident() - before) / MANY;
    assert!(each <= 400 + bytes.len(), "{each} bytes with a response of {}", bytes.len());
    // The response itself must be in memory, or the measurement is wrong.
    assert!(each >= bytes.len(), "{each} bytes");
    layer.expire(Instant::from_millis(40_000), &mut out);
    assert_eq!(layer.len(), MANY - transaction::EXPIRE_MAX, "the work of one call is bounded");
    assert!(layer.deadline().unwrap() <= Instant::from_millis(40_000), "the rest is due at once");
    while layer.deadline().is_some() {
        layer.expire(Instant::from_millis(40_000), &mut out);
        out.clear();
    }
    assert!(layer.is_empty() && layer.timers_set() == 0);
}
