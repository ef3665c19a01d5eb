//! Random sequences of events: properties of all sequences, also with misbehaving peers.

use super::run::{Msg, Run, What};
use proptest::prelude::*;
use transaction::{Machine, Sending, TransactionKind, TransactionNews, TransportKind};

#[derive(Clone, Copy, Debug)]
enum Act {
    Response(u16),
    Respond(u16),
    Again,
    Ack,
    Cancel,
    TransportError,
    Wait(f64),
}

fn status() -> impl Strategy<Value = u16> {
    prop::sample::select(vec![100, 180, 183, 200, 202, 302, 404, 408, 486, 503, 603])
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        status().prop_map(Act::Response),
        status().prop_map(Act::Respond),
        Just(Act::Again),
        Just(Act::Ack),
        Just(Act::Cancel),
        Just(Act::TransportError),
        (0.0..12.0).prop_map(Act::Wait),
    ]
}

fn kind() -> impl Strategy<Value = TransactionKind> {
    prop::sample::select(vec![TransactionKind::Invite, TransactionKind::NonInvite])
}

fn transport() -> impl Strategy<Value = TransportKind> {
    prop::sample::select(vec![TransportKind::Unreliable, TransportKind::Reliable])
}

/// Applies the acts to one transaction, checks after each, and returns all effects.
fn play(kind: TransactionKind, transport: TransportKind, client: bool, acts: &[Act]) -> Vec<What> {
    let mut run = Run::new();
    let id = if client { run.request(kind, transport) } else { run.accept(kind, transport) };
    let mut all = run.take();
    let mut delivered = Vec::new();
    for &act in acts {
        let before = all.len();
        match act {
            Act::Response(status) => _ = run.response(kind, status),
            Act::Respond(status) => _ = run.respond(id, status),
            Act::Again => _ = run.again(kind),
            Act::Ack => _ = run.ack(),
            Act::Cancel => _ = run.cancel(id),
            Act::TransportError => run.transport_error(id),
            Act::Wait(seconds) => run.until(run.now.as_secs_f64() + seconds),
        }
        all.extend(run.take());
        if let Act::Response(status) = act
            && all[before..].contains(&What::Told(TransactionNews::Message))
        {
            delivered.push(status);
        }
        check(&run, &all);
    }
    check_delivered(kind, &delivered);
    finish(&mut run, kind, id, client);
    all.extend(run.take());
    check(&run, &all);
    assert!(run.layer.is_empty() && run.layer.timers_set() == 0, "{all:?}");
    assert_eq!(all.last(), Some(&What::Ended));
    all
}

/// At most one final response is passed to the user, but for the 2xx of a fork.
fn check_delivered(kind: TransactionKind, delivered: &[u16]) {
    let mut finals = delivered.iter().filter(|&&status| status >= 200);
    match finals.next() {
        Some(200..=299) if kind == TransactionKind::Invite => {
            assert!(finals.all(|&s| s / 100 == 2), "{delivered:?}");
        }
        _ => assert_eq!(finals.next(), None, "{delivered:?}"),
    }
}

/// Properties that hold at any time.
fn check(run: &Run, all: &[What]) {
    // A live transaction has at most one timer, an ended one has none.
    assert!(run.layer.timers_set() <= run.layer.len());
    let ends = all.iter().filter(|&&what| what == What::Ended).count();
    assert_eq!(ends + run.layer.len(), 1, "a transaction ends once: {all:?}");
    // After the end there are no effects.
    assert!(ends == 0 || all.last() == Some(&What::Ended), "{all:?}");
    // Timers send a request or a failure at most ten times, so retransmissions are bounded.
    let by_timer = all.iter().filter(|what| matches!(what, What::Sent(_, Sending::Timer(_)))).count();
    assert!(by_timer <= 10, "{all:?}");
}

/// Ends a transaction. An INVITE may ring without limit, so its user ends it; all others end by themselves.
fn finish(run: &mut Run, kind: TransactionKind, id: transaction::Id, client: bool) {
    run.until(run.now.as_secs_f64() + 70.0);
    if run.layer.is_empty() {
        return;
    }
    assert_eq!(kind, TransactionKind::Invite, "{:?}", run.layer.machine(id));
    match run.layer.machine(id) {
        Some(Machine::ClientInvite(_)) if client => assert!(run.cancel(id)),
        Some(Machine::ServerInvite(_)) if !client => assert!(run.respond(id, 503)),
        other => panic!("{other:?}"),
    }
    run.until(run.now.as_secs_f64() + 33.0);
}

proptest! {
    #[test]
    fn client_transactions_end_and_keep_nothing(
        kind in kind(), transport in transport(), acts in prop::collection::vec(act(), 0..30),
    ) {
        let all = play(kind, transport, true, &acts);
        // [17.1.1.2-11] [17.1.1.2-23] An ACK is sent only to a failure, so a message was passed on before.
        let acked = all.contains(&What::Sent(Msg::Ack, Sending::First));
        prop_assert!(!acked || kind == TransactionKind::Invite && all.contains(&What::Told(TransactionNews::Message)));
    }

    #[test]
    fn server_transactions_end_and_keep_nothing(
        kind in kind(), transport in transport(), acts in prop::collection::vec(act(), 0..30),
    ) {
        let all = play(kind, transport, false, &acts);
        let sent = |status| all.iter().any(|what| matches!(what, What::Sent(Msg::Response(s), _) if *s == status));
        // [4320-1] [4320-4]
        prop_assert!(kind == TransactionKind::Invite || !(sent(408) || sent(180) || sent(183)));
    }
}
