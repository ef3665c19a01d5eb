//! Estimated weights and capacities: beside what they truly are, beside another estimator, and as rules.

mod model;
mod waits;

use balance::{Adaptive, Cluster, ClusterMember, HealthSettings, NodeId, PoolId, Sign, Slot, Weights};
use base::Instant;
use core::time::Duration;
use model::{Hard, Model};
use proptest::prelude::*;
use std::fmt::Write as _;
use wire::Method;

const WEIGHTS: Adaptive = Adaptive { weights: true, capacity: false };
const BOTH: Adaptive = Adaptive { weights: true, capacity: true };
/// Seconds between two looks at the other estimator, and the part of what it has noted that counts after each.
const PERIOD: f64 = 10.0;
const FADE: f64 = 0.9;
/// Ten minutes.
const PERIODS: u32 = 60;

/// Ten minutes of calls.
fn after_ten_minutes(mut model: Model) -> Model {
    for _ in 0..PERIODS {
        model.run(PERIOD);
        model.waits.fade(FADE);
    }
    model
}

/// The 99th percentile of the times of INVITEs in the second half.
fn p99(model: &Model) -> f64 {
    let mut times = model.invite_ms[model.invite_ms.len() / 2..].to_vec();
    times.sort_by(f64::total_cmp);
    times[times.len() * 99 / 100]
}

#[test]
fn the_table_of_estimators() {
    let mut table = String::from(
        "Estimated ratio after ten minutes by the true one: by least squares of waits; as it is built\n",
    );
    for hard in Hard::ALL {
        writeln!(table, "\n{hard:?}").expect("a String takes all");
        for ratio in [0.5, 1.0, 1.75, 4.0] {
            write!(table, "  {ratio:4}").expect("a String takes all");
            for load in [0.3, 0.6, 0.9] {
                let model = after_ten_minutes(Model::new(ratio, load, hard, WEIGHTS, 1));
                let waits =
                    model.waits.ratio().map_or("-".to_owned(), |found| format!("{:.2}", found / ratio));
                let weight = model.weight() / ratio;
                write!(table, " | at {:.0} %: {waits:>4}; {weight:.2}", load * 100.0)
                    .expect("a String takes all");
            }
            table.push('\n');
        }
    }
    insta::assert_snapshot!("estimators", table);
}

/// What INVITEs take (99 %) with estimated weights, by what the same ones take with 1.75: the geometric mean of
/// eight runs near the capacity.
#[test]
fn no_invite_waits_longer_for_estimated_weights() {
    let mut table = String::new();
    for hard in [Hard::Nothing, Hard::Exponential, Hard::Unequal] {
        for ratio in [0.5, 4.0] {
            let of = |adaptive, seed| p99(&after_ten_minutes(Model::new(ratio, 0.85, hard, adaptive, seed)));
            let logs = (1..=8).map(|seed| (of(WEIGHTS, seed) / of(Adaptive::default(), seed)).ln());
            let longer = (logs.sum::<f64>() / 8.0).exp();
            assert!(longer < 1.05, "{hard:?}, {ratio}: {longer:.3} times as long");
            writeln!(table, "{hard:?}, true ratio {ratio}: {longer:.2}").expect("a String takes all");
        }
    }
    insta::assert_snapshot!("longer", table);
}

/// Two servers in four are half as fast.
#[test]
fn capacities_beside_each_other_are_estimated() {
    let capacities = after_ten_minutes(Model::new(1.75, 0.6, Hard::Unequal, BOTH, 1)).capacities();
    let [fast, slow, ..] = capacities[..] else { panic!("there are four") };
    assert!((1.7..2.3).contains(&(fast / slow)), "{capacities:?}");
    let equal = after_ten_minutes(Model::new(1.75, 0.6, Hard::Exponential, BOTH, 1)).capacities();
    assert!(equal.iter().all(|capacity| (0.85..1.18).contains(capacity)), "{equal:?}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    /// Once it is there it stays, before servers that do not change.
    #[test]
    fn an_estimated_weight_stays(
        ratio in 0.5..4.0_f64, load in 0.3..0.9_f64, hard in prop::sample::select(Hard::ALL.to_vec()), seed in 0..1_000_u64,
    ) {
        let mut model = after_ten_minutes(Model::new(ratio, load, hard, WEIGHTS, seed));
        let (mut least, mut most) = (model.weight(), model.weight());
        for _ in 0..PERIODS {
            model.run(PERIOD);
            (least, most) = (least.min(model.weight()), most.max(model.weight()));
        }
        prop_assert!(most / least < 1.25, "from {least} to {most}");
    }
}

fn cluster(pools: &[Adaptive], members: &[(u32, u16)]) -> Cluster {
    let mut cluster = Cluster::new(HealthSettings::default());
    set(&mut cluster, pools, members);
    cluster
}

/// Members by their number and their pool. A capacity that is estimated begins at 1, whatever is configured.
fn set(cluster: &mut Cluster, pools: &[Adaptive], members: &[(u32, u16)]) {
    let settings = |adaptive: &Adaptive| HealthSettings { adaptive: *adaptive, ..HealthSettings::default() };
    cluster.set_pools(&pools.iter().map(settings).collect::<Vec<_>>());
    let member = |&(id, pool): &(u32, u16)| ClusterMember {
        id: NodeId(id),
        capacity: 3.0,
        max_calls: 0,
        max_rate: 0,
        pool: PoolId(pool),
    };
    cluster.set_members(Instant::ZERO, &members.iter().map(member).collect::<Vec<_>>());
}

/// Batches of answers, one every ten seconds: an INVITE takes so many microseconds, a BYE 1,000.
fn answers(cluster: &mut Cluster, slot: Slot, invite_us: u64, seconds: std::ops::Range<u64>) {
    for second in seconds.step_by(10) {
        for (method, micros) in [(Method::Invite, invite_us), (Method::Bye, 1_000)] {
            let median = Duration::from_micros(micros);
            cluster.sign(Instant::from_millis(1_000 * second), Sign::ServiceTime { slot, method, median });
        }
    }
}

fn invite(cluster: &Cluster, id: u32) -> Option<f64> {
    let slot = cluster.slot(NodeId(id)).expect("a member");
    cluster.nodes()[slot.index()].weights.as_ref().map(|weights| weights.get(Method::Invite))
}

fn is_about(estimate: Option<f64>, expected: f64) -> bool {
    estimate.is_some_and(|estimate| (estimate / expected - 1.0).abs() < 0.06)
}

#[test]
fn each_pool_has_weights_of_its_own_and_they_follow_its_members_over_a_reload() {
    let told = Adaptive::default();
    let mut cluster = cluster(&[WEIGHTS, WEIGHTS, told], &[(1, 0), (2, 1), (3, 2)]);
    answers(&mut cluster, Slot(0), 3_000, 100..700);
    answers(&mut cluster, Slot(1), 1_000, 100..700);
    answers(&mut cluster, Slot(2), 3_000, 100..700);
    assert!(is_about(invite(&cluster, 1), 3.0) && is_about(invite(&cluster, 2), 1.0));
    assert_eq!(invite(&cluster, 3), None, "it weighs as is configured");
    // The pools change places, and each gets one more member.
    set(&mut cluster, &[WEIGHTS, WEIGHTS], &[(4, 0), (2, 0), (1, 1), (5, 1)]);
    assert!([1, 5].iter().all(|id| is_about(invite(&cluster, *id), 3.0)));
    assert!([2, 4].iter().all(|id| is_about(invite(&cluster, *id), 1.0)));
    // One moves into a pool whose other members have higher slots, and weighs as they do.
    set(&mut cluster, &[WEIGHTS, WEIGHTS], &[(4, 0), (1, 0), (2, 0), (5, 1)]);
    assert!([1, 2, 4].iter().all(|id| is_about(invite(&cluster, *id), 1.0)));
    set(&mut cluster, &[WEIGHTS, WEIGHTS], &[(4, 0), (2, 0), (1, 1), (5, 1)]);
    assert!([1, 5].iter().all(|id| is_about(invite(&cluster, *id), 3.0)));
    set(&mut cluster, &[told, WEIGHTS], &[(4, 0), (2, 0), (1, 1), (5, 1)]);
    assert_eq!([2, 4].map(|id| invite(&cluster, id)), [None, None]);
    assert!([1, 0].map(|slot: usize| cluster.nodes()[slot].adaptive) == [told, WEIGHTS]);
}

#[test]
fn what_another_process_has_estimated_counts_for_the_whole_pool() {
    let mut cluster = cluster(&[BOTH, Adaptive::default()], &[(1, 0), (2, 0), (3, 1)]);
    let version = cluster.version();
    cluster.adopt_estimates(Slot(0), Some(Weights::invite(3.0)), Some(2.0));
    cluster.adopt_estimates(Slot(2), Some(Weights::invite(3.0)), Some(2.0));
    assert!([1, 2].iter().all(|id| is_about(invite(&cluster, *id), 3.0)));
    assert_eq!(invite(&cluster, 3), None);
    assert_eq!(
        [0, 1, 2].map(|slot: usize| format!("{:?}", cluster.nodes()[slot].capacity)),
        ["2.0", "1.0", "3.0"]
    );
    assert!(cluster.version() > version, "the shards hear of it");
}

#[test]
fn a_capacity_is_kept_over_a_reload_only_if_it_was_estimated() {
    let mut cluster = cluster(&[WEIGHTS], &[(1, 0), (2, 0)]);
    cluster.adopt_estimates(Slot(0), None, Some(2.0));
    let capacity = |cluster: &Cluster| format!("{:?}", cluster.nodes()[0].capacity);
    assert_eq!(capacity(&cluster), "3.0", "it is configured");
    set(&mut cluster, &[BOTH], &[(1, 0), (2, 0)]);
    cluster.adopt_estimates(Slot(0), None, Some(2.0));
    set(&mut cluster, &[BOTH], &[(2, 0), (1, 0)]);
    assert_eq!(capacity(&cluster), "2.0");
    set(&mut cluster, &[WEIGHTS], &[(1, 0), (2, 0)]);
    assert_eq!(capacity(&cluster), "3.0");
}

/// Somebody lets a call ring before the first answer.
#[test]
fn a_time_that_a_person_takes_is_no_service_time() {
    let mut cluster = cluster(&[WEIGHTS], &[(1, 0)]);
    answers(&mut cluster, Slot(0), 3_000_000, 100..700);
    assert_eq!(invite(&cluster, 1), Some(Weights::INVITE));
}

proptest! {
    /// Whatever shards tell, a weight has bounds, moves by a step in ten seconds at most, and is one for all members of a
    /// pool; so has a capacity.
    #[test]
    fn whatever_is_told_there_are_bounds_and_steps(
        signs in prop::collection::vec((0..20_u64, 0..4_u16, 0..Method::ALL.len(), any::<u32>()), 0..300),
    ) {
        let mut cluster = cluster(&[BOTH, BOTH], &[(1, 0), (2, 0), (3, 1), (4, 1)]);
        let mut now = 0;
        for (gap, slot, method, micros) in signs {
            let before = cluster.nodes().to_vec();
            now += gap;
            let (slot, method, median) = (Slot(slot), Method::ALL[method], Duration::from_micros(micros.into()));
            cluster.sign(Instant::from_millis(1_000 * now), Sign::ServiceTime { slot, method, median });
            let nodes = cluster.nodes();
            prop_assert_eq!([&nodes[0].weights, &nodes[2].weights], [&nodes[1].weights, &nodes[3].weights]);
            for (node, before) in nodes.iter().zip(&before) {
                prop_assert!((0.125..=8.0).contains(&node.capacity));
                prop_assert!((0.952..1.051).contains(&(node.capacity / before.capacity)));
                let (weights, before) = (node.weights.as_ref(), before.weights.as_ref());
                let (weights, before) = (weights.expect("estimated"), before.expect("estimated"));
                for method in Method::ALL {
                    let (weight, before) = (weights.get(method), before.get(method));
                    prop_assert!((0.124..=8.0).contains(&weight), "{weight}");
                    // Weights are whole thousandths.
                    prop_assert!((weight - before).abs() <= 0.051 * before + 0.001, "{before} {weight}");
                }
            }
        }
    }
}
