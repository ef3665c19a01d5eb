//! The event queue against the obvious model: a map sorted by time and order of scheduling.
use base::{Instant, Rng};
use proptest::prelude::*;
use sim::engine::EventQueue;
use std::collections::BTreeSet;
use std::time::Duration;

#[derive(Debug, Clone)]
enum Step {
    /// This number of events, all this long after now.
    Schedule(u64, usize),
    /// This number of events, each at a random time below this limit.
    Scatter(u64, usize),
    Pop(usize),
    Until(u64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    // Every scale from zero to years, and many equal times.
    let wait = prop_oneof![0..4_u64, 0..1_000_u64, 0..1_u64 << 30, 0..1_u64 << 56, Just(64), Just(1 << 24)];
    let number = prop_oneof![Just(1_usize), 1..10_usize, 50..200_usize];
    let step = prop_oneof![
        3 => (wait.clone(), number.clone()).prop_map(|(wait, n)| Step::Schedule(wait, n)),
        3 => (wait.clone(), number.clone()).prop_map(|(wait, n)| Step::Scatter(wait + 1, n)),
        4 => number.prop_map(Step::Pop),
        1 => wait.prop_map(Step::Until),
    ];
    prop::collection::vec(step, 1..80)
}

#[derive(Default)]
struct Pair {
    queue: EventQueue<u64>,
    model: BTreeSet<(Instant, u64)>,
    serial: u64,
}

impl Pair {
    fn schedule(&mut self, wait: u64) {
        let at = self.queue.now() + Duration::from_nanos(wait);
        self.queue.at(at, self.serial);
        self.model.insert((at, self.serial));
        self.serial += 1;
    }

    fn pop(&mut self) {
        assert_eq!(self.queue.pop(), self.model.pop_first());
    }

    fn until(&mut self, wait: u64) {
        let end = self.queue.now() + Duration::from_nanos(wait);
        while let Some(popped) = self.queue.pop_until(end) {
            assert!(popped.0 <= end);
            assert_eq!(Some(popped), self.model.pop_first());
        }
        assert_eq!(self.queue.now(), end);
        assert!(self.model.first().is_none_or(|(at, _)| *at > end));
    }
}

proptest! {
    #[test]
    fn events_come_in_order_of_time_and_first_in_first_out(steps in steps(), seed: u64) {
        let mut pair = Pair::default();
        let mut rng = Rng::from_seed(seed);
        for step in steps {
            match step {
                Step::Schedule(wait, n) => (0..n).for_each(|_| pair.schedule(wait)),
                Step::Scatter(below, n) => (0..n).for_each(|_| pair.schedule(rand::Rng::random_range(&mut rng, 0..below))),
                Step::Pop(n) => (0..n).for_each(|_| pair.pop()),
                Step::Until(wait) => pair.until(wait),
            }
            prop_assert_eq!(pair.queue.len(), pair.model.len());
        }
        while !pair.model.is_empty() {
            pair.pop();
        }
        prop_assert!(pair.queue.is_empty() && pair.queue.pop().is_none());
    }
}

#[test]
fn the_whole_of_time_is_within_reach() {
    let mut queue = EventQueue::default();
    let far = [u64::MAX, u64::MAX - 1, 1 << 63, (1 << 60) - 1, 0];
    for at in far {
        queue.at(Instant::from_nanos(at), at);
    }
    let order: Vec<_> = core::iter::from_fn(|| queue.pop()).map(|(at, _)| at.as_nanos()).collect();
    assert_eq!(order, [0, (1 << 60) - 1, 1 << 63, u64::MAX - 1, u64::MAX]);
}
