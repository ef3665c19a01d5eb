//! Client transactions on virtual time: times of sending, news for the user, and their end.

use super::run::{Msg, Run, What, assert_times};
use transaction::TransactionKind::{Invite, NonInvite};
use transaction::TransportKind::{Reliable, Unreliable};
use transaction::{Sending, Timer, TransactionNews};

const FIRST: What = What::Sent(Msg::Request, Sending::First);
const ACK: What = What::Sent(Msg::Ack, Sending::First);
const DELIVERED: What = What::Told(TransactionNews::Message);

#[test]
fn an_unanswered_invite_is_sent_seven_times_in_32_s() {
    // [17.1.1.2-1] [17.1.1.2-2] [17.1.1.2-3] [17.1.1.2-5] [17.1.1.2-6] [17.1.1.2-7] [17.1.1.2-9]
    let mut run = Run::new();
    run.request(Invite, Unreliable);
    run.until(40.0);
    assert_times(&run.sent(Msg::Request), &[0.0, 0.5, 1.5, 3.5, 7.5, 15.5, 31.5]);
    assert_times(&[run.ended().unwrap()], &[32.0]);
    // [17.1.1.2-10] [17.1.1.2-11] [17.1.1.2-27] The user learns of the timeout, no ACK is sent, nothing remains.
    assert!(run.sent(Msg::Ack).is_empty() && run.layer.is_empty() && run.layer.timers_set() == 0);
    assert_eq!(run.take()[7..], [What::Told(TransactionNews::Timeout(Timer::B)), What::Ended]);
}

#[test]
fn an_unanswered_non_invite_is_sent_eleven_times_in_32_s() {
    // [17.1.2.2-1] [17.1.2.2-2] [17.1.2.2-3] [17.1.2.2-4]
    let mut run = Run::new();
    run.request(NonInvite, Unreliable);
    run.until(40.0);
    let nominal = [0.0, 0.5, 1.5, 3.5, 7.5, 11.5, 15.5, 19.5, 23.5, 27.5, 31.5];
    assert_times(&run.sent(Msg::Request), &nominal);
    assert_times(&[run.ended().unwrap()], &[32.0]);
    // [17.1.2.2-5] [17.1.2.2-6] [17.1.2.2-15]
    assert!(run.layer.is_empty() && run.layer.timers_set() == 0);
    assert_eq!(run.take()[11..], [What::Told(TransactionNews::Timeout(Timer::F)), What::Ended]);
}

/// A proxy limits the retransmissions to a next hop that may not want the traffic.
#[test]
fn a_limit_of_repeats_bounds_retransmissions_and_not_the_wait() {
    let nominal = [0.0, 0.5, 1.5, 3.5, 7.5];
    for (kind, timer) in [(Invite, Timer::B), (NonInvite, Timer::F)] {
        for most in 0..4 {
            let mut run = Run::new();
            let id = run.request(kind, Unreliable);
            run.layer.limit_repeats(id, most);
            run.until(40.0);
            assert_times(&run.sent(Msg::Request), &nominal[..=usize::from(most)]);
            assert_times(&[run.ended().unwrap()], &[32.0]);
            let rest = [What::Told(TransactionNews::Timeout(timer)), What::Ended];
            assert_eq!(run.take()[usize::from(most) + 1..], rest);
        }
    }
}

#[test]
fn over_a_reliable_transport_requests_are_sent_once() {
    // [17.1.1.2-4]
    for kind in [Invite, NonInvite] {
        let mut run = Run::new();
        run.request(kind, Reliable);
        run.until(40.0);
        let timer = if kind == Invite { Timer::B } else { Timer::F };
        assert_times(&[run.ended().unwrap()], &[32.0]);
        assert_eq!(run.take(), [FIRST, What::Told(TransactionNews::Timeout(timer)), What::Ended]);
    }
}

#[test]
fn a_ringing_invite_is_not_retransmitted_and_has_no_time_limit() {
    // [17.1.1.2-8] [17.1.1.2-12] [17.1.1.2-13] [17.1.1.2-14]
    let mut run = Run::new();
    run.request(Invite, Unreliable);
    run.until(1.0);
    run.take();
    for status in [100, 180, 180] {
        run.response(Invite, status);
    }
    run.until(200.0);
    assert_eq!(run.take(), [DELIVERED; 3]);
    assert_eq!((run.layer.len(), run.layer.timers_set()), (1, 0));
}

#[test]
fn a_failure_is_acknowledged_and_told_once() {
    // [17.1.1.2-15] [17.1.1.2-16] [17.1.1.2-17] [17.1.1.2-20]
    for ringing in [false, true] {
        let mut run = Run::new();
        run.request(Invite, Unreliable);
        if ringing {
            run.response(Invite, 180);
        }
        run.take();
        run.until(0.25);
        run.response(Invite, 486);
        assert_eq!(run.take(), [ACK, DELIVERED]);
        // A 408 to an INVITE is a failure like others.
        run.response(Invite, 486);
        run.response(Invite, 408);
        run.response(Invite, 180);
        run.response(Invite, 200);
        assert_eq!(run.take(), [What::Sent(Msg::Ack, Sending::Repeat); 2]);
        // [17.1.1.2-19] [17.1.1.2-24] Timer D, 32 s.
        run.until(60.0);
        assert_times(&[run.ended().unwrap()], &[32.25]);
        assert_eq!(run.take(), [What::Ended]);
        assert!(run.response(Invite, 486).is_none());
    }
}

#[test]
fn a_failure_over_a_reliable_transport_is_acknowledged_and_ends_the_transaction() {
    // [17.1.1.2-17] [17.1.1.2-19] [17.1.1.2-27]
    let mut run = Run::new();
    run.request(Invite, Reliable);
    run.response(Invite, 503);
    assert_eq!(run.take(), [FIRST, ACK, DELIVERED, What::Ended]);
    assert!(run.layer.is_empty() && run.layer.timers_set() == 0);
}

#[test]
fn every_2xx_of_a_fork_is_passed_on_and_none_acknowledged() {
    // [17.1.1.2-21] [17.1.1.2-22] [17.1.1.2-23] [17.1.1.2-25] [17.1.1.2-26]
    for (transport, ringing) in [(Unreliable, false), (Reliable, false), (Unreliable, true)] {
        let mut run = Run::new();
        let id = run.request(Invite, transport);
        if ringing {
            run.response(Invite, 183);
        }
        run.take();
        run.response(Invite, 200);
        // The memory of the INVITE is freed; the user has the data for the ACK.
        assert!(run.layer.message(id).is_none());
        run.until(20.0);
        run.response(Invite, 200);
        run.response(Invite, 202);
        run.response(Invite, 180);
        run.response(Invite, 486);
        assert_eq!(run.take(), [DELIVERED; 3]);
        run.until(60.0);
        assert_times(&[run.ended().unwrap()], &[32.0]);
        assert_eq!(run.take(), [What::Ended]);
        // [6026-1] A late 2xx matches no transaction.
        assert!(run.response(Invite, 200).is_none());
        assert!(run.take().is_empty());
    }
}

#[test]
fn a_non_invite_in_progress_is_sent_again_every_t2() {
    // [17.1.2.2-7] [17.1.2.2-8] [17.1.2.2-10] [17.1.2.2-11]
    let mut run = Run::new();
    run.request(NonInvite, Unreliable);
    run.until(0.6);
    assert!(run.response(NonInvite, 100).is_some());
    run.until(40.0);
    // The timer that was running when the 100 arrived continues, to 1.5 s.
    let nominal = [0.0, 0.5, 1.5, 5.5, 9.5, 13.5, 17.5, 21.5, 25.5, 29.5];
    assert_times(&run.sent(Msg::Request), &nominal);
    assert_eq!(run.take()[11..], [What::Told(TransactionNews::Timeout(Timer::F)), What::Ended]);
}

#[test]
fn a_non_invite_is_answered_once() {
    // [17.1.2.2-9] [17.1.2.2-13] [17.1.2.2-14]
    for before in [&[][..], &[100]] {
        for status in [200, 404, 408] {
            let mut run = Run::new();
            run.request(NonInvite, Unreliable);
            for &status in before {
                run.response(NonInvite, status);
            }
            run.take();
            for status in [status, status, 100, 200] {
                assert!(run.response(NonInvite, status).is_some());
            }
            run.until(10.0);
            assert_times(&[run.ended().unwrap()], &[5.0]);
            assert_eq!(run.take(), [DELIVERED, What::Ended]);
        }
    }
}

#[test]
fn a_non_invite_over_a_reliable_transport_ends_with_its_answer() {
    // [17.1.2.2-12]
    let mut run = Run::new();
    run.request(NonInvite, Reliable);
    run.response(NonInvite, 100);
    run.response(NonInvite, 200);
    assert_eq!(run.take(), [FIRST, DELIVERED, DELIVERED, What::Ended]);
    assert_eq!(run.layer.timers_set(), 0);
}

#[test]
fn a_request_that_cannot_be_sent_ends_its_transaction() {
    // [17.1.4-1] [17.1.4-2]
    let failed = [What::Told(TransactionNews::TransportError), What::Ended];
    for kind in [Invite, NonInvite] {
        let mut run = Run::new();
        let id = run.request(kind, Unreliable);
        run.take();
        run.transport_error(id);
        run.transport_error(id);
        assert_eq!(run.take(), failed);
        assert!(run.response(kind, 200).is_none());
    }
    let mut run = Run::new();
    let id = run.request(Invite, Unreliable);
    run.response(Invite, 500);
    run.take();
    // The ACK could not be sent.
    run.transport_error(id);
    assert_eq!(run.take(), failed);
}

#[test]
fn a_cancel_waits_for_a_provisional_response_and_limits_the_invite() {
    // [9.1-5] [9.1-6] [9.1-7]
    let mut run = Run::new();
    let id = run.request(Invite, Unreliable);
    assert!(!run.cancel(id), "before any response");
    run.until(10.0);
    run.response(Invite, 180);
    run.take();
    assert!(run.cancel(id));
    assert!(!run.cancel(id), "a second time");
    run.until(20.0);
    run.response(Invite, 180);
    assert_eq!(run.take(), [DELIVERED]);
    run.until(80.0);
    assert_times(&[run.ended().unwrap()], &[42.0]);
    assert_eq!(run.take(), [What::Told(TransactionNews::Timeout(Timer::Cancel)), What::Ended]);
    assert!(!run.cancel(id), "after the end of the INVITE");

    let mut run = Run::new();
    let id = run.request(Invite, Unreliable);
    run.response(Invite, 200);
    assert!(!run.cancel(id), "after a final response");
}

#[test]
fn a_cancelled_invite_is_acknowledged_like_others() {
    // [17.1.1.2-15] [9.1-7]
    let mut run = Run::new();
    let id = run.request(Invite, Unreliable);
    run.response(Invite, 100);
    assert!(run.cancel(id));
    run.take();
    run.response(Invite, 487);
    assert_eq!(run.take(), [ACK, DELIVERED]);
    run.until(80.0);
    assert_times(&[run.ended().unwrap()], &[32.0]);
}

#[test]
fn a_key_in_use_is_refused() {
    let mut run = Run::new();
    run.request(Invite, Unreliable);
    let new = transaction::New {
        key: super::run::client_key(wire::Method::Invite),
        kind: Invite,
        transport: Unreliable,
        user: 0,
    };
    let mut out = Vec::new();
    assert!(run.layer.request(run.now, new, Msg::Request, &mut out).is_none() && out.is_empty());
}

#[test]
fn nothing_is_sent_at_the_instant_of_the_timeout() {
    // A whole number of the wheel's ticks, so that E and F expire together, after 64 intervals.
    let t1 = core::time::Duration::from_nanos(10 << 24);
    let mut run = Run::new();
    run.layer = transaction::Layer::new(transaction::Timers { t1, t2: t1, ..Default::default() });
    run.request(NonInvite, Unreliable);
    run.until(20.0);
    assert_eq!(run.sent(Msg::Request).len(), 64);
    assert_eq!(run.take()[64..], [What::Told(TransactionNews::Timeout(Timer::F)), What::Ended]);
}
