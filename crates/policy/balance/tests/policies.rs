//! Distribution of calls promised by each policy.

use crate::common::*;
use balance::policy::*;
use balance::*;
use base::{Instant, Rng};
use rand::RngCore;
use wire::Method;

fn assign(balancer: &mut Balancer, calls: std::ops::Range<u64>) -> Vec<usize> {
    calls
        .map(|call| slot_of(balancer.request(Instant::ZERO, &request(call, Method::Invite, 1))).index())
        .collect()
}

fn shares(slots: &[usize], nodes: usize) -> Vec<f64> {
    (0..nodes)
        .map(|node| slots.iter().filter(|&&slot| slot == node).count() as f64 / slots.len() as f64)
        .collect()
}

#[test]
fn all_share_by_capacity() {
    for policy in policies() {
        let name = policy.name();
        let mut balancer = balancer(policy, &[1.0, 2.0, 1.0]);
        let shares = shares(&assign(&mut balancer, 0..40_000), 3);
        for (share, expected) in shares.iter().zip([0.25, 0.5, 0.25]) {
            assert!((share - expected).abs() < 0.01, "{name}: {shares:?}");
        }
    }
}

#[test]
fn round_robin_is_smooth() {
    let mut balancer = balancer(Box::new(RoundRobin::new(0)), &[2.0, 1.0]);
    let order = assign(&mut balancer, 0..12);
    assert_eq!(order[..3], [0, 1, 0]);
    // Every third call goes to the smaller node.
    assert_eq!(order[3..], [1, 0, 0, 1, 0, 0, 1, 0, 0]);
}

#[test]
fn nodes_with_equal_loads_take_turns() {
    for policy in [Box::new(Cjsq::new(0)) as Box<dyn Policy>, Box::new(Tjsq::new(0)), Box::new(Tlwl::new(0))]
    {
        let mut balancer = balancer(policy, &[1.0; 4]);
        // Every call ends before the next one comes, so all nodes are always equal.
        let order: Vec<_> = (0..8)
            .map(|call| {
                let slot = assign(&mut balancer, call..call + 1)[0];
                balancer.response(Instant::ZERO, &response(call, Method::Invite, 1, 486));
                slot
            })
            .collect();
        assert_eq!(order, [0, 1, 2, 3, 0, 1, 2, 3]);
    }
}

#[test]
fn bursts_that_do_not_divide_by_the_nodes_still_spread_evenly() {
    for burst in 1..10 {
        let mut balancer = balancer(Box::new(Tlwl::new(0)), &[1.0; 4]);
        let mut calls = [0; 4];
        for round in 0..40 {
            // All calls of a burst come before any of them ends: the first four are a tie, the others the next tie.
            let first = round * burst;
            for slot in assign(&mut balancer, first..first + burst) {
                calls[slot] += 1;
            }
            for call in first..first + burst {
                balancer.response(Instant::ZERO, &response(call, Method::Invite, 1, 486));
            }
        }
        let calls = calls.map(|calls| calls as u64);
        assert_eq!(calls, [10 * burst; 4], "bursts of {burst}");
    }
}

#[test]
fn calls_that_overlap_at_random_spread_evenly() {
    for (nodes, calls_at_a_time) in [(4, 1.0), (4, 3.0), (4, 10.0), (8, 8.0)] {
        let mut balancer = balancer(Box::new(Cjsq::new(0)), &vec![1.0; nodes]);
        let mut rng = Rng::from_seed(7);
        let mut uniform = move || -> f64 { (rng.next_u64() >> 11) as f64 / (1_u64 << 53) as f64 };
        let mut open: Vec<(f64, u64)> = Vec::new();
        let (mut now, mut slots) = (0.0_f64, Vec::new());
        for call in 0..40_000 {
            now -= (1.0 - uniform()).ln() / calls_at_a_time;
            while let Some(over) = open.iter().position(|&(end, _)| end <= now) {
                let (_, call) = open.swap_remove(over);
                balancer.response(Instant::ZERO, &response(call, Method::Invite, 1, 486));
            }
            slots.push(assign(&mut balancer, call..call + 1)[0]);
            open.push((now - (1.0 - uniform()).ln(), call));
        }
        let shares = shares(&slots, nodes);
        // Four standard deviations of random choices.
        let even = 1.0 / nodes as f64;
        let bound = 4.0 * (even * (1.0 - even) / slots.len() as f64).sqrt();
        let fair = shares.iter().all(|share| (share - even).abs() < bound);
        assert!(fair, "{calls_at_a_time} calls on {nodes} nodes: {shares:?}");
    }
}

#[test]
fn a_node_that_was_left_out_gets_no_burst_when_it_is_back() {
    let mut balancer = balancer(Box::new(RoundRobin::new(0)), &[1.0; 3]);
    let mut cluster = cluster(&[1.0; 3]);
    cluster.drain(Slot(2), true);
    balancer.set_nodes(cluster.nodes());
    assign(&mut balancer, 0..1_000);
    cluster.drain(Slot(2), false);
    balancer.set_nodes(cluster.nodes());
    assert_eq!(shares(&assign(&mut balancer, 1_000..1_006), 3), [1.0 / 3.0; 3]);
}

#[test]
fn an_idle_cluster_shares_by_capacity_too() {
    let mut balancer = balancer(Box::new(Tlwl::new(0)), &[1.0, 4.0]);
    let slots: Vec<_> = (0..100)
        .map(|call| {
            let slot = assign(&mut balancer, call..call + 1)[0];
            balancer.response(Instant::ZERO, &response(call, Method::Invite, 1, 486));
            slot
        })
        .collect();
    assert_eq!(slots.iter().filter(|&&slot| slot == 1).count(), 80);
}

#[test]
fn hash_moves_only_the_calls_of_the_member_that_leaves() {
    let moved = |policy: fn() -> Box<dyn Policy>| {
        let mut cluster = cluster(&[1.0; 5]);
        let mut before = balancer(policy(), &[1.0; 5]);
        let was = assign(&mut before, 0..10_000);
        cluster.unreachable(Instant::ZERO, Slot(2));
        let mut after = Balancer::new(SessionSettings::default(), policy());
        after.set_nodes(cluster.nodes());
        let is = assign(&mut after, 0..10_000);
        assert!(!is.contains(&2));
        was.iter().zip(&is).filter(|(was, is)| **was != 2 && was != is).count()
    };
    assert_eq!(moved(|| Box::new(Hash)), 0, "minimal disruption");
    assert!(moved(|| Box::new(FnvHash)) > 5_000, "the paper's scheme moves most of the calls");
}

#[test]
fn hash_is_the_same_on_every_shard_and_for_any_order_of_members() {
    let mut one = balancer(Box::new(Hash), &[1.0; 5]);
    let mut reversed = Cluster::new(HealthSettings {
        fall: 1,
        slow_start: std::time::Duration::ZERO,
        ..HealthSettings::default()
    });
    let mut members = members(&[1.0; 5]);
    members.reverse();
    reversed.set_members(Instant::ZERO, &members);
    let mut other = Balancer::new(SessionSettings::default(), Box::new(Hash));
    other.set_nodes(reversed.nodes());
    for call in 0..1_000 {
        let here = assign(&mut one, call..call + 1)[0];
        let there = assign(&mut other, call..call + 1)[0];
        assert_eq!(here, 4 - there);
    }
}

#[test]
fn tlwl_distinguishes_an_invite_from_a_bye_and_tjsq_does_not() {
    // One node has an open INVITE, the other a BYE: equal for TJSQ, 1.75 to 1 for TLWL.
    let choice = |policy, bye: u64| {
        let mut balancer = balancer(policy, &[1.0, 1.0]);
        assert_eq!(assign(&mut balancer, 0..2), [0, 1]);
        balancer.response(Instant::ZERO, &response(bye, Method::Invite, 1, 200));
        balancer.request(Instant::ZERO, &in_dialog(bye, Method::Bye, 2));
        assign(&mut balancer, 2..3)[0]
    };
    let tjsq = [0, 1].map(|bye| choice(Box::new(Tjsq::new(0)), bye));
    assert_eq!(tjsq[0], tjsq[1], "TJSQ takes turns, whichever node has the BYE");
    let tlwl = [0, 1].map(|bye| choice(Box::new(Tlwl::new(0)), bye));
    assert_eq!(tlwl, [0, 1], "TLWL chooses the node with the BYE");
}

#[test]
fn rwma_follows_response_times() {
    let mut balancer = balancer(Box::new(Rwma::new(0)), &[1.0, 1.0]);
    for call in 0..2 {
        let slot = assign(&mut balancer, call..call + 1)[0];
        let after = Instant::from_millis(if slot == 0 { 80 } else { 20 });
        balancer.response(after, &response(call, Method::Invite, 1, 200));
    }
    assert_eq!(
        assign(&mut balancer, 10..14),
        [1; 4],
        "a flaw of the policy: it does not see calls that it just assigned"
    );
}

/// Imbalance of shards that learn each other's load only every `late` calls.
fn imbalance(shards: usize, late: usize) -> u32 {
    let nodes = 8;
    let mut balancers: Vec<_> = (0..shards)
        .map(|shard| balancer(Box::new(Tlwl::new(shard * nodes / shards)), &vec![1.0; nodes]))
        .collect();
    for balancer in &mut balancers {
        balancer.set_peers(shards as u32 - 1);
    }
    let (mut worst, mut open, mut rng) = (0, Vec::new(), Rng::from_seed(5));
    for call in 0..4_000_u64 {
        let shard = call as usize % shards;
        balancers[shard].request(Instant::ZERO, &request(call, Method::Invite, 1));
        open.push(call);
        if open.len() > 400 {
            // Calls end in random order, drawn from a fixed seed.
            let ended = open.swap_remove(rng.next_u64() as usize % open.len());
            balancers[ended as usize % shards]
                .response(Instant::ZERO, &response(ended, Method::Invite, 1, 486));
        }
        if (call as usize).is_multiple_of(late) {
            let own: Vec<Vec<Load>> = balancers.iter().map(loads).collect();
            for (shard, balancer) in balancers.iter_mut().enumerate() {
                for slot in 0..nodes {
                    let others =
                        own.iter().enumerate().filter(|(s, _)| *s != shard).map(|(_, loads)| loads[slot]);
                    balancer.set_others(Slot(slot as u16), others.fold(Load::default(), |a, b| a + b));
                }
            }
        }
        if call > 500 {
            let totals: Vec<u32> = (0..nodes)
                .map(|slot| balancers.iter().map(|b| b.load(Slot(slot as u16)).own.transactions).sum())
                .collect();
            let (most, least) =
                totals.iter().fold((0, u32::MAX), |(most, least), &n| (most.max(n), least.min(n)));
            worst = worst.max(most - least);
        }
    }
    worst
}

#[test]
fn shards_with_late_reports_of_each_other_do_not_herd() {
    let alone = imbalance(1, 1);
    assert!(alone <= 8, "alone: {alone} calls apart");
    // 400 calls on 8 nodes are 50 each. With news a batch (64 calls) late, herding would put 64 on one node.
    for shards in [2, 4] {
        let worst = imbalance(shards, 64);
        assert!(worst <= 16, "{shards} shards, 64 calls late: {worst} calls apart");
    }
}
