//! `[host.<name>]`

use std::collections::BTreeMap;

use super::{overload, required};
use crate::check::pool::policy;
use crate::kind::Kind;
use crate::nearest::nearest;
use crate::report::Report;
use crate::scenario::BalancerSettings;
use crate::scenario::names::RoleName;
use crate::scenario::raw::{RawHost, RawQuota, RawStalls};
use crate::scenario::typed::{Group, HostRole, QuotaSettings, StallSettings};
use crate::setting::{Setting, Several};
use crate::structure::{in_order, join};
use balance::PolicyKind;
use load::RandomTime;

/// Smallest part of a processor that a quota allows.
const PART_MIN: f64 = 1e-4;

/// Name of callers and callees in links.
pub(super) const AGENTS: &str = "agents";

/// A group of the file, right or wrong, that others may refer to.
pub(super) struct Known {
    pub(super) name: String,
    /// `None` if it is wrong.
    pub(super) role: Option<RoleName>,
    /// `None` if it is wrong.
    pub(super) count: Option<u16>,
    /// Whether its work takes no time.
    pub(super) unlimited: bool,
    /// Whether it has a network card of limited speed.
    pub(super) has_card: bool,
    /// `None` if something in it is wrong.
    pub(super) group: Option<Group>,
}

/// All groups, in the order of the file.
pub(super) fn check(raw: &BTreeMap<String, RawHost>, report: &mut Report<'_>) -> Vec<Known> {
    if raw.is_empty() {
        report.missing("host", "expected at least one group of hosts: [host.proxy] with capacity = 160");
    }
    let rows: Vec<_> = in_order("host", raw, report);
    let mut known: Vec<_> = rows.iter().map(|(name, path, raw)| group(name, path, raw, report)).collect();
    let databases: Vec<_> = rows.iter().map(|(.., raw)| database(raw, &known, report)).collect();
    for (index, (_, path, _)) in rows.iter().enumerate() {
        if known[index].role == Some(RoleName::Database) && !databases.contains(&Some(index)) {
            report.key_problem(
                path,
                "no hosts query this database; name it in `database` of a host, or remove it",
            );
        }
    }
    for (known, database) in known.iter_mut().zip(databases) {
        if let Some(group) = &mut known.group {
            group.database = database;
        }
    }
    known
}

/// Index of the group of databases that it queries.
fn database(raw: &RawHost, known: &[Known], report: &mut Report<'_>) -> Option<usize> {
    let setting = raw.database.as_ref()?;
    let index = find(&setting.value()?, setting, known, report)?;
    if raw.role.value() == Some(RoleName::Database) {
        report.conflict(setting, "a database queries no other database; remove this key");
    }
    if known[index].role.is_some_and(|role| role != RoleName::Database) {
        report.conflict(setting, "expected hosts of `role = \"database\"`");
    }
    Some(index)
}

/// Index of the group that `setting` names; an unknown name is reported.
pub(super) fn find<K: Kind>(
    name: &str,
    setting: &Setting<K>,
    known: &[Known],
    report: &mut Report<'_>,
) -> Option<usize> {
    let index = known.iter().position(|known| known.name == name);
    // A file without hosts has been reported already.
    if index.is_none() && !known.is_empty() {
        let names = || known.iter().map(|known| known.name.as_str());
        let meant = nearest(name, names()).map(|name| format!("; did you mean {name:?}?"));
        let listed = names().collect::<Vec<_>>().join(", ");
        let remedy = format!("there is no [{}]; the file has {listed}", join("host", name));
        report.conflict(setting, remedy + &meant.unwrap_or_default());
    }
    index
}

fn group(name: &str, path: &str, raw: &RawHost, report: &mut Report<'_>) -> Known {
    if name == AGENTS {
        report.key_problem(path, "expected another name: in links, `agents` are the callers and callees");
    }
    let role = raw.role.value();
    let (count, capacities) = capacities(path, raw, report);
    let choice = role.and_then(|role| check_role(path, role, raw, report));
    let background = raw.background.value();
    let overload = overload::check(path, role, &raw.overload, report);
    let stalls = raw.stalls.as_ref().map(|stalls| check_stalls(path, stalls, report));
    let quota = raw.quota.as_ref().map(|quota| check_quota(path, raw, quota, capacities.as_deref(), report));
    let unlimited = capacities.as_ref().is_some_and(Vec::is_empty);
    let card = raw.card.as_ref().map(Setting::value);
    if let Some(setting) = raw.card.as_ref().filter(|_| role == Some(RoleName::Database)) {
        report.conflict(setting, "queries of a database do not use a network card; remove this key");
    }
    if unlimited && background.is_some_and(|share| share > 0.0) {
        report.conflict(
            &raw.background,
            "this key has no effect with an unlimited capacity; set `capacity` to a \
                                         number",
        );
    }
    let whole = || {
        Some(Group {
            name: name.to_owned(),
            count: count?,
            role: choice?,
            capacities: capacities?,
            workers: raw.workers.value()? as u16,
            buffer: raw.buffer.value()?,
            discard: raw.discard.value()?,
            select: raw.select.value()?,
            transport: raw.transport.value()?,
            overload: overload?,
            stalls: stalls.map_or(Some(None), |stalls| stalls.map(Some))?,
            quota: quota.map_or(Some(None), |quota| quota.map(Some))?,
            background: background?,
            database: None,
            card: card.map_or(Some(None), |card| card.map(Some))?,
        })
    };
    Known { name: name.to_owned(), role, count, unlimited, has_card: card.is_some(), group: whole() }
}

/// Number of hosts, and the capacity of each; empty: unlimited.
fn capacities(path: &str, raw: &RawHost, report: &mut Report<'_>) -> (Option<u16>, Option<Vec<f64>>) {
    let count = raw.count.as_ref().map(Setting::value);
    let alike = || count.unwrap_or(Some(1)).map(|count| count as u16);
    match &raw.capacity {
        None => {
            let remedy = "expected calls a second that each host carries: capacity = 160, or \"unlimited\"";
            report.missing(&join(path, "capacity"), remedy);
            (alike(), None)
        }
        Some(Several::One(each)) => {
            let each = each.value();
            let all = |count: u16| {
                each.map(|each| each.map_or_else(Vec::new, |each| vec![each; usize::from(count)]))
            };
            (alike(), alike().and_then(all))
        }
        Some(Several::Many(list)) => {
            let capacities: Vec<_> = list.iter().map(Setting::value).collect();
            if list.is_empty() {
                let remedy = "expected a number for each host: capacity = [120, 160]";
                report.key_problem(&join(path, "capacity"), remedy);
            }
            if let (Some(setting), Some(Some(count))) = (&raw.count, count)
                && count as usize != list.len()
            {
                let listed = list.len();
                report.conflict(
                    setting,
                    format!(
                        "expected {listed}, as many as `capacity` lists; remove this key, or list {count}"
                    ),
                );
            }
            (u16::try_from(list.len()).ok(), capacities.into_iter().collect())
        }
    }
}

/// Returns the role with its settings; settings of other roles are reported.
fn check_role(path: &str, role: RoleName, raw: &RawHost, report: &mut Report<'_>) -> Option<HostRole> {
    if role != RoleName::Proxy && raw.select.is_set() {
        let remedy = match role {
            RoleName::Balancer => "a balancer chooses by its `policy`; set `policy`, or remove this key",
            _ => "only a proxy has this key; remove it",
        };
        report.conflict(&raw.select, remedy);
    }
    if role != RoleName::Proxy && raw.discard.is_set() {
        report.conflict(&raw.discard, "only a proxy has this key; remove it");
    }
    if role == RoleName::Balancer {
        let policy = policy(path, &raw.policy, &raw.weights, report);
        let (policy, weights) = policy?;
        if raw.ties.is_set() && !matches!(policy, PolicyKind::Cjsq | PolicyKind::Tjsq | PolicyKind::Tlwl) {
            let remedy = "only the policies of least load have ties: cjsq, tjsq, tlwl; use one of these policies, or \
                         remove this key";
            report.conflict(&raw.ties, remedy);
        }
        let settings = BalancerSettings {
            policy,
            ties: raw.ties.value()?,
            weights,
            probes: raw.probes.value()?,
            outlier: raw.outlier.value()?,
        };
        return Some(HostRole::Balancer(settings));
    }
    let remedy = "only a balancer has this key; remove it, or set `role = \"balancer\"`";
    if raw.policy.is_set() {
        report.conflict(&raw.policy, remedy);
    }
    if raw.ties.is_set() {
        report.conflict(&raw.ties, remedy);
    }
    for flag in [&raw.probes, &raw.outlier].into_iter().filter(|flag| flag.is_set()) {
        report.conflict(flag, remedy);
    }
    let weights = join(path, "weights");
    if report.has(&weights) {
        report.key_problem(&weights, remedy);
    }
    Some(match role {
        RoleName::Server => HostRole::Server,
        RoleName::Database => HostRole::Database,
        _ => HostRole::Proxy,
    })
}

/// Reports balancers whose calls go to several groups, since each has one list of members.
pub(super) fn after_balancers(known: &[Known], paths: Option<&[Vec<usize>]>, report: &mut Report<'_>) {
    for (index, balancer) in known.iter().enumerate() {
        if balancer.role != Some(RoleName::Balancer) {
            continue;
        }
        let pairs = paths.into_iter().flatten().flat_map(|path| path.windows(2));
        let servers = pairs.filter(|pair| pair[0] == index && known[pair[1]].role == Some(RoleName::Server));
        let mut next: Vec<_> = servers.map(|pair| pair[1]).collect();
        next.sort_unstable();
        next.dedup();
        if next.len() > 1 {
            let names: Vec<_> = next.iter().map(|&next| known[next].name.as_str()).collect();
            let remedy = format!(
                "expected one group of servers after this balancer on all paths, not {}; give each group its own \
                balancer",
                names.join(" and ")
            );
            report.key_problem(&join("host", &balancer.name), remedy);
        }
    }
}

fn check_stalls(path: &str, raw: &RawStalls, report: &mut Report<'_>) -> Option<StallSettings> {
    let path = join(path, "stalls");
    let example = "expected both: stalls = { every = \"10s\", length = \"exp:500ms\" }";
    let every = required(&path, "every", raw.every.as_ref(), example, report);
    let length = required(&path, "length", raw.length.as_ref(), example, report);
    let (every, length) = (every?, length?);
    let (RandomTime::Fixed(mean) | RandomTime::Exponential(mean) | RandomTime::Normal(mean, _)) = length;
    if let Some(setting) = raw.length.as_ref().filter(|_| mean.is_zero()) {
        report.conflict(setting, "expected a time above 0; or remove `stalls`");
    }
    Some(StallSettings { every, length })
}

fn check_quota(
    path: &str,
    host: &RawHost,
    raw: &RawQuota,
    capacities: Option<&[f64]>,
    report: &mut Report<'_>,
) -> Option<QuotaSettings> {
    let path = join(path, "quota");
    let example = "expected both: quota = { period = \"10ms\", processor = 1000 }";
    let period = required(&path, "period", raw.period.as_ref(), example, report);
    let processor = required(&path, "processor", raw.processor.as_ref(), example, report);
    let (period, processor) = (period?, processor?);
    let is_part = |capacity: &f64| *capacity < processor && capacity / processor >= PART_MIN;
    let are_parts = |capacities: &[f64]| !capacities.is_empty() && capacities.iter().all(is_part);
    if let Some(setting) = raw.processor.as_ref().filter(|_| !capacities.is_none_or(are_parts)) {
        let remedy = "expected more than each `capacity`, and at most 10000 times as much; or remove `quota`";
        report.conflict(setting, remedy);
    }
    if host.workers.value().is_some_and(|workers| workers > 1) {
        report.conflict(
            &host.workers,
            "expected 1: a quota is for a host with one processor; or remove `quota`",
        );
    }
    Some(QuotaSettings { period, processor })
}
