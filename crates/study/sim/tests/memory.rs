//! The memory of a run does not grow with its simulated time. Has a process of its own, whose memory is measured.

use config::scenario::{Group, Scenario, Stream};
use load::RandomTime;
use std::time::Duration;

/// Returns the peak of this process's resident bytes.
fn peak() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux tells the memory of a process");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("a line for the peak");
    line.trim().trim_end_matches(" kB").parse::<usize>().expect("kilobytes") * 1024
}

/// Topology 3 of the Overload paper, with calls short enough to reach the steady state soon.
fn scenario(seconds: u64) -> Scenario {
    let mut calls = Stream::of_paper("calls", vec![0, 1, 0], 100.0);
    calls.holding = RandomTime::Fixed(Duration::from_secs(10));
    let groups = vec![Group::proxies("edge", 8, 160.0), Group::proxies("core", 2, 160.0)];
    Scenario::new(groups, vec![calls], Duration::from_secs(seconds))
}

#[test]
fn three_times_the_time_takes_no_more_memory() {
    let before = peak();
    let short = sim::model::run(&scenario(80), 1);
    let after_short = peak();
    let long = sim::model::run(&scenario(240), 1);
    let after_long = peak();
    assert!(long.messages > short.messages * 5 / 2);
    let (taken, more) = (after_short - before, after_long - after_short);
    // 16 transactions per call, most of which last 32 s.
    assert!(short.transactions_left > 30_000, "{} transactions show nothing", short.transactions_left);
    // Queues that grow by doubling may double once more; a leak would take twice as much again.
    assert!(more < taken / 2, "{taken} bytes for 80 s, {more} more for 240 s");
    // Within the noise of Poisson calls.
    for (short, long) in
        [(short.calls_left, long.calls_left), (short.transactions_left, long.transactions_left)]
    {
        assert!(long.abs_diff(short) < short / 10, "{short} left after 80 s, {long} after 240 s");
    }
}
