//! A member that fails requests that the others answer.

use crate::common;
use crate::common::*;
use balance::policy::{RoundRobin, Tlwl};
use balance::*;
use base::Instant;
use std::collections::BTreeMap;
use std::time::Duration;
use wire::Method;

/// Members that answer each new call with a status after a time.
struct Pool {
    cluster: Cluster,
    balancer: Balancer,
    members: Vec<(u16, Duration)>,
    /// Whether they ring twice before they answer.
    rings: bool,
    calls: u64,
    /// Responses in flight: time and call.
    under_way: BTreeMap<(Instant, u64), Slot>,
    given: Vec<u32>,
    news: Vec<HealthNews>,
}

const AT_ONCE: Duration = Duration::ZERO;
const A_SECOND: Duration = Duration::from_secs(1);

impl Pool {
    fn new(policy: Box<dyn Policy>, members: &[(u16, Duration)], settings: HealthSettings) -> Self {
        let mut cluster = Cluster::new(settings);
        cluster.set_members(Instant::ZERO, &common::members(&vec![1.0; members.len()]));
        let mut balancer = Balancer::new(SessionSettings::default(), policy);
        balancer.set_nodes(cluster.nodes());
        let given = vec![0; members.len()];
        let (under_way, news) = (BTreeMap::new(), Vec::new());
        Self { cluster, balancer, members: members.to_vec(), rings: false, calls: 0, under_way, given, news }
    }

    /// 20 calls a second.
    fn run(&mut self, from: u64, to: u64) {
        for step in from * 20..to * 20 {
            let now = Instant::from_millis(step * 50);
            while let Some((&(due, call), &slot)) = self.under_way.first_key_value()
                && due <= now
            {
                self.under_way.remove(&(due, call));
                let status = self.members[slot.index()].0;
                self.balancer.response(due, &response(call, Method::Invite, 1, status));
                if status == 200 {
                    self.balancer.request(due, &in_dialog(call, Method::Bye, 2));
                    self.balancer.response(due, &response(call, Method::Bye, 2, 200));
                }
            }
            self.calls += 1;
            let slot = slot_of(self.balancer.request(now, &request(self.calls, Method::Invite, 1)));
            self.given[slot.index()] += 1;
            for status in [180, 183].into_iter().filter(|_| self.rings) {
                self.balancer.response(now, &response(self.calls, Method::Invite, 1, status));
            }
            self.under_way.insert((now + self.members[slot.index()].1, self.calls), slot);
            while self.balancer.expire(now) > 0 {}
            self.heed(now);
        }
    }

    fn heed(&mut self, now: Instant) {
        self.news.extend(heed(now, &mut self.balancer, &mut self.cluster));
        assert_eq!(self.balancer.audit(), Ok(()));
        let members = self.cluster.nodes().len();
        assert!(2 * self.ejected(now) <= members, "at most half of the members are ejected");
    }

    fn ejected(&self, now: Instant) -> usize {
        self.cluster.nodes().iter().filter(|node| node.is_ejected(now)).count()
    }

    fn share(&self, slot: usize) -> f64 {
        f64::from(self.given[slot]) / f64::from(self.given.iter().sum::<u32>())
    }
}

fn no_ejection() -> HealthSettings {
    HealthSettings { ejects: false, ..HealthSettings::default() }
}

const ONE_FAILS: [(u16, Duration); 4] = [(200, A_SECOND), (500, AT_ONCE), (200, A_SECOND), (200, A_SECOND)];

#[test]
fn a_member_that_fails_at_once_gets_few_calls_under_every_policy() {
    for policy in policies() {
        let name = policy.name();
        let mut pool = Pool::new(policy, &ONE_FAILS, HealthSettings::default());
        pool.run(0, 120);
        assert!(pool.share(1) < 0.05, "{name}: {:?}", pool.given);
        let ejected = |news: &HealthNews| {
            matches!(news, HealthNews::Ejected { slot: Slot(1), outlier: Outlier::InARow, .. })
        };
        assert!(!pool.news.is_empty() && pool.news.iter().all(ejected), "{name}: {:?}", pool.news);
    }
}

/// Policies of least work or transactions do not prefer it, even without ejection.
#[test]
fn a_failed_invite_keeps_its_work_as_long_as_one_that_succeeds() {
    for policy in policies().into_iter().filter(|policy| ["tlwl", "tjsq"].contains(&policy.name())) {
        let name = policy.name();
        let mut pool = Pool::new(policy, &ONE_FAILS, no_ejection());
        pool.run(0, 60);
        assert!(pool.share(1) < 0.35, "{name}: {:?}", pool.given);
        let end = Instant::from_millis(200_000);
        while pool.balancer.expire(end) > 0 {}
        let load = pool.balancer.load(Slot(1)).own;
        assert_eq!(load, Load::default(), "{name}: the held leases have ended");
    }
}

#[test]
fn a_kept_lease_ends_once_when_its_member_dies() {
    let mut pool = Pool::new(Box::new(RoundRobin::new(0)), &[(500, AT_ONCE)], HealthSettings::default());
    let mut call = |number, seconds: [u64; 2], status| {
        let [asked, answered] = seconds.map(|s| Instant::from_millis(s * 1_000));
        pool.balancer.request(asked, &request(number, Method::Invite, 1));
        pool.balancer.response(answered, &response(number, Method::Invite, 1, status));
    };
    call(1, [0, 5], 200);
    call(2, [6, 6], 500);
    pool.cluster.unreachable(Instant::from_millis(7_000), Slot(0));
    pool.heed(Instant::from_millis(7_000));
    while pool.balancer.expire(Instant::from_millis(60_000)) > 0 {}
    let stats = pool.balancer.stats(Slot(0));
    assert_eq!((stats.transactions, stats.ended.iter().sum::<u64>()), (2, 2));
}

#[test]
fn failures_of_every_member_eject_none() {
    for (status, rings) in [(404, false), (486, true), (500, false), (504, true)] {
        let members = [(status, AT_ONCE); 4];
        let mut pool = Pool::new(Box::new(RoundRobin::new(0)), &members, HealthSettings::default());
        pool.rings = rings;
        pool.run(0, 60);
        assert_eq!(pool.news, [], "{status}");
    }
}

/// Not a server failure, but only one member sends this response.
#[test]
fn a_member_that_refuses_far_more_than_the_others_is_ejected() {
    let members = [(200, A_SECOND), (404, A_SECOND), (200, A_SECOND), (200, A_SECOND)];
    let mut pool = Pool::new(Box::new(RoundRobin::new(0)), &members, HealthSettings::default());
    pool.run(0, 20);
    let first = pool.news.first();
    assert!(
        matches!(first, Some(HealthNews::Ejected { slot: Slot(1), outlier: Outlier::ByShare, .. })),
        "{first:?}"
    );
}

#[test]
fn ejections_grow_while_a_member_fails_and_are_short_again_after_recovery() {
    let settings = HealthSettings { slow_start: Duration::ZERO, ..HealthSettings::default() };
    let mut pool = Pool::new(Box::new(RoundRobin::new(0)), &ONE_FAILS, settings);
    let lengths = |pool: &Pool| {
        let length = |news: &HealthNews| match *news {
            HealthNews::Ejected { until, .. } => until,
            _ => panic!("{news:?}"),
        };
        pool.news.iter().map(length).collect::<Vec<_>>()
    };
    pool.run(0, 70);
    let until = lengths(&pool);
    assert!(until.len() == 3 || until.len() == 4, "{until:?}");
    let gaps: Vec<_> = until.windows(2).map(|two| two[1].saturating_since(two[0]).as_secs()).collect();
    assert!((20..23).contains(&gaps[0]) && (30..33).contains(&gaps[1]), "{gaps:?}");
    pool.members[1].0 = 200;
    pool.run(70, 120);
    assert_eq!(pool.news.len(), until.len());
    pool.members[1].0 = 500;
    pool.run(120, 125);
    let last = lengths(&pool).pop().unwrap().saturating_since(Instant::from_millis(120_000)).as_secs();
    assert!(last >= 40, "{last} s: the ejections are in a row");
    pool.members[1].0 = 200;
    pool.run(125, 400);
    pool.members[1].0 = 500;
    pool.run(400, 410);
    let last = lengths(&pool).pop().unwrap().saturating_since(Instant::from_millis(400_000)).as_secs();
    assert!((10..13).contains(&last), "{last} s: the length of a first ejection");
}

#[test]
fn at_most_half_are_ejected_and_never_the_last() {
    let mut members = vec![(500, AT_ONCE); 2];
    members.extend([(200, A_SECOND); 3]);
    let mut pool = Pool::new(Box::new(RoundRobin::new(0)), &members, HealthSettings::default());
    pool.run(0, 3);
    assert_eq!(pool.ejected(Instant::from_millis(3_000)), 2);
    pool.members[3].0 = 500;
    pool.run(3, 60);
    let mut lone =
        Pool::new(Box::new(RoundRobin::new(0)), &[(500, AT_ONCE), (200, AT_ONCE)], HealthSettings::default());
    lone.cluster.drain(Slot(1), true);
    lone.balancer.set_nodes(lone.cluster.nodes());
    lone.run(0, 30);
    assert_eq!(lone.news, [], "there is no other member");
}

#[test]
fn an_ejected_member_gets_calls_if_no_other_takes_any() {
    let mut pool = Pool::new(Box::new(Tlwl::new(0)), &ONE_FAILS, HealthSettings::default());
    pool.run(0, 3);
    let now = Instant::from_millis(3_000);
    assert_eq!(pool.balancer.nodes()[1].refusal(now, 0), Some(NodeRefusal::Ejected));
    for slot in [0, 2, 3].map(Slot) {
        pool.cluster.drain(slot, true);
    }
    pool.heed(now);
    assert_eq!(slot_of(pool.balancer.request(now, &request(9_000, Method::Invite, 1))), Slot(1));
    pool.cluster.raise(now, Slot(1));
    pool.heed(now);
    assert_eq!(pool.balancer.nodes()[1].refusal(now, 0), None, "the operator overrides the ejection");
}
