//! Links and the rules of their faults.
use base::{Instant, Rng};
use sim::engine::{FaultEffect, FaultRule, LinkConfig, Reliable, SimNetwork};
use std::time::Duration;

const DELAY: Duration = Duration::from_millis(5);
const DATAGRAMS: LinkConfig = LinkConfig { delay: DELAY, reliable: None };
const RELIABLE: Reliable = Reliable { timeout: Duration::from_millis(200), shared: true };
const STREAM: LinkConfig = LinkConfig { delay: DELAY, reliable: Some(RELIABLE) };

/// A rule for all messages at all times.
const fn everywhere(effect: FaultEffect) -> FaultRule {
    FaultRule { from: None, to: None, when: Instant::ZERO..Instant::from_nanos(u64::MAX), effect }
}

const fn at(ms: u64) -> Instant {
    Instant::from_millis(ms)
}

fn network(config: LinkConfig, rules: &[FaultRule]) -> SimNetwork {
    SimNetwork::new(3, config, rules.to_vec(), &Rng::from_seed(9))
}

/// Returns the arrival times of a message from 0 to 1 and its copies.
fn send(network: &mut SimNetwork, ms: u64) -> Vec<Instant> {
    network.send(at(ms), 0, 1).collect()
}

/// Returns how many copies of 10,000 messages, one per millisecond, arrive.
fn arrived(network: &mut SimNetwork) -> usize {
    (0..10_000).map(|ms| send(network, ms).len()).sum()
}

#[test]
fn without_rules_a_message_takes_the_delay() {
    for config in [DATAGRAMS, STREAM] {
        let mut network = network(config, &[]);
        assert_eq!(send(&mut network, 10), [at(15)]);
        network.set_link(0, 1, LinkConfig { delay: DELAY * 3, ..config });
        assert_eq!(send(&mut network, 10), [at(25)]);
        assert!(network.send(at(10), 1, 0).eq([at(15)]));
    }
}

#[test]
fn a_rule_holds_for_its_link_and_time_only() {
    let rule =
        FaultRule { from: Some(0), to: Some(1), when: at(100)..at(200), effect: FaultEffect::Partition };
    let mut network = network(DATAGRAMS, &[rule]);
    for (ms, copies) in [(99, 1), (100, 0), (199, 0), (200, 1)] {
        assert_eq!(send(&mut network, ms).len(), copies, "at {ms}");
    }
    for (from, to) in [(1, 0), (0, 2), (2, 1)] {
        assert_eq!(network.send(at(150), from, to).count(), 1);
    }
}

#[test]
fn loss_and_duplication_have_their_probabilities() {
    // 4 sigma of 10,000 trials: 4 sqrt(10,000 p (1 - p)).
    let lost = 10_000 - arrived(&mut network(DATAGRAMS, &[everywhere(FaultEffect::Loss(0.05))]));
    assert!((412..=588).contains(&lost), "{lost}");
    let doubled = arrived(&mut network(DATAGRAMS, &[everywhere(FaultEffect::Duplicate(0.1))])) - 10_000;
    assert!((880..=1_120).contains(&doubled), "{doubled}");
    // The copies of a datagram are lost independently: 2 x 0.5 arrive.
    let rules = [everywhere(FaultEffect::Duplicate(1.0)), everywhere(FaultEffect::Loss(0.5))];
    let both = arrived(&mut network(DATAGRAMS, &rules));
    assert!((9_717..=10_283).contains(&both), "{both}");
}

#[test]
fn delay_jitter_and_reordering_move_arrivals() {
    let more = Duration::from_millis(30);
    let mut slow = network(DATAGRAMS, &[everywhere(FaultEffect::Delay(more))]);
    assert_eq!(send(&mut slow, 0), [at(35)]);
    let mut jittery = network(DATAGRAMS, &[everywhere(FaultEffect::Jitter(more))]);
    let arrivals: Vec<_> = (0..1_000).flat_map(|_| send(&mut jittery, 0)).collect();
    let (first, last) = (arrivals.iter().min().unwrap(), arrivals.iter().max().unwrap());
    assert!(*first >= at(5) && *first < at(6) && *last > at(34) && *last <= at(35), "{first} {last}");
    let mut unordered = network(DATAGRAMS, &[everywhere(FaultEffect::Reorder(0.25, more))]);
    let arrivals: Vec<_> = (0..10_000).flat_map(|ms| send(&mut unordered, ms)).collect();
    let held = (0..).zip(&arrivals).filter(|(ms, arrival)| **arrival == at(ms + 35)).count();
    assert!((2_327..=2_673).contains(&held), "{held}");
    assert!(!arrivals.is_sorted());
}

#[test]
fn a_stream_keeps_everything_in_order_and_pays_with_time() {
    let rules = [FaultEffect::Loss(0.2), FaultEffect::Duplicate(0.5), FaultEffect::Reorder(0.3, DELAY)]
        .map(everywhere);
    let mut stream = network(STREAM, &rules);
    let arrivals: Vec<_> = (0..10_000).flat_map(|ms| send(&mut stream, ms)).collect();
    assert_eq!(arrivals.len(), 10_000);
    assert!(arrivals.is_sorted());
    // The link is down from 0 to 1 s: retransmissions after 0.2, 0.4 and 0.8 s, so the message passes at 1.4 s.
    let cut = FaultRule { when: at(0)..at(1_000), ..everywhere(FaultEffect::Partition) };
    let mut stream = network(STREAM, &[cut]);
    assert_eq!(send(&mut stream, 0), [at(1_405)]);
    assert_eq!(send(&mut stream, 1_000), [at(1_405)]);
    assert_eq!(send(&mut stream, 1_500), [at(1_505)]);
}

#[test]
fn a_stream_that_never_gets_through_gives_up() {
    let mut stream = network(STREAM, &[everywhere(FaultEffect::Loss(1.0))]);
    assert_eq!(send(&mut stream, 0), []);
}

#[test]
fn a_fault_of_one_link_changes_nothing_on_another() {
    let jitter = everywhere(FaultEffect::Jitter(DELAY));
    let loss = FaultRule { from: Some(0), to: Some(1), ..everywhere(FaultEffect::Loss(0.5)) };
    let (mut with, mut without) =
        (network(DATAGRAMS, &[loss, jitter.clone()]), network(DATAGRAMS, &[jitter]));
    for ms in 0..100 {
        send(&mut with, ms);
        send(&mut without, ms);
        assert!(with.send(at(ms), 0, 2).eq(without.send(at(ms), 0, 2)));
    }
    // Neither of these two links has been used before.
    assert!(with.send(at(0), 2, 1).ne(with.send(at(0), 1, 2)), "links draw different numbers");
}
