//! No feedback law gets stuck: after an overload or a pause of a host, any topology completes as many calls as a
//! network without it.

use base::{Instant, Rng};
use config::scenario::{
    Costs, FaultKind, Group, HostFault, QuotaSettings, Scenario, ScenarioFeedback, ScenarioLocal,
    StallSettings, Stream,
};
use core::time::Duration;
use load::RandomTime;
use load::RateStep;
use overload::RejectAt;
use rand::Rng as _;
use sim::stats::sweep;

const SECOND: Duration = Duration::from_secs(1);
/// Messages that a proxy receives for a call: INVITE, 180, 200, ACK, BYE, 200, and the 100 of the next proxy.
const MESSAGES: f64 = 7.0;
/// Load before and after the overload, relative to the network's capacity: close to a lasting collapse.
const CALM: f64 = 0.55;
/// Seconds before the overload, and seconds of overload.
const BEFORE: u32 = 5;
const OVERLOAD: u32 = 20;
/// Seconds from the end of the overload until calls count. Effects of an overload last as long as its transactions.
/// These are 32 s at each of five hosts in a row, and three times as long if each host tries two alternates.
const AFTER: u32 = 5 * 32 + 20;
const AFTER_WITH_ALTERNATES: u32 = 3 * AFTER;
/// Seconds in which calls count.
const COUNT: u32 = 60;
/// Number of networks. One more takes a second or two.
const NETWORKS: u64 = 32;
/// Minimum of completed calls relative to a run without overload. The smallest of these networks is offered 660 calls
/// in the time that counts; a tenth of them is 2.6 standard deviations of a Poisson count.
const ENOUGH: f64 = 0.9;

/// Feedback laws, each with the matching local law of the server.
const LAWS: [(ScenarioLocal, ScenarioFeedback); 4] = [
    (ScenarioLocal::Occupancy, ScenarioFeedback::HopByHop),
    (ScenarioLocal::Occupancy, ScenarioFeedback::EndToEnd),
    (ScenarioLocal::Delay, ScenarioFeedback::Rate),
    (ScenarioLocal::Delay, ScenarioFeedback::Window),
];

/// Returns groups of one to three hosts, and paths of calls through them. A group may occur anywhere on a path, and
/// more than once. Edges may thus be entry and exit, targets may be intermediate hosts of other paths, and hosts may
/// precede and follow each other.
fn network(rng: &mut Rng) -> (Vec<Group>, Vec<Stream>) {
    let group = |index: usize, rng: &mut Rng| {
        let count = rng.random_range(1..=3);
        let capacities = (0..count).map(|_| rng.random_range(60.0..=120.0)).collect();
        Group { capacities, ..Group::proxies(&format!("group {index}"), count, 0.0) }
    };
    let groups: Vec<Group> = (0..rng.random_range(1..=4)).map(|index| group(index, rng)).collect();
    let stream = |index: usize, rng: &mut Rng| {
        let path = (0..rng.random_range(1..=5)).map(|_| rng.random_range(0..groups.len())).collect();
        let holding = RandomTime::Exponential(SECOND * 2);
        Stream { holding, ..Stream::of_paper(&format!("stream {index}"), path, 0.0) }
    };
    let streams = (0..rng.random_range(1..=3)).map(|index| stream(index, rng)).collect();
    (groups, streams)
}

/// Gives every group its law: usually the same law, or a random law for each group, so that neighbours do not
/// understand each other.
fn control(groups: &mut [Group], rng: &mut Rng) {
    let law = LAWS[rng.random_range(0..LAWS.len())];
    let is_mixed = rng.random_ratio(1, 4);
    for group in groups {
        let own = LAWS[rng.random_range(0..LAWS.len())];
        let overload = &mut group.overload;
        (overload.local, overload.feedback) = if is_mixed { own } else { law };
        overload.reject = if rng.random_ratio(1, 4) { RejectAt::Service } else { RejectAt::Arrival };
        overload.stateful = rng.random_ratio(1, 8);
        overload.triage = rng.random_ratio(1, 8);
        overload.retry = rng.random_ratio(1, 16);
    }
}

/// Stops some groups regularly: by a quota with a processor that is up to 20 times as fast, or by pauses of the same
/// length. The mean capacity stays the same. Pauses are no busy time: if they take more than a tenth of the time, a
/// processor with [`ScenarioLocal::Occupancy`] stays below the target of 0.9, and some networks do not recover.
fn stop(group: &mut Group, rng: &mut Rng) {
    let length = Duration::from_millis(rng.random_range(10..=300));
    match rng.random_range(0..3) {
        0 => {
            let period = Duration::from_millis(rng.random_range(10..=100));
            group.quota = Some(QuotaSettings { period, processor: rng.random_range(150.0..=2_400.0) });
        }
        1 => {
            let least = if group.overload.local == ScenarioLocal::Occupancy { 15.0 } else { 0.1 };
            let every = length.mul_f64(rng.random_range(least..=20.0));
            group.stalls = Some(StallSettings { every, length: RandomTime::Fixed(length) });
            let speed = 1.0 + length.as_secs_f64() / every.as_secs_f64();
            group.capacities.iter_mut().for_each(|capacity| *capacity *= speed);
        }
        _ => {}
    }
}

/// Calls per second of each stream at which the busiest host is fully loaded.
fn carried(groups: &[Group], streams: &[Stream], costs: &Costs) -> f64 {
    let visits =
        |group: usize| streams.iter().flat_map(|stream| &stream.path).filter(|at| **at == group).count();
    let most = |(index, group): (usize, &Group)| {
        let least = group.capacities.iter().copied().fold(f64::INFINITY, f64::min);
        let work = MESSAGES * costs.message.as_secs_f64() * costs.base_capacity / least;
        f64::from(group.count) / (visits(index) as f64 * work)
    };
    groups.iter().enumerate().map(most).fold(f64::INFINITY, f64::min)
}

/// Returns the scenario of this seed: a network, and the load of the overload.
fn scenario(seed: u64) -> Scenario {
    let mut rng = Rng::from_seed(seed);
    let costs = Costs::default();
    let (mut groups, mut streams) = network(&mut rng);
    control(&mut groups, &mut rng);
    let carried = carried(&groups, &streams, &costs);
    let mut stops = rng.fork("stops");
    for group in &mut groups {
        stop(group, &mut stops);
    }
    let times = rng.random_range(1.5..=15.0);
    for stream in &mut streams {
        stream.load =
            steps(&[(0, carried * CALM), (BEFORE, carried * times), (BEFORE + OVERLOAD, carried * CALM)]);
    }
    let after = if groups.iter().any(|group| group.overload.retry) { AFTER_WITH_ALTERNATES } else { AFTER };
    let warm_up = SECOND * (BEFORE + OVERLOAD + after);
    let mut scenario = Scenario::new(groups, streams, warm_up + SECOND * COUNT);
    scenario.title = format!("network {seed}");
    (scenario.run.warm_up, scenario.run.bin) = (warm_up, SECOND);
    scenario
}

/// Returns the scenario of this seed with a pause of a host in place of the overload.
fn paused(seed: u64) -> Scenario {
    let mut scenario = scenario(seed);
    let mut rng = Rng::from_seed(seed).fork("pause");
    scenario.streams.iter_mut().for_each(|stream| stream.load.truncate(1));
    scenario.run.warm_up -= SECOND * OVERLOAD;
    scenario.run.duration -= SECOND * OVERLOAD;
    let path = &scenario.streams[0].path;
    let group = path[rng.random_range(0..path.len())];
    let host = rng.random_range(0..scenario.groups[group].count);
    let length = Duration::from_millis(100).mul_f64(50_f64.powf(rng.random()));
    scenario.faults.push(HostFault { group, host, at: SECOND * BEFORE, kind: FaultKind::Stall(length) });
    scenario
}

fn steps(steps: &[(u32, f64)]) -> Vec<RateStep> {
    steps.iter().map(|&(at, rate)| RateStep { at: SECOND * at, rate, ramp: false }).collect()
}

/// Share of the calls offered after the warm-up that are completed.
fn completed(scenario: &Scenario, seed: u64) -> f64 {
    let [from, to] = [scenario.run.warm_up, scenario.run.duration].map(|time| Instant::ZERO + time);
    let (offered, completed) = sim::model::run(scenario, seed).rates(from, to);
    completed / offered
}

/// The same share without the overload or the pause.
fn undisturbed(scenario: &Scenario, seed: u64) -> f64 {
    let mut calm = scenario.clone();
    calm.streams.iter_mut().for_each(|stream| stream.load.truncate(1));
    calm.faults.clear();
    // No recovery is needed.
    calm.run.warm_up = SECOND * BEFORE;
    calm.run.duration = SECOND * (BEFORE + COUNT);
    completed(&calm, seed)
}

fn assert_recovery(disturbed: fn(u64) -> Scenario) {
    let one = |seed: usize| {
        let seed = seed as u64;
        let scenario = disturbed(seed);
        (completed(&scenario, seed), undisturbed(&scenario, seed), scenario)
    };
    for (after, before, scenario) in sweep::sweep(NETWORKS as usize, sweep::all_cores(), one, |_| ()) {
        println!("{}: {after:.3} of the calls, {before:.3} undisturbed", scenario.title);
        assert!(after > ENOUGH * before, "{after:.3} instead of {before:.3} of the calls: {scenario:#?}");
    }
}

#[test]
fn after_an_overload_any_network_completes_as_many_calls_as_before() {
    assert_recovery(scenario);
}

#[test]
fn after_a_pause_of_a_host_any_network_completes_as_many_calls_as_before() {
    assert_recovery(paused);
}

/// An edge through which calls enter and leave receives feedback about itself as a target.
#[test]
fn edges_that_are_entry_and_exit_take_calls_again_after_an_overload() {
    for (local, feedback) in LAWS {
        let mut groups = vec![Group::proxies("edge", 2, 160.0), Group::proxies("core", 1, 160.0)];
        for group in &mut groups {
            (group.overload.local, group.overload.feedback) = (local, feedback);
        }
        let mut calls = Stream::of_paper("calls", vec![0, 1, 0], 0.0);
        calls.holding = RandomTime::Exponential(SECOND * 10);
        calls.load = steps(&[(0, 100.0), (20, 400.0), (120, 100.0)]);
        let mut scenario = Scenario::new(groups, vec![calls], SECOND * 260);
        (scenario.run.warm_up, scenario.run.bin) = (SECOND * 220, SECOND);
        for seed in 1..=2 {
            let completed = completed(&scenario, seed);
            assert!(completed > 0.95, "{feedback:?}, seed {seed}: {completed:.3} of the calls");
        }
    }
}
