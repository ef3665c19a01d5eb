//! Several balancers of one monitor: together they send the server no more than it can take, and each gets its need.

use base::Instant;
use core::time::Duration;
use elastic::queue::{Effect, FrontQueue, QueueSettings};
use elastic::update::Division;
use proptest::prelude::*;

/// Capacity of the server in calls a second.
const CAPACITY: f64 = 40.0;
/// A balancer with fewer calls a second counts as one without calls: a need of 0.05, of which a fifth is for growth.
const SENDS: f64 = 0.04;

/// A balancer with a queue in front of the server.
struct Balancer {
    queue: FrontQueue<u64, (), u8>,
    /// Offered calls a second.
    offered: f64,
    due: f64,
    sent: u64,
    is_up: bool,
}

struct World {
    balancers: Vec<Balancer>,
    division: Division<usize>,
    millis: u64,
    next: u64,
}

impl World {
    fn new(offered: &[f64]) -> Self {
        let balancer = |&offered: &f64| Balancer {
            queue: FrontQueue::new(QueueSettings::default()),
            offered,
            due: 0.0,
            sent: 0,
            is_up: true,
        };
        let balancers = offered.iter().map(balancer).collect();
        let division = Division::new(0..offered.len());
        Self { balancers, division, millis: 0, next: 0 }
    }

    /// Passes this many seconds. Each running balancer is told its part once a second, one after the other. Returns the
    /// calls a second that the server got from each.
    fn run(&mut self, seconds: u64) -> Vec<f64> {
        let before: Vec<_> = self.balancers.iter().map(|balancer| balancer.sent).collect();
        for _ in 0..seconds * 1_000 {
            self.millis += 1;
            let now = Instant::from_millis(self.millis);
            for index in 0..self.balancers.len() {
                self.step(now, index);
            }
        }
        let sent = self.balancers.iter().zip(before).map(|(balancer, before)| balancer.sent - before);
        sent.map(|sent| sent as f64 / seconds as f64).collect()
    }

    fn step(&mut self, now: Instant, index: usize) {
        let balancer = &mut self.balancers[index];
        if !balancer.is_up {
            return;
        }
        let mut out = Vec::new();
        if self.millis % 1_000 == 137 * index as u64 {
            let part = self.division.part(now, index, CAPACITY);
            balancer.queue.announce(now, 0, part, &mut out);
            self.division.on_report(now, index, balancer.sent);
        }
        balancer.due += balancer.offered / 1_000.0;
        if balancer.due >= 1.0 {
            balancer.due -= 1.0;
            self.next += 1;
            balancer.queue.offer(now, self.next, (), 0, &mut out);
        }
        balancer.queue.tick(now, &mut out);
        balancer.sent += out.iter().filter(|effect| matches!(effect, Effect::Deliver { .. })).count() as u64;
    }
}

fn total(sent: &[f64]) -> f64 {
    sent.iter().sum()
}

#[test]
fn balancers_that_would_send_more_share_the_capacity_equally() {
    for count in 1..=4 {
        let mut world = World::new(&vec![2.0 * CAPACITY; count]);
        world.run(10);
        for _ in 0..20 {
            let sent = world.run(3);
            assert!((0.95..1.05).contains(&(total(&sent) / CAPACITY)), "{count}: {sent:?}");
            let fair = CAPACITY / count as f64;
            assert!(sent.iter().all(|sent| (0.85..1.15).contains(&(sent / fair))), "{count}: {sent:?}");
        }
    }
}

#[test]
fn unneeded_capacity_goes_to_other_balancers() {
    for offered in [[24.0, 8.0, 0.0, 0.0], [30.0, 2.0, 1.0, 1.0], [9.0, 9.0, 9.0, 9.0]] {
        let mut world = World::new(&offered);
        world.run(10);
        let sent = world.run(30);
        for (sent, offered) in sent.iter().zip(offered) {
            assert!((sent - offered).abs() <= 0.03 * offered + 0.1, "{offered}: {sent}");
        }
    }
    // A balancer with more calls than the capacity does not push out the others.
    let mut world = World::new(&[200.0, 10.0, 5.0]);
    world.run(10);
    let sent = world.run(30);
    assert!(sent[1] > 9.5 && sent[2] > 4.7 && sent[0] > 20.0 && total(&sent) < 1.05 * CAPACITY, "{sent:?}");
}

#[test]
fn a_standby_balancer_takes_no_capacity_and_has_room_at_once() {
    let mut world = World::new(&[2.0 * CAPACITY, 0.0]);
    world.run(10);
    let sent = world.run(20);
    assert!(sent[0] > 0.97 * CAPACITY, "{sent:?}");
    world.balancers[0].is_up = false;
    world.balancers[1].offered = 2.0 * CAPACITY;
    let at_once = world.run(1);
    assert!(at_once[1] > 0.45 * CAPACITY, "{at_once:?}");
    world.run(6);
    let later = world.run(10);
    assert!(later[1] > 0.97 * CAPACITY, "{later:?}");
}

#[test]
fn a_lost_balancer_counts_for_some_seconds() {
    let mut world = World::new(&[CAPACITY, CAPACITY, CAPACITY]);
    world.run(20);
    world.balancers[0].is_up = false;
    let soon = world.run(4);
    assert!(total(&soon) < 0.75 * CAPACITY, "calls of the lost balancer may continue: {soon:?}");
    world.run(4);
    let later = world.run(10);
    assert!((0.95..1.05).contains(&(total(&later) / CAPACITY)), "{later:?}");
    // It comes back.
    world.balancers[0].is_up = true;
    world.run(10);
    let again = world.run(10);
    assert!(total(&again) < 1.05 * CAPACITY && again.iter().all(|sent| *sent > 10.0), "{again:?}");
}

/// A restarted monitor knows no need. The balancers continue with their calls, and their parts together do not exceed
/// the capacity.
#[test]
fn a_restarted_monitor_gives_no_balancer_the_whole_capacity() {
    let mut division = Division::new(0..3_u64);
    for second in 0..4_u64 {
        let now = Instant::from_millis(1_000 * second);
        // Each balancer gets its part, and reports its sent calls, before the next one gets a part.
        let part = |balancer: u64| {
            let part = division.part(now, balancer, CAPACITY);
            division.on_report(now, balancer, 5_000 + 20 * (balancer + 1) * second);
            part
        };
        let parts: Vec<_> = (0..3).map(part).collect();
        assert!(total(&parts) <= CAPACITY + 1e-6, "second {second}: {parts:?}");
        assert!(parts.iter().all(|part| *part > CAPACITY / 3.0 - 1e-6), "second {second}: {parts:?}");
    }
}

proptest! {
    /// Whatever balancers report: the parts of those with calls are at most the capacity together, and each gets at
    /// least an equal part or its need.
    #[test]
    fn parts_are_the_capacity_together(
        said in prop::collection::vec((0..4_usize, 0..200_u64, 1..3_000_u64), 1..60),
        capacity in 0.0..1_000.0_f64,
    ) {
        let mut division = Division::new([]);
        let (mut now, mut sent, mut rate) = (Instant::ZERO, [0; 4], [None; 4]);
        let mut heard = [Instant::ZERO; 4];
        for (balancer, more, wait) in said {
            now += Duration::from_millis(wait);
            sent[balancer] += more;
            let past = (now - heard[balancer]).as_secs_f64().max(0.5);
            rate[balancer] = Some(rate[balancer].map_or(0.0, |_| more as f64 / past));
            heard[balancer] = now;
            division.on_report(now, balancer, sent[balancer]);
        }
        let is_there = |of: usize| rate[of].is_some() && now - heard[of] < Duration::from_secs(5);
        let there: Vec<_> = (0..4).filter(|of| is_there(*of)).collect();
        let parts: Vec<_> = there.iter().map(|of| division.part(now, *of, capacity)).collect();
        let equal = capacity / there.len() as f64;
        let sends: Vec<_> = there.iter().map(|of| rate[*of].is_some_and(|rate| rate >= SENDS)).collect();
        let of_senders: f64 = parts.iter().zip(&sends).filter(|(_, sends)| **sends).map(|(part, _)| part).sum();
        prop_assert!(of_senders <= capacity + 1e-6, "{parts:?}");
        for (of, part) in there.iter().zip(&parts) {
            let needs = rate[*of].unwrap_or_default();
            prop_assert!(*part >= needs.min(equal) - 1e-6 && *part <= capacity + 1e-6, "{parts:?}");
        }
    }
}
