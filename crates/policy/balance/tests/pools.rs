//! Health of nodes of several pools: each pool has its own settings, and is compared only with itself.

use crate::common::*;
use balance::*;
use base::Instant;
use std::time::Duration;

/// Two nodes in each of two pools.
fn cluster(settings: [HealthSettings; 2]) -> Cluster {
    let mut cluster = Cluster::new(settings[0]);
    cluster.set_pools(&settings);
    let members: Vec<_> = members(&[1.0; 4])
        .into_iter()
        .zip([0, 0, 1, 1])
        .map(|(member, pool)| ClusterMember { pool: PoolId(pool), ..member })
        .collect();
    cluster.set_members(Instant::ZERO, &members);
    cluster
}

fn plain() -> HealthSettings {
    HealthSettings { fall: 1, slow_start: Duration::ZERO, ..HealthSettings::default() }
}

#[test]
fn each_pool_has_its_own_settings() {
    let mut cluster = cluster([plain(), HealthSettings { fall: 3, ..plain() }]);
    for slot in [0, 2] {
        cluster.probed(seconds(1), Slot(slot), false);
    }
    assert_eq!([0, 2].map(|slot: usize| cluster.nodes()[slot].is_up()), [false, true]);
    let max_rest = Duration::from_secs(5);
    cluster.set_pools(&[plain(), HealthSettings { max_rest, ..plain() }]);
    cluster.pause(seconds(1), Slot(1), seconds(61), true);
    cluster.pause(seconds(1), Slot(3), seconds(61), true);
    assert_eq!([1, 3].map(|slot: usize| cluster.nodes()[slot].paused_until), [seconds(61), seconds(6)]);
}

#[test]
fn a_pool_without_a_live_member_is_reported_independently_of_other_pools() {
    let mut cluster = cluster([plain(), plain()]);
    cluster.probed(seconds(1), Slot(2), false);
    cluster.probed(seconds(1), Slot(3), false);
    assert!(news(&mut cluster).contains(&HealthNews::NoneAlive { pool: PoolId(1), silent: true }));
    cluster.probed(seconds(2), Slot(0), false);
    news(&mut cluster);
    // After the first one back, the rest of its pool is expected; dead nodes of another pool are not.
    cluster.probed(seconds(3), Slot(2), true);
    let expected = [0, 3].map(|slot: usize| cluster.nodes()[slot].is_expected(seconds(3)));
    assert_eq!(expected, [false, true]);
}

#[test]
fn a_failing_member_is_compared_with_its_own_pool() {
    let failing = OutcomeTally { ended: 100, failed: 100, ..OutcomeTally::default() };
    let sound = OutcomeTally { ended: 100, ..OutcomeTally::default() };
    let settings = HealthSettings::default();
    let judge = |tallies: [OutcomeTally; 4]| {
        let mut cluster = cluster([settings, settings]);
        for (slot, tally) in (0..).map(Slot).zip(tallies) {
            cluster.sign(seconds(1), Sign::Tally { slot, tally });
        }
        let later = seconds(1) + Duration::from_secs(10);
        for slot in (0..4).map(Slot) {
            cluster.sign(later, Sign::Tally { slot, tally: OutcomeTally::default() });
        }
        (0..4).filter(|&slot: &usize| cluster.nodes()[slot].is_ejected(later)).collect::<Vec<_>>()
    };
    // If a whole pool fails, for example a carrier without a route, no member is an outlier.
    assert_eq!(judge([failing, failing, sound, sound]), [0; 0]);
    assert_eq!(judge([sound, sound, failing, sound]), [2]);
}
