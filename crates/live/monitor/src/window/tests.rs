//! Windows compared with the exact statistics of all their latencies.

use super::*;
use proptest::prelude::*;

const fn us(us: u64) -> Duration {
    Duration::from_micros(us)
}

fn at(ms: u64) -> Instant {
    Instant::from_millis(ms)
}

/// The exact percentile, by nearest rank.
fn exact(sorted: &[Duration], percent: usize) -> Duration {
    sorted[(sorted.len() * percent).div_ceil(100).max(1) - 1]
}

#[test]
fn a_window_without_latencies_has_no_statistics() {
    let mut latencies = Latencies::new(at(5));
    assert_eq!(latencies.end(at(1_000)), Window { start: at(5), end: at(1_000), count: 0, latency: None });
    latencies.note(us(7));
    let window = latencies.end(at(2_000));
    assert_eq!((window.start, window.end, window.count), (at(1_000), at(2_000), 1));
    let only = us(7);
    let expected = Latency {
        min: only,
        mean: only,
        deviation: Duration::ZERO,
        median: only,
        p95: only,
        p99: only,
        max: only,
    };
    assert_eq!(window.latency, Some(expected));
    assert_eq!(latencies.end(at(3_000)).latency, None, "a new window starts empty");
}

#[test]
fn a_hundred_latencies_and_their_percentiles() {
    let mut latencies = Latencies::new(at(0));
    for step in 0..100 {
        // 37 and 100 have no common divisor: all values from 1 to 100, in mixed order.
        latencies.note(us(step * 37 % 100 + 1));
    }
    let latency = latencies.end(at(1)).latency.expect("the window has latencies");
    assert_eq!((latency.min, latency.max, latency.mean), (us(1), us(100), Duration::from_nanos(50_500)));
    assert_eq!(latency.deviation.as_nanos(), 29_011);
    for (found, exact) in [(latency.p95, us(95)), (latency.p99, us(99))] {
        assert!(found.abs_diff(exact) <= Duration::from_nanos(64).max(exact / 1000), "{found:?}");
    }
    assert!(latency.median.abs_diff(us(50)) < us(3), "{:?}", latency.median);
}

#[test]
fn latencies_beyond_the_range_count_as_the_maximum() {
    let mut latencies = Latencies::new(at(0));
    for latency in [Duration::ZERO, Duration::MAX] {
        latencies.note(latency);
    }
    let latency = latencies.end(at(1)).latency.expect("the window has latencies");
    assert_eq!((latency.min, latency.max), (Duration::ZERO, Duration::MAX));
    assert!(latency.p99 >= Duration::from_hours(1));
}

proptest! {
    #[test]
    fn percentiles_are_those_of_the_sorted_latencies(
        micros in prop::collection::vec((0..1_000_u64, 0..5_u32), 1..400)
    ) {
        let mut all: Vec<_> = micros.iter().map(|&(value, zeros)| us(value * 10_u64.pow(zeros))).collect();
        let mut latencies = Latencies::new(at(0));
        for latency in &all {
            latencies.note(*latency);
        }
        let window = latencies.end(at(1));
        all.sort();
        prop_assert_eq!(window.count, all.len() as u64);
        let latency = window.latency.expect("the window has latencies");
        for (found, percent) in [(latency.p95, 95), (latency.p99, 99)] {
            let exact = exact(&all, percent);
            let error = Duration::from_nanos(64).max(exact / 1000);
            prop_assert!(found.abs_diff(exact) <= error, "{percent} %: {found:?}, not {exact:?}");
        }
        let Latency { min, mean, median, p95, p99, max, .. } = latency;
        prop_assert_eq!((min, max), (all[0], all[all.len() - 1]));
        prop_assert!(min <= median && median <= p95 && p95 <= p99 && p99 <= max && min <= mean && mean <= max);
        let sum: Duration = all.iter().sum();
        prop_assert!(mean.abs_diff(sum / all.len() as u32) <= us(1));
    }
}
