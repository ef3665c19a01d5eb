//! Keys that must be equal in several pools, because sessions belong to the process.

use crate::kind::Kind;
use crate::raw::RawPool;
use crate::report::Report;
use crate::setting::Setting;
use crate::structure::join;
use crate::typed::{PoolConfig, PoolOrigin};
use balance::PolicyKind;

/// Reports keys with different values in two pools, if there is only one value for all pools. `raw` finds a pool of the
/// file by its name.
pub(super) fn check<'r>(
    pools: &[PoolConfig],
    raw: impl Fn(&str) -> Option<&'r RawPool>,
    report: &mut Report<'_>,
) {
    let of_file = pools.iter().filter(|pool| pool.origin == PoolOrigin::Table);
    let all: Vec<_> = of_file.filter_map(|pool| Some((pool, raw(&pool.settings.name)?))).collect();
    let Some((&(first, first_raw), others)) = all.split_first() else { return };
    for &(pool, raw) in others {
        if pool.sessions.max_sessions != first.sessions.max_sessions {
            let why = "all pools share one table of sessions";
            report_difference(
                "max_sessions",
                why,
                (first, &first_raw.max_sessions),
                (pool, &raw.max_sessions),
                report,
            );
        }
    }
    // Work is counted if a policy needs it.
    let mut by_work = all.iter().filter(|(pool, _)| pool.settings.policy == PolicyKind::Tlwl);
    let Some(&(first, first_raw)) = by_work.next() else { return };
    for &(pool, raw) in by_work.filter(|(pool, _)| pool.sessions.weights != first.sessions.weights) {
        let why = "a member that is in several pools has one amount of work, so all pools with policy \"tlwl\" need \
                  the same weights";
        if raw.weights.is_empty() {
            report_difference("weights", why, (first, &first_raw.policy), (pool, &raw.policy), report);
        } else {
            let remedy = remedy("weights", why, &first.settings.name);
            report.key_problem(&join(&join("pool", &pool.settings.name), "weights"), remedy);
        }
    }
}

/// Reports a difference at the pool that sets the key.
fn report_difference<K: Kind>(
    key: &str,
    why: &str,
    (first, first_setting): (&PoolConfig, &Setting<K>),
    (other, setting): (&PoolConfig, &Setting<K>),
    report: &mut Report<'_>,
) {
    if setting.is_set() {
        report.conflict(setting, remedy(key, why, &first.settings.name));
    } else {
        report.conflict(first_setting, remedy(key, why, &other.settings.name));
    }
}

fn remedy(key: &str, why: &str, other: &str) -> String {
    format!(
        "`{}` has a different `{key}`, or the default: {why}; set the same value in both",
        join("pool", other)
    )
}
