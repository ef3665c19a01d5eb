//! The wheel compared with a simple model: a sorted list of deadlines.
use base::{Instant, TimerWheel};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::time::Duration;

#[derive(Debug, Clone)]
enum Step {
    Set(u64),
    Cancel(usize),
    Reset(usize, u64),
    Run(u64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    // From less than a tick to beyond the reach of the wheel (52 days), in microseconds.
    let span = prop_oneof![
        0..3_000_u64,
        0..400_000_u64,
        0..100_000_000_u64,
        0..20_000_000_000_u64,
        0..10_000_000_000_000_u64
    ];
    let step = prop_oneof![
        4 => span.clone().prop_map(Step::Set),
        1 => any::<usize>().prop_map(Step::Cancel),
        1 => (any::<usize>(), span.clone()).prop_map(|(which, after)| Step::Reset(which, after)),
        4 => span.prop_map(Step::Run),
    ];
    prop::collection::vec(step, 1..200)
}

const TICK: Duration = Duration::from_nanos(1 << 20);

proptest! {
    #[test]
    fn every_timer_fires_once_in_time_and_never_early(steps in steps()) {
        let mut wheel = TimerWheel::default();
        let mut model: BTreeMap<u32, (u32, Instant)> = BTreeMap::new();
        let (mut now, mut serial) = (Instant::ZERO, 0);
        for step in steps {
            match step {
                Step::Set(after) => {
                    let deadline = now + Duration::from_micros(after);
                    serial += 1;
                    let key = wheel.set(deadline, serial);
                    prop_assert!(model.insert(key, (serial, deadline)).is_none());
                }
                Step::Cancel(which) if !model.is_empty() => {
                    let key = *model.keys().nth(which % model.len()).unwrap();
                    model.remove(&key);
                    wheel.cancel(key);
                }
                Step::Reset(which, after) if !model.is_empty() => {
                    let key = *model.keys().nth(which % model.len()).unwrap();
                    let deadline = now + Duration::from_micros(after);
                    model.get_mut(&key).unwrap().1 = deadline;
                    wheel.reset(key, deadline);
                }
                Step::Run(after) => {
                    now += Duration::from_micros(after);
                    while let Some((key, value)) = wheel.pop(now) {
                        let (expected, deadline) = model.remove(&key).unwrap();
                        prop_assert_eq!(value, expected);
                        prop_assert!(deadline <= now, "early: {} before {}", now, deadline);
                    }
                    for (_, deadline) in model.values() {
                        prop_assert!(*deadline + TICK > now, "missed: {} at {}", deadline, now);
                    }
                }
                Step::Cancel(_) | Step::Reset(..) => {}
            }
            prop_assert_eq!(wheel.len(), model.len());
            let earliest = model.values().map(|(_, deadline)| *deadline).min();
            match (wheel.deadline(), earliest) {
                (None, None) => {}
                (Some(wake), Some(earliest)) => prop_assert!(wake <= earliest + TICK),
                other => prop_assert!(false, "{:?}", other),
            }
        }
    }
}

#[test]
fn a_wake_up_at_the_deadline_finds_the_timer() {
    let mut wheel = TimerWheel::default();
    wheel.set(Instant::from_millis(500), 1);
    let mut wakes = 0;
    let mut now = wheel.deadline().unwrap();
    while wheel.pop(now).is_none() {
        now = wheel.deadline().unwrap();
        wakes += 1;
        assert!(wakes < 4, "the deadline must make progress");
    }
    assert!(now >= Instant::from_millis(500));
}

proptest! {
    /// Timers of one length come in the order in which they were set, whether they are due or not.
    #[test]
    fn the_oldest_timer_comes_first(
        length in 1..60_000_u64,
        steps in prop::collection::vec((0..3_u8, 0..9_000_u64), 1..300),
    ) {
        let mut wheel = TimerWheel::default();
        let mut waiting = std::collections::VecDeque::new();
        let (mut now, mut serial) = (Instant::ZERO, 0);
        for (step, millis) in steps {
            match step {
                0 => {
                    now += Duration::from_millis(millis);
                    while let Some((_, value)) = wheel.pop(now) {
                        prop_assert_eq!(waiting.pop_front().map(|(value, _)| value), Some(value));
                    }
                }
                1 => {
                    serial += 1;
                    let deadline = now + Duration::from_millis(length);
                    let key = wheel.set(deadline, serial);
                    let due = wheel.deadline_of(key);
                    prop_assert!(due >= deadline && due <= deadline + TICK);
                    waiting.push_back((serial, key));
                }
                _ => {
                    let first = waiting.pop_front();
                    prop_assert_eq!(wheel.next(), first.map(|(value, _)| value));
                    if let Some((_, key)) = first {
                        wheel.cancel(key);
                    }
                }
            }
        }
    }
}
