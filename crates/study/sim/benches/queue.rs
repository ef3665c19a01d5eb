//! The event queue against the standard heap on the hold model: pop the next event, push one an exponential time
//! later, at a constant number pending. `cargo bench -p sim` prints the time of a pair.

use base::{Instant, Rng};
use core::cmp::Reverse;
use core::time::Duration;
use divan::{Bencher, black_box, counter::ItemsCount};
use rand_distr::{Distribution, Exp1};
use sim::engine::EventQueue;
use std::collections::BinaryHeap;

fn main() {
    divan::main();
}

const PENDING: [usize; 4] = [10, 100, 10_000, 1_000_000];
const MEAN_NS: f64 = 1e9;
/// Pairs a sample.
const PAIRS: usize = 100_000;

/// Waits drawn beforehand, so that drawing them is not what is timed.
fn waits() -> Vec<Duration> {
    let mut rng = Rng::from_seed(1);
    let draw = |_| Duration::from_nanos((MEAN_NS * Distribution::<f64>::sample(&Exp1, &mut rng)) as u64);
    (0..1 << 16).map(draw).collect()
}

#[divan::bench(args = PENDING, sample_count = 20)]
fn event_queue(bencher: Bencher<'_, '_>, pending: usize) {
    let waits = waits();
    let mut turn = waits.iter().cycle();
    let mut queue = EventQueue::default();
    for event in 0..pending as u64 {
        queue.after(*turn.next().expect("a cycle has no end"), event);
    }
    // Until the far events are those of a queue that has long been running.
    let mut hold = || {
        let (_, event) = queue.pop().expect("events are pending");
        queue.after(*turn.next().expect("a cycle has no end"), event);
        event
    };
    (0..2 * pending).for_each(|_| _ = hold());
    bencher.counter(ItemsCount::new(PAIRS)).bench_local(|| (0..PAIRS).for_each(|_| _ = black_box(hold())));
}

#[divan::bench(args = PENDING, sample_count = 20)]
fn binary_heap(bencher: Bencher<'_, '_>, pending: usize) {
    let waits = waits();
    let mut turn = waits.iter().cycle();
    let mut heap = BinaryHeap::new();
    let mut serial = 0_u64;
    for event in 0..pending as u64 {
        heap.push(Reverse((Instant::ZERO + *turn.next().expect("a cycle has no end"), serial, event)));
        serial += 1;
    }
    let mut hold = || {
        let Reverse((now, _, event)) = heap.pop().expect("events are pending");
        heap.push(Reverse((now + *turn.next().expect("a cycle has no end"), serial, event)));
        serial += 1;
        event
    };
    (0..2 * pending).for_each(|_| _ = hold());
    bencher.counter(ItemsCount::new(PAIRS)).bench_local(|| (0..PAIRS).for_each(|_| _ = black_box(hold())));
}
