//! The life of calls: assignment, later requests of a call, moves, and ends.

use crate::common::*;
use balance::policy::{Cjsq, Tlwl};
use balance::*;
use base::Instant;
use std::collections::BTreeMap;
use wire::Method;

fn tlwl(nodes: usize) -> Balancer {
    balancer(Box::new(Tlwl::new(0)), &vec![1.0; nodes])
}

/// Figure 4 of the TLWL digest line by line, on a map.
#[test]
fn counters_follow_the_digests_pseudo_code() {
    let mut balancer = tlwl(3);
    let mut session: BTreeMap<u64, usize> = BTreeMap::new();
    let mut counter = [0_u64; 3];
    // Calls overlap: call n starts at step n, and each step sends the next message of every call.
    for step in 0..60_u64 {
        let now = Instant::from_millis(step * 20);
        for call in 0..=step.min(50) {
            match (step - call) % 16 {
                0 if step == call => {
                    let slot = slot_of(balancer.request(now, &request(call, Method::Invite, 1))).index();
                    let least = counter.iter().min().unwrap();
                    assert_eq!(counter[slot], *least, "the node with the least work");
                    session.insert(call, slot);
                    counter[slot] += 1_750;
                }
                2 if step < call + 16 => {
                    balancer.response(now, &response(call, Method::Invite, 1, 200));
                    counter[session[&call]] -= 1_750;
                }
                3 if step < call + 16 => {
                    let slot = slot_of(balancer.request(now, &in_dialog(call, Method::Ack, 1)));
                    assert_eq!(slot.index(), session[&call]);
                }
                7 if step < call + 16 => {
                    let slot = slot_of(balancer.request(now, &in_dialog(call, Method::Bye, 2)));
                    assert_eq!(slot.index(), session[&call]);
                    counter[slot.index()] += 1_000;
                }
                9 if step < call + 16 => {
                    balancer.response(now, &response(call, Method::Bye, 2, 200));
                    counter[session[&call]] -= 1_000;
                }
                _ => {}
            }
            let work: Vec<_> = loads(&balancer).iter().map(|load| load.work).collect();
            assert_eq!(work, counter);
        }
    }
}

#[test]
fn a_retransmission_goes_to_the_same_node_and_counts_once() {
    let mut balancer = tlwl(4);
    let invite = request(1, Method::Invite, 1);
    let slot = slot_of(balancer.request(Instant::ZERO, &invite));
    for n in 1..7 {
        assert_eq!(slot_of(balancer.request(Instant::from_millis(n * 500), &invite)), slot);
    }
    assert_eq!(balancer.load(slot).own, Load { calls: 1, transactions: 1, work: 1_750 });
    balancer.response(seconds(4), &response(1, Method::Invite, 1, 200));
    assert_eq!(
        slot_of(balancer.request(seconds(4), &invite)),
        slot,
        "a late retransmission, after the answer"
    );
    assert_eq!(balancer.load(slot).own, Load { calls: 1, transactions: 0, work: 0 });
}

#[test]
fn credentials_go_to_the_node_that_sent_the_challenge() {
    let mut balancer = tlwl(4);
    let slot = slot_of(balancer.request(Instant::ZERO, &request(1, Method::Invite, 1)));
    balancer.response(Instant::ZERO, &response(1, Method::Invite, 1, 407));
    assert_eq!(slot_of(balancer.request(Instant::ZERO, &in_dialog(1, Method::Ack, 1))), slot);
    assert_eq!(balancer.load(slot).own, Load::default());
    assert_eq!(slot_of(balancer.request(seconds(20), &request(1, Method::Invite, 2))), slot);
    assert_eq!(balancer.load(slot).own, Load { calls: 1, transactions: 1, work: 1_750 });
    run_out(&mut balancer);
    assert_eq!(balancer.load(slot).own, Load::default());
}

#[test]
fn a_cancel_shortens_the_time_out_and_the_487_ends_the_call() {
    let mut balancer = tlwl(2);
    let slot = slot_of(balancer.request(Instant::ZERO, &request(1, Method::Invite, 1)));
    balancer.response(Instant::ZERO, &response(1, Method::Invite, 1, 180));
    assert_eq!(slot_of(balancer.request(seconds(5), &request(1, Method::Cancel, 1))), slot);
    balancer.response(seconds(5), &response(1, Method::Cancel, 1, 200));
    assert_eq!(balancer.load(slot).own.transactions, 1, "the INVITE is still open");
    let mut lost = tlwl(2);
    lost.request(Instant::ZERO, &request(1, Method::Invite, 1));
    lost.response(Instant::ZERO, &response(1, Method::Invite, 1, 180));
    lost.request(seconds(5), &request(1, Method::Cancel, 1));
    while lost.expire(seconds(38)) > 0 {}
    assert_eq!(
        lost.load(slot).own,
        Load::default(),
        "without the 487 the INVITE ends 32 s after the CANCEL, not after 180 s"
    );
    balancer.response(seconds(6), &response(1, Method::Invite, 1, 487));
    assert_eq!(balancer.load(slot).own, Load::default());
    assert_eq!(balancer.counts(), TableCounts { active: 0, expired: 1 });
}

#[test]
fn an_unanswered_invite_moves_when_its_node_is_dead_an_answered_one_does_not() {
    let mut cluster = cluster(&[1.0; 3]);
    let mut balancer = tlwl(3);
    let [silent, ringing] = [1, 2].map(|call| {
        let slot = slot_of(balancer.request(Instant::ZERO, &request(call, Method::Invite, 1)));
        (call, slot)
    });
    balancer.response(Instant::ZERO, &response(ringing.0, Method::Invite, 1, 180));
    for (_, slot) in [silent, ringing] {
        cluster.unreachable(seconds(1), slot);
    }
    balancer.set_nodes(cluster.nodes());
    assert_eq!(loads(&balancer), vec![Load::default(); 3], "a dead node has no leases");
    let moved = balancer.request(seconds(1), &request(silent.0, Method::Invite, 1));
    assert!(
        matches!(moved, NodeDecision::Forward { slot, why: Why::Moved } if slot != silent.1),
        "{moved:?}"
    );
    let again = balancer.request(seconds(2), &request(silent.0, Method::Invite, 1));
    assert_eq!(slot_of(again), slot_of(moved), "the INVITE stays at the node that it moved to");
    let stays = balancer.request(seconds(1), &request(ringing.0, Method::Invite, 1));
    assert_eq!(slot_of(stays), ringing.1);
    assert_eq!(balancer.audit(), Ok(()));
}

#[test]
fn a_lost_bye_ends_with_the_lease_of_the_call() {
    let mut balancer = balancer(Box::new(Cjsq::new(0)), &[1.0]);
    balancer.request(Instant::ZERO, &request(1, Method::Invite, 1));
    balancer.response(Instant::ZERO, &response(1, Method::Invite, 1, 200));
    balancer.request(Instant::ZERO, &in_dialog(1, Method::Ack, 1));
    while balancer.expire(seconds(4 * 3_600 - 1)) > 0 {}
    assert_eq!(balancer.load(Slot(0)).own.calls, 1);
    while balancer.expire(seconds(4 * 3_600 + 1)) > 0 {}
    assert_eq!(balancer.load(Slot(0)).own.calls, 0);
    assert_eq!(balancer.counts(), TableCounts::default());
}

/// RFC 3261 §13.3.1.4: the caller is gone, or never got the 2xx. Most servers do not report such an end.
#[test]
fn a_call_without_an_ack_ends_after_twice_the_transaction_time_out() {
    let mut balancer = balancer(Box::new(Cjsq::new(0)), &[1.0]);
    balancer.request(Instant::ZERO, &request(1, Method::Invite, 1));
    balancer.response(seconds(1), &response(1, Method::Invite, 1, 200));
    while balancer.expire(seconds(64)) > 0 {}
    assert_eq!(balancer.load(Slot(0)).own.calls, 1);
    while balancer.expire(seconds(66)) > 0 {}
    assert_eq!((balancer.load(Slot(0)).own, balancer.counts()), (Load::default(), TableCounts::default()));
}

#[test]
fn unknown_dialogs_are_orphans_and_unknown_cancels_are_searched_for() {
    let mut balancer = tlwl(2);
    assert_eq!(balancer.request(Instant::ZERO, &in_dialog(1, Method::Bye, 1)), NodeDecision::Orphan);
    assert_eq!(balancer.request(Instant::ZERO, &request(2, Method::Cancel, 1)), NodeDecision::Search);
    assert_eq!(balancer.request(Instant::ZERO, &in_dialog(3, Method::Ack, 1)), NodeDecision::Search);
    assert_eq!(balancer.counts(), TableCounts::default());
}

#[test]
fn a_call_from_a_node_counts_on_that_node() {
    let mut balancer = tlwl(3);
    let out = RequestFacts {
        direction: Direction::FromPool,
        pinned: Some(Slot(1)),
        ..request(1, Method::Invite, 1)
    };
    assert_eq!(slot_of(balancer.request(Instant::ZERO, &out)), Slot(1));
    let answer = Response { direction: Direction::FromPool, ..response(1, Method::Invite, 1, 200) };
    balancer.response(seconds(1), &answer);
    assert_eq!(balancer.load(Slot(1)).own.calls, 1);
    assert_eq!(slot_of(balancer.request(seconds(2), &in_dialog(1, Method::Bye, 1))), Slot(1));
    balancer.response(seconds(2), &response(1, Method::Bye, 1, 200));
    assert_eq!(balancer.load(Slot(1)).own, Load::default());
}

#[test]
fn a_provisional_answer_keeps_an_invite_waiting_past_the_transaction_timeout() {
    let mut balancer = tlwl(1);
    balancer.request(Instant::ZERO, &request(1, Method::Invite, 1));
    balancer.request(Instant::ZERO, &request(2, Method::Invite, 1));
    balancer.response(seconds(1), &response(1, Method::Invite, 1, 180));
    while balancer.expire(seconds(40)) > 0 {}
    assert_eq!(balancer.load(Slot(0)).own.calls, 1);
    assert_eq!(health_signs(&mut balancer), [Sign::NoAnswer { slot: Slot(0), silent: true }]);
    while balancer.expire(seconds(183)) > 0 {}
    assert_eq!(balancer.load(Slot(0)).own, Load::default());
}

#[test]
fn a_481_ends_the_call_unless_only_a_transaction_is_unknown() {
    for (method, calls) in [(Method::Cancel, 1), (Method::Prack, 1), (Method::Info, 0)] {
        let mut balancer = tlwl(2);
        let slot = slot_of(balancer.request(Instant::ZERO, &request(1, Method::Invite, 1)));
        let (request, cseq) = match method {
            Method::Cancel => (request(1, method, 1), 1),
            _ => (in_dialog(1, method, 2), 2),
        };
        // The request crosses the 200.
        balancer.request(Instant::ZERO, &request);
        balancer.response(Instant::ZERO, &response(1, Method::Invite, 1, 200));
        balancer.response(Instant::ZERO, &response(1, method, cseq, 481));
        assert_eq!(balancer.load(slot).own, Load { calls, transactions: 0, work: 0 }, "{method:?}");
    }
}

#[test]
fn a_flood_with_one_call_id_opens_few_transactions() {
    let mut balancer = tlwl(2);
    let slot = slot_of(balancer.request(Instant::ZERO, &request(1, Method::Message, 1)));
    for cseq in 2..=1_000 {
        let next = request(1, Method::Message, cseq);
        assert_eq!(slot_of(balancer.request(Instant::ZERO, &next)), slot, "the request is forwarded");
        assert_eq!(
            slot_of(balancer.request(Instant::ZERO, &next)),
            slot,
            "its retransmission is forwarded to the same node"
        );
    }
    assert_eq!(balancer.open_transactions(), 64);
    assert_eq!(balancer.load(slot).own.transactions, 64);
    balancer.audit().unwrap();
    for cseq in 1..=1_000 {
        balancer.response(Instant::ZERO, &response(1, Method::Message, cseq, 200));
    }
    assert_eq!(balancer.load(slot).own, Load::default());
    assert_eq!(balancer.counts(), TableCounts { active: 0, expired: 1 });
}

#[test]
fn repeated_requests_leave_a_draining_node_unless_it_sent_a_challenge() {
    let mut cluster = cluster(&[1.0; 2]);
    let mut balancer = tlwl(2);
    let [plain, challenged] = [(1, 200), (2, 401)].map(|(call, status)| {
        let slot = slot_of(balancer.request(Instant::ZERO, &request(call, Method::Register, 1)));
        balancer.response(Instant::ZERO, &response(call, Method::Register, 1, status));
        slot
    });
    assert_ne!(plain, challenged, "level nodes take turns");
    cluster.drain(plain, true);
    balancer.set_nodes(cluster.nodes());
    assert_eq!(slot_of(balancer.request(seconds(5), &request(1, Method::Register, 2))), challenged);
    cluster.drain(challenged, true);
    cluster.drain(plain, false);
    balancer.set_nodes(cluster.nodes());
    assert_eq!(slot_of(balancer.request(seconds(5), &request(2, Method::Register, 2))), challenged);
}

#[test]
fn a_node_in_a_reused_slot_starts_without_history() {
    let mut cluster = cluster(&[1.0, 1.0]);
    let mut balancer = tlwl(2);
    for call in 0..2 {
        balancer.request(Instant::ZERO, &request(call, Method::Invite, 1));
        balancer.response(seconds(1), &response(call, Method::Invite, 1, 486));
    }
    assert_eq!(balancer.stats(Slot(1)).assigned, 1);
    let stays = members(&[1.0])[0];
    let new = ClusterMember { id: NodeId(u32::MAX), ..stays };
    cluster.pause(seconds(1), Slot(1), seconds(60), false);
    cluster.set_members(seconds(2), &[stays]);
    balancer.set_nodes(cluster.nodes());
    cluster.release(Slot(1));
    cluster.set_members(seconds(3), &[stays, new]);
    balancer.set_nodes(cluster.nodes());
    assert_eq!(cluster.slot(new.id), Some(Slot(1)));
    assert_eq!((balancer.stats(Slot(0)).assigned, balancer.stats(Slot(1)).assigned), (1, 0));
    assert_eq!(balancer.nodes()[1].refusal(seconds(3), 0), None, "the pause belonged to the former node");
    assert_eq!(balancer.audit(), Ok(()));
}

#[test]
fn a_pool_keeps_the_histograms_of_nodes_that_leave_it() {
    let [stays, leaves] = <[_; 2]>::try_from(members(&[1.0, 1.0])).expect("two members");
    let mut cluster = cluster(&[1.0, 1.0]);
    let mut balancer = tlwl(2);
    for call in 0..2 {
        balancer.request(Instant::ZERO, &request(call, Method::Invite, 1));
        balancer.response(seconds(1), &response(call, Method::Invite, 1, 200));
    }
    let other = PoolId(1);
    cluster.set_pools(&[HealthSettings::default(); 2]);
    cluster.set_members(seconds(2), &[ClusterMember { pool: other, ..stays }]);
    balancer.set_nodes(cluster.nodes());
    cluster.release(Slot(1));
    cluster.set_members(
        seconds(3),
        &[ClusterMember { pool: other, ..stays }, ClusterMember { id: NodeId(7), ..leaves }],
    );
    balancer.set_nodes(cluster.nodes());
    let former = balancer.former_histograms();
    assert_eq!(former[&PoolId::default()].invite_micros.len(), 2, "one of each node");
    assert!(!former.contains_key(&other) && balancer.stats(Slot(0)).histograms.is_none());
    assert_eq!((balancer.stats(Slot(0)).invites.count, balancer.stats(Slot(1)).invites.count), (1, 0));
}

/// A restarted upstream proxy repeats a BYE in a new transaction, after the first BYE's response is forgotten.
#[test]
fn an_ended_call_is_remembered_while_requests_of_it_arrive() {
    let mut balancer = tlwl(2);
    balancer.request(seconds(0), &request(1, Method::Invite, 1));
    balancer.response(seconds(0), &response(1, Method::Invite, 1, 200));
    balancer.request(seconds(0), &in_dialog(1, Method::Ack, 1));
    balancer.request(seconds(1), &in_dialog(1, Method::Bye, 2));
    balancer.response(seconds(1), &response(1, Method::Bye, 2, 200));
    let remembered = |balancer: &mut Balancer, now| {
        while balancer.expire(now) > 0 {}
        balancer.counts().expired == 1
    };
    for time in [21, 41, 61] {
        assert!(remembered(&mut balancer, seconds(time)), "at {time} s");
        balancer.request(seconds(time), &in_dialog(1, Method::Bye, 2));
    }
    assert!(remembered(&mut balancer, seconds(92)));
    assert!(!remembered(&mut balancer, seconds(94)), "forgotten 32 s after the last BYE");
}

/// Any response of a node in doubt is a sign of life, reported a few times a second at most. This shard sends it calls
/// from the first response on.
#[test]
fn answers_of_a_node_in_doubt_are_reported() {
    let mut cluster = cluster(&[1.0]);
    let mut balancer = balancer(Box::new(Cjsq::new(0)), &[1.0]);
    balancer.answered(Instant::ZERO, Slot(0));
    assert_eq!(balancer.drain_signs().count(), 0, "the node is not in doubt");
    cluster.probed(Instant::ZERO, Slot(0), false);
    let version = cluster.version();
    cluster.probed(Instant::ZERO, Slot(0), false);
    assert_eq!(cluster.version(), version, "the shards know of the failed probe");
    balancer.set_nodes(cluster.nodes());
    assert_eq!(balancer.nodes()[0].refusal(Instant::ZERO, 0), Some(NodeRefusal::Unreachable));
    let mut told = 0;
    for millis in 1_000..2_000 {
        balancer.answered(Instant::from_millis(millis), Slot(0));
        assert_eq!(balancer.nodes()[0].refusal(Instant::ZERO, 0), None);
        for sign in balancer.drain_signs() {
            assert_eq!(sign, Sign::Answer { slot: Slot(0) });
            told += 1;
        }
    }
    assert_eq!(told, 4, "four reports in a second");
}
