//! Overloaded members: requests that go elsewhere, requests that are refused, and requests that never are.

use crate::common::*;
use balance::policy::Tlwl;
use balance::*;
use base::Instant;
use core::time::Duration;
use overload::member::MemberLaw;
use wire::Method;

const LAW: Option<MemberLaw> = Some(MemberLaw::Gradient);

fn balancer(
    count: usize,
    law: Option<MemberLaw>,
    change: impl Fn(ClusterMember) -> ClusterMember,
) -> Balancer {
    let mut cluster = cluster(&vec![1.0; count]);
    let members: Vec<_> = members(&vec![1.0; count]).into_iter().map(change).collect();
    cluster.set_members(Instant::ZERO, &members);
    let mut balancer = Balancer::new(SessionSettings::default(), Box::new(Tlwl::new(0)));
    balancer.set_pools(vec![Pool::new(Box::new(Tlwl::new(0)), Members::All, law)]);
    balancer.set_nodes(cluster.nodes());
    balancer
}

/// Sends calls 4 ms apart until one is refused. A member answers them one at a time, `service` ms each. Returns the
/// time of the refusal, and the calls open then.
fn until_refused(balancer: &mut Balancer, service: u64) -> (Instant, Vec<u64>) {
    let mut queue: Vec<(u64, u64)> = Vec::new();
    let mut free = 1;
    for millis in 1..60_000 {
        let now = Instant::from_millis(millis);
        while let Some(&(at, call)) = queue.first().filter(|(at, _)| *at <= millis) {
            queue.remove(0);
            balancer.response(Instant::from_millis(at), &response(call, Method::Invite, 1, 180));
        }
        // Few calls at first, to learn the member's response time.
        let gap = if millis < 20_000 { 40 } else { 4 };
        if millis % gap == 0 {
            match balancer.request(now, &request(millis, Method::Invite, 1)) {
                NodeDecision::Forward { .. } => {
                    free = free.max(millis) + service;
                    queue.push((free, millis));
                }
                NodeDecision::AtLimit(NodeRefusal::Limit) => {
                    return (now, queue.into_iter().map(|(_, call)| call).collect());
                }
                other => panic!("{other:?}"),
            }
        }
    }
    panic!("no call was refused");
}

#[test]
fn a_member_that_answers_late_gets_no_new_calls_but_all_other_requests() {
    let mut balancer = balancer(1, LAW, |member| member);
    let (now, open) = until_refused(&mut balancer, 10);
    assert!(now < Instant::from_millis(21_000), "the refusal comes within a second: {now:?}");
    let room = balancer.room(now, Slot(0)).unwrap();
    assert!(room.limit.is_some_and(|limit| limit >= 2 && limit <= room.open), "{room:?}");
    let call = request(90_000, Method::Invite, 1);
    let (explained, verdicts) = balancer.explain(now, &call);
    assert_eq!(explained, NodeDecision::AtLimit(NodeRefusal::Limit));
    assert_eq!(verdicts[0].refusal, Some(NodeRefusal::Limit));
    assert!(balancer.is_full(now, &call));
    // Requests of an existing call go to its node.
    for method in [Method::Invite, Method::Cancel] {
        assert_eq!(slot_of(balancer.request(now, &request(open[0], method, 1))), Slot(0), "{method:?}");
    }
    assert_eq!(
        slot_of(balancer.request(
            now,
            &RequestFacts { pinned: Some(Slot(0)), by_token: true, ..in_dialog(1, Method::Bye, 2) }
        )),
        Slot(0)
    );
    // Emergency calls pass up to twice the limit.
    let sos = RequestFacts { has_priority: true, ..request(90_001, Method::Invite, 1) };
    let passes = (0..2_000).filter(|n| {
        let sos = RequestFacts { key: key(100_000 + n), ..sos };
        matches!(balancer.request(now, &sos), NodeDecision::Forward { .. })
    });
    let limit = room.limit.unwrap();
    assert_eq!(passes.count() as u32, (2 * limit).saturating_sub(room.open), "{room:?}");
    // A member that has answered takes calls again.
    let mut later = now;
    for call in open {
        later += Duration::from_millis(10);
        balancer.response(later, &response(call, Method::Invite, 1, 180));
    }
    later += Duration::from_secs(5);
    assert_eq!(slot_of(balancer.request(later, &request(90_002, Method::Invite, 1))), Slot(0));
    assert_eq!(balancer.audit(), Ok(()));
}

#[test]
fn credentials_go_to_a_member_at_its_limit() {
    let mut balancer = balancer(1, LAW, |member| member);
    let challenged = request(80_000, Method::Invite, 1);
    slot_of(balancer.request(Instant::from_millis(1), &challenged));
    balancer.response(Instant::from_millis(2), &response(80_000, Method::Invite, 1, 401));
    let (now, _) = until_refused(&mut balancer, 10);
    let again = RequestFacts { cseq: 2, ..challenged };
    assert_eq!(slot_of(balancer.request(now, &again)), Slot(0));
}

#[test]
fn max_rate_bounds_calls_a_second_and_nothing_else() {
    let mut balancer = balancer(2, None, |member| ClusterMember { max_rate: 10, ..member });
    let mut sent = [0; 2];
    for n in 0..10_000 {
        let now = Instant::from_millis(n);
        match balancer.request(now, &request(n, Method::Invite, 1)) {
            NodeDecision::Forward { slot, .. } => sent[slot.index()] += 1,
            decision => assert_eq!(decision, NodeDecision::AtLimit(NodeRefusal::Rate)),
        }
    }
    assert!(sent.iter().all(|sent| (100..=106).contains(sent)), "{sent:?}");
    slot_of(balancer.request(Instant::from_millis(10_000), &request(20_000, Method::Register, 1)));
}

#[test]
fn a_request_held_back_by_a_limit_is_counted_once() {
    let mut balancer = balancer(1, None, |member| ClusterMember { max_rate: 2, ..member });
    let now = Instant::from_millis(1);
    slot_of(balancer.request(now, &request(1, Method::Invite, 1)));
    assert_eq!(
        balancer.stats(Slot(0)).held_back,
        [0, 0],
        "a member that reaches its limit by this call is not counted"
    );
    let second = request(2, Method::Invite, 1);
    // The member that had room in a queue has none now, so the other members are tried.
    assert_eq!(balancer.request_to(now, &second, Slot(0)), NodeDecision::AtLimit(NodeRefusal::Rate));
    assert_eq!(balancer.request(now, &second), NodeDecision::AtLimit(NodeRefusal::Rate));
    assert_eq!(balancer.stats(Slot(0)).held_back, [0, 1]);
}

fn is_sent(decision: NodeDecision) -> bool {
    matches!(decision, NodeDecision::Forward { .. })
}

/// Four shards of a process, one member with `max_rate` 10.
fn four_shards() -> (Cluster, [Balancer; 4]) {
    let mut cluster = cluster(&[1.0]);
    set_rate(&mut cluster, 10);
    let shards = [(); 4].map(|()| {
        let mut shard = Balancer::new(SessionSettings::default(), Box::new(Tlwl::new(0)));
        shard.set_peers(3);
        shard.set_nodes(cluster.nodes());
        shard
    });
    (cluster, shards)
}

fn set_rate(cluster: &mut Cluster, max_rate: u32) {
    let limited: Vec<_> = members(&[1.0]).into_iter().map(|m| ClusterMember { max_rate, ..m }).collect();
    cluster.set_members(Instant::ZERO, &limited);
}

/// Call-IDs do not spread evenly call by call; a fixed share of the rate per shard would refuse calls below the rate.
#[test]
fn max_rate_is_one_for_all_shards() {
    for (gap, wanted) in [(125, 240..=240), (2, 304..=306)] {
        let (_, mut shards) = four_shards();
        let mut sent = 0;
        for n in 0..30_000 / gap {
            let shard = &mut shards[(key(n).0 >> 100) as usize % 4];
            let call = request(n, Method::Invite, 1);
            sent += usize::from(is_sent(shard.request(Instant::from_millis(n * gap), &call)));
        }
        assert!(wanted.contains(&sent), "{sent} calls, one every {gap} ms");
    }
}

/// Shards take over a reload one after the other. The member's earlier calls still count, and a new node in its slot
/// starts at zero.
#[test]
fn max_rate_counts_once_over_a_reload_and_not_for_another_member() {
    let (mut cluster, mut shards) = four_shards();
    let now = Instant::from_millis(1);
    let mut calls = 0..;
    let mut sent = |shards: &mut [Balancer; 4]| {
        let mut send = |shard: usize| {
            let call = request(calls.next().unwrap(), Method::Invite, 1);
            is_sent(shards[shard].request(now, &call))
        };
        (0..40).filter(|n| send(n % 4)).count()
    };
    assert_eq!(sent(&mut shards), 5);
    set_rate(&mut cluster, 11);
    for shard in 0..4 {
        shards[shard].set_nodes(cluster.nodes());
        assert_eq!(sent(&mut shards), 0, "after shard {shard}");
    }
    cluster.set_members(now, &[]);
    cluster.release(Slot(0));
    let other = ClusterMember { id: NodeId(900), max_rate: 10, ..members(&[1.0])[0] };
    cluster.set_members(now, &[other]);
    assert_eq!(cluster.nodes()[0].id, NodeId(900), "in the same slot");
    shards[0].set_nodes(cluster.nodes());
    let first = (10_000..10_003).map(|n| shards[0].request(now, &request(n, Method::Invite, 1)));
    assert_eq!(first.filter(|decision| is_sent(*decision)).count(), 3);
    // The other shards take over the reload later: calls of the first shard count for them too.
    shards[1..].iter_mut().for_each(|shard| shard.set_nodes(cluster.nodes()));
    assert_eq!(sent(&mut shards), 2);
}

/// Calls for a busy member do not go to one that is dead or pauses.
#[test]
fn calls_of_a_busy_member_do_not_go_to_a_dead_one() {
    let mut cluster = cluster(&[1.0; 2]);
    let members: Vec<_> =
        members(&[1.0; 2]).into_iter().map(|member| ClusterMember { max_rate: 2, ..member }).collect();
    cluster.set_members(Instant::ZERO, &members);
    for _ in 0..2 {
        cluster.probed(Instant::from_millis(1), Slot(1), true);
        cluster.probed(Instant::from_millis(1), Slot(1), false);
        cluster.probed(Instant::from_millis(1), Slot(1), false);
    }
    assert!(!cluster.nodes()[1].is_up());
    let mut balancer = Balancer::new(SessionSettings::default(), Box::new(Tlwl::new(0)));
    balancer.set_nodes(cluster.nodes());
    let now = Instant::from_millis(2);
    assert_eq!(slot_of(balancer.request(now, &request(1, Method::Invite, 1))), Slot(0));
    let second = balancer.request(now, &request(2, Method::Invite, 1));
    assert_eq!(second, NodeDecision::AtLimit(NodeRefusal::Rate));
}

/// Members that come back together each start with a low limit, whatever load waits.
#[test]
fn no_member_is_flooded_when_all_come_back() {
    let mut cluster = cluster(&[1.0; 2]);
    let mut balancer = Balancer::new(SessionSettings::default(), Box::new(Tlwl::new(0)));
    balancer.set_pools(vec![Pool::new(Box::new(Tlwl::new(0)), Members::All, LAW)]);
    balancer.set_nodes(cluster.nodes());
    for slot in [Slot(0), Slot(1)] {
        cluster.unreachable(Instant::from_millis(1), slot);
    }
    balancer.set_nodes(cluster.nodes());
    for slot in [Slot(0), Slot(1)] {
        cluster.probed(Instant::from_millis(9), slot, true);
    }
    balancer.set_nodes(cluster.nodes());
    let now = Instant::from_millis(10);
    let decisions = (0..100).map(|call| balancer.request(now, &request(call, Method::Invite, 1)));
    assert_eq!(decisions.filter(|decision| matches!(decision, NodeDecision::Forward { .. })).count(), 16);
}

/// A response within a dialog shows that a member is back before any probe does.
#[test]
fn a_member_that_is_back_by_its_own_answer_starts_with_a_low_limit() {
    let mut cluster = cluster(&[1.0]);
    let mut balancer = Balancer::new(SessionSettings::default(), Box::new(Tlwl::new(0)));
    balancer.set_pools(vec![Pool::new(Box::new(Tlwl::new(0)), Members::All, LAW)]);
    balancer.set_nodes(cluster.nodes());
    cluster.probed(Instant::from_millis(1), Slot(0), true);
    cluster.probed(Instant::from_millis(2), Slot(0), false);
    balancer.set_nodes(cluster.nodes());
    assert_eq!(balancer.nodes()[0].health, Health::Silent);
    let now = Instant::from_millis(10_000);
    balancer.answered(now, Slot(0));
    assert!(balancer.nodes()[0].is_up());
    let decisions = (0..100).map(|call| balancer.request(now, &request(call, Method::Invite, 1)));
    assert_eq!(decisions.filter(|decision| is_sent(*decision)).count(), 8);
}

/// A working member has sent 100; the later 503 is about a trunk or a callee.
#[test]
fn only_a_503_as_the_first_response_counts_against_the_member() {
    for (provisional, is_limited) in [(None, true), (Some(100), false), (Some(183), false)] {
        let mut balancer = balancer(1, LAW, |member| member);
        for call in 0..400 {
            let now = Instant::from_millis(10 * call);
            if let NodeDecision::Forward { .. } = balancer.request(now, &request(call, Method::Invite, 1)) {
                for status in provisional.into_iter().chain([503]) {
                    balancer.response(now, &response(call, Method::Invite, 1, status));
                }
            }
        }
        let room = balancer.room(Instant::from_millis(4_000), Slot(0)).unwrap();
        assert_eq!(room.limit.is_some(), is_limited, "503 after {provisional:?}: {room:?}");
    }
}

/// Balancers of several processes measure members at the same times of day.
#[test]
fn members_are_measured_at_set_times_of_day() {
    for (epoch, due) in [(0, 4_000), (1_500, 2_500)] {
        let mut balancer = Balancer::new(SessionSettings::default(), Box::new(Tlwl::new(0)));
        balancer.set_epoch(Duration::from_millis(epoch));
        balancer.set_pools(vec![Pool::new(Box::new(Tlwl::new(0)), Members::All, LAW)]);
        balancer.set_nodes(cluster(&[1.0]).nodes());
        let mut queue = std::collections::VecDeque::new();
        let is_measured = |millis: &u64| {
            let now = Instant::from_millis(*millis);
            while let Some((_, call)) = queue.pop_front_if(|(at, _)| *at <= *millis) {
                balancer.response(now, &response(call, Method::Invite, 1, 180));
            }
            let call = request(*millis, Method::Invite, 1);
            if millis.is_multiple_of(4) && is_sent(balancer.request(now, &call)) {
                queue.push_back((millis + if *millis < 100 { 2 } else { 300 }, *millis));
            }
            balancer.room(now, Slot(0)).unwrap().limit == Some(1)
        };
        let measured = (0..10_000_u64).find(is_measured);
        assert!(measured.is_some_and(|at| (due..due + 100).contains(&at)), "{epoch}: {measured:?}");
    }
}
