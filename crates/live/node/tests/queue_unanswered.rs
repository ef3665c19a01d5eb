//! Queues in front of members that leave calls unanswered. Such members get no more calls than their limit, and other
//! members are not affected.

use crate::common::*;
use elastic::queue::MemberChoice;

/// Three members with this capacity in calls per second, whose first responses take at most 10 ms.
fn bed(choice: MemberChoice, maximum: f64) -> Bed {
    let mut setup = queue(maximum);
    (setup.settings.choice, setup.settings.bound) = (choice, Duration::from_secs(4));
    setup.capacity.threshold = Duration::from_millis(10);
    let mut bed = Bed::new(Site::plain()).with_mode(Service::BalanceTransactions);
    bed.set_queues([Some(setup)]);
    bed
}

/// Returns the INVITEs that a message of the caller causes.
fn call(bed: &mut Bed, request: &Req) -> Vec<Sent> {
    requests(&bed.receive(0, client(), &request.bytes()), Method::Invite)
}

fn number(number: u32) -> Req {
    Req::new("INVITE", &format!("call{number}"), client())
}

/// Returns the number of unanswered calls, by slot.
fn unanswered(bed: &Bed) -> [usize; 3] {
    let report = queue_report(bed);
    let of = |slot| report.members.iter().find(|member| member.slot == Slot(slot));
    [0, 1, 2].map(|slot| of(slot).map_or(0, |member| member.unanswered))
}

/// A call that does not reach its member does not count as unanswered by it.
#[test]
fn an_undelivered_call_does_not_count_as_unanswered() {
    let mut bed = bed(MemberChoice::IndexPacking, 300.0);
    let first = call(&mut bed, &number(1)).remove(0);
    assert_eq!((bed.slot(first.to), unanswered(&bed)), (0, [1, 0, 0]));
    let second = requests(&bed.unreachable(first.to, &first.bytes), Method::Invite).remove(0);
    assert_ne!(second.to, first.to);
    assert_eq!(unanswered(&bed), [0; 3], "the second member did not get it from the queue");
}

/// The response to a branch of a call with too many branches is not tracked.
#[test]
fn untracked_branches_do_not_count_as_unanswered() {
    let mut bed = bed(MemberChoice::MostRoom, 10_000.0);
    let first = call(&mut bed, &number(0)).remove(0);
    respond(&mut bed, &first, 486);
    bed.wait(Duration::from_millis(100));
    let mut branches = Vec::new();
    for branch in 0..70 {
        branches.extend(call(&mut bed, &number(1).via(&via(&format!("branch-{branch}")))));
    }
    assert_eq!((branches.len(), unanswered(&bed).iter().sum::<usize>()), (70, 64));
    for request in &branches {
        respond(&mut bed, request, 486);
    }
    assert_eq!(unanswered(&bed), [0; 3]);
}

/// A call that has waited may be refused at its turn: here for lack of room for its transaction.
#[test]
fn a_call_refused_at_its_turn_does_not_count_as_unanswered() {
    let mut bed = bed(MemberChoice::MostRoom, 100.0);
    let given: Vec<_> = (0..6).flat_map(|at| call(&mut bed, &number(at))).collect();
    assert_eq!((given.len(), unanswered(&bed)), (3, [1; 3]), "one for each, and three wait");
    let limits = ProxyLimits { transactions: 0, ..LIMITS };
    bed.set(|setup| setup.settings.limits = limits);
    assert_eq!(statuses(&bed.wait(Duration::from_millis(50))), [503; 3]);
    assert_eq!(unanswered(&bed), [1; 3]);
}
