//! Members with more calls than they can take, or with a longer round trip than before: their unanswered calls, minute
//! after minute.

use base::Instant;
use core::time::Duration;
use elastic::queue::{Effect, FrontQueue, QueueSettings};
use std::collections::VecDeque;

type Queue = FrontQueue<u64, (), u32>;

const THRESHOLD: Duration = Duration::from_millis(10);
/// Calls a second of all queues together: the announced capacity, and the offered load.
const CAPACITY: f64 = 1_000.0;

/// A server that takes one call after another, and the queues of the threads that share it.
struct World {
    queues: Vec<Queue>,
    /// Round-trip time.
    way: Duration,
    /// Service time of a call; zero: all are served at once.
    service: Duration,
    free: Instant,
    /// Responses in flight: time of arrival, queue, and time of sending of the call.
    answers: VecDeque<(Instant, usize, Instant)>,
    next: u64,
}

impl World {
    fn new(threads: usize, way: Duration, service: Duration) -> Self {
        let validity = Duration::MAX;
        let settings = QueueSettings { threshold: Some(THRESHOLD), validity, ..QueueSettings::default() };
        let mut queues: Vec<_> = (0..threads).map(|_| Queue::new(settings)).collect();
        for queue in &mut queues {
            queue.announce(Instant::ZERO, 0, CAPACITY / threads as f64, &mut Vec::new());
        }
        Self { queues, way, service, free: Instant::ZERO, answers: VecDeque::new(), next: 0 }
    }

    /// Offers one call each millisecond in this range. Returns the number of calls the server got, and the most it had
    /// at once.
    fn run(&mut self, millis: core::ops::Range<u64>) -> (usize, usize) {
        let (mut delivered, mut most) = (0, 0);
        for now in millis.map(Instant::from_millis) {
            while let Some((_, queue, sent)) = self.answers.pop_front_if(|(at, ..)| *at <= now) {
                self.queues[queue].answered(now, 0, sent);
                delivered += self.tick(now, queue, None);
            }
            self.next += 1;
            for queue in 0..self.queues.len() {
                let is_its = self.next as usize % self.queues.len() == queue;
                delivered += self.tick(now, queue, is_its.then_some(self.next));
            }
            most = most.max(self.answers.len());
        }
        (delivered, most)
    }

    fn tick(&mut self, now: Instant, queue: usize, offered: Option<u64>) -> usize {
        let mut out = Vec::new();
        self.queues[queue].tick(now, &mut out);
        if let Some(key) = offered {
            self.queues[queue].offer(now, key, (), 0, &mut out);
        }
        let delivered = out.iter().filter(|effect| matches!(effect, Effect::Deliver { .. })).count();
        for _ in 0..delivered {
            self.free = self.free.max(now) + self.service;
            self.answers.push_back((self.free + self.way, queue, now));
        }
        delivered
    }
}

/// Most calls that a server of 500 calls/s may have: the calls of the announced capacity within the threshold, and as
/// many again for the time of a lone call, which is below the threshold. A thread that measures may meet some calls of
/// each other thread.
fn bound(threads: usize) -> usize {
    (CAPACITY * (2 * THRESHOLD).as_secs_f64()) as usize + 6 * threads
}

/// Waiting in a standing queue does not count as round trip: otherwise the bound would grow with the queue.
#[test]
fn the_calls_of_an_overloaded_member_do_not_grow_with_time() {
    for threads in [1, 4, 16] {
        // It takes half of its announced capacity.
        let mut world = World::new(threads, Duration::from_millis(1), Duration::from_millis(2));
        for minute in 0..12 {
            let (delivered, most) = world.run(minute * 60_000..(minute + 1) * 60_000);
            assert!(most <= bound(threads), "{threads} threads, minute {minute}: {most}");
            assert!(
                delivered >= 29_900,
                "{threads} threads, minute {minute}: the server is idle: {delivered}"
            );
        }
    }
}

/// A member that has become slower without overload, or whose round trip is longer, is not held to its earlier times.
#[test]
fn a_longer_round_trip_is_measured_under_load() {
    for (threads, millis) in [(1, 50), (4, 50), (1, 400), (4, 400)] {
        let mut world = World::new(threads, Duration::from_millis(1), Duration::ZERO);
        world.run(0..30_000);
        world.way = Duration::from_millis(millis);
        let (held, _) = world.run(30_000..60_000);
        assert!(held < 15_000, "the bound has followed the longer round trip: {held}");
        world.run(60_000..180_000);
        let (delivered, _) = world.run(180_000..240_000);
        assert!(delivered > 58_000, "{threads} threads, {millis} ms: {delivered}");
        // And back, when it is overloaded.
        (world.way, world.service) = (Duration::from_millis(1), Duration::from_millis(2));
        world.run(240_000..420_000);
        let (_, most) = world.run(420_000..480_000);
        assert!(most <= bound(threads), "{threads} threads, {millis} ms: {most}");
    }
}
