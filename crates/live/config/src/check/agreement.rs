//! What several pools have to agree on: a session belongs to the process, and a request out of nowhere to no pool at
//! all.

use crate::kind::Kind;
use crate::raw::RawPool;
use crate::report::Report;
use crate::setting::Setting;
use crate::structure::join;
use crate::typed::{PoolConfig, PoolOrigin};
use balance::PolicyKind;

/// Reports keys that two pools have with different values, where there is one value for all of them. `raw` finds a
/// pool of the file by its name.
pub(super) fn check<'r>(
    pools: &[PoolConfig],
    raw: impl Fn(&str) -> Option<&'r RawPool>,
    report: &mut Report<'_>,
) {
    let of_file = pools.iter().filter(|pool| pool.origin == PoolOrigin::Table);
    let all: Vec<_> = of_file.filter_map(|pool| Some((pool, raw(&pool.name)?))).collect();
    let Some((&(first, first_raw), others)) = all.split_first() else { return };
    for &(pool, raw) in others {
        if pool.orphans != first.orphans {
            let why = "a request of an unknown dialog belongs to no pool";
            tell("orphans", why, (first, &first_raw.orphans), (pool, &raw.orphans), report);
        }
        if pool.sessions.max_sessions != first.sessions.max_sessions {
            let why = "all pools share one table of sessions";
            tell("max_sessions", why, (first, &first_raw.max_sessions), (pool, &raw.max_sessions), report);
        }
    }
    estimates(&all, report);
    // Work is counted where a policy asks for it.
    let is_by_work = |pool: &PoolConfig| pool.policy == PolicyKind::Tlwl && !pool.health.adaptive.weights;
    let mut by_work = all.iter().filter(|(pool, _)| is_by_work(pool));
    let Some(&(first, first_raw)) = by_work.next() else { return };
    for &(pool, raw) in by_work.filter(|(pool, _)| pool.sessions.weights != first.sessions.weights) {
        let why = "a member that is in several pools has one amount of work, so all with policy \"tlwl\" weigh alike";
        if raw.weights.is_none() {
            tell("weights", why, (first, &first_raw.policy), (pool, &raw.policy), report);
        } else {
            let remedy = remedy("weights", why, &first.name);
            report.key_problem(&join(&join("pool", &pool.name), "weights"), remedy);
        }
    }
}

/// A member has one amount of work and one capacity, in whatever pools it is.
fn estimates(all: &[(&PoolConfig, &RawPool)], report: &mut Report<'_>) {
    let share = |one: &PoolConfig, other: &PoolConfig| {
        one.members.iter().any(|member| other.members.iter().any(|known| known.address == member.address))
    };
    for (index, &(pool, raw)) in all.iter().enumerate() {
        for &(other, _) in all[..index].iter().filter(|(other, _)| share(pool, other)) {
            let [own, its] = [pool, other].map(|pool| pool.health.adaptive);
            let are_by_work = [pool, other].iter().all(|pool| pool.policy == PolicyKind::Tlwl);
            if are_by_work && own.weights != its.weights {
                let path = join(&join("pool", &pool.name), "weights");
                let remedy = format!(
                    "a member is in `{}` as well and has one amount of work: `weights = \"adaptive\"` in both, or in neither",
                    join("pool", &other.name)
                );
                report.key_problem(&path, remedy);
            }
            let moves =
                (own.capacity && other.policy.is_by_call()) || (its.capacity && pool.policy.is_by_call());
            if moves {
                let remedy = format!(
                    "a member is in `{}` as well, and one of the two has capacity = \"adaptive\": calls would move whenever that \
                     changes; use another policy, or remove it",
                    join("pool", &other.name)
                );
                report.conflict(&raw.policy, remedy);
            }
        }
    }
}

/// Says it where the file has the key.
fn tell<K: Kind>(
    key: &str,
    why: &str,
    (first, first_setting): (&PoolConfig, &Setting<K>),
    (other, setting): (&PoolConfig, &Setting<K>),
    report: &mut Report<'_>,
) {
    if setting.is_set() {
        report.conflict(setting, remedy(key, why, &first.name));
    } else {
        report.conflict(first_setting, remedy(key, why, &other.name));
    }
}

fn remedy(key: &str, why: &str, other: &str) -> String {
    format!("`{}` has another `{key}`, or the default: {why}; write the same in both", join("pool", other))
}
