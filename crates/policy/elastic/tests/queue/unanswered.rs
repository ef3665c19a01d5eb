//! The unanswered calls of a member bound the calls that it gets, with every choice.

use base::Instant;
use core::time::Duration;
use elastic::queue::{Accrual, Effect, FrontQueue, MemberChoice, QueueSettings};
use proptest::prelude::*;

type Queue = FrontQueue<u32, (), u32>;

const ORDERS: [MemberChoice; 3] = [MemberChoice::MostRoom, MemberChoice::Tlwl, MemberChoice::IndexPacking];

fn at(millis: u64) -> Instant {
    Instant::from_millis(millis)
}

/// Members of 1,000 calls/s, which take 5 calls at once within the threshold of 5 ms.
fn queue(choice: MemberChoice, members: u32) -> Queue {
    let threshold = Some(Duration::from_millis(5));
    let validity = Duration::MAX;
    let mut queue = Queue::new(QueueSettings { choice, threshold, validity, ..QueueSettings::default() });
    for member in 0..members {
        queue.announce(at(0), member, 1_000.0, &mut Vec::new());
    }
    queue
}

/// Members that get the calls offered now, and those that waited.
fn offer(queue: &mut Queue, now: Instant, keys: core::ops::Range<u32>) -> Vec<u32> {
    let mut out = Vec::new();
    queue.tick(now, &mut out);
    for key in keys {
        queue.offer(now, key, (), 0, &mut out);
    }
    out.iter()
        .filter_map(|effect| match effect {
            Effect::Deliver { member, .. } => Some(*member),
            Effect::Refuse { .. } => None,
        })
        .collect()
}

fn unanswered(queue: &Queue, now: Instant, member: u32) -> usize {
    queue.members(now).find(|(name, _)| *name == member).map_or(0, |(_, view)| view.unanswered)
}

#[test]
fn unanswered_calls_of_a_member_are_bounded_by_capacity_times_threshold() {
    for choice in ORDERS {
        let mut queue = queue(choice, 2);
        // A tenth of a second of credit allows 100 calls each, and 30 come.
        let mut given = offer(&mut queue, at(1_000), 0..30);
        given.sort_unstable();
        assert_eq!(given, [[0; 5], [1; 5]].concat(), "{choice:?}");
        // A response makes room for one call, and its millisecond of round trip, which is no work, for one more.
        let mut out = Vec::new();
        queue.answered(at(1_001), 1, at(1_000));
        queue.tick(at(1_001), &mut out);
        let [Effect::Deliver { member: 1, .. }, Effect::Deliver { member: 1, .. }] = out[..] else {
            panic!("{choice:?}: {out:?}");
        };
    }
}

/// It gets the calls of its bound, then one call at a time at growing intervals, and its full share again after its
/// first response.
#[test]
fn a_frozen_member_gets_one_call_at_a_time() {
    for choice in ORDERS {
        let mut queue = queue(choice, 1);
        let mut times = Vec::new();
        for millis in 1_000..30_000 {
            let given = offer(&mut queue, at(millis), millis as u32..millis as u32 + 1);
            times.extend(given.iter().map(|_| millis - 1_000));
            if millis >= 1_104 {
                assert!(unanswered(&queue, at(millis), 0) <= 1, "{choice:?}");
            }
        }
        let probes = [104, 304, 704, 1_504, 3_104, 6_304, 10_304, 14_304, 18_304, 22_304, 26_304];
        assert_eq!(times, [&[0, 1, 2, 3, 4], &probes[..]].concat(), "{choice:?}");
        // It resumes, and answers its last call.
        queue.answered(at(30_000), 0, at(1_000 + probes[10]));
        assert!(offer(&mut queue, at(30_001), 60_000..60_020).len() >= 5, "{choice:?}");
    }
}

/// Responses to other requests show that a member is alive, but not how many calls it has.
#[test]
fn any_response_of_a_member_starts_another_probe() {
    let mut queue = queue(MemberChoice::Tlwl, 1);
    let given = |queue: &mut Queue, millis: u64| offer(queue, at(millis), millis as u32..millis as u32 + 9);
    assert_eq!(given(&mut queue, 1_000).len(), 5);
    assert_eq!(given(&mut queue, 1_100).len(), 1);
    assert_eq!(given(&mut queue, 1_200).len(), 0);
    queue.answers(at(1_200), 0);
    assert_eq!(given(&mut queue, 1_201).len(), 4, "the other calls were given up with the probe");
}

/// A member had stopped, and has lost its calls. Their callers wait for 32 s, so this member has open calls, and the
/// other member has none.
#[test]
fn a_recovered_member_gets_calls_in_spite_of_lost_ones() {
    for choice in ORDERS {
        let mut queue = queue(choice, 2);
        let (mut lost, mut got, mut key) = (0, [0, 0], 0);
        for millis in 1_000..31_000_u64 {
            if millis % 5 != 0 {
                continue;
            }
            queue.set_load(at(millis), 0, f64::from(lost) * base::INVITE_WORK, &mut Vec::new());
            queue.set_load(at(millis), 1, 0.0, &mut Vec::new());
            key += 1;
            for member in offer(&mut queue, at(millis), key..key + 1) {
                let stands_still = member == 0 && millis < 11_000;
                if stands_still {
                    lost += 1;
                } else {
                    queue.answered(at(millis), member, at(millis));
                }
                if millis >= 12_000 {
                    got[member as usize] += 1;
                }
            }
            // Another of its requests is answered.
            if millis == 11_000 {
                queue.answers(at(millis), 0);
            }
        }
        assert!((5..30).contains(&lost), "{choice:?}: {lost}");
        // The first in order gets all calls, as intended.
        let least = if choice == MemberChoice::IndexPacking { 3_700 } else { 1_500 };
        assert!(got[0] >= least, "{choice:?}: {got:?}, {lost} lost");
    }
}

/// Calls that a member never answers come twice a second. Other calls are delivered as without them.
#[test]
fn calls_that_are_never_answered_take_no_room() {
    for choice in ORDERS {
        let mut queue = queue(choice, 1);
        let mut swallowed = 0;
        for millis in 1_000..60_000 {
            let given = offer(&mut queue, at(millis), millis as u32..millis as u32 + 1);
            assert_eq!(given, [0], "{choice:?}, at {millis}");
            if millis % 500 == 0 {
                swallowed += 1;
            } else {
                queue.answered(at(millis), 0, at(millis));
            }
            assert!(unanswered(&queue, at(millis), 0) <= 1);
        }
        assert_eq!(swallowed, 118);
    }
}

/// Otherwise the bound of a slow member would be a single call, and each call that it loses would stop it for 100 ms.
#[test]
fn a_slow_member_has_room_beside_a_lost_call() {
    for choice in ORDERS {
        let mut queue = queue(choice, 1);
        queue.announce(at(0), 0, 100.0, &mut Vec::new());
        assert_eq!(offer(&mut queue, at(1_000), 0..1), [0], "{choice:?}: the member never answers this call");
        for millis in (1_010..2_000).step_by(10) {
            let key = millis as u32;
            assert_eq!(offer(&mut queue, at(millis), key..key + 1), [0], "{choice:?}, at {millis}");
            queue.answered(at(millis + 1), 0, at(millis));
        }
    }
}

/// A pause of the member while it is measured is not round trip: a second lone call shows that.
#[test]
fn one_slow_measurement_counts_as_a_spike() {
    for (again, given) in [(1, 6), (350, 100)] {
        let mut queue = queue(MemberChoice::MostRoom, 1);
        assert_eq!(offer(&mut queue, at(1_000), 0..1).len(), 1);
        queue.answered(at(1_001), 0, at(1_000));
        assert_eq!(offer(&mut queue, at(60_000), 1..2).len(), 1);
        queue.answered(at(60_100), 0, at(60_000));
        assert_eq!(offer(&mut queue, at(60_101), 2..5).len(), 1, "the first answer of the minute was late");
        queue.answered(at(60_501), 0, at(60_101));
        assert_eq!(
            offer(&mut queue, at(60_502), 5..200).len(),
            1,
            "a second lone call has to confirm the first"
        );
        queue.answered(at(60_502 + again), 0, at(60_502));
        assert_eq!(offer(&mut queue, at(60_503 + again), 200..500).len(), given);
    }
}

/// The second member has the load of the call. If it were subtracted again when the first member has passed the call
/// over, it would hide another call of the first member.
#[test]
fn a_call_sent_to_a_second_member_is_subtracted_once() {
    for (has_moved, next) in [(true, 1), (false, 0)] {
        let mut queue = queue(MemberChoice::Tlwl, 2);
        assert_eq!(offer(&mut queue, at(1_000), 0..1), [0]);
        if has_moved {
            queue.moved(0, at(1_000));
        }
        queue.set_load(at(1_050), 1, 99.0, &mut Vec::new());
        assert_eq!(offer(&mut queue, at(1_050), 1..2), [0]);
        queue.answered(at(1_051), 0, at(1_050));
        for (member, calls) in [(0, 1.0), (1, 0.5)] {
            queue.set_load(at(1_051), member, calls * base::INVITE_WORK, &mut Vec::new());
        }
        assert_eq!(offer(&mut queue, at(1_051), 2..3), [next]);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    /// If members answer in time and capacity is not scarce, calls go by TLWL: to the least work divided by capacity,
    /// and among equals to the one whose turn it is.
    #[test]
    fn without_contention_the_queue_is_tlwl(
        works in prop::collection::vec(prop::collection::vec(0..6_u32, 4), 1..60),
        capacities in prop::collection::vec(prop_oneof![Just(500.0), Just(1_000.0), Just(2_000.0)], 4),
    ) {
        let threshold = Some(Duration::from_millis(5));
        let mut queue = Queue::new(QueueSettings { threshold, ..QueueSettings::default() });
        for (member, capacity) in (0..).zip(&capacities) {
            queue.announce(at(0), member, *capacity, &mut Vec::new());
        }
        let mut turns = [0; 4];
        for (turn, works) in (1..).zip(&works) {
            let now = at(1_000 + 2 * turn);
            for (member, work) in (0..).zip(works) {
                queue.set_load(now, member, f64::from(*work), &mut Vec::new());
            }
            let least = |member: &usize| f64::from(works[*member]) / capacities[*member];
            let expected = (0..4)
                .min_by(|one, other| least(one).total_cmp(&least(other)).then(turns[*one].cmp(&turns[*other])));
            let given = offer(&mut queue, now, turn as u32..turn as u32 + 1);
            prop_assert_eq!(given.as_slice(), [expected.expect("there are four") as u32]);
            turns[given[0] as usize] = turn;
            queue.answered(now + Duration::from_millis(1), given[0], now);
        }
    }
}

/// Simulates member 0 for this many milliseconds: it is always offered more than it takes, and answers one call every
/// `every` microseconds, in order. Returns the number of calls it got, and its final bound.
fn serve(queue: &mut Queue, from: u64, millis: u64, every: u64, held: &mut Vec<Instant>) -> (usize, f64) {
    let mut given = 0;
    let mut next = at(from);
    for tick in 0..millis * 4 {
        let now = at(from) + Duration::from_micros(tick * 250);
        while next <= now {
            if !held.is_empty() {
                queue.answered(now, 0, held.remove(0));
            }
            next += Duration::from_micros(every);
        }
        let key = (from * 4 + tick) as u32 * 8;
        let got = offer(queue, now, key..key + 8).len();
        given += got;
        held.extend(core::iter::repeat_n(now, got));
    }
    let now = at(from + millis);
    let bound = queue.members(now).next().map_or(0.0, |(_, view)| view.unanswered_most);
    (given, bound)
}

fn paced(accrual: Accrual, capacity: f64) -> Queue {
    let threshold = Some(Duration::from_millis(20));
    let validity = Duration::MAX;
    let mut queue = Queue::new(QueueSettings { accrual, threshold, validity, ..QueueSettings::default() });
    queue.announce(at(0), 0, capacity, &mut Vec::new());
    queue
}

/// The announced capacity is far too low and bounds the unanswered calls. A member that answers fast still gets its
/// share with `Answers`; with accrual at a rate it would not.
#[test]
fn a_member_that_answers_faster_than_its_capacity_gets_more_calls() {
    for (accrual, least, most) in [
        (Accrual::Answers { most: 2_000.0 }, 950, 1_050),
        (Accrual::Answers { most: 500.0 }, 500, 560),
        (Accrual::Smooth, 100, 120),
    ] {
        let mut queue = paced(accrual, 100.0);
        let (given, _) = serve(&mut queue, 1_000, 1_000, 1_000, &mut Vec::new());
        assert!((least..=most).contains(&given), "{accrual:?}: {given}");
    }
}

/// It answers 1,000 calls/s, then 667, then 50, with an estimate of 200. Its bound follows, within two tenths of a
/// second: the calls that it answers in half of the threshold, but never fewer than by its capacity.
#[test]
fn the_bound_of_a_member_follows_its_pace() {
    let mut queue = paced(Accrual::Answers { most: 900.0 }, 200.0);
    let mut held = Vec::new();
    let mut bound = |from, every| serve(&mut queue, from, 300, every, &mut held).1;
    // By capacity 4, plus a little for the shortest response, as round trip.
    for (from, every, within) in
        [(1_000, 1_000, 9.8..10.5), (1_300, 1_500, 6.4..7.2), (1_600, 20_000, 4.0..4.5)]
    {
        let bound = bound(from, every);
        assert!(within.contains(&bound), "an answer each {every} us: {bound}");
    }
    // A member with capacity zero gets nothing, whatever it answers.
    queue.announce(at(2_000), 0, 0.0, &mut Vec::new());
    assert!(queue.total_capacity(at(2_000)) <= 0.0);
}

/// An old pace does not count, nor do responses to calls from outside the queue, nor the pace of a member that has
/// fallen silent since.
#[test]
fn only_a_recent_pace_counts() {
    let bound = |queue: &Queue, millis| queue.members(at(millis)).next().unwrap().1.unanswered_most;
    let fast = || {
        let mut queue = paced(Accrual::Answers { most: 900.0 }, 200.0);
        let mut held = Vec::new();
        assert!(serve(&mut queue, 1_000, 300, 1_000, &mut held).1 > 9.0);
        (queue, held)
    };
    let (mut queue, held) = fast();
    for sent in held {
        queue.answered(at(1_300), 0, sent);
    }
    assert!(bound(&queue, 11_000) > 9.0 && bound(&queue, 11_400) < 5.0);
    // It has answered nothing for a tenth of a second, and gets a call all the same.
    let (mut queue, _) = fast();
    assert_eq!(offer(&mut queue, at(1_500), 90_000..90_009).len(), 1);
    queue.answers(at(1_501), 0);
    assert!(bound(&queue, 1_501) < 5.0);
    // INVITEs repeated with credentials bypass the queue.
    let mut queue = paced(Accrual::Answers { most: 900.0 }, 200.0);
    assert_eq!(offer(&mut queue, at(1_000), 0..9).len(), 4);
    for millis in 1_001..1_250 {
        queue.answered(at(millis), 0, at(999));
    }
    assert!(bound(&queue, 1_250) < 5.0, "{}", bound(&queue, 1_250));
}
