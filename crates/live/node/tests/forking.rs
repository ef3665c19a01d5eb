//! A pool that forks: all members ring at once, or one after the other (RFC 3261 §16.6 and §16.7).

use crate::common::*;
use balance::Health;
use route::{Dialogs, Fork};
use std::collections::BTreeSet;

const RING_TIME: Duration = Duration::from_secs(20);
/// Timers are late by less than this.
const TICK: Duration = Duration::from_millis(100);

const MEMBERS: [(&str, u16); 4] =
    [("127.0.1.1:5060", 0), ("127.0.1.2:5060", 0), ("127.0.1.3:5060", 0), ("127.0.1.4:5060", 0)];

/// Three members, and one in the next pool of the route.
fn bed(fork: Fork) -> ProxyBed {
    let mut bed = ProxyBed::new(&[PROXY], &MEMBERS);
    let service = Service::of((Forward::Transaction, Dialogs::Route), (fork, RING_TIME), true);
    let mode = service.expect("next hops fork");
    bed.set_pools([pool_of(mode, 0..3), pool_of(mode, [3])]);
    set_rules(&mut bed, [both(Failover::default())]);
    bed
}

fn call() -> Req {
    Req::new("INVITE", "call", client())
}

/// The INVITEs of the first group.
fn rung(bed: &mut ProxyBed, request: &Req) -> Vec<Sent> {
    let sent = bed.receive(0, client(), &request.bytes());
    assert_eq!(statuses(&sent), [100]);
    requests(&sent, Method::Invite)
}

fn addresses(sent: &[Sent]) -> BTreeSet<SocketAddr> {
    sent.iter().map(|sent| sent.to).collect()
}

fn members(slots: core::ops::Range<usize>) -> BTreeSet<SocketAddr> {
    MEMBERS[slots].iter().map(|(member, _)| addr(member)).collect()
}

#[test]
fn all_members_ring_and_the_first_to_accept_gets_the_call() {
    let mut bed = bed(Fork::Parallel);
    let invites = rung(&mut bed, &call());
    assert_eq!(addresses(&invites), members(0..3));
    let branches: BTreeSet<_> = invites.iter().map(Sent::branch).collect();
    assert_eq!(branches.len(), 3, "§16.6 step 8: each branch is unique");
    let breadth = |sent: &Sent| sent.message().max_breadth().map(|(breadth, _)| breadth);
    // The second pool may start to ring while these do.
    assert!(invites.iter().all(|sent| breadth(sent) == Some(15)), "RFC 5393 §5.3.3");
    for invite in &invites[..2] {
        assert_eq!(statuses(&respond(&mut bed, invite, 180)), [180]);
    }
    let sent = respond(&mut bed, &invites[0], 200);
    assert_eq!(statuses(&sent), [200]);
    assert_eq!(
        addresses(&requests(&sent, Method::Cancel)),
        [invites[1].to].into(),
        "§9.1: the ringing member"
    );
    let late = respond(&mut bed, &invites[2], 180);
    assert_eq!((statuses(&late), requests(&late, Method::Cancel).len()), (vec![], 1));
    for invite in &invites[1..] {
        let sent = respond(&mut bed, invite, 487);
        assert_eq!((statuses(&sent), requests(&sent, Method::Ack).len()), (vec![], 1));
    }
    let ok = sent.iter().find(|sent| sent.to == client()).expect("the 200");
    let dialog = Dialog::of(&invites[0], ok);
    for (method, cseq) in [("ACK", 1), ("BYE", 2)] {
        let sent = bed.one(client(), &dialog.by_caller(method, cseq).bytes());
        assert_eq!(sent.to, invites[0].to, "{method}");
        if method == "BYE" {
            assert_eq!(statuses(&respond(&mut bed, &sent, 200)), [200]);
        }
    }
    let counters = bed.shard.proxy_report().expect("the proxy has next hops").counters;
    assert_eq!((counters.forwarded, counters.forked, counters.cancelled), (2, 2, 2));
    bed.assert_forgets();
}

#[test]
fn members_ring_in_sequence_and_then_those_of_the_next_pool() {
    let mut bed = bed(Fork::Sequential);
    let mut invite = rung(&mut bed, &call());
    let mut rang = Vec::new();
    for turn in 0..4 {
        assert_eq!(invite.len(), 1, "one at a time");
        let now = invite.remove(0);
        rang.push(now.to);
        respond(&mut bed, &now, 180);
        if turn == 3 {
            assert_eq!(bed.wait(RING_TIME * 2).len(), 0, "no member follows the last one");
            assert_eq!(statuses(&respond(&mut bed, &now, 486)), [486]);
        } else if turn == 1 {
            invite = requests(&respond(&mut bed, &now, 486), Method::Invite);
        } else {
            let sent = bed.wait(RING_TIME + TICK);
            assert_eq!(addresses(&requests(&sent, Method::Cancel)), [now.to].into());
            invite = requests(&sent, Method::Invite);
            respond(&mut bed, &now, 487);
            let cancel = &requests(&sent, Method::Cancel)[0];
            respond(&mut bed, cancel, 200);
        }
    }
    assert_eq!(rang[..3].iter().copied().collect::<BTreeSet<_>>(), members(0..3));
    assert_eq!(rang[3], addr(MEMBERS[3].0));
    bed.assert_forgets();
}

#[test]
fn an_unreachable_member_does_not_delay_the_next() {
    let mut bed = bed(Fork::Sequential);
    let first = rung(&mut bed, &call()).remove(0);
    let sent = bed.unreachable(first.to, &first.bytes);
    assert_eq!(requests(&sent, Method::Invite).len(), 1);
    assert_eq!(bed.resting(), [first.to]);
}

/// §16.7 step 7.
#[test]
fn the_caller_gets_the_challenges_of_all_members() {
    let mut bed = bed(Fork::Parallel);
    let mode = bed.setup.pools[0].service;
    bed.set_pools([pool_of(mode, 0..3)]);
    let invites = rung(&mut bed, &call());
    let fields = [
        (401, "WWW-Authenticate", "Digest realm=\"a\""),
        (486, "Subject", "none"),
        (407, "Proxy-Authenticate", "Digest realm=\"b\""),
    ];
    let mut last = Vec::new();
    for (invite, (status, name, value)) in invites.iter().zip(fields) {
        assert_eq!(statuses(&last), [0; 0], "the proxy waits for the other members");
        let response = answer_with(&invite.bytes, addr(PROXY), status, invite.to, &[(name, value)]);
        last = bed.receive(0, invite.to, &response);
    }
    assert_eq!(statuses(&last), [401]);
    let back = last.iter().find(|sent| sent.to == client()).expect("the 401");
    let message = back.message();
    assert_eq!(message.header("WWW-Authenticate"), Some(&b"Digest realm=\"a\""[..]));
    assert_eq!(message.header("Proxy-Authenticate"), Some(&b"Digest realm=\"b\""[..]));
    assert_eq!(message.header("Subject"), None);
    assert!(string(&back.bytes).contains("\r\n\r\n"), "{back:#?}");
    bed.assert_forgets();
}

#[test]
fn a_request_that_names_a_member_goes_only_there() {
    let mut bed = bed(Fork::Parallel);
    let request = call().with("Route", &format!("<sip:{};lr>", MEMBERS[1].0));
    assert_eq!(addresses(&rung(&mut bed, &request)), members(1..2));
}

#[test]
fn members_that_are_known_to_be_dead_do_not_ring() {
    let mut bed = bed(Fork::Parallel);
    let mut nodes = bed.shard.balancer().nodes().to_vec();
    nodes[1].health = Health::Closed;
    bed.set(|setup| setup.nodes = nodes.into());
    let expected: BTreeSet<_> = [MEMBERS[0].0, MEMBERS[2].0].map(addr).into();
    assert_eq!(addresses(&rung(&mut bed, &call())), expected);
}

#[test]
fn a_request_has_no_more_branches_than_the_limit() {
    let mut bed = bed(Fork::Parallel);
    bed.set(|setup| setup.settings.limits = ProxyLimits { branches: 2, ..LIMITS });
    assert_eq!(rung(&mut bed, &call()).len(), 2);
}

/// The request is in memory once, and each branch adds only its edits.
#[test]
fn branches_share_the_bytes_of_their_request() {
    let memory = |fork| {
        let mut bed = bed(fork);
        let request = call().with("Subject", &"x".repeat(8_000));
        rung(&mut bed, &request);
        bed.shard.proxy_report().expect("the proxy has next hops").memory
    };
    let (one, three) = (memory(Fork::None), memory(Fork::Parallel));
    assert!(one > 8_000 && three > one, "{one} {three}");
    assert!(three - one < 4_000, "two more branches: {one} {three}");
}
