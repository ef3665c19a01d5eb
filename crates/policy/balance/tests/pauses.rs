//! Nodes that answered 503: which get no new calls, for how long, and what happens when all pause.

use crate::common::*;
use balance::policy::Tlwl;
use balance::*;
use base::Instant;
use std::collections::BTreeSet;
use std::time::Duration;
use wire::Method;

fn new_call(balancer: &mut Balancer, at: u64, call: u64) -> NodeDecision {
    balancer.request(seconds(at), &request(call, Method::Invite, 1))
}

#[test]
fn new_calls_go_elsewhere_at_once_and_the_cluster_gets_a_sign() {
    for asked in [true, false] {
        let mut balancer = balancer(Box::new(Tlwl::new(0)), &[1.0; 2]);
        balancer.pause(seconds(1), Slot(0), seconds(10), asked);
        for call in 0..4 {
            assert_eq!(slot_of(new_call(&mut balancer, 1, call)), Slot(1));
        }
        let sign = Sign::Pause { slot: Slot(0), until: seconds(10), asked };
        assert_eq!(balancer.drain_signs().collect::<Vec<_>>(), [sign]);
        balancer.pause(seconds(1), Slot(0), seconds(10), asked);
        assert_eq!(balancer.drain_signs().count(), 0, "a repeated 503 gives no sign");
        assert_eq!(slot_of(new_call(&mut balancer, 10, 9)), Slot(0));
    }
}

/// A gateway that forwards a 503 of one destination must not disable the pool.
#[test]
fn if_all_pause_members_that_did_not_request_it_get_the_calls() {
    for policy in policies() {
        let mut balancer = balancer(policy, &[1.0; 3]);
        balancer.pause(seconds(1), Slot(0), seconds(10), true);
        balancer.pause(seconds(1), Slot(1), seconds(10), false);
        balancer.pause(seconds(1), Slot(2), seconds(10), false);
        let used: BTreeSet<_> = (0..40).map(|call| slot_of(new_call(&mut balancer, 1, call))).collect();
        assert_eq!(used, BTreeSet::from([Slot(1), Slot(2)]), "{}", balancer.policy_name(PoolId::default()));
        balancer.pause(seconds(1), Slot(1), seconds(5), true);
        balancer.pause(seconds(1), Slot(2), seconds(20), true);
        assert_eq!(new_call(&mut balancer, 2, 50), NodeDecision::NoServer, "a requested pause is respected");
        assert_eq!(slot_of(new_call(&mut balancer, 5, 51)), Slot(1), "the requested pause ends in time");
    }
}

/// Four members that all ask for ten minutes: no call is refused for that long.
#[test]
fn a_pause_is_limited_by_the_configuration() {
    let mut balancer = balancer(Box::new(Tlwl::new(0)), &[1.0; 4]);
    let mut cluster = cluster(&[1.0; 4]);
    for slot in (0..4).map(Slot) {
        balancer.pause(seconds(1), slot, seconds(601), true);
        cluster.refused(seconds(1), slot, seconds(601), true);
    }
    for node in balancer.nodes().iter().chain(cluster.nodes()) {
        assert_eq!((node.asked_until, node.paused_until), (seconds(61), seconds(61)));
    }
}

/// All have asked for a long pause. After a while each gets a call from time to time, and a member that answers takes
/// calls again.
#[test]
fn if_all_pause_for_long_each_gets_a_trial() {
    let mut cluster = cluster(&[1.0; 4]);
    let mut balancer = balancer(Box::new(Tlwl::new(0)), &[1.0; 4]);
    for slot in (0..4).map(Slot) {
        balancer.pause(seconds(0), slot, seconds(60), true);
    }
    let signs: Vec<_> = balancer.drain_signs().collect();
    for sign in signs {
        cluster.sign(seconds(0), sign);
    }
    let mut trials = Vec::new();
    for second in 0..30 {
        for call in 0..20 {
            let call = second * 20 + call;
            if let NodeDecision::Forward { slot, .. } = new_call(&mut balancer, second, call) {
                trials.push((second, slot.0));
                balancer.response(seconds(second), &response(call, Method::Invite, 1, 503));
                balancer.pause(seconds(second), slot, seconds(second + 60), true);
            }
        }
        balancer.drain_signs().for_each(|sign| cluster.sign(seconds(second), sign));
        balancer.set_nodes(cluster.nodes());
    }
    let seconds_of = |slot| trials.iter().filter(move |trial| trial.1 == slot).map(|trial| trial.0);
    for slot in 0..4 {
        assert_eq!(seconds_of(slot).collect::<Vec<_>>(), [10, 15, 25], "member {slot} of {trials:?}");
    }
    let slot = (0..).find_map(|second| {
        let NodeDecision::Forward { slot, .. } = new_call(&mut balancer, 30 + second, 900 + second) else {
            return None;
        };
        balancer.response(seconds(30 + second), &response(900 + second, Method::Invite, 1, 200));
        Some(slot)
    });
    let slot = slot.expect("there is a next trial");
    assert_eq!(balancer.drain_signs().last(), Some(Sign::Recovered { slot }));
    cluster.sign(seconds(50), Sign::Recovered { slot });
    balancer.set_nodes(cluster.nodes());
    let took = (0..20).map(|call| slot_of(new_call(&mut balancer, 50, 2_000 + call)));
    assert_eq!(took.collect::<BTreeSet<_>>(), BTreeSet::from([slot]), "the pause is over in all shards");
}

#[test]
fn the_last_resort_keeps_its_limit_of_calls() {
    let mut cluster = cluster(&[1.0; 2]);
    cluster.set_members(Instant::ZERO, &limited_members(&[1.0; 2], 1));
    cluster.drain(Slot(1), true);
    let mut balancer = balancer(Box::new(Tlwl::new(0)), &[1.0; 2]);
    balancer.set_nodes(cluster.nodes());
    balancer.pause(seconds(1), Slot(0), seconds(10), false);
    assert_eq!(slot_of(new_call(&mut balancer, 1, 0)), Slot(0));
    assert_eq!(new_call(&mut balancer, 1, 1), NodeDecision::NoServer);
}

/// In either order of arrival at the shard: its own observation of the pause, or the news of the death.
#[test]
fn a_pause_does_not_outlive_a_death() {
    let mut cluster = cluster(&[1.0; 2]);
    let mut balancer = balancer(Box::new(Tlwl::new(0)), &[1.0; 2]);
    for (until, asked) in [(seconds(600), true), (seconds(700), false)] {
        balancer.pause(seconds(1), Slot(0), until, asked);
        cluster.pause(seconds(1), Slot(0), until, asked);
        balancer.set_nodes(cluster.nodes());
        assert_eq!(balancer.nodes()[0].refusal(seconds(1), 0), Some(NodeRefusal::Paused));
    }
    cluster.probed(seconds(2), Slot(0), false);
    balancer.set_nodes(cluster.nodes());
    // Late responses of a dead node.
    balancer.pause(seconds(1), Slot(0), seconds(800), true);
    cluster.pause(seconds(1), Slot(0), seconds(800), true);
    cluster.probed(seconds(3), Slot(0), true);
    balancer.set_nodes(cluster.nodes());
    assert_eq!(balancer.nodes()[0].refusal(seconds(3), 0), None);
    assert_eq!(balancer.nodes()[0].asked_until.saturating_since(Instant::ZERO), Duration::ZERO);
}

/// The first 503 to a probe keeps new calls away, long before the node counts as dead.
#[test]
fn a_probe_answered_503_starts_a_pause_at_once() {
    let settings = HealthSettings { fall: 2, slow_start: Duration::ZERO, ..HealthSettings::default() };
    let mut cluster = Cluster::new(settings);
    cluster.set_members(Instant::ZERO, &members(&[1.0; 2]));
    let mut balancer = balancer(Box::new(Tlwl::new(0)), &[1.0; 2]);
    cluster.refused(seconds(1), Slot(0), seconds(61), true);
    balancer.set_nodes(cluster.nodes());
    assert!(balancer.nodes()[0].is_up());
    assert_eq!(balancer.nodes()[0].refusal(seconds(60), 0), Some(NodeRefusal::Paused));
    for call in 0..4 {
        assert_eq!(slot_of(new_call(&mut balancer, 1, call)), Slot(1));
    }
    cluster.refused(seconds(3), Slot(0), seconds(63), true);
    assert!(!cluster.nodes()[0].is_up(), "refused probes count like unanswered ones");
    // The process that asked for the pause is alive all the time.
    cluster.probed(seconds(5), Slot(0), true);
    assert_eq!(cluster.nodes()[0].refusal(seconds(62), 0), Some(NodeRefusal::Paused));
    assert_eq!(cluster.nodes()[0].refusal(seconds(63), 0), None);
}

/// A node that pauses and then falls silent counts as another process when it comes back.
#[test]
fn silence_ends_a_pause_requested_in_a_probe_response() {
    let mut cluster = cluster(&[1.0]);
    for closed in [false, true] {
        cluster.refused(seconds(1), Slot(0), seconds(61), true);
        if closed {
            cluster.unreachable(seconds(2), Slot(0));
        } else {
            cluster.probed(seconds(2), Slot(0), false);
        }
        cluster.probed(seconds(3), Slot(0), true);
        assert_eq!(cluster.nodes()[0].refusal(seconds(3), 0), None);
    }
}

/// The members may not support OPTIONS, and without calls would stay dead.
#[test]
fn if_all_are_dead_for_silence_calls_show_which_are_alive() {
    let mut cluster = cluster(&[1.0; 2]);
    for slot in [Slot(0), Slot(1)] {
        cluster.probed(seconds(0), slot, true);
        (0..5).for_each(|_| cluster.probed(seconds(1), slot, false));
    }
    let mut balancer = balancer(Box::new(Tlwl::new(0)), &[1.0; 2]);
    balancer.set_nodes(cluster.nodes());
    let slot = slot_of(new_call(&mut balancer, 2, 1));
    // Its retransmission goes to the same node.
    assert_eq!(slot_of(new_call(&mut balancer, 2, 1)), slot);
    balancer.response(seconds(3), &response(1, Method::Invite, 1, 200));
    balancer.answered(seconds(3), slot);
    let signs = health_signs(&mut balancer);
    assert_eq!(signs, [Sign::Answer { slot }]);
    cluster.sign(seconds(3), signs[0]);
    balancer.set_nodes(cluster.nodes());
    for call in 2..6 {
        assert_eq!(slot_of(new_call(&mut balancer, 4, call)), slot, "the other member is still silent");
    }
    balancer.audit().unwrap();
}

/// A dead member that asked for a pause and fell silent counts as another process when it is back. The shards are told
/// that its pause is over, since it may get calls as the last resort.
#[test]
fn the_shards_learn_that_the_pause_of_a_dead_member_is_over() {
    let mut cluster = cluster(&[1.0; 2]);
    for _ in 0..2 {
        cluster.refused(seconds(1), Slot(0), seconds(31), true);
    }
    let node = &cluster.nodes()[0];
    assert!(!node.is_up() && node.paused_until == seconds(31));
    let version = cluster.version();
    cluster.probed(seconds(3), Slot(0), false);
    assert_eq!(cluster.nodes()[0].paused_until, Instant::ZERO);
    assert!(cluster.version() > version, "the shards read the nodes again only if the version changes");
}

/// Sends one new request to a member; if `refused`, it is answered 503 with a Retry-After of a minute.
fn offer(balancer: &mut Balancer, now: Instant, call: u64, slot: Slot, refused: bool) {
    balancer.count_request(now, slot, &request(call, Method::Invite, 1));
    if refused {
        balancer.pause(now, slot, now + Duration::from_mins(1), true);
    }
}

/// A request of a stranger that a member answers 503 must not take the member from other callers. There are two shards:
/// one gets most of the lawful calls, the other the stranger's.
#[test]
fn a_503_that_one_caller_provokes_affects_no_other_caller() {
    for lawful in [2, 5, 25, 100] {
        let shared = std::sync::Arc::new(CallLimits::default());
        let mut shards = [0, 1].map(|_| balancer(Box::new(Tlwl::new(0)), &[1.0; 2]));
        for shard in &mut shards {
            shard.set_call_limits(shared.clone());
        }
        let mut rested = 0;
        for second in 1..=600 {
            for call in 0..lawful {
                let now = seconds(second) + Duration::from_millis(call * 1_000 / lawful);
                offer(&mut shards[0], now, second * 1_000 + call, Slot(0), false);
            }
            if second > 2 && second.is_multiple_of(2) {
                offer(&mut shards[1], seconds(second) + Duration::from_millis(999), second, Slot(0), true);
            }
            rested += shards[1].drain_signs().count();
        }
        assert_eq!(rested, 0, "{lawful} lawful calls a second");
    }
}

/// A member that starts to refuse everything pauses within some seconds, after half as many 503s as it had new
/// requests. Requests within its calls do not show that it takes new ones.
#[test]
fn a_member_that_refuses_half_of_all_requests_pauses() {
    for each_second in [1, 20] {
        let mut balancer = balancer(Box::new(Tlwl::new(0)), &[1.0; 2]);
        let mut rests_at = None;
        for second in 1..=200 {
            for call in 0..each_second {
                let now = seconds(second) + Duration::from_millis(call * 1_000 / each_second);
                offer(&mut balancer, now, second * 100 + call, Slot(0), second > 100);
                balancer.count_request(now, Slot(0), &in_dialog(second * 100 + call, Method::Bye, 2));
            }
            if balancer.drain_signs().count() > 0 {
                rests_at = rests_at.or(Some(second - 100));
            }
        }
        assert!(rests_at.is_some_and(|after| (2..=16).contains(&after)), "{each_second}: {rests_at:?}");
    }
}

/// Refusals from before the pause no longer count. The next one says something about the present.
#[test]
fn after_a_pause_earlier_refusals_do_not_count() {
    let mut balancer = balancer(Box::new(Tlwl::new(0)), &[1.0; 2]);
    for call in 0..20 {
        offer(&mut balancer, seconds(1), call, Slot(0), true);
    }
    assert_eq!(balancer.drain_signs().count(), 1, "the first refusal of all requests gives a sign");
    for call in 20..30 {
        offer(&mut balancer, seconds(61), call, Slot(0), false);
    }
    offer(&mut balancer, seconds(61), 30, Slot(0), true);
    assert_eq!(balancer.drain_signs().count(), 0);
    let mut refuses_still = false;
    for call in 31..50 {
        offer(&mut balancer, seconds(62), call, Slot(0), true);
        refuses_still |= balancer.drain_signs().count() > 0;
    }
    assert!(refuses_still);
}

/// A stopping member names the time until its end, and its successor is there much earlier. Probes that were refused or
/// unanswered are answered again.
#[test]
fn an_answer_after_a_restart_ends_the_pause() {
    for (regular, refuses) in [(true, true), (true, false), (false, true), (false, false)] {
        let settings = HealthSettings { regular, fall: 9, ..HealthSettings::default() };
        let mut cluster = Cluster::new(settings);
        cluster.set_members(Instant::ZERO, &members(&[1.0; 2]));
        let mut balancer = balancer(Box::new(Tlwl::new(0)), &[1.0; 2]);
        balancer.set_nodes(cluster.nodes());
        balancer.pause(seconds(1), Slot(0), seconds(31), true);
        balancer.drain_signs().for_each(|sign| cluster.sign(seconds(1), sign));
        let asked = |cluster: &mut Cluster| {
            cluster.drain_effects().find_map(|effect| match effect {
                HealthEffect::Probe { slot: Slot(0), at } => Some(at),
                _ => None,
            })
        };
        assert_eq!(asked(&mut cluster), Some(seconds(1)), "a pause starts with a probe");
        for second in 2..5 {
            if refuses && second < 4 {
                cluster.refused(seconds(second), Slot(0), seconds(31), true);
            } else {
                cluster.probed(seconds(second), Slot(0), second == 2);
            }
            if !regular {
                assert_eq!(asked(&mut cluster), Some(seconds(second + 1)), "a probe is sent every second");
            }
        }
        cluster.probed(seconds(6), Slot(0), true);
        assert_eq!(
            cluster.nodes()[0].refusal(seconds(6), 0),
            Some(NodeRefusal::Paused),
            "one answered probe may be chance"
        );
        cluster.probed(seconds(7), Slot(0), true);
        assert_eq!(cluster.nodes()[0].refusal(seconds(7), 0), None, "{regular} {refuses}");
        balancer.set_nodes(cluster.nodes());
        assert_eq!(
            balancer.nodes()[0].refusal(seconds(7), 0),
            None,
            "the shards know that the pause is over"
        );
        let is_news = |effect| effect == HealthEffect::Note(HealthNews::Recovered { slot: Slot(0) });
        assert!(cluster.drain_effects().any(is_news));
    }
}

/// Many servers answer OPTIONS whatever they do with calls.
#[test]
fn a_member_that_answers_every_probe_keeps_its_requested_pause() {
    for regular in [true, false] {
        let mut cluster = Cluster::new(HealthSettings { regular, ..HealthSettings::default() });
        cluster.set_members(Instant::ZERO, &members(&[1.0; 2]));
        // A new process in an earlier pause says nothing about this pause.
        cluster.pause(seconds(1), Slot(0), seconds(3), true);
        cluster.refused(seconds(2), Slot(0), seconds(3), true);
        for second in 4..40 {
            cluster.pause(seconds(4), Slot(0), seconds(34), true);
            cluster.probed(seconds(second), Slot(0), true);
            let rests = cluster.nodes()[0].refusal(seconds(second), 0) == Some(NodeRefusal::Paused);
            assert_eq!(rests, second < 34, "{regular} {second}");
        }
    }
}
