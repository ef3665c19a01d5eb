//! Overload control between typed messages: counts of the hosts, and state that they drop.

use config::scenario::{
    FaultKind, Group, HostFault, QuotaSettings, Scenario, ScenarioFeedback, ScenarioLocal, Stream,
};
use load::RateStep;
use overload::RejectAt;
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);

/// Four neighbours without processing time in front of a server of 167 calls/s with its own control law.
fn network(local: ScenarioLocal, feedback: ScenarioFeedback, load: &[(u32, f64)], seconds: u32) -> Scenario {
    let mut neighbours = Group::proxies("neighbour", 4, 0.0);
    neighbours.capacities.clear();
    let mut server = Group::proxies("server", 1, 160.0);
    (neighbours.overload.feedback, server.overload.feedback) = (feedback, feedback);
    server.overload.local = local;
    let mut calls = Stream::of_paper("calls", vec![0, 1], 0.0);
    calls.holding = load::RandomTime::Exponential(SECOND * 2);
    calls.load = load.iter().map(|&(at, rate)| RateStep { at: SECOND * at, rate, ramp: false }).collect();
    let mut scenario = Scenario::new(vec![neighbours, server], vec![calls], SECOND * seconds);
    scenario.run.bin = SECOND;
    scenario
}

/// Calls completed per second between two seconds of a run.
fn goodput(scenario: &Scenario, seed: u64, from: u64, to: u64) -> f64 {
    let at = |second: u64| base::Instant::from_millis(1_000 * second);
    sim::model::run(scenario, seed).rates(at(from), at(to)).1
}

/// The ACK to a rejection costs as much as any message. A window that opens at rejections would cause only rejections.
#[test]
fn a_window_beside_a_law_of_the_server_holds_ten_times_the_load() {
    let scenario = network(ScenarioLocal::Delay, ScenarioFeedback::Window, &[(0, 140.0), (3, 1_667.0)], 14);
    for seed in 1..=4 {
        let goodput = goodput(&scenario, seed, 8, 14);
        assert!(goodput > 0.95 * 167.0, "{seed}: {goodput}");
    }
}

/// A quota of half of the processor, or of a twentieth of a faster one, carries as many calls as a processor of half
/// the speed. At 70 % of this load calls wait for the end of a stop, but hardly any is rejected.
#[test]
fn a_host_that_runs_half_of_the_time_carries_half_of_the_calls() {
    let run = |rate, processor: Option<(u64, f64)>| {
        let mut scenario = network(ScenarioLocal::Delay, ScenarioFeedback::None, &[(0, rate)], 60);
        scenario.groups[1].capacities = vec![80.0];
        scenario.groups[1].quota = processor
            .map(|(period, processor)| QuotaSettings { period: Duration::from_millis(period), processor });
        sim::model::run(&scenario, 1)
    };
    let at = |second: u64| base::Instant::from_millis(1_000 * second);
    let goodput = |processor| run(250.0, processor).rates(at(10), at(60)).1;
    for (period, processor) in [(20, 160.0), (100, 160.0), (20, 1_600.0)] {
        let parts = Some((period, processor));
        assert!((goodput(parts) / goodput(None) - 1.0).abs() < 0.05, "{parts:?}: {}", goodput(parts));
        let results = run(60.0, parts);
        let stream = &results.streams[0];
        assert!(stream.outcomes.refused * 100 < stream.calls, "{parts:?}: {:?}", stream.outcomes);
        let longest = stream.setup_delay.percentile(99.9).as_secs_f64();
        let stop = period as f64 / 1e3 * (1.0 - 80.0 / processor);
        assert!(longest > stop, "{parts:?}: {longest}");
    }
}

/// The queue of a failed server no longer counts.
#[test]
fn a_server_that_dies_in_overload_takes_calls_when_it_is_back() {
    for feedback in [ScenarioFeedback::None, ScenarioFeedback::Rate, ScenarioFeedback::Window] {
        let mut scenario = network(ScenarioLocal::Delay, feedback, &[(0, 400.0), (10, 100.0)], 60);
        scenario.faults =
            vec![HostFault { group: 1, host: 0, at: SECOND * 5, kind: FaultKind::Restart(SECOND * 2) }];
        let goodput = goodput(&scenario, 1, 45, 60);
        assert!(goodput > 90.0, "{feedback:?}: {goodput}");
    }
}

/// Copies that wait together at a stalled proxy were all new on arrival. Only one of them is forwarded, and the others
/// leave no place in the next server's window occupied.
#[test]
fn copies_that_waited_together_keep_no_place_of_a_window() {
    for reject in [RejectAt::Arrival, RejectAt::Service] {
        let mut scenario =
            network(ScenarioLocal::None, ScenarioFeedback::Window, &[(0, 50.0), (15, 200.0)], 40);
        scenario.groups[0].count = 2;
        scenario.groups[0].capacities = vec![320.0; 2];
        scenario.groups[0].overload.reject = reject;
        let stall = |host| HostFault { group: 0, host, at: SECOND * 5, kind: FaultKind::Stall(SECOND * 3) };
        scenario.faults = [0, 1].map(stall).into();
        let goodput = goodput(&scenario, 1, 25, 40);
        assert!(goodput > 0.9 * 167.0, "{reject:?}: {goodput}");
    }
}

/// A server with a full buffer stalls while calls arrive, until just before the first retransmission. Returns the calls
/// that it rejected, the calls that it dropped, and the number of refused callers.
fn stalled(buffer_rejections: bool) -> [u64; 3] {
    let length = Duration::from_millis(480);
    let mut server = Group { buffer: 10, ..Group::proxies("server", 1, 160.0) };
    server.overload.local = ScenarioLocal::BangBang;
    server.overload.buffer_rejections = buffer_rejections;
    let mut calls = Stream::of_paper("calls", vec![0], 500.0);
    calls.load = vec![RateStep { at: Duration::ZERO, rate: 500.0, ramp: false }];
    let mut scenario = Scenario::new(vec![server], vec![calls], length);
    scenario.run.bin = length;
    let kind = FaultKind::Stall(Duration::from_millis(400));
    scenario.faults.push(HostFault { group: 0, host: 0, at: Duration::ZERO, kind });
    let results = sim::model::run(&scenario, 1);
    let count = |series: &sim::stats::Series| {
        series.rates().map(|(_, rate)| rate * length.as_secs_f64()).sum::<f64>().round() as u64
    };
    let host = &results.hosts[0];
    [count(&host.rejected), count(&host.dropped), results.streams[0].outcomes.refused]
}

/// Section VI-A of the paper: only admitted requests wait in the buffer.
#[test]
fn early_rejections_are_not_dropped_by_a_full_buffer() {
    let [apart, _, refused] = stalled(false);
    assert!(apart > 180 && apart == refused, "{apart} rejected, {refused} refused");
    // If rejections take room in the buffer, dropped requests are not rejected.
    let [buffered, dropped, refused] = stalled(true);
    assert!(buffered < 90 && dropped > 120 && buffered == refused, "{buffered} {dropped} {refused}");
}
