//! Queues compared with a simple model: a sorted list of deadlines.
use base::{Instant, TimerQueues};
use proptest::prelude::*;
use std::collections::BTreeSet;
use std::time::Duration;

/// Lengths of the queues in milliseconds.
const LENGTHS: [u64; 4] = [0, 7, 500, 32_000];

#[derive(Debug, Clone)]
enum Step {
    Set(u8),
    /// Voids a timer.
    Void(usize),
    Run(u64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        5 => (0..LENGTHS.len() as u8).prop_map(Step::Set),
        2 => any::<usize>().prop_map(Step::Void),
        3 => prop_oneof![0..20_u64, 0..40_000_u64].prop_map(Step::Run),
    ];
    prop::collection::vec(step, 1..300)
}

proptest! {
    #[test]
    fn every_timer_that_is_not_void_fires_once_at_its_instant_and_in_order(steps in steps()) {
        let mut queues = TimerQueues::new(LENGTHS.len());
        // Deadline, queue and number: the order in which they fire.
        let mut model: BTreeSet<(Instant, u8, u32)> = BTreeSet::new();
        let (mut now, mut serial) = (Instant::ZERO, 0);
        for step in steps {
            match step {
                Step::Set(queue) => {
                    let deadline = now + Duration::from_millis(LENGTHS[queue as usize]);
                    serial += 1;
                    prop_assert_eq!(queues.set(queue, deadline, serial, !serial), deadline);
                    model.insert((deadline, queue, serial));
                }
                Step::Void(which) if !model.is_empty() => {
                    let timer = *model.iter().nth(which % model.len()).unwrap();
                    model.remove(&timer);
                }
                Step::Void(_) => {}
                Step::Run(ms) => {
                    now += Duration::from_millis(ms);
                    loop {
                        let expected = model.first().copied();
                        let bound = queues.deadline();
                        if let Some((deadline, ..)) = expected {
                            prop_assert!(bound.is_some_and(|bound| bound <= deadline), "{bound:?} {deadline}");
                        }
                        let fired = queues.pop(now, |timer| {
                            assert_eq!(timer.generation, !timer.place);
                            !model.contains(&(timer.deadline, timer.queue, timer.place))
                        });
                        let expected = expected.filter(|&(deadline, ..)| deadline <= now);
                        prop_assert_eq!(fired.map(|timer| (timer.deadline, timer.queue, timer.place)), expected);
                        let Some(timer) = expected else { break };
                        model.remove(&timer);
                    }
                }
            }
        }
    }
}

#[test]
fn a_timer_never_fires_before_the_timer_ahead_of_it_in_its_queue() {
    let mut queues = TimerQueues::new(1);
    queues.set(0, Instant::from_millis(20), 1, 0);
    assert_eq!(queues.set(0, Instant::from_millis(10), 2, 0), Instant::from_millis(20));
    assert!(queues.pop(Instant::from_millis(19), |_| false).is_none());
    assert_eq!(queues.pop(Instant::from_millis(20), |_| false).map(|timer| timer.place), Some(1));
}

#[test]
fn a_pop_past_void_timers_is_bounded_and_the_next_pop_continues() {
    const VOID: u32 = 5_000;
    let mut queues = TimerQueues::new(1);
    (0..=VOID).for_each(|place| _ = queues.set(0, Instant::ZERO, place, 0));
    let mut looks = 0;
    let fired = loop {
        assert_eq!(queues.deadline(), Some(Instant::ZERO), "a timer is due until it has fired");
        let mut asked = 0;
        let fired = queues.pop(Instant::ZERO, |timer| {
            asked += 1;
            timer.place < VOID
        });
        assert!(asked <= 2_000, "{asked}");
        looks += 1;
        if let Some(timer) = fired {
            break timer;
        }
    };
    assert_eq!(fired.place, VOID);
    assert!((3..10).contains(&looks), "{looks}");
    assert_eq!(queues.deadline(), None);
}

#[test]
fn void_timers_behind_a_fired_timer_cause_no_wake_up() {
    let mut queues = TimerQueues::new(1);
    for place in 0..20 {
        queues.set(0, Instant::from_millis(u64::from(place)), place, 0);
    }
    let fired = queues.pop(Instant::ZERO, |timer| timer.place % 10 != 0);
    assert_eq!(fired.map(|timer| timer.place), Some(0));
    assert_eq!(queues.deadline(), Some(Instant::from_millis(10)));
}
