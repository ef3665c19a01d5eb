//! Promises of a limit beyond the table: with failures not caused by the server, and with several limits for one
//! server.

use super::harness::*;
use base::Instant;
use core::time::Duration;
use overload::member::{MemberLaw, MemberLimit, RequestKind};
use std::collections::VecDeque;

fn plan(members: Vec<Member>, shards: usize, load: &[(f64, f64)], seconds: f64) -> Plan {
    Plan {
        law: Some(MemberLaw::default()),
        members,
        shards: vec![Clock::default(); shards],
        load: load.to_vec(),
        seconds,
    }
}

/// Percentage of calls refused from this second on.
fn refused_from(seconds: &[Second], from: usize) -> f64 {
    let judged = &seconds[from..seconds.len() - 1];
    let offered: u32 = judged.iter().map(|second| second.offered).sum();
    100.0 * f64::from(refused(judged)) / f64::from(offered)
}

/// The stall starts the limit; 503s for one failed trunk must not keep it.
#[test]
fn a_small_share_of_503_does_not_keep_a_limit() {
    for (fails, load, shards) in [(0.05, 100.0, 1), (0.1, 100.0, 1), (0.1, 30.0, 1), (0.15, 100.0, 4)] {
        let member = Member { fails, stall: Some((30.0, 32.0)), ..Member::default() };
        let run = run(plan(vec![member], shards, &[(0.0, load)], 120.0), 3);
        let refused = refused_from(&run, 60);
        assert!(refused < 0.2, "{fails} of 503 at {load}/s on {shards} shards: {refused} % refused");
    }
}

/// A member with a short buffer answers 503 before any delay shows.
#[test]
fn a_member_that_refuses_the_excess_keeps_most_of_its_goodput() {
    for (refuses, least) in [(5, 125.0), (20, 160.0)] {
        let member = Member { refuses, ..Member::default() };
        let run = run(plan(vec![member], 1, &[(0.0, 100.0), (10.0, 2_000.0)], 60.0), 3);
        let good = goodput(&run[20..60]);
        assert!(good > least, "beyond {refuses}: {good} calls a second of 200");
    }
}

/// With a limit of 8, failures alone leave four places, until a whole batch has failed.
#[test]
fn failures_take_half_of_a_limit_at_most() {
    let (mut limit, mut sent) = (MemberLimit::new(MemberLaw::default()), 0);
    limit.restart(Instant::from_millis(1));
    let mut fail = |limit: &mut MemberLimit, millis: u64, count: u32| {
        let now = Instant::from_millis(millis);
        let before = sent;
        while sent < before + count && limit.has_room(now, false) {
            limit.sent(now);
            sent += 1;
        }
        (0..sent - before).for_each(|_| limit.lost(now, now));
        sent - before
    };
    assert_eq!(fail(&mut limit, 2, 8), 8);
    for _ in 0..4 {
        limit.sent(Instant::from_millis(3));
    }
    assert!(!limit.has_room(Instant::from_millis(3), false), "four failures and four open requests");
    for _ in 0..4 {
        limit.answered(Instant::from_millis(4), RequestKind::Invite, Instant::from_millis(3), true);
    }
    assert_eq!(fail(&mut limit, 5, 8), 4, "only answered requests free their places");
    assert_eq!(fail(&mut limit, 200, 8), 1, "the batch has failed");
}

/// The floor is that of the server, not of the queue that the other shards cause.
#[test]
fn many_shards_do_not_measure_each_others_queue_as_the_floor() {
    for (shards, most) in [(1, 0.25), (4, 0.4), (8, 0.5), (16, 0.55)] {
        let load = [(0.0, 100.0), (15.0, 2_000.0)];
        let run = run(plan(vec![Member::default()], shards, &load, 300.0), 3);
        let (good, delay) = (goodput(&run[120..300]), p99(&run[120..300]));
        assert!(good > 190.0 && delay < most, "{shards} shards: {good} calls a second, {delay} s");
    }
}

/// Four balancers of different ages in front of one member. With correct clocks they measure together; otherwise each
/// measures the queue of the others.
#[test]
fn several_balancers_keep_goodput_and_with_correct_clocks_the_delay() {
    for (error, most) in [(0.0, 0.45), (0.9, 0.7)] {
        let clock = |n: u32| Clock { age: 23.3 * f64::from(n), error: error * f64::from(n) };
        let shards = (0..4).map(clock).collect();
        let load = [(0.0, 100.0), (15.0, 2_000.0)];
        let run = run(Plan { shards, ..plan(vec![Member::default()], 4, &load, 300.0) }, 3);
        let (good, delay) = (goodput(&run[120..300]), p99(&run[120..300]));
        assert!(good > 180.0 && delay < most, "clocks wrong by {error} s: {good} calls a second, {delay} s");
    }
}

/// Limit of a server in each millisecond until the tenth second of a process that started at this time of day. From
/// `begun` on, the server has as many requests as its limit allows, and answers each after 300 ms.
fn limits_from(begun: u64, epoch: Duration) -> Vec<Option<u32>> {
    let mut limit = MemberLimit::new(MemberLaw::default()).with_epoch(epoch);
    let mut open = VecDeque::new();
    let answer = |limit: &mut MemberLimit, sent: u64, took: u64| {
        limit.answered(
            Instant::from_millis(sent + took),
            RequestKind::Invite,
            Instant::from_millis(sent),
            true,
        );
    };
    for millis in 0..50 {
        limit.sent(Instant::from_millis(millis));
        answer(&mut limit, millis, 4);
    }
    let look = |millis| {
        let now = Instant::from_millis(millis);
        while let Some(sent) = open.pop_front_if(|sent| *sent + 300 <= millis) {
            answer(&mut limit, sent, 300);
        }
        if millis >= begun && millis % 4 == 0 && limit.has_room(now, false) {
            limit.sent(now);
            open.push_back(millis);
        }
        limit.limit(now)
    };
    (0..10_000).map(look).collect()
}

/// Limits measure the floor at the same time of day, whenever they and their processes started.
#[test]
fn limits_measure_at_set_times_of_day() {
    let day = 86_400_000;
    for (begun, epoch) in [(100, 0), (700, 0), (1_900, 0), (3_000, 0), (100, day), (100, day + 1_500)] {
        let limits = limits_from(begun, Duration::from_millis(epoch));
        let at = |time: u64| limits[(time - epoch % 4_000) as usize];
        assert!(at(3_990).is_some(), "started at {begun} ms: no limit");
        for (time, measures) in [(3_990, false), (4_200, true), (7_990, false), (8_200, true)] {
            assert_eq!(at(time) == Some(1), measures, "{epoch} + {begun} ms: at {time} ms");
        }
    }
}
