//! The same cluster in the simulator, at the prices, with the pauses and the control groups that were measured with.
//!
//! Prices are of a server with a whole processor. One that is held to a small part of it takes more time for the same, and
//! less of it with more to do. So all prices are stretched alike, to what the servers used at this load.

use std::time::Duration;

use base::Instant;
use config::scenario::{
    BalancerSettings, Costs as ScenarioCosts, Group, HostRole, QuotaSettings, RunSettings, Scenario,
    StallSettings, Stream, Ties,
};
use load::RandomTime;
use proxy::ProxyTimers;
use sim::model::{self, RunResults};

use super::costs::Costs;
use super::runs::Run;
use super::sweep::{LevelResult, SweepPlan};
use crate::quota::period;
use crate::report::name;

/// Seconds that do not count, and that do.
const WARM_UP: u64 = 10;
const COUNTED: u64 = 120;

/// Times in milliseconds.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Simulated {
    /// What all takes by the prices, as a part of the servers' quotas.
    pub by_prices: f64,
    /// What simulated servers use of them.
    pub busy: f64,
    /// Of an INVITE, in the mean.
    pub invite: f64,
    /// In the 99th percentile.
    pub invite_p99: f64,
    /// Of a BYE, in the mean.
    pub bye: f64,
}

/// Simulates a load of a sweep. `None`: the simulator has no such policy, the prices are none, or the servers had no time
/// left.
///
/// The processor time that pauses take is in the prices as well; it is taken out of them. What a server does for
/// transactions that it keeps is work beside its calls.
pub fn simulated(
    costs: &Costs,
    run: &Run,
    plan: &SweepPlan,
    at: usize,
    level: &LevelResult,
) -> Option<Simulated> {
    let (policy, weights) = config::policy(&name(&run.way))?;
    let quotas = run.shape.quotas(run.product);
    let (quota, count) = (quotas.iter().sum::<f64>(), quotas.len() as f64);
    let [invite, bye] = [costs.invite_us, costs.bye_us].map(|cost| 1e-6 * cost.mean);
    let kept = plan.kept(at, run.product.keeps()) * level.rate / plan.loads[at];
    let beside = (costs.idle * count + 1e-6 * costs.kept_us.mean.max(0.0) * kept) / quota;
    let by_prices = beside + (invite + bye) * level.rate / quota;
    let stretch = level.servers / by_prices;
    let call = stretch * (invite + bye) - level.paused * quota / level.rate;
    // Nothing is done in a pause.
    let background = stretch * beside / (1.0 - level.paused);
    if invite <= 0.0 || bye <= 0.0 || call <= 0.0 || level.servers >= 1.0 {
        return None;
    }
    let seconds = Duration::from_secs_f64;
    let settings = BalancerSettings {
        policy,
        weights,
        ties: Ties::Turns,
        probes: false,
        outlier: false,
        ..BalancerSettings::default()
    };
    let balancer =
        Group { name: "balancer".to_owned(), role: HostRole::Balancer(settings), ..Group::default() };
    let servers = Group {
        name: "server".to_owned(),
        count: quotas.len() as u16,
        role: HostRole::Server,
        capacities: quotas.iter().map(|quota| quota / call).collect(),
        stalls: (level.pauses > 0.0).then(|| stalls(level)),
        quota: Some(QuotaSettings { period: period(quotas[0]), processor: 1.0 / call }),
        background,
        ..Group::default()
    };
    let [mean, deviation] = plan.holding.map(seconds);
    let calls = Stream {
        holding: RandomTime::Normal(mean, deviation),
        ..Stream::of_paper("calls", vec![0, 1], level.rate)
    };
    let scenario = Scenario {
        title: "as measured".to_owned(),
        run: RunSettings {
            duration: Duration::from_secs(WARM_UP + COUNTED),
            warm_up: Duration::from_secs(WARM_UP),
            bin: Duration::from_secs(WARM_UP),
            ..RunSettings::default()
        },
        costs: ScenarioCosts {
            base_capacity: quota / count / call,
            invite_work: invite / bye,
            ..ScenarioCosts::default()
        },
        timers: ProxyTimers::default(),
        groups: vec![balancer, servers],
        streams: vec![calls],
        links: Vec::new(),
        faults: Vec::new(),
    };
    let results = model::run(&scenario, u64::from(run.round) + 1);
    let stream = &results.streams[0];
    let for_calls = (1.0 - background) * utilisation(&results);
    let ms = |time: Duration| 1e3 * time.as_secs_f64();
    Some(Simulated {
        by_prices,
        busy: for_calls + background * (1.0 - level.paused) + level.paused,
        invite: ms(stream.answer_delay.mean()),
        invite_p99: ms(stream.answer_delay.percentile(99.0)),
        bye: ms(stream.bye_delay.mean()),
    })
}

/// Of the servers, in the mean, after the time that does not count.
fn utilisation(results: &RunResults) -> f64 {
    let bins = results.hosts[1..].iter().flat_map(|host| &host.utilisation);
    let warm = Instant::ZERO + Duration::from_secs(WARM_UP);
    let bins: Vec<f64> = bins.filter(|(at, _)| *at > warm).map(|(_, used)| *used).collect();
    bins.iter().sum::<f64>() / bins.len() as f64
}

/// Pauses as often as these, and as long.
fn stalls(level: &LevelResult) -> StallSettings {
    let mean = level.paused / level.pauses;
    let [every, mean, deviation] =
        [1.0 / level.pauses - mean, mean, level.pause_deviation_ms / 1e3].map(Duration::from_secs_f64);
    StallSettings { every, length: RandomTime::Normal(mean, deviation) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::costs::CostRun;
    use crate::cluster::verdict::equal;
    use crate::cluster::{Product, Way};

    /// An INVITE of 400 us and a BYE of 200 us; a server at rest, and a second of keeping a BYE.
    fn costs(idle: f64, second: f64) -> Costs {
        // The first one is at rest.
        let mixes = [[0.0, 0.0], [500.0, 500.0], [400.0, 0.0], [0.0, 300.0], [700.0, 200.0]];
        let run = |(at, [invites, byes]): (usize, [f64; 2])| {
            let (seconds, kept) = (4.0, [0.0, 100.0, 30.0, 400.0, 20.0][at]);
            let used = idle * seconds + second * kept + 400e-6 * invites + 200e-6 * byes;
            CostRun { round: 0, seconds, numbers: [invites, byes, 0.0], kept, used }
        };
        Costs::of(mixes.into_iter().enumerate().map(run).collect(), 0.0).expect("mixes that differ")
    }

    fn at(way: Way, level: LevelResult) -> Option<Simulated> {
        let plan = SweepPlan { loads: vec![0.5], settle: 1.0, counted: 2.0, holding: [2.0, 1.0] };
        simulated(&costs(0.0, 0.0), &equal(Product::Java, way), &plan, 0, &level)
    }

    /// 8 servers of 0.09 carry 8 * 0.09 / 600 us = 1,200 calls/s.
    fn level(rate: f64) -> LevelResult {
        LevelResult { rate, servers: rate / 1_200.0, ..LevelResult::default() }
    }

    #[test]
    fn a_cluster_with_little_to_do_takes_its_service_times_of_a_whole_processor() {
        let few = level(6.0);
        for stretch in [1.0, 2.0] {
            let found = at(Way::Tlwl, LevelResult { servers: stretch * few.servers, ..few });
            let found = found.expect("it carries that");
            // Some come when the part of a period has been used up.
            assert!((1.0..1.15).contains(&(found.invite / (0.4 * stretch))), "{found:?}");
            assert!((1.0..1.15).contains(&(found.bye / (0.2 * stretch))), "{found:?}");
            assert!((found.by_prices - few.servers).abs() < 1e-9, "{found:?}");
        }
        assert_eq!(at(Way::KamailioLoad, few), None);
        assert_eq!(at(Way::Tlwl, level(1_300.0)), None);
    }

    #[test]
    fn prices_below_nothing_are_none() {
        let plan = SweepPlan { loads: vec![0.5], settle: 1.0, counted: 2.0, holding: [2.0, 1.0] };
        let mut costs = costs(0.0, 0.0);
        costs.bye_us.mean = -9.0;
        let level = level(30.0);
        assert_eq!(simulated(&costs, &equal(Product::Java, Way::Tlwl), &plan, 0, &level), None);
    }

    #[test]
    fn simulated_servers_use_what_the_real_ones_did() {
        let plan = SweepPlan { loads: vec![0.5], settle: 1.0, counted: 2.0, holding: [2.0, 1.0] };
        let level =
            LevelResult { servers: 0.9, paused: 0.1, pauses: 2.0, pause_deviation_ms: 10.0, ..level(600.0) };
        let costs = costs(0.001, 20e-6);
        let found = simulated(&costs, &equal(Product::Java, Way::Tlwl), &plan, 0, &level);
        let found = found.expect("it carries that");
        assert!(found.by_prices > 0.5 && (found.busy - 0.9).abs() < 0.02, "{found:?}");
    }

    #[test]
    fn pauses_lengthen_times_and_are_not_paid_twice() {
        let level = level(600.0);
        let paused = LevelResult { paused: 0.04, pauses: 0.8, pause_deviation_ms: 10.0, ..level };
        let [without, with] =
            [level, paused].map(|level| at(Way::RoundRobin, level).expect("it carries that"));
        // One INVITE in 25 comes in a pause of 50 ms.
        assert!(with.invite_p99 > without.invite_p99 + 20.0, "{without:?} {with:?}");
        // Three quarters of the time are work; pauses of which all were extra would be too much.
        let most = LevelResult { paused: 0.3, pauses: 3.0, ..self::level(900.0) };
        let found = at(Way::Tlwl, most).expect("it carries that");
        assert!(found.invite < 1_000.0, "{found:?}");
    }
}
