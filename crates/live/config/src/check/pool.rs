//! `[pool.<name>]`

use std::sync::Arc;

use super::listen::{is_own, no_listener, no_listener_of, serves};
use super::scale;
use super::timers::{Timers, blame};
use crate::kind::{Choice, Flag, Kind, Leaf, PolicyName, show};
use crate::raw::{InviteTimeout, RawMember, RawPool, RawProbe, RawWeights};
use crate::report::Report;
use crate::setting::{Item, Setting};
use crate::structure::join;
use crate::table::Defaulted as _;
use crate::typed::{Listen, Listener, PoolConfig, PoolOrigin};
use balance::{HealthSettings, MemberLaw, PolicyKind, PoolId, Weights};
use control::{Address, MemberSettings, PoolSettings, ProbeSettings};
use route::{Dialogs, Fork, Forward, Service};
use std::time::Duration;
use wire::Method;

/// Methods of RFC 3261 and its extensions that can have a weight. ACK is not among them, since it has no transaction.
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

/// Reads the pool of this name, at this path.
pub(super) fn check(
    (name, path): (&str, &str),
    raw: &RawPool,
    listen: &Listen,
    timers: Option<Timers>,
    report: &mut Report<'_>,
) -> Option<PoolConfig> {
    let members = members(path, raw, listen, report);
    let scale = raw.scale.as_ref();
    let scale = scale.map(|scale| scale::check(path, scale, (&members, texts(raw)), report));
    let scale = scale.map_or(Some(None), |scale| scale.map(Some));
    let pool = pool(path, name, raw, (PoolOrigin::Table, members), timers, report)?;
    let pool = PoolConfig { scale: scale?, ..pool };
    scale::report_uncounted_calls(path, &pool, report);
    scale::report_unknown_state(path, &pool, report);
    Some(pool)
}

/// A pool of next hops: chosen by a hash of the Call-ID, and probed only after a failure. By default with transactions
/// and Record-Route.
pub(super) fn of_hops(
    name: &str,
    origin: PoolOrigin,
    members: Vec<MemberSettings>,
    (forward, record_route, invite_timeout): (Forward, bool, Duration),
    timers: Timers,
) -> PoolConfig {
    let raw = RawPool {
        policy: Setting::of(PolicyName { kind: PolicyKind::Hash, invite: None }),
        forward: Setting::of(forward),
        dialogs: Setting::of(Dialogs::Route),
        record_route: Setting::of(record_route),
        invite_timeout: Setting::of(invite_timeout),
        probe: RawProbe { enabled: Setting::of(false), ..RawProbe::default() },
        ..RawPool::default()
    };
    let mut report = Report::new("", 0);
    pool("", name, &raw, (origin, members), Some(timers), &mut report)
        .expect("the default settings are valid")
}

fn pool(
    path: &str,
    name: &str,
    raw: &RawPool,
    (origin, members): (PoolOrigin, Vec<MemberSettings>),
    timers: Option<Timers>,
    report: &mut Report<'_>,
) -> Option<PoolConfig> {
    let policy = policy(path, &raw.policy, &raw.weights, report);
    let forward = raw.forward.value();
    let dialogs = raw.dialogs.value();
    let has_limit = members.iter().any(|member| member.max_calls > 0);
    let has_rate = members.iter().any(|member| member.max_rate > 0);
    let finds_again =
        policy.as_ref().is_none_or(|(policy, _)| policy.is_by_call()) && !(has_limit || has_rate);
    let is_kept = forward.is_none_or(Forward::has_transactions);
    if dialogs == Some(Dialogs::Route) && !is_kept && !finds_again {
        let remedy = "without transactions all requests of a call must have the same next hop by their Call-ID \
                      alone: set policy = \"hash\" and neither max_calls nor max_rate, or forward = \"transaction\"";
        report.conflict(&raw.dialogs, remedy);
    }
    check_dialogs(raw, (forward, dialogs), report);
    let policy_kind = policy.as_ref().map(|(policy, _)| *policy);
    let record_route = record_route(raw, (forward, dialogs), (has_limit, policy_kind), report);
    let fork = fork(raw, (forward, dialogs), report);
    check_invite_timeout(&raw.invite_timeout, (forward, fork), report);
    let queue = raw.queue.as_ref();
    let queue =
        queue.map(|queue| super::queue::check(queue, path, (forward, fork), &raw.invite_timeout, report));
    let member_law = member_law(raw, (dialogs, fork), finds_again, report);
    if has_rate && raw.queue.is_some() {
        report.key_problem(
            &join(path, "queue"),
            "the queue limits the rate of each member by its own `capacity`; remove `queue`, or `max_rate`",
        );
    }
    let times = probe_times(path, &raw.probe, report);
    let health = health(raw);
    let (timers, health) = (timers?, health?);
    let (policy, weights) = policy?;
    let (interval, timeout) = times?;
    let fork = fork?;
    let ring_time = if fork == Fork::None { Duration::ZERO } else { raw.ring_time.value()? };
    let (forward, dialogs, record_route) = (forward?, dialogs?, record_route?);
    // A combination that does not exist has been reported. The other checks continue with the same `forward`.
    let service = Service::of((forward, dialogs), (fork, ring_time), record_route)
        .or_else(|_| Service::of((forward, Dialogs::Route), (Fork::None, Duration::ZERO), true));
    Some(PoolConfig {
        origin,
        settings: PoolSettings {
            name: name.to_owned(),
            service: service.ok()?,
            policy,
            health,
            probes: ProbeSettings { periodic: health.regular, interval, timeout, t1: timers.t1 },
            queue: queue.map_or(Some(None), |queue| queue.map(|queue| Some(Arc::new(queue))))?,
            member_law: member_law?,
            invite_timeout: raw.invite_timeout.value()?,
        },
        members,
        limits: [raw.max_calls.value()?, raw.max_rate.value()?],
        sessions: balance::SessionSettings {
            weights,
            // RFC 3261 §17.1.1.2, §17.1.2.2: timers B and F.
            transaction_timeout: timers.t1 * 64,
            invite_timeout: timers.c,
            call_lifetime: timers.call,
            linger: timers.t1 * 64,
            max_rest: health.max_rest,
            hold_failures: health.ejects,
            max_sessions: raw.max_sessions.value()? as usize,
        },
        scale: None,
    })
}

/// Reports modes of forwarding that need requests to follow their Route.
fn check_dialogs(
    raw: &RawPool,
    (forward, dialogs): (Option<Forward>, Option<Dialogs>),
    report: &mut Report<'_>,
) {
    if (forward, dialogs) == (Some(Forward::Distributed), Some(Dialogs::Member)) {
        let remedy = "only for next hops: another proxy may keep the call, so requests within the dialog must follow \
                      their Route; set dialogs = \"route\"";
        report.conflict(&raw.forward, remedy);
    }
    if (forward, dialogs) == (Some(Forward::Dialog), Some(Dialogs::Member)) {
        let remedy = "only for next hops: set dialogs = \"route\", so that requests within a dialog follow their \
                     Route and Contact";
        report.conflict(&raw.forward, remedy);
    }
}

/// Reports an `invite_timeout` that has no effect.
pub(super) fn check_invite_timeout(
    setting: &InviteTimeout,
    (forward, fork): (Option<Forward>, Option<Fork>),
    report: &mut Report<'_>,
) {
    if !setting.is_set() {
        return;
    }
    if forward == Some(Forward::Stateless) {
        let remedy =
            "without transactions this process does not wait for a response; remove this key, or `forward`";
        report.conflict(setting, remedy);
    } else if fork.is_some_and(|fork| fork != Fork::None) {
        let remedy = "a pool with `fork` tries the next members after `ring_time`; set `ring_time`, or remove this \
                     key";
        report.conflict(setting, remedy);
    }
}

/// Reports a pool that keeps dialogs without a Record-Route.
pub(super) fn check_stays(record_route: &Setting<Flag>, forward: Option<Forward>, report: &mut Report<'_>) {
    if (forward, record_route.value()) == (Some(Forward::Dialog), Some(false)) {
        let remedy = "a process that keeps the state of calls must be on the path of their requests; remove this \
                     key, or set forward = \"transaction\"";
        report.conflict(record_route, remedy);
    }
}

/// Whether this process adds a Record-Route. Without it the end of a call is not seen, so calls are not counted.
fn record_route(
    raw: &RawPool,
    (forward, dialogs): (Option<Forward>, Option<Dialogs>),
    (has_limit, policy): (bool, Option<PolicyKind>),
    report: &mut Report<'_>,
) -> Option<bool> {
    let record_route = raw.record_route.value()?;
    if record_route {
        return Some(true);
    }
    check_stays(&raw.record_route, forward, report);
    if dialogs == Some(Dialogs::Member) {
        let remedy = "requests within a dialog must pass this process to reach the member of the dialog; remove this \
                      key, or set dialogs = \"route\"";
        report.conflict(&raw.record_route, remedy);
    }
    if has_limit {
        let remedy = "without a Record-Route the BYE of a call does not pass this process, so the calls of a member \
                      cannot be counted; remove `max_calls`, or this key";
        report.conflict(&raw.record_route, remedy);
    }
    if policy == Some(PolicyKind::Cjsq) {
        let remedy = "without a Record-Route the BYE of a call does not pass this process, and policy = \"cjsq\" \
                      must count the calls of the members; set policy = \"tjsq\" or another policy, or remove this \
                      key";
        report.conflict(&raw.record_route, remedy);
    }
    Some(record_route)
}

/// Whether the pool forks. This needs transactions, and calls must not be counted: until a member accepts, a call
/// belongs to no member.
fn fork(
    raw: &RawPool,
    (forward, dialogs): (Option<Forward>, Option<Dialogs>),
    report: &mut Report<'_>,
) -> Option<Fork> {
    let fork = raw.fork.value()?;
    let has_limit = |Item(member): &Item<RawMember>| member.max_calls.is_some() || member.max_rate.is_some();
    if fork == Fork::None {
        if raw.ring_time.is_set() {
            let remedy = "only a pool with fork = \"parallel\" or \"sequential\" has a ring time; set `fork`, or \
                         remove this key";
            report.conflict(&raw.ring_time, remedy);
        }
    } else if !forward.is_none_or(Forward::has_transactions) || dialogs != Some(Dialogs::Route) {
        let remedy = "only a pool with forward = \"transaction\" or \"dialog\" and dialogs = \"route\" can fork; set \
                     both, or remove this key";
        report.conflict(&raw.fork, remedy);
    } else if raw.max_calls.is_set() || raw.max_rate.is_set() || raw.members.iter().any(has_limit) {
        report.conflict(
            &raw.fork,
            "a pool with `fork` does not count calls; remove `max_calls` and `max_rate`, or this key",
        );
    }
    Some(fork)
}

/// Returns the policy and weights of the keys `policy` and `weights` of the table at `path`.
pub(crate) fn policy(
    path: &str,
    name: &Setting<Choice<PolicyName>>,
    own_weights: &RawWeights,
    report: &mut Report<'_>,
) -> Option<(PolicyKind, Weights)> {
    let mut weights = Weights::default();
    for (method, setting) in own_weights {
        check_method(path, method, report);
        if let Some(weight) = setting.value() {
            weights.set(Method::parse(method.as_bytes()), weight);
        }
    }
    let PolicyName { kind, invite } = name.value()?;
    if report.has(&format!("{path}.weights")) && (kind != PolicyKind::Tlwl || invite.is_some()) {
        let remedy = match invite {
            Some(_) => "the name of the policy already sets the weights; use policy = \"tlwl\"",
            None => "only policy = \"tlwl\" has weights; remove them or use that policy",
        };
        report.key_problem(&format!("{path}.weights"), remedy);
    }
    Some((kind, invite.map_or(weights, Weights::invite)))
}

/// RFC 3261 §7.1: methods are case-sensitive tokens. All unknown methods count as one, so a weight for one would apply
/// to all.
fn check_method(pool: &str, method: &str, report: &mut Report<'_>) {
    if METHODS.contains(&method) {
        return;
    }
    if method == "ACK" {
        let remedy = "an ACK has no response, so no work is left to count; remove it";
        return report.key_problem(&join(&format!("{pool}.weights"), method), remedy);
    }
    let remedy = match METHODS.iter().find(|known| known.eq_ignore_ascii_case(method)) {
        Some(known) => format!("methods are case-sensitive; did you mean `{known}`?"),
        None => format!("expected one of {}; every other method weighs 1.0", METHODS.join(", ")),
    };
    report.key_problem(&join(&format!("{pool}.weights"), method), remedy);
}

/// The members as written in the file.
fn texts(raw: &RawPool) -> Vec<String> {
    let text = |Item(member): &Item<RawMember>| match &member.address.as_ref()?.leaf {
        Leaf::Text(text) => Some(text.clone()),
        _ => None,
    };
    raw.members.iter().filter_map(text).collect()
}

fn members(path: &str, raw: &RawPool, listen: &Listen, report: &mut Report<'_>) -> Vec<MemberSettings> {
    let (most, rate) = (raw.max_calls.value(), raw.max_rate.value());
    let mut members: Vec<MemberSettings> = Vec::new();
    if raw.members.is_empty() {
        report.missing(
            &format!("{path}.members"),
            "expected at least one server: members = [\"10.0.0.1:5060\"]",
        );
    }
    for (index, Item(RawMember { address, name, capacity, max_calls, max_rate })) in
        raw.members.iter().enumerate()
    {
        let Some(setting) = address else {
            let path = format!("{path}.members[{index}].address");
            report.missing(&path, "expected an address: { address = \"10.0.0.1:5060\", capacity = 2.0 }");
            continue;
        };
        let Some(address) = setting.value() else { continue };
        check_member(setting, &address, &members, listen, report);
        members.push(MemberSettings {
            address,
            name: name.as_ref().and_then(Setting::value),
            capacity: capacity.value().unwrap_or(1.0),
            max_calls: max_calls.as_ref().map_or(most, Setting::value).unwrap_or(0),
            max_rate: max_rate.as_ref().map_or(rate, Setting::value).unwrap_or(0),
            pool: PoolId::default(),
        });
    }
    members
}

pub(super) fn check_member<K: Kind>(
    setting: &Setting<K>,
    address: &Address,
    earlier: &[MemberSettings],
    listen: &Listen,
    report: &mut Report<'_>,
) {
    for remedy in refusals(address, earlier, listen) {
        report.conflict(setting, remedy);
    }
}

/// Returns why this address cannot be a further member.
pub(crate) fn refusals(
    address: &Address,
    earlier: &[MemberSettings],
    listen: &Listen,
) -> impl Iterator<Item = String> {
    let repeated = earlier
        .iter()
        .any(|member| same_server(&member.address, address))
        .then(|| "expected each server once; remove this one, or give the first more `capacity`".to_owned());
    let (transport, listeners) = (address.transport(), &listen.listeners);
    let is_served = |listener: &Listener| listener.transport == transport;
    let (unserved, own) = match *address {
        Address::Socket(peer) => {
            let unserved = !listeners.is_empty() && !serves(listeners, peer);
            let own = is_own(listeners, peer).then(|| {
                "expected a server; this is a listener of this process, and calls would loop".to_owned()
            });
            (unserved.then(|| no_listener(peer)), own)
        }
        Address::Host { .. } | Address::Srv(_) => {
            let unserved = !listeners.is_empty() && !listeners.iter().any(is_served);
            (unserved.then(|| no_listener_of(transport)), None)
        }
    };
    [repeated, unserved, own].into_iter().flatten()
}

/// Whether two addresses are equal, if a missing port is the default one.
pub(crate) fn same_server(one: &Address, other: &Address) -> bool {
    match (one, other) {
        (
            Address::Host { transport, name, port },
            Address::Host { name: other_name, port: other_port, .. },
        ) => {
            let usual = transport.default_port();
            *transport == other.transport()
                && name == other_name
                && port.unwrap_or(usual) == other_port.unwrap_or(usual)
        }
        _ => one == other,
    }
}

/// The law of the limit of members, if there is one.
#[expect(clippy::option_option, reason = "outer `None`: the value is wrong and has been reported")]
fn member_law(
    raw: &RawPool,
    (dialogs, fork): (Option<Dialogs>, Option<Fork>),
    finds_again: bool,
    report: &mut Report<'_>,
) -> Option<Option<MemberLaw>> {
    let is_uncounted =
        (dialogs == Some(Dialogs::Route) && finds_again) || fork.is_some_and(|fork| fork != Fork::None);
    let Some(setting) = &raw.overload.law else {
        let is_free = raw.queue.is_none() && !is_uncounted;
        return Some(is_free.then(MemberLaw::default));
    };
    let law = setting.value();
    if let Some(Some(_)) = law {
        if raw.queue.is_some() {
            report.conflict(
                setting,
                "the queue already limits the unanswered requests of each member; remove this key, or `queue`",
            );
        }
        if is_uncounted {
            let remedy = "the requests of this pool are not counted, so the unanswered requests of a member are not \
                          known; choose another `policy`, no `fork`, or remove this key";
            report.conflict(setting, remedy);
        }
    }
    law
}

fn health(raw: &RawPool) -> Option<HealthSettings> {
    Some(HealthSettings {
        regular: raw.probe.enabled.value()?,
        fall: raw.probe.fall.value()?,
        slow_start: raw.slow_start.value()?,
        max_rest: raw.max_rest.value()?,
        ejects: raw.outlier.value()?,
    })
}

/// Interval and timeout.
fn probe_times(path: &str, raw: &RawProbe, report: &mut Report<'_>) -> Option<(Duration, Duration)> {
    let interval = raw.interval.value();
    let timeout = raw.timeout.value();
    let (interval, timeout) = (interval?, timeout?);
    if timeout > interval {
        let remedy = format!("expected a timeout of at most the interval, {}", show(interval));
        blame(&raw.timeout, timeout, &format!("{path}.probe.timeout"), &raw.interval, &remedy, report);
    }
    Some((interval, timeout))
}
