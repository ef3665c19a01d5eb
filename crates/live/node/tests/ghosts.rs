//! Late copies of refused INVITEs: no call begins after its caller has received a refusal.

use crate::common::*;
use dialog::CallSettings;

const DIALOG: Service = Service::Calls(Spread::Found);
const MEMBERS: Service = Service::BalanceTransactions;

fn ack(call_id: &str, refusal: &Sent) -> Vec<u8> {
    let tag = String::from_utf8(refusal.message().to_tag().expect("a tag").to_vec()).expect("text");
    Req { to_tag: Some(tag), ..Req::new("ACK", call_id, client()) }.bytes()
}

/// The caller's next INVITE after a refusal (RFC 3261 §8.1.1.7: another branch).
fn next(invite: &Req) -> Vec<u8> {
    Req { via: invite.via.replace("-1;", "-2;"), cseq: 2, ..invite.clone() }.bytes()
}

/// `[calls] max_calls` is reached, until the other call ends.
#[test]
fn a_late_copy_of_a_call_above_the_limit_is_refused() {
    let calls = CallSettings { most: 1, ..CallSettings::default() };
    let mut bed = ProxyBed::plain().with_mode(DIALOG);
    keep_dialogs(&mut bed, DialogSettings { calls, ..DialogSettings::default() });
    let call = bed.call("one");
    let invite = Req::new("INVITE", "two", client());
    let refusal = bed.one(client(), &invite.bytes());
    assert_eq!((refusal.status(), refusal.message().header("Retry-After")), (503, Some(&b"10"[..])));
    assert_eq!(bed.receive(0, client(), &ack("two", &refusal)), []);
    let message = bed.receive(0, client(), &Req::new("MESSAGE", "three", client()).bytes());
    assert_eq!(message[0].to, addr(HOPS[0]), "no call");
    let bye: Sent = bed.one(client(), &call.by_caller("BYE", 2).bytes());
    answered(&mut bed, &bye, 200);
    // The process stands still for longer than copies come, and reads them afterwards.
    for pause in [Duration::from_secs(1), Duration::from_mins(1)] {
        bed.wait(pause);
        let again = bed.one(client(), &invite.bytes());
        assert_eq!(again.bytes, refusal.bytes, "the same answer, after {pause:?}");
    }
    let sent = bed.receive(0, client(), &next(&invite));
    assert_eq!((sent[0].status(), sent[1].to), (100, addr(HOPS[0])), "the next INVITE is another call");
}

/// The queue of the pool is full, or its bound has passed; later there is room for other calls.
#[test]
fn a_late_copy_of_a_call_refused_by_a_queue_is_refused() {
    let mut bed = Bed::new(Site::plain()).with_mode(MEMBERS);
    let mut setup = queue(1.0);
    setup.settings.bound = Duration::from_millis(600);
    bed.set_queues([Some(setup)]);
    let invite = |number: usize| Req::new("INVITE", &format!("call{number}"), client());
    let mut refused = Vec::new();
    for number in 0..60 {
        let sent = bed.receive(0, client(), &invite(number).bytes());
        refused.extend(
            sent.into_iter().filter(|sent| sent.message().status() == Some(503)).map(|sent| (number, sent)),
        );
    }
    assert!(!refused.is_empty(), "the queue refuses calls");
    // Other calls wait in vain, and get the refusal with a transaction, which ends with their ACK.
    let number_of = |sent: &Sent| -> usize {
        let name = String::from_utf8(sent.message().call_id().to_vec()).expect("text");
        name.trim_start_matches("call").parse().expect("a number")
    };
    let before = refused.len();
    for sent in bed.wait(Duration::from_secs(1)) {
        if sent.message().status() == Some(503)
            && !refused.iter().any(|(number, _)| *number == number_of(&sent))
        {
            refused.push((number_of(&sent), sent));
        }
    }
    assert!(refused.len() > before);
    for (number, refusal) in &refused {
        let late = bed.receive(0, client(), &ack(&format!("call{number}"), refusal));
        assert_eq!(late, []);
    }
    // Timer I is over.
    bed.wait(Duration::from_secs(10));
    for (number, refusal) in refused {
        let sent = bed.receive(0, client(), &invite(number).bytes());
        let answers: Vec<_> = sent.iter().map(|sent| (sent.to, sent.message().status())).collect();
        assert_eq!(answers, [(client(), Some(503))], "call{number}, refused with {refusal:?}");
    }
    let sent = bed.receive(0, client(), &next(&invite(59)));
    assert!(sent.iter().all(|sent| sent.message().status() != Some(503)), "the next INVITE is another call");
}

/// A caller cancels a waiting call, and a copy of its INVITE comes later.
#[test]
fn a_late_copy_of_a_cancelled_waiting_call_goes_nowhere() {
    let mut bed = Bed::new(Site::plain()).with_mode(MEMBERS);
    bed.set_queues([Some(queue(10.0))]);
    let invite = |number: usize| Req::new("INVITE", &format!("call{number}"), client());
    (0..4).for_each(|number| drop(bed.receive(0, client(), &invite(number).bytes())));
    let answers = bed.receive(0, client(), &Req::new("CANCEL", "call3", client()).bytes());
    assert_eq!(statuses(&answers), [200, 487]);
    bed.wait(Duration::from_secs(1));
    let again = bed.receive(0, client(), &invite(3).bytes());
    assert_eq!(again.iter().map(|sent| sent.message().status()).collect::<Vec<_>>(), [Some(487)]);
}
