//! `max_calls`: never exceeded, and no call is refused while there is a place, on one shard or several.

use crate::common::*;
use balance::policy::{Candidates, Hash, NewCall, Tlwl};
use balance::*;
use base::Instant;
use std::sync::{Arc, Barrier};
use wire::Method;

#[test]
fn max_calls_counts_the_calls_of_other_shards_too() {
    let mut balancer = balancer(Box::new(Tlwl::new(0)), &[1.0; 2]);
    balancer.set_nodes(limited(3).nodes());
    balancer.set_others(Slot(0), Load { calls: 3, transactions: 0, work: 0 });
    let taken = (0..5).map(|call| balancer.request(Instant::ZERO, &request(call, Method::Invite, 1)));
    let forwarded = taken.filter(|d| matches!(d, NodeDecision::Forward { slot: Slot(1), .. })).count();
    assert_eq!(forwarded, 3);
}

/// Two shards of `nodes` that share the places, and get no other news of each other.
fn sharing(nodes: &[Node]) -> ([Balancer; 2], Arc<CallLimits>) {
    sharing_by(&Tlwl::new(0), nodes)
}

fn sharing_by(policy: &dyn Policy, nodes: &[Node]) -> ([Balancer; 2], Arc<CallLimits>) {
    let call_limits = Arc::new(CallLimits::default());
    let shards = [0, 1].map(|_| {
        let mut balancer = Balancer::new(SessionSettings::default(), policy.clone_box());
        balancer.set_call_limits(Arc::clone(&call_limits));
        balancer.set_peers(1);
        balancer.set_nodes(nodes);
        balancer
    });
    (shards, call_limits)
}

fn limited(max_calls: u32) -> Cluster {
    let mut cluster = cluster(&[1.0; 2]);
    cluster.set_members(Instant::ZERO, &limited_members(&[1.0; 2], max_calls));
    cluster
}

/// Within one batch the shards do not know each other's load. The limit holds, and every place is used.
#[test]
fn max_calls_holds_in_a_burst_on_two_shards() {
    // All on the first shard, then on the other; and alternately.
    let policies: [&dyn Policy; 2] = [&Tlwl::new(0), &Hash];
    let orders = [|call: u64| usize::from(call >= 15), |call: u64| call as usize % 2];
    for (policy, shard_of) in policies.into_iter().flat_map(|policy| orders.map(|order| (policy, order))) {
        let (mut shards, call_limits) = sharing_by(policy, limited(10).nodes());
        let decide = |call| shards[shard_of(call)].request(Instant::ZERO, &request(call, Method::Invite, 1));
        let decisions: Vec<_> = (0..160).map(decide).collect();
        for slot in [0, 1].map(Slot) {
            assert_eq!(shards.each_ref().map(|shard| shard.load(slot).own.calls).iter().sum::<u32>(), 10);
            assert_eq!(call_limits.calls(slot), 10);
        }
        assert!(
            decisions[..20].iter().all(|d| matches!(d, NodeDecision::Forward { .. })),
            "no node is below the limit"
        );
        assert!(decisions[20..].iter().all(|&d| d == NodeDecision::NoServer));
        // A place that becomes free on one shard can be used by the other.
        shards[shard_of(0)].response(Instant::ZERO, &response(0, Method::Invite, 1, 486));
        let other = 1 - shard_of(0);
        assert!(matches!(
            shards[other].request(Instant::ZERO, &request(200, Method::Invite, 1)),
            NodeDecision::Forward { .. }
        ));
        assert_eq!(
            shards[other].request(Instant::ZERO, &request(201, Method::Invite, 1)),
            NodeDecision::NoServer
        );
    }
}

/// The old process keeps its calls when a new one takes over.
#[test]
fn calls_of_another_process_take_places_as_well() {
    let (mut shards, call_limits) = sharing(limited(10).nodes());
    for slot in [0, 1].map(Slot) {
        call_limits.set_elsewhere(slot, 7);
        assert_eq!(call_limits.calls(slot), 7);
    }
    let mut taken = |calls: core::ops::Range<u64>| {
        let is_taken = |decision| matches!(decision, NodeDecision::Forward { .. });
        let decide =
            |call| shards[call as usize % 2].request(Instant::ZERO, &request(call, Method::Invite, 1));
        calls.map(decide).filter(|&decision| is_taken(decision)).count()
    };
    assert_eq!(taken(0..20), 2 * 3);
    // Calls of the old process end.
    call_limits.set_elsewhere(Slot(0), 5);
    assert_eq!(taken(20..40), 2);
    assert_eq!([0, 1].map(|slot| call_limits.calls(Slot(slot))), [10, 10]);
}

/// Chooses the first candidate, but first lets another shard take a call: the worst moment.
#[derive(Debug)]
struct Slow {
    other: Balancer,
    calls: u64,
}

impl Policy for Slow {
    fn name(&self) -> &'static str {
        "slow"
    }

    fn choose(&mut self, _: &NewCall<'_>, candidates: &Candidates<'_>) -> Option<Slot> {
        let chosen = candidates.iter().next()?.slot;
        self.calls += 1;
        self.other.request(Instant::ZERO, &request(1_000 + self.calls, Method::Invite, 1));
        Some(chosen)
    }

    fn clone_box(&self) -> Box<dyn Policy> {
        unreachable!("`explain` is not called")
    }
}

#[test]
fn max_calls_holds_if_another_shard_takes_the_last_place_after_the_choice() {
    let nodes = limited(10);
    let ([mut one, other], call_limits) = sharing(nodes.nodes());
    one.set_pools(vec![Pool::of_all(Box::new(Slow { other, calls: 0 }))]);
    let decide = |call| one.request(Instant::ZERO, &request(call, Method::Invite, 1));
    let taken = (0..40).map(decide).filter(|d| matches!(d, NodeDecision::Forward { .. })).count() as u32;
    assert_eq!([0, 1].map(|slot| call_limits.calls(Slot(slot))), [10, 10]);
    assert_eq!(loads(&one).iter().map(|load| load.calls).sum::<u32>(), taken);
    assert_eq!(one.audit(), Ok(()));
}

/// An INVITE forked upstream may move to the node where its call already counts. It takes no second place there,
/// whether the call rings or is answered.
#[test]
fn a_branch_that_moves_to_the_node_of_its_call_takes_no_second_place() {
    for answered in [false, true] {
        let mut cluster = limited(5);
        let ([mut shard, _], call_limits) = sharing(cluster.nodes());
        let first = slot_of(shard.request(Instant::ZERO, &request(1, Method::Invite, 1)));
        let other = Slot(1 - first.0);
        let branch = RequestFacts { branch: 1, ..request(1, Method::Invite, 1) };
        let by_token = RequestFacts { pinned: Some(other), by_token: true, ..branch };
        assert_eq!(slot_of(shard.request(Instant::ZERO, &by_token)), other);
        if answered {
            shard.response(Instant::ZERO, &response(1, Method::Invite, 1, 200));
        }
        cluster.probed(Instant::ZERO, other, false);
        shard.set_nodes(cluster.nodes());
        let moved = NodeDecision::Forward { slot: first, why: Why::Moved };
        assert_eq!(shard.request(Instant::ZERO, &branch), moved);
        assert_eq!(call_limits.calls(first), 1);
        assert_eq!(shard.audit(), Ok(()));
    }
}

/// Shards are threads. At any pace, no node has more calls than its limit.
#[test]
fn max_calls_holds_between_threads() {
    const LIMIT: u32 = 4;
    let (shards, call_limits) = sharing(limited(LIMIT).nodes());
    let start = Barrier::new(2);
    std::thread::scope(|scope| {
        for (shard, mut balancer) in shards.into_iter().enumerate() {
            let (call_limits, start) = (&call_limits, &start);
            scope.spawn(move || {
                start.wait();
                for round in 0..2_000 {
                    let calls = (round * 8..round * 8 + 8).map(|call| 2 * call + shard as u64);
                    for call in calls.clone() {
                        balancer.request(Instant::ZERO, &request(call, Method::Invite, 1));
                        assert!((0..2).all(|slot| call_limits.calls(Slot(slot)) <= LIMIT));
                    }
                    calls.for_each(|call| {
                        balancer.response(Instant::ZERO, &response(call, Method::Invite, 1, 486));
                    });
                }
                assert_eq!(balancer.audit(), Ok(()));
            });
        }
    });
    assert_eq!([0, 1].map(|slot| call_limits.calls(Slot(slot))), [0, 0]);
}
