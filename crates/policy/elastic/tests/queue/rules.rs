//! Each rule of the queue by an example.

use base::Instant;
use core::time::Duration;
use elastic::queue::{
    Accrual, Effect, FrontQueue, LengthSettings, MemberChoice, OfferResult, Overflow, QueueSettings,
};

type Queue = FrontQueue<u32, &'static str, u32>;

fn at(millis: u64) -> Instant {
    Instant::from_millis(millis)
}

/// Offers calls at once; returns the number that each member got.
fn shares(queue: &mut Queue, now: Instant, keys: core::ops::Range<u32>) -> Vec<u32> {
    let mut out = Vec::new();
    for key in keys {
        queue.offer(now, key, "", 0, &mut out);
    }
    out.iter()
        .filter_map(|effect| match effect {
            Effect::Deliver { member, .. } => Some(*member),
            Effect::Refuse { .. } => None,
        })
        .collect()
}

fn queue(choice: MemberChoice, capacities: &[(u32, f64)]) -> Queue {
    let mut queue = Queue::new(QueueSettings { choice, ..QueueSettings::default() });
    let mut out = Vec::new();
    for (member, capacity) in capacities {
        queue.announce(at(0), *member, *capacity, &mut out);
    }
    queue
}

#[test]
fn each_choice_selects_its_member() {
    let members = [(1, 30.0), (2, 60.0), (3, 30.0)];
    // Credit of 100 ms is 3, 6 and 3 calls.
    let mut packed = queue(MemberChoice::IndexPacking, &members);
    assert_eq!(shares(&mut packed, at(1_000), 0..5), [1, 1, 1, 2, 2]);
    let mut most = queue(MemberChoice::MostRoom, &members);
    // In proportion: remaining credit relative to the most.
    assert_eq!(shares(&mut most, at(1_000), 0..12), [1, 2, 3, 2, 1, 3, 2, 2, 1, 3, 2, 2]);
    let mut tlwl = queue(MemberChoice::Tlwl, &members);
    let mut out = Vec::new();
    tlwl.set_load(at(1_000), 1, 7.0, &mut out);
    tlwl.set_load(at(1_000), 2, 7.0, &mut out);
    // Member 3 is idle. With 3.5 at 30 calls/s it equals member 2, which has 7 at 60 and got none so far.
    assert_eq!(shares(&mut tlwl, at(1_000), 0..4), [3, 3, 2, 3]);
}

/// A lone member gets its calls at its rate, not all at the start of a second.
#[test]
fn credit_accrues_evenly_or_by_the_second() {
    let mut times = Vec::new();
    for accrual in [Accrual::Smooth, Accrual::PerSecond] {
        let settings = QueueSettings { accrual, bound: Duration::from_secs(5), ..QueueSettings::default() };
        let mut queue = Queue::new(settings);
        let mut out = Vec::new();
        queue.announce(at(0), 1, 10.0, &mut out);
        // The first second is over.
        let mut now = at(2_000);
        for key in 0..14 {
            queue.offer(now, key, "", 0, &mut out);
        }
        let mut delivered = vec![(2_000, out.len())];
        while let Some(next) = queue.deadline() {
            now = next;
            out.clear();
            queue.tick(now, &mut out);
            delivered.push((now.as_nanos() / 1_000_000, out.len()));
        }
        delivered.retain(|(_, count)| *count > 0);
        times.push(delivered);
    }
    // One at once, then one every 100 ms; the last of the 8 that fit into the queue at 2.8 s.
    assert_eq!(times[0].len(), 9, "{:?}", times[0]);
    assert!(times[0].windows(2).all(|pair| pair[1].0 - pair[0].0 == 100), "{:?}", times[0]);
    assert_eq!(times[1], [(2_000, 10), (3_000, 4)]);
}

#[test]
fn the_length_follows_capacity_and_retry_after_is_spread() {
    let length = LengthSettings { delay: Duration::from_millis(200), least: 2, most: 50 };
    assert_eq!((length.length(0.0), length.length(100.0), length.length(1e9)), (2, 20, 50));
    for overflow in [Overflow::Refuse { least: 5, most: 9 }, Overflow::Drop] {
        let mut queue = Queue::new(QueueSettings { length, overflow, ..QueueSettings::default() });
        let mut out = Vec::new();
        for key in 0..12 {
            queue.offer(at(0), key, "", u64::from(key), &mut out);
        }
        let after: Vec<_> = out
            .iter()
            .map(|effect| match effect {
                Effect::Refuse { retry_after, expired: false, .. } => *retry_after,
                effect => panic!("{effect:?}"),
            })
            .collect();
        let spread = [7, 8, 9, 5, 6, 7, 8, 9, 5, 6].map(Some);
        assert_eq!(after, if overflow == Overflow::Drop { [None; 10] } else { spread });
        assert_eq!(queue.counts().refused, 10);
        out.clear();
        queue.tick(at(600_000), &mut out);
        let says_when = |effect: &Effect<_, _, _>| match effect {
            Effect::Refuse { retry_after, expired: true, .. } => retry_after.is_some(),
            effect => panic!("{effect:?}"),
        };
        assert_eq!(out.iter().map(says_when).collect::<Vec<_>>(), [overflow != Overflow::Drop; 2]);
    }
}

/// Listing 1 decrements a counter. A member with capacity zero gets nothing, nor does a removed one.
#[test]
fn members_come_and_go() {
    let mut queue = queue(MemberChoice::MostRoom, &[(1, 100.0)]);
    let mut out = Vec::new();
    queue.announce(at(100), 1, 0.0, &mut out);
    assert_eq!(queue.offer(at(5_000), 1, "", 0, &mut out), OfferResult::Waiting);
    queue.announce(at(5_100), 1, 100.0, &mut out);
    assert!(out.is_empty(), "{out:?}");
    // A hundredth of a second later it has credit for a call.
    assert_eq!(queue.deadline(), Some(at(5_110)));
    queue.remove_member(at(5_105), 1, &mut out);
    assert_eq!(queue.deadline(), Some(at(5_250)));
    queue.announce(at(5_200), 2, 100.0, &mut out);
    assert!(matches!(out[..], [Effect::Deliver { key: 1, member: 2, .. }]), "{out:?}");
}

/// When updates stop, the calls of the member go to the others, except its safe share.
#[test]
fn a_silent_member_gets_its_safe_share() {
    let mut queue = queue(MemberChoice::MostRoom, &[(1, 100.0), (2, 100.0)]);
    let mut out = Vec::new();
    let mut key = 0;
    let mut share = |queue: &mut Queue, from: u64, to: u64| {
        let mut got = [0, 0];
        for millis in (from..to).step_by(5) {
            if millis % 1_000 == 0 {
                queue.announce(at(millis), 2, 100.0, &mut out);
            }
            key += 1;
            queue.offer(at(millis), key, "", 0, &mut out);
            for effect in out.drain(..) {
                if let Effect::Deliver { member, .. } = effect {
                    got[member as usize - 1] += 1;
                }
            }
        }
        got
    };
    // 200 calls/s arrive; each member takes 100.
    assert_eq!(share(&mut queue, 1_000, 3_000), [200, 200]);
    share(&mut queue, 3_000, 60_000);
    let [silent, other] = share(&mut queue, 60_000, 62_000);
    assert!((39..=41).contains(&silent) && (199..=201).contains(&other), "{silent} {other}");
}
