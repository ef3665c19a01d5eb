//! Which answers a shard takes for service times of a node.

mod common;

use balance::policy::Tlwl;
use balance::*;
use base::Instant;
use common::{in_dialog, members, request, response};
use std::time::Duration;
use wire::Method;

/// Answers of which a shard tells the median.
const BATCH: u64 = 32;

struct Bed {
    cluster: Cluster,
    balancer: Balancer,
    now: Instant,
    calls: u64,
}

impl Bed {
    fn new() -> Self {
        let adaptive = Adaptive { weights: true, capacity: false };
        let mut cluster = Cluster::new(HealthSettings { adaptive, ..HealthSettings::default() });
        cluster.set_members(Instant::ZERO, &members(&[1.0]));
        let mut balancer = Balancer::new(SessionSettings::default(), Box::new(Tlwl::new(0)));
        balancer.set_nodes(cluster.nodes());
        Self { cluster, balancer, now: Instant::ZERO, calls: 0 }
    }

    /// A new call, which is answered by this after a millisecond.
    fn invite(&mut self, status: u16) {
        self.calls += 1;
        self.balancer.request(self.now, &request(self.calls, Method::Invite, 1));
        self.answer(Method::Invite, 1, status);
    }

    fn answer(&mut self, method: Method, cseq: u32, status: u16) {
        self.now += Duration::from_millis(1);
        self.balancer.response(self.now, &response(self.calls, method, cseq, status));
    }

    /// The methods that were told of, and how long they take.
    fn told(&mut self) -> Vec<(Method, Duration)> {
        let times = self.balancer.drain_signs().filter_map(|sign| match sign {
            Sign::ServiceTime { method, median, .. } => Some((method, median)),
            _ => None,
        });
        times.collect()
    }
}

#[test]
fn a_batch_of_answers_is_told_of_once_by_its_median() {
    let mut bed = Bed::new();
    for _ in 0..BATCH {
        assert_eq!(bed.told(), []);
        bed.invite(100);
        bed.answer(Method::Invite, 1, 180);
        bed.answer(Method::Invite, 1, 183);
        bed.answer(Method::Invite, 1, 200);
    }
    // To the first one above 100: the others come later.
    assert_eq!(bed.told(), [(Method::Invite, Duration::from_millis(2))]);
}

#[test]
fn failures_and_requests_that_meet_another_one_are_no_samples() {
    let mut bed = Bed::new();
    for _ in 0..2 * BATCH {
        bed.invite(486);
    }
    assert_eq!(bed.told(), [], "failures");
    // This one stays open.
    bed.balancer.request(bed.now, &request(1_000_000, Method::Invite, 1));
    for _ in 0..2 * BATCH {
        bed.invite(200);
    }
    assert_eq!(bed.told(), [], "they meet it");
}

#[test]
fn what_a_member_sends_to_a_caller_is_no_sample() {
    let mut bed = Bed::new();
    for _ in 0..2 * BATCH {
        bed.invite(486);
        bed.invite(200);
        let call = bed.calls;
        let from_pool = Request {
            direction: Direction::FromPool,
            pinned: Some(Slot(0)),
            ..in_dialog(call, Method::Bye, 1)
        };
        bed.balancer.request(bed.now, &from_pool);
        bed.now += Duration::from_millis(1);
        let answer = Response { direction: Direction::FromPool, ..response(call, Method::Bye, 1, 200) };
        bed.balancer.response(bed.now, &answer);
    }
    let methods: Vec<_> = bed.told().into_iter().map(|(method, _)| method).collect();
    assert_eq!(methods, [Method::Invite; 2]);
}

#[test]
fn another_node_in_the_slot_begins_anew() {
    let mut bed = Bed::new();
    for _ in 1..BATCH {
        bed.invite(200);
        bed.balancer.request(bed.now, &in_dialog(bed.calls, Method::Bye, 2));
        bed.answer(Method::Bye, 2, 200);
    }
    bed.cluster.set_members(bed.now, &[]);
    bed.cluster.release(Slot(0));
    let other = ClusterMember { id: NodeId(7), ..members(&[1.0])[0] };
    bed.cluster.set_members(bed.now, &[other]);
    bed.balancer.set_nodes(bed.cluster.nodes());
    for _ in 1..BATCH {
        bed.invite(200);
    }
    assert_eq!(bed.told(), []);
    bed.invite(200);
    assert_eq!(bed.told().len(), 1);
}
