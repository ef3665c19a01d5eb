//! Queues in front of pools whose callers authenticate.

use crate::common::*;
use crate::domain::{ALICE, Bed, PASSWORD, authorized, authorized_for, call};

const MEMBERS: [&str; 2] = ["127.0.1.1:5060", "127.0.1.2:5060"];

/// Two members, each with room for one call at once and ten per second, and callers that are challenged.
fn bed() -> Bed {
    let mut bed = Bed::new(true, Reach::Source);
    bed.set_members(&MEMBERS.map(addr), Service::BalanceTransactions);
    set_rules(&mut bed, [Rule { authenticate: true, ..to_pool(0, Conditions::default()) }]);
    let mut setup = queue(10.0);
    setup.capacity.threshold = Duration::from_secs(10);
    bed.set_queues([Some(setup)]);
    bed
}

/// Returns the member that gets the request.
fn member(sent: &[Sent]) -> Option<SocketAddr> {
    sent.iter().map(|sent| sent.to).find(|to| MEMBERS.map(addr).contains(to))
}

fn asks(bed: &mut Bed, request: &Req) -> Req {
    bed.with_credentials("alice", addr(ALICE), request)
}

/// A challenge of this proxy does not count as a member's: the request with credentials waits like any other call.
#[test]
fn a_call_with_credentials_waits_for_room() {
    let (mut bed, alice) = (bed(), addr(ALICE));
    let mut reached = 0;
    for number in 0..10 {
        let invite = asks(&mut bed, &call(&format!("call-{number}"), "carol", alice));
        reached += usize::from(member(&bed.receive(alice, &invite.bytes())).is_some());
    }
    assert_eq!(reached, 2, "each member has room for one");
    let later = bed.wait(Duration::from_millis(102));
    assert_eq!(later.iter().filter(|sent| MEMBERS.map(addr).contains(&sent.to)).count(), 2);
}

/// A member that asks for credentials gets them, whatever room it has.
#[test]
fn a_request_challenged_by_a_member_goes_there_at_once() {
    let (mut bed, alice) = (bed(), addr(ALICE));
    let request = call("call", "carol", alice);
    let challenged = bed.one(alice, &request.bytes());
    let invite = authorized(&challenged, ("alice", PASSWORD), &request);
    let sent = bed.receive(alice, &invite.bytes());
    let at_member = sent.iter().find(|sent| sent.to != alice).expect("the first call has room");
    bed.receive(at_member.to, &answer(&at_member.bytes, addr(PROXY), 401, at_member.to));
    // Other calls use up the room of both.
    for number in 0..5 {
        let other = asks(&mut bed, &call(&format!("other-{number}"), "carol", alice));
        bed.receive(alice, &other.bytes());
    }
    let via = request.via.replace("branch=", "branch=z9hG4bK-more-");
    let request = Req { cseq: 2, ..request }.via(&via);
    let again = authorized_for(2, &challenged, ("alice", PASSWORD), &request);
    assert_eq!(member(&bed.receive(alice, &again.bytes())), Some(at_member.to));
}
