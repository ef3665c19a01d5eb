//! Server transactions on virtual time: times of responses, news for the user, and their end.

use super::run::{Msg, Run, What, assert_times};
use base::Instant;
use transaction::TransactionKind::{Invite, NonInvite};
use transaction::TransportKind::{Reliable, Unreliable};
use transaction::{
    EXPIRE_MAX, Layer, New, Sending, ServerKey, Side, StatusClass, Tag, Timer, Timers, TransactionKey,
    TransactionNews,
};
use wire::Method;

fn sent(status: u16) -> What {
    What::Sent(Msg::Response(status), Sending::First)
}

fn repeated(status: u16) -> What {
    What::Sent(Msg::Response(status), Sending::Repeat)
}

const FAILED: What = What::Told(TransactionNews::TransportError);

/// A message beyond the memory limit is sent but not kept for retransmission.
#[test]
fn a_message_beyond_the_memory_limit_is_sent_once() {
    for (most, repetitions) in [(900, 0), (2_000, 1)] {
        let mut run = Run::new();
        let id = run.accept(Invite, Unreliable);
        let before = run.layer.memory();
        assert!(before < 900);
        run.layer.limit_memory(most);
        assert!(run.respond(id, 486));
        assert_eq!(run.take(), [sent(486)]);
        assert!(run.layer.memory() <= most);
        assert_eq!(run.layer.memory() > before + 1_000, repetitions == 1);
        run.again(Invite);
        assert_eq!(run.take().len(), repetitions);
        run.until(40.0);
        assert_eq!((run.layer.len(), run.layer.memory()), (0, 0));
    }
}

#[test]
fn a_100_is_due_after_200_ms_of_silence() {
    // [17.2.1-1] [17.2.1-3]
    let mut run = Run::new();
    let id = run.accept(Invite, Unreliable);
    assert!(run.take().is_empty());
    run.again(Invite);
    assert!(run.take().is_empty(), "no response was sent that a retransmission could get");
    run.until(100.0);
    assert_times(&[run.log[0].0], &[0.2]);
    assert_eq!(run.take(), [What::Told(TransactionNews::TryingDue)]);
    assert!(run.respond(id, 100));
    assert_eq!(run.take(), [sent(100)]);

    let mut run = Run::new();
    let id = run.accept(Invite, Unreliable);
    run.respond(id, 180);
    run.take();
    run.until(100.0);
    assert!(run.take().is_empty(), "the user has answered before the 100 was due");
    assert_eq!((run.layer.len(), run.layer.timers_set()), (1, 0));
}

#[test]
fn a_repeated_invite_gets_the_last_provisional_response() {
    // [17.2.1-4] [17.2.1-5]
    let mut run = Run::new();
    let id = run.accept(Invite, Unreliable);
    run.respond(id, 100);
    run.again(Invite);
    run.respond(id, 180);
    run.again(Invite);
    assert_eq!(run.take(), [sent(100), repeated(100), sent(180), repeated(180)]);
    run.ack();
    run.until(100.0);
    assert!(run.take().is_empty(), "provisional responses are not sent again by themselves");
}

/// The death of a process: no effects, no timer, and a retransmission counts as new.
#[test]
fn a_forgotten_transaction_has_no_effects() {
    let mut run = Run::new();
    let id = run.accept(Invite, Unreliable);
    run.respond(id, 486);
    run.take();
    assert_eq!(run.layer.iter().map(|(id, _)| id).collect::<Vec<_>>(), [id]);
    run.layer.forget(id);
    run.layer.forget(id);
    run.until(100.0);
    assert!(run.take().is_empty());
    assert_eq!((run.layer.len(), run.layer.timers_set()), (0, 0));
    assert_ne!(run.accept(Invite, Unreliable), id);
}

#[test]
fn a_failure_is_sent_again_until_it_is_acknowledged() {
    // [17.2.1-8] [17.2.1-9] [17.2.1-11] [17.2.1-12] [17.2.1-13] [17.2.1-16]
    let mut run = Run::new();
    let id = run.accept(Invite, Unreliable);
    run.respond(id, 180);
    run.take();
    run.respond(id, 486);
    run.until(4.0);
    assert_times(&run.sent(Msg::Response(486)), &[0.0, 0.5, 1.5, 3.5]);
    run.take();
    run.again(Invite);
    assert_eq!(run.take(), [repeated(486)]);
    assert!(!run.respond(id, 200), "a second final response is refused");
    run.ack();
    run.ack();
    run.again(Invite);
    assert!(run.layer.message(id).is_none(), "the kept response is freed");
    run.until(20.0);
    assert_times(&[run.ended().unwrap()], &[9.0]);
    assert_eq!(run.take(), [What::Ended]);
}

#[test]
fn a_failure_without_an_ack_times_out() {
    // [17.2.1-10] [17.2.1-14] [17.2.1-15] [17.2.1-23]
    let mut run = Run::new();
    let id = run.accept(Invite, Unreliable);
    run.respond(id, 486);
    run.until(60.0);
    let nominal = [0.0, 0.5, 1.5, 3.5, 7.5, 11.5, 15.5, 19.5, 23.5, 27.5, 31.5];
    assert_times(&run.sent(Msg::Response(486)), &nominal);
    assert_times(&[run.ended().unwrap()], &[32.0]);
    assert_eq!(run.take()[11..], [What::Told(TransactionNews::Timeout(Timer::H)), What::Ended]);
    assert!(run.layer.is_empty() && run.layer.timers_set() == 0 && !run.respond(id, 486));
}

#[test]
fn a_failure_over_a_reliable_transport_is_sent_once() {
    // [17.2.1-10] [17.2.1-13]
    let mut run = Run::new();
    let id = run.accept(Invite, Reliable);
    run.respond(id, 486);
    run.until(31.0);
    assert_eq!(run.take(), [sent(486)]);
    run.ack();
    assert_eq!(run.take(), [What::Ended]);

    let mut run = Run::new();
    let id = run.accept(Invite, Reliable);
    run.respond(id, 486);
    run.until(60.0);
    assert_times(&[run.ended().unwrap()], &[32.0]);
}

#[test]
fn an_accepted_invite_stays_to_absorb_its_repetitions() {
    // [17.2.1-6] [17.2.1-7] [17.2.1-17] [17.2.1-18] [17.2.1-19] [17.2.1-20] [17.2.1-21] [17.2.1-22]
    for (transport, ringing) in [(Unreliable, false), (Reliable, true)] {
        let mut run = Run::new();
        let id = run.accept(Invite, transport);
        if ringing {
            run.respond(id, 180);
        }
        run.take();
        assert!(run.respond(id, 200));
        assert!(run.layer.message(id).is_none(), "the user keeps the 2xx");
        assert_eq!(run.again(Invite), Some(id));
        assert_eq!(run.take(), [sent(200)]);
        run.until(10.0);
        assert!(run.take().is_empty(), "only the user sends the 2xx again");
        // A retransmission of the user, and the 2xx of another branch.
        assert!(run.respond(id, 200) && run.respond(id, 200));
        assert!(!run.respond(id, 486) && !run.respond(id, 180), "only 2xx may follow a 2xx");
        assert_eq!(run.take(), [sent(200), sent(200)]);
        assert_eq!((run.ack(), run.ack()), (Some(id), Some(id)));
        assert_eq!(run.take(), [What::Told(TransactionNews::Message); 2]);
        run.until(60.0);
        assert_times(&[run.ended().unwrap()], &[32.0]);
        assert_eq!(run.take(), [What::Ended]);
        assert!(run.ack().is_none(), "an ACK without transaction is for the user");
    }
}

#[test]
fn a_response_that_cannot_be_sent_ends_nothing() {
    // [17.2.4-1] [17.2.4-2]
    for status in [180, 486, 200] {
        let mut run = Run::new();
        let id = run.accept(Invite, Unreliable);
        run.respond(id, status);
        run.take();
        run.transport_error(id);
        assert_eq!(run.take(), [FAILED], "{status}");
        assert_eq!(run.again(Invite), Some(id), "{status}");
    }
    for status in [100, 200] {
        let mut run = Run::new();
        let id = run.accept(NonInvite, Unreliable);
        run.until(5.0);
        run.respond(id, status);
        run.take();
        run.transport_error(id);
        assert_eq!(run.take(), [FAILED], "{status}");
        assert_eq!(run.again(NonInvite), Some(id), "{status}");
    }
}

#[test]
fn a_non_invite_is_answered_and_answered_again() {
    // [17.2.2-1] [17.2.2-6] [17.2.2-7] [17.2.2-8] [17.2.2-9] [17.2.2-10] [17.2.2-11] [17.2.2-12]
    let mut run = Run::new();
    let id = run.accept(NonInvite, Unreliable);
    run.again(NonInvite);
    assert!(run.take().is_empty());
    assert!(run.respond(id, 200));
    run.again(NonInvite);
    assert!(!run.respond(id, 404) && !run.respond(id, 100));
    run.until(31.0);
    run.again(NonInvite);
    assert_eq!(run.take(), [sent(200), repeated(200), repeated(200)]);
    run.until(60.0);
    assert_times(&[run.ended().unwrap()], &[32.0]);
    assert!(run.layer.is_empty() && run.layer.timers_set() == 0);
    // [4320-5]
    assert!(!run.respond(id, 200), "a terminated transaction sends nothing");
    assert!(run.again(NonInvite).is_none());
}

#[test]
fn a_non_invite_over_a_reliable_transport_ends_with_its_answer() {
    // [17.2.2-8]
    let mut run = Run::new();
    let id = run.accept(NonInvite, Reliable);
    run.respond(id, 200);
    assert_eq!(run.take(), [sent(200), What::Ended]);
    assert_eq!(run.layer.timers_set(), 0);
}

#[test]
fn a_non_invite_gets_a_100_late_or_not_at_all() {
    // [4320-1] [4320-2] [4320-3] [17.2.2-2] [17.2.2-3] [17.2.2-4] [17.2.2-5]
    let mut run = Run::new();
    let id = run.accept(NonInvite, Unreliable);
    run.until(3.4);
    assert!(!run.respond(id, 100) && !run.respond(id, 183), "a 100 is too early, a 183 is never sent");
    assert!(run.take().is_empty());
    run.until(4.0);
    assert_times(&[run.log[0].0], &[3.5]);
    assert_eq!(run.take(), [What::Told(TransactionNews::TryingDue)]);
    assert!(!run.respond(id, 183));
    assert!(run.respond(id, 100));
    run.again(NonInvite);
    assert!(run.respond(id, 100) && !run.respond(id, 183));
    assert_eq!(run.take(), [sent(100), repeated(100), sent(100)]);
    run.respond(id, 200);
    assert_eq!(run.take(), [sent(200)]);

    let mut run = Run::new();
    let id = run.accept(NonInvite, Reliable);
    assert!(run.respond(id, 100), "a reliable transport allows a 100 at any time");
}

#[test]
fn a_non_invite_gets_no_408() {
    // [4320-4]
    for wait in [0.0, 4.0] {
        let mut run = Run::new();
        let id = run.accept(NonInvite, Unreliable);
        run.until(wait);
        run.take();
        assert!(!run.respond(id, 408) && !run.respond(id, 200));
        run.again(NonInvite);
        assert!(run.take().is_empty());
        run.until(60.0);
        assert_times(&[run.ended().unwrap()], &[wait + 32.0]);
        assert_eq!(run.take(), [What::Ended]);
    }
    let mut run = Run::new();
    let id = run.accept(NonInvite, Reliable);
    run.respond(id, 408);
    assert_eq!(run.take(), [What::Ended]);
    // A 408 to an INVITE is allowed.
    let id = run.accept(Invite, Unreliable);
    assert!(run.respond(id, 408));
}

#[test]
fn an_unanswered_non_invite_ends() {
    for trying in [false, true] {
        let mut run = Run::new();
        let id = run.accept(NonInvite, Unreliable);
        run.until(3.6);
        if trying {
            run.respond(id, 100);
        }
        run.take();
        run.until(80.0);
        assert_eq!(run.take(), [What::Told(TransactionNews::Timeout(Timer::Expire)), What::Ended]);
    }
}

#[test]
fn an_id_of_an_ended_transaction_is_invalid() {
    let mut run = Run::new();
    let old = run.accept(NonInvite, Reliable);
    run.respond(old, 200);
    let new = run.accept(NonInvite, Reliable);
    run.take();
    assert_ne!(old, new);
    assert!(!run.respond(old, 200) && run.layer.user(old).is_none() && run.layer.user(new).is_some());
    run.transport_error(old);
    assert_eq!(run.take(), []);
    assert!(run.respond(new, 200));
    assert!(run.layer.user_mut(new).is_none());
    assert_eq!(run.sent(Msg::Response(200)).len(), 1);
}

#[test]
fn many_transactions_are_cleared_away_in_bounded_steps() {
    let mut layer = Layer::new(Timers::default());
    let count = 2 * EXPIRE_MAX as u64 + 1;
    for serial in 0..count {
        let key = TransactionKey::from_numbers(Side::Server, serial, Method::Options);
        let key = ServerKey { key, tag: Tag::NONE, is_ack: false };
        let new = New { key, kind: NonInvite, transport: Unreliable, user: serial };
        let id = layer.accept(Instant::ZERO, new, &mut Vec::new()).expect("a new key");
        layer.respond(Instant::ZERO, id, StatusClass::Success, Msg::Response(200), &mut Vec::new());
    }
    // Timer J is 64*T1.
    let mut ended = Vec::new();
    assert!(!layer.clear_away(Instant::from_millis(31_999), |_, user| ended.push(user)));
    let end = Instant::from_millis(32_000);
    for step in 1..=2 {
        assert!(layer.clear_away(end, |_, user| ended.push(user)), "some are left");
        assert_eq!(ended.len(), step * EXPIRE_MAX);
    }
    assert!(!layer.clear_away(end, |_, user| ended.push(user)), "none is left");
    assert!(ended.into_iter().eq(0..count) && layer.is_empty());
}
