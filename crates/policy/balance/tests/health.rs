//! Health of a node from probes, responses, silence in the traffic, and the operator.

use crate::common::*;
use balance::policy::{RoundRobin, Tlwl};
use balance::*;
use base::Instant;
use std::collections::BTreeSet;
use std::time::Duration;
use wire::Method;

/// Time of the first retransmission of an INVITE.
const T1: Duration = Duration::from_millis(500);

/// A pool with default settings: probes every 2 s, two failures mean death.
fn pool(nodes: usize) -> Cluster {
    let slow_start = Duration::from_secs(30);
    let mut cluster = Cluster::new(HealthSettings { fall: 2, slow_start, ..HealthSettings::default() });
    cluster.set_members(Instant::ZERO, &members(&vec![1.0; nodes]));
    cluster
}

fn slots(cluster: &Cluster) -> impl Iterator<Item = Slot> + use<> {
    (0..cluster.nodes().len() as u16).map(Slot)
}

fn health(cluster: &Cluster) -> Vec<Health> {
    cluster.nodes().iter().map(|node| node.health).collect()
}

/// Servers that answer calls at once but not OPTIONS, behind one shard. They are probed every 2 s, and each probe
/// fails.
struct Deaf {
    cluster: Cluster,
    balancer: Balancer,
    /// Servers that answer calls.
    alive: BTreeSet<Slot>,
    calls: u64,
    news: Vec<HealthNews>,
}

impl Deaf {
    fn new(policy: Box<dyn Policy>, nodes: usize) -> Self {
        let cluster = pool(nodes);
        let mut balancer = Balancer::new(SessionSettings::default(), policy);
        balancer.set_nodes(cluster.nodes());
        Self { alive: slots(&cluster).collect(), cluster, balancer, calls: 0, news: Vec::new() }
    }

    fn heed(&mut self, now: Instant) {
        self.news.extend(heed(now, &mut self.balancer, &mut self.cluster));
    }

    fn probes_fail(&mut self, now: Instant) {
        slots(&self.cluster).for_each(|slot| self.cluster.probed(now, slot, false));
        self.heed(now);
    }

    /// Sends a new call; returns the node that answers it at once, if any.
    fn call(&mut self, now: Instant) -> Option<Slot> {
        self.calls += 1;
        let NodeDecision::Forward { slot, .. } =
            self.balancer.request(now, &request(self.calls, Method::Invite, 1))
        else {
            return None;
        };
        if self.alive.contains(&slot) {
            self.balancer.answered(now, slot);
            self.balancer.response(now, &response(self.calls, Method::Invite, 1, 200));
        }
        self.heed(now);
        self.alive.contains(&slot).then_some(slot)
    }
}

#[test]
fn members_that_answer_calls_but_no_probes_are_recognised_and_never_die() {
    for policy in policies() {
        let name = policy.name();
        let mut pool = Deaf::new(policy, 3);
        for tenth in 1..600 {
            let now = Instant::from_millis(tenth * 100);
            if tenth % 20 == 15 {
                pool.probes_fail(now);
            }
            for _ in 0..3 {
                assert!(pool.call(now).is_some(), "{name}");
            }
            assert_eq!(health(&pool.cluster), [Health::Up; 3], "{name} after {tenth} tenths of a second");
        }
        let recognised =
            slots(&pool.cluster).map(|slot| HealthNews::IgnoresProbes { slot }).collect::<Vec<_>>();
        assert_eq!(pool.news, recognised, "{name}");
        assert!(pool.cluster.nodes().iter().all(|node| node.answers_probes == Some(false)), "{name}");
    }
}

/// There were no calls while the probes went unanswered.
#[test]
fn if_all_are_silent_they_still_get_calls_and_each_comes_back_by_its_first_answer() {
    let mut pool = Deaf::new(Box::new(Tlwl::new(0)), 4);
    pool.probes_fail(seconds(2));
    assert_eq!(pool.news, []);
    pool.probes_fail(seconds(4));
    assert_eq!(health(&pool.cluster), [Health::Silent; 4]);
    assert_eq!(pool.news.last(), Some(&HealthNews::NoneAlive { pool: PoolId::default(), silent: true }));
    pool.alive.remove(&Slot(3));
    let mut used = BTreeSet::new();
    for second in 10..20 {
        used.extend(pool.call(seconds(second)));
    }
    assert_eq!(used, BTreeSet::from([Slot(0), Slot(1), Slot(2)]));
    let expected = [Health::Up, Health::Up, Health::Up, Health::Silent];
    assert_eq!(health(&pool.cluster), expected);
}

/// After a network failure the first member back does not get all calls. The others are probed at once, and have their
/// share until they have had time to answer.
#[test]
fn the_first_member_back_does_not_get_all_calls() {
    for policy in policies() {
        let name = policy.name();
        let mut pool = Deaf::new(policy, 4);
        slots(&pool.cluster).for_each(|slot| pool.cluster.probed(seconds(1), slot, true));
        (2..4).for_each(|second| pool.probes_fail(seconds(second)));
        assert_eq!(health(&pool.cluster), [Health::Silent; 4]);
        pool.alive = BTreeSet::from([Slot(2)]);
        pool.cluster.probed(seconds(5), Slot(2), true);
        let asked: Vec<_> = pool.cluster.drain_effects().collect();
        for slot in [0, 1, 3].map(Slot) {
            assert!(asked.contains(&HealthEffect::Probe { slot, at: seconds(5) }), "{name}: {asked:?}");
        }
        pool.heed(seconds(5));
        let others = (0..90).filter(|_| pool.call(seconds(5)).is_none()).count();
        // Policies of least load send no second call to a node that leaves the first unanswered.
        assert!(others >= 3, "{name}: {others} of 90");
        let again = request(pool.calls + 1, Method::Invite, 1);
        let silent = slot_of(pool.balancer.request(seconds(5), &again));
        if silent != Slot(2) {
            let moved = pool.balancer.request(seconds(5) + T1, &again);
            assert_eq!(moved, NodeDecision::Forward { slot: Slot(2), why: Why::Moved }, "{name}");
        }
        pool.calls += 1;
        (0..90).for_each(|_| assert_eq!(pool.call(seconds(6)), Some(Slot(2)), "{name}"));
    }
}

/// A closed port is not silence.
#[test]
fn if_all_ports_are_closed_no_member_gets_calls() {
    let mut pool = Deaf::new(Box::new(Tlwl::new(0)), 2);
    slots(&pool.cluster).for_each(|slot| pool.cluster.unreachable(seconds(1), slot));
    pool.heed(seconds(1));
    assert_eq!(pool.news.last(), Some(&HealthNews::NoneAlive { pool: PoolId::default(), silent: false }));
    assert_eq!(pool.call(seconds(60)), None);
    pool.cluster.drain_effects().for_each(drop);
    pool.cluster.none_took(seconds(60));
    let asks = slots(&pool.cluster).map(|slot| HealthEffect::Probe { slot, at: seconds(60) });
    assert_eq!(pool.cluster.drain_effects().collect::<Vec<_>>(), asks.collect::<Vec<_>>());
    assert_eq!(pool.balancer.request(seconds(60), &request(9, Method::Invite, 1)), NodeDecision::NoServer);
}

/// A member was killed and is back: its port is open, but its probes go unanswered as before.
#[test]
fn a_member_that_ignores_probes_comes_back_by_a_trial() {
    let mut pool = Deaf::new(Box::new(RoundRobin::new(0)), 3);
    pool.cluster.unreachable(seconds(1), Slot(1));
    pool.heed(seconds(1));
    for second in 2..60 {
        assert_ne!(pool.call(seconds(second)), Some(Slot(1)), "the port of the member is closed");
    }
    pool.cluster.probed(seconds(60), Slot(1), false);
    pool.heed(seconds(60));
    let came = (60..120).find(|&second| pool.call(seconds(second)) == Some(Slot(1)));
    assert!(came.is_some_and(|second| second < 70), "{came:?}");
    assert!(pool.cluster.nodes()[1].is_up());
    let back = HealthNews::Back { slot: Slot(1), cause: HealthCause::RequestAnswered };
    assert_eq!(pool.news.last(), Some(&back));
}

/// Cost of a dead member that may only ignore probes: a retransmission of one caller every minute at most.
#[test]
fn trials_of_dead_members_are_rare_and_retransmissions_go_elsewhere() {
    let mut pool = Deaf::new(Box::new(RoundRobin::new(0)), 2);
    pool.alive.remove(&Slot(1));
    (1..3).for_each(|second| pool.cluster.probed(seconds(second), Slot(1), false));
    pool.heed(seconds(3));
    let mut unanswered = 0;
    for second in 3..600 {
        if pool.call(seconds(second)).is_none() {
            unanswered += 1;
            let again = request(pool.calls, Method::Invite, 1);
            assert_eq!(slot_of(pool.balancer.request(seconds(second), &again)), Slot(1), "a copy");
            let moved = pool.balancer.request(seconds(second) + T1, &again);
            assert_eq!(moved, NodeDecision::Forward { slot: Slot(0), why: Why::Moved });
        }
    }
    assert!((5..=14).contains(&unanswered), "{unanswered} unanswered trials in ten minutes");
}

#[test]
fn a_member_that_has_answered_probes_gets_no_trial() {
    let mut pool = Deaf::new(Box::new(RoundRobin::new(0)), 2);
    pool.cluster.probed(seconds(1), Slot(1), true);
    (2..4).for_each(|second| pool.cluster.probed(seconds(second), Slot(1), false));
    pool.heed(seconds(4));
    for second in 4..600 {
        assert_eq!(pool.call(seconds(second)), Some(Slot(0)));
    }
}

fn ignoring() -> Deaf {
    let mut pool = Deaf::new(Box::new(RoundRobin::new(0)), 2);
    for second in 1..6 {
        pool.probes_fail(seconds(2 * second));
        (0..4).for_each(|_| assert!(pool.call(seconds(2 * second)).is_some()));
    }
    assert!(pool.cluster.nodes().iter().all(|node| node.answers_probes == Some(false)));
    pool.news.clear();
    pool
}

#[test]
fn for_a_member_that_ignores_probes_unanswered_requests_show_death() {
    let mut pool = ignoring();
    pool.cluster.sign(seconds(20), Sign::NoAnswer { slot: Slot(0), silent: false });
    pool.cluster.sign(seconds(20), Sign::NoAnswer { slot: Slot(0), silent: true });
    pool.cluster.sign(seconds(20), Sign::Answer { slot: Slot(0) });
    pool.cluster.sign(seconds(20), Sign::NoAnswer { slot: Slot(0), silent: true });
    assert!(pool.cluster.nodes()[0].is_up(), "the member answered a request between the failures");
    pool.cluster.sign(seconds(20), Sign::NoAnswer { slot: Slot(0), silent: true });
    let lost = HealthNews::Lost { slot: Slot(0), cause: HealthCause::RequestsUnanswered };
    assert_eq!(news(&mut pool.cluster), [lost]);
}

#[test]
fn a_member_that_answers_probes_again_is_probed_for_its_health() {
    let mut pool = ignoring();
    pool.cluster.probed(seconds(20), Slot(0), true);
    (21..23).for_each(|second| pool.cluster.probed(seconds(second), Slot(0), false));
    assert_eq!(health(&pool.cluster), [Health::Silent, Health::Up]);
}

#[test]
fn shards_find_silence_of_a_node_in_the_traffic() {
    let mut balancer = balancer(Box::new(RoundRobin::new(0)), &[1.0, 1.0]);
    for call in 0..2 {
        balancer.request(seconds(1), &request(call, Method::Invite, 1));
    }
    balancer.answered(seconds(2), Slot(1));
    while balancer.expire(seconds(60)) > 0 {}
    let silent = |slot: Slot| Sign::NoAnswer { slot, silent: slot == Slot(0) };
    let signs: BTreeSet<_> = health_signs(&mut balancer).iter().map(|sign| format!("{sign:?}")).collect();
    assert_eq!(signs, [Slot(0), Slot(1)].map(|slot| format!("{:?}", silent(slot))).into());
}

/// Datagrams in flight when the process ended.
#[test]
fn late_answers_of_an_ended_process_do_not_show_life() {
    let mut cluster = pool(1);
    cluster.unreachable(seconds(1), Slot(0));
    cluster.sign(Instant::from_millis(1_200), Sign::Answer { slot: Slot(0) });
    assert_eq!(health(&cluster), [Health::Closed]);
    let asks = cluster.drain_effects().any(|effect| matches!(effect, HealthEffect::Probe { .. }));
    assert!(asks, "a probe is sent");
    cluster.sign(seconds(5), Sign::Answer { slot: Slot(0) });
    assert_eq!(health(&cluster), [Health::Up]);
}

#[test]
fn the_operator_brings_a_member_back() {
    let mut cluster = pool(2);
    (1..3).for_each(|second| cluster.probed(seconds(second), Slot(0), false));
    cluster.pause(seconds(5), Slot(1), seconds(50), true);
    let mut balancer = Balancer::new(SessionSettings::default(), Box::new(Tlwl::new(0)));
    balancer.set_nodes(cluster.nodes());
    news(&mut cluster);
    slots(&cluster).for_each(|slot| cluster.raise(seconds(5), slot));
    assert!(cluster.nodes().iter().all(|node| node.refusal(seconds(5), 0).is_none()));
    balancer.set_nodes(cluster.nodes());
    assert_eq!(
        balancer.nodes()[1].refusal(seconds(5), 0),
        None,
        "the pause ends in a shard that knows of it"
    );
    assert_eq!(news(&mut cluster), [HealthNews::Back { slot: Slot(0), cause: HealthCause::Operator }]);
}

/// A 503 to probes says that the member wants no calls. Its responses to existing requests do not change that.
#[test]
fn answers_to_requests_do_not_bring_back_a_member_that_refuses_probes() {
    let (mut cluster, slot) = (pool(2), Slot(0));
    let refuse = |cluster: &mut Cluster, s| cluster.refused(seconds(s), slot, seconds(s + 2), false);
    refuse(&mut cluster, 1);
    cluster.sign(seconds(2), Sign::Answer { slot });
    refuse(&mut cluster, 3);
    assert!(!cluster.nodes()[0].is_up());
    cluster.sign(seconds(4), Sign::Answer { slot });
    assert!(!cluster.nodes()[0].is_up());
    cluster.probed(seconds(5), slot, true);
    assert!(cluster.nodes()[0].is_up());
}
