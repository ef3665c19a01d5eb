//! `[pool.<name>]`

use std::collections::BTreeMap;

use super::listen::{is_own, no_listener, serves};
use super::timers::blame;
use crate::kind::{Choice, MemberAddress, PolicyName, Ratio, show};
use crate::raw::{RawOutlier, RawPool, RawProbe};
use crate::report::Report;
use crate::setting::{Entry, Setting};
use crate::structure::join;
use crate::typed::{Address, Listen, Member, Outlier, Policy, Pool, Probe, SIP_PORT, Weights};

/// Work of an INVITE transaction relative to a BYE transaction, where nothing else is set: TLWL-1.75.
const INVITE_WEIGHT: f64 = 1.75;

/// Methods of RFC 3261 and its extensions: those that can have a weight of their own. Not ACK, which is no transaction.
const METHODS: [&str; 13] = [
    "INVITE",
    "BYE",
    "CANCEL",
    "OPTIONS",
    "REGISTER",
    "PRACK",
    "SUBSCRIBE",
    "NOTIFY",
    "PUBLISH",
    "INFO",
    "REFER",
    "MESSAGE",
    "UPDATE",
];

pub(super) fn check(
    raw: &BTreeMap<String, RawPool>,
    listen: &Listen,
    report: &mut Report<'_>,
) -> Option<Pool> {
    if raw.is_empty() {
        let remedy =
            "expected a pool: a table [pool.servers] with members = [\"10.0.0.1:5060\"]; or a [proxy]";
        report.missing("pool", remedy);
    }
    // All pools are checked, even though only one may stay.
    let pools: Vec<_> = raw.iter().map(|(name, pool)| pool_named(name, pool, listen, report)).collect();
    if raw.len() > 1 {
        let mut paths: Vec<_> = raw.keys().map(|name| join("pool", name)).collect();
        paths.sort_by_key(|path| report.place(path));
        for path in &paths[1..] {
            report.key_problem(
                path,
                format!("expected one pool only, and `{}` is one; remove this one", paths[0]),
            );
        }
    }
    pools.into_iter().next()?
}

fn pool_named(name: &str, raw: &RawPool, listen: &Listen, report: &mut Report<'_>) -> Option<Pool> {
    let path = join("pool", name);
    if name.is_empty() || !name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_') {
        report.key_problem(&path, "expected a name of letters, digits, - and _");
    }
    let policy = policy(&path, &raw.policy, &raw.weights, report);
    let members = members(&path, raw, listen, report);
    let orphans = report.read(&raw.orphans);
    let slow_start = report.read(&raw.slow_start);
    let max_rest = report.read(&raw.max_rest);
    let forget_after = report.read(&raw.forget_after);
    let max_sessions = report.read(&raw.max_sessions);
    let probe = probe(&path, &raw.probe, report);
    let outlier = outlier(&raw.outlier, report);
    Some(Pool {
        name: name.to_owned(),
        policy: policy?,
        members,
        orphans: orphans?,
        slow_start: slow_start?,
        max_rest: max_rest?,
        forget_after: forget_after?,
        max_sessions: max_sessions? as usize,
        probe: probe?,
        outlier: outlier?,
    })
}

/// The policy that `name` and `weights` of the table at `path` make together.
pub(crate) fn policy(
    path: &str,
    name: &Setting<Choice<PolicyName>>,
    own_weights: &BTreeMap<String, Setting<Ratio>>,
    report: &mut Report<'_>,
) -> Option<Policy> {
    let mut weights = Weights::from([("INVITE".to_owned(), INVITE_WEIGHT), ("BYE".to_owned(), 1.0)]);
    for (method, setting) in own_weights {
        check_method(path, method, report);
        if let Some(weight) = report.read(setting) {
            weights.insert(method.clone(), weight);
        }
    }
    let name = report.read(name)?;
    if report.has(&format!("{path}.weights")) && name != PolicyName::Tlwl {
        let remedy = match name {
            PolicyName::Tlwl175 | PolicyName::Tlwl2 => {
                "the policy's name already sets them; use policy = \"tlwl\""
            }
            _ => "only policy = \"tlwl\" has weights; remove them or use that policy",
        };
        report.key_problem(&format!("{path}.weights"), remedy);
    }
    Some(match name {
        PolicyName::RoundRobin => Policy::RoundRobin,
        PolicyName::Hash => Policy::Hash,
        PolicyName::FnvHash => Policy::FnvHash,
        PolicyName::Cjsq => Policy::Cjsq,
        PolicyName::Tjsq => Policy::Tjsq,
        PolicyName::Tlwl | PolicyName::Tlwl175 => Policy::Tlwl { weights },
        PolicyName::Tlwl2 => {
            weights.insert("INVITE".to_owned(), 2.0);
            Policy::Tlwl { weights }
        }
        PolicyName::Rwma => Policy::Rwma,
    })
}

/// RFC 3261 §7.1: methods are case-sensitive tokens. Those that no table knows are all alike to the balancer, so that a weight
/// for one of them would be a weight for every other one.
fn check_method(pool: &str, method: &str, report: &mut Report<'_>) {
    if METHODS.contains(&method) {
        return;
    }
    if method == "ACK" {
        let remedy = "an ACK is answered by nobody, so it is no work that is left; remove it";
        return report.key_problem(&join(&format!("{pool}.weights"), method), remedy);
    }
    let remedy = match METHODS.iter().find(|known| known.eq_ignore_ascii_case(method)) {
        Some(known) => format!("methods are case-sensitive; did you mean `{known}`?"),
        None => format!("expected one of {}; every other method weighs 1.0", METHODS.join(", ")),
    };
    report.key_problem(&join(&format!("{pool}.weights"), method), remedy);
}

fn members(path: &str, raw: &RawPool, listen: &Listen, report: &mut Report<'_>) -> Vec<Member> {
    let most = report.read(&raw.max_calls);
    let mut members: Vec<Member> = Vec::new();
    if raw.members.is_empty() {
        report.missing(
            &format!("{path}.members"),
            "expected at least one server: members = [\"10.0.0.1:5060\"]",
        );
    }
    for (index, entry) in raw.members.iter().enumerate() {
        let (setting, capacity, max_calls) = match entry {
            Entry::Plain(address) => (Some(address), Some(1.0), most),
            Entry::Table(table) => (
                table.address.as_ref(),
                report.read(&table.capacity),
                table.max_calls.as_ref().map_or(most, |setting| report.read(setting)),
            ),
        };
        let Some(setting) = setting else {
            let path = format!("{path}.members[{index}].address");
            report.missing(&path, "expected an address: { address = \"10.0.0.1:5060\", capacity = 2.0 }");
            continue;
        };
        let Some(address) = report.read(setting) else { continue };
        check_member(setting, &address, &members, listen, report);
        members.push(Member {
            address,
            capacity: capacity.unwrap_or(1.0),
            max_calls: max_calls.unwrap_or(0),
        });
    }
    members
}

fn check_member(
    setting: &Setting<MemberAddress>,
    address: &Address,
    earlier: &[Member],
    listen: &Listen,
    report: &mut Report<'_>,
) {
    if earlier.iter().any(|member| same_server(&member.address, address)) {
        report.conflict(
            setting,
            "expected each server once; remove this one, or give the first more `capacity`",
        );
    }
    let Address::Socket(socket) = *address else { return };
    if !listen.udp.is_empty() && !serves(&listen.udp, socket) {
        report.conflict(setting, no_listener(socket));
    }
    if is_own(&listen.udp, socket) {
        report.conflict(
            setting,
            "expected a server; this is the balancer's own listener, and calls would go in circles",
        );
    }
}

/// Equal but for a port that one spells out and the other implies.
fn same_server(one: &Address, other: &Address) -> bool {
    match (one, other) {
        (Address::Host { name, port }, Address::Host { name: other_name, port: other_port }) => {
            name == other_name && port.unwrap_or(SIP_PORT) == other_port.unwrap_or(SIP_PORT)
        }
        _ => one == other,
    }
}

fn outlier(raw: &RawOutlier, report: &mut Report<'_>) -> Option<Outlier> {
    let enabled = report.read(&raw.enabled);
    let interval = report.read(&raw.interval);
    let min_answers = report.read(&raw.min_answers);
    let ejection = report.read(&raw.ejection);
    let max_ejection = report.read(&raw.max_ejection);
    Some(Outlier {
        enabled: enabled?,
        interval: interval?,
        min_answers: min_answers?,
        ejection: ejection?,
        max_ejection: max_ejection?,
    })
}

fn probe(path: &str, raw: &RawProbe, report: &mut Report<'_>) -> Option<Probe> {
    let enabled = report.read(&raw.enabled);
    let interval = report.read(&raw.interval);
    let timeout = report.read(&raw.timeout);
    let fall = report.read(&raw.fall);
    let rise = report.read(&raw.rise);
    let (interval, timeout) = (interval?, timeout?);
    if timeout > interval {
        let remedy = format!("expected a timeout of at most the interval, {}", show(interval));
        blame(&raw.timeout, timeout, &format!("{path}.probe.timeout"), &raw.interval, &remedy, report);
    }
    Some(Probe { enabled: enabled?, interval, timeout, fall: fall?, rise: rise? })
}
