//! `[[route]]`: rules, and the pools of their next hops.

use super::access::Lists;
use super::conditions::several;
use super::timers::Timers;
use super::{actions, conditions, pool};
use crate::kind::{AnswerKind, Flag, Text, quoted};
use crate::nearest::nearest;
use crate::raw::{RawAnswer, RawChoice, RawRoute};
use crate::report::Report;
use crate::setting::{Entry, Item, Listed, Setting, given};
use crate::structure::join;
use crate::typed::{Listen, PoolConfig, PoolOrigin};
use control::MemberSettings;
use route::{
    AccessRefusal, Answer, BudgetSettings, Failover, FailoverCause, Forward, INVITE_TIMEOUT, Origin, Pools,
    Reason, Rule, Table, Target, TargetPool,
};

/// Most routes, so that their indexes stay short.
const MOST: usize = 10_000;

/// Context of the checks of routes.
pub(super) struct Around<'c> {
    pub(super) listen: &'c Listen,
    pub(super) timers: Option<Timers>,
    /// Names of all pools that a route may name, including wrong ones.
    pub(super) names: Vec<String>,
    /// `refuse` of `[access]`.
    pub(super) refusal: AccessRefusal,
    /// Whether there is a `[registrar]`.
    pub(super) has_registrar: bool,
    /// Whether it has `users`.
    pub(super) has_users: bool,
}

/// Returns the rules. The pools of their next hops are added to `pools`, whose indexes the rules use.
pub(super) fn check(
    raw: &[RawRoute],
    around: &Around<'_>,
    pools: &mut Vec<PoolConfig>,
    report: &mut Report<'_>,
) -> Option<Vec<Rule>> {
    if raw.len() > MOST {
        report.key_problem(&format!("route[{MOST}]"), format!("expected at most {MOST} routes"));
    }
    let mut rules: Vec<Option<Rule>> = Vec::new();
    let mut names: Vec<String> = Vec::new();
    for (index, raw) in raw.iter().enumerate() {
        let path = format!("route[{index}]");
        let name = name(index, raw, &names, report);
        let rule = rule(&path, &name, raw, around, pools, report);
        names.push(name);
        rules.push(rule);
    }
    let rules = rules.into_iter().collect::<Option<Vec<_>>>()?;
    if report.is_clean() {
        report_unreachable_routes(&rules, report);
    }
    Some(rules)
}

fn name(index: usize, raw: &RawRoute, earlier: &[String], report: &mut Report<'_>) -> String {
    let usual = || Rule::usual_name(index);
    let Some(setting) = &raw.name else { return usual() };
    let Some(name) = setting.value() else { return usual() };
    if !name.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b)) {
        report.conflict(setting, "expected a name of letters, digits, -, _ and .");
    }
    if earlier.contains(&name) {
        report.conflict(setting, "expected each name once; choose another one");
    }
    name
}

fn rule(
    path: &str,
    name: &str,
    raw: &RawRoute,
    around: &Around<'_>,
    pools: &mut Vec<PoolConfig>,
    report: &mut Report<'_>,
) -> Option<Rule> {
    let conditions = conditions::check(path, raw, around.listen, report);
    let lists = Lists { allow: &raw.allow, deny: &raw.deny };
    let access = lists.read(around.refusal, report);
    let actions = actions::check(path, raw, report);
    let target = target(path, name, raw, around, pools, report);
    if target == Some(Target::RequestUri)
        && raw.request_uri.is_some()
        && conditions.as_ref().is_some_and(|conditions| conditions.origin != Origin::Members)
    {
        check_relay(path, raw, report);
    }
    if matches!(target, Some(Target::Answer(_) | Target::Silence)) && !actions.is_empty() {
        let remedy = "a request that this process answers is not forwarded, so its changes have no effect; remove the changes";
        report.key_problem(&join(path, "answer"), remedy);
    }
    let authenticate =
        registrar_flag(path, "authenticate", raw.authenticate.as_ref(), around.has_users, report);
    if authenticate == Some(true) {
        report_stateless_targets(path, target.as_ref(), pools, report);
    }
    Some(Rule {
        name: name.to_owned(),
        conditions: conditions?,
        access: access?,
        authenticate: authenticate?,
        actions,
        target: target?,
    })
}

/// A request from outside goes to the address in its Request-URI only if its source and that address are listed.
fn check_relay(path: &str, raw: &RawRoute, report: &mut Report<'_>) {
    let mut report_key = |key: &str, remedy: &str| report.key_problem(&join(path, key), remedy);
    if raw.host_network.is_none() || (raw.source.is_none() && raw.allow.is_empty()) {
        let remedy = "only members may choose the destination of their requests, or this process would be an open \
                      relay: add from = \"members\", use `pool` or `next`, or list the senders in `source` or \
                      `allow`, and the addresses in `host_network`";
        return report_key("request_uri", remedy);
    }
    if raw.set_host.is_some() {
        report_key(
            "set_host",
            "the request goes to its own Request-URI, in `host_network`; use `next`, or remove this key",
        );
    }
    if several(raw.host_network.as_ref()).iter().any(|(network, _)| network.length() == 0) {
        report_key(
            "host_network",
            "this network contains every address, which makes this process an open relay; list the networks that \
            requests may go to",
        );
    }
    if raw.authenticate.as_ref().and_then(Setting::value) == Some(true) {
        let remedy = "without transactions a retransmission looks like a reused password; use `pool` or `next`, or \
                      remove this key";
        report_key("authenticate", remedy);
    }
}

/// Reads a flag that needs something of `[registrar]`, and reports it if that is missing.
fn registrar_flag(
    path: &str,
    key: &str,
    setting: Option<&Setting<Flag>>,
    is_there: bool,
    report: &mut Report<'_>,
) -> Option<bool> {
    let flag = setting.map_or(Some(false), Setting::value)?;
    if flag && !is_there {
        let needed = if key == "authenticate" { "`users` of [registrar]" } else { "a table [registrar]" };
        report.key_problem(&join(path, key), format!("this key needs {needed}; add it, or remove this key"));
    }
    Some(flag)
}

/// Credentials are valid for one request: a retransmission must match the transaction of the first, not be challenged
/// again. If state is divided, the transaction is known as well.
fn report_stateless_targets(
    path: &str,
    target: Option<&Target>,
    pools: &[PoolConfig],
    report: &mut Report<'_>,
) {
    let Some(Target::Pools(chosen)) = target else { return };
    let named = chosen.choices.iter().filter_map(|choice| pools.get(usize::from(choice.pool)));
    let knows_copies = |forward: Forward| forward.has_transactions() || forward == Forward::Distributed;
    if let Some(pool) = named.into_iter().find(|pool| !knows_copies(pool.settings.service.forward())) {
        let remedy = format!(
            "this key needs forward = \"transaction\" for `{}`; set it, or remove this key",
            pool.settings.name
        );
        report.key_problem(&join(path, "authenticate"), remedy);
    }
}

/// Reports rules that can never match. A rule that no request reaches cannot refuse senders as intended, so it is an
/// error.
fn report_unreachable_routes(rules: &[Rule], report: &mut Report<'_>) {
    for (index, reason) in Table::new(rules.to_vec(), &[]).unreachable() {
        let remedy = match reason {
            Reason::Covered(earlier) => {
                let name = &rules[earlier].name;
                format!(
                    "no request can reach this route: `route[{earlier}]` ({name}) matches all of them; move this \
                     route before it, or remove one of the two"
                )
            }
            Reason::Contradiction => {
                "no request can reach this route: two of its conditions exclude each other; change one of them".to_owned()
            }
        };
        report.key_problem(&format!("route[{index}]"), remedy);
    }
}

fn target(
    path: &str,
    name: &str,
    raw: &RawRoute,
    around: &Around<'_>,
    pools: &mut Vec<PoolConfig>,
    report: &mut Report<'_>,
) -> Option<Target> {
    let request_uri = raw.request_uri.as_ref().map_or(Some(false), Setting::value);
    let location = registrar_flag(path, "location", raw.location.as_ref(), around.has_registrar, report);
    let failover = failover(raw);
    let given = [
        ("pool", raw.pool.is_some()),
        ("next", raw.next.is_some()),
        ("location", location == Some(true)),
        ("request_uri", request_uri == Some(true)),
        ("answer", raw.answer.is_some()),
    ];
    let mut given = given.into_iter().filter_map(|(key, given)| given.then_some(key));
    if given.next().is_none() && request_uri.is_some() {
        let remedy = "expected a target: one of `pool`, `next`, `location`, `request_uri` and `answer`, such as pool = \"servers\"";
        report.missing(&join(path, "pool"), remedy);
    }
    for more in given {
        report.key_problem(&join(path, more), "expected one target; remove this target or the other one");
    }
    // All targets are checked, even if there are too many.
    let answer = raw.answer.as_ref().map(|raw| answer(path, raw, report));
    let hops = raw.next.as_ref().map(|_| next(path, name, raw, around, pools, report));
    let chosen = raw.pool.as_ref().map(|raw| choices(path, raw, &around.names, report));
    if let Some(choices) = chosen {
        let choices = choices?;
        let failover = failover?;
        check_alike(path, &choices, pools, report);
        check_failover(path, raw, &choices, pools, report);
        return Some(Target::Pools(Pools { choices, failover }));
    }
    if report.has(&join(path, "failover")) {
        let remedy = "only a route with several pools in `pool` can try the next one; remove this key";
        report.key_problem(&join(path, "failover"), remedy);
    }
    if let (Some(setting), None) = (&raw.invite_timeout, &hops) {
        report.conflict(setting, "only a route with `pool` or `next` waits for members; remove this key");
    }
    match (hops, answer) {
        (Some(hops), _) => hops,
        (None, Some(answer)) => answer,
        (None, None) if location == Some(true) => Some(Target::Location),
        (None, None) => Some(Target::RequestUri),
    }
}

/// Makes the pool of the next hops of a route.
fn next(
    path: &str,
    name: &str,
    raw: &RawRoute,
    around: &Around<'_>,
    pools: &mut Vec<PoolConfig>,
    report: &mut Report<'_>,
) -> Option<Target> {
    let mut members: Vec<MemberSettings> = Vec::new();
    for (address, setting) in several(raw.next.as_ref()) {
        pool::check_member(setting, &address, &members, around.listen, report);
        members.push(MemberSettings::new(address));
    }
    if members.is_empty() {
        report.missing(&join(path, "next"), "expected at least one next hop: next = \"sip.example.net\"");
        return None;
    }
    let index = pools.len() as u16;
    let invite_timeout = raw.invite_timeout.as_ref().map_or(Some(INVITE_TIMEOUT), Setting::value)?;
    let (name, way) = (format!("route.{name}"), (Forward::Transaction, true, invite_timeout));
    pools.push(pool::of_hops(&name, PoolOrigin::Route, members, way, around.timers?));
    Some(Target::Pools(Pools::one(index)))
}

fn choices(
    path: &str,
    raw: &Listed<Text, RawChoice, Item<RawChoice>>,
    names: &[String],
    report: &mut Report<'_>,
) -> Option<Vec<TargetPool>> {
    let path = join(path, "pool");
    let mut found: Vec<TargetPool> = Vec::new();
    let mut is_right = true;
    let mut add = |choice: Option<(u16, &Setting<Text>, u16, f64)>, report: &mut Report<'_>| {
        let Some((pool, setting, priority, weight)) = choice else {
            is_right = false;
            return;
        };
        if found.iter().any(|choice| choice.pool == pool) {
            report.conflict(
                setting,
                "expected each pool once; remove this one, or give the first more `weight`",
            );
        }
        found.push(TargetPool { pool, priority, weight });
    };
    match raw {
        Listed::One(setting) => {
            add(pool_named(setting, names, report).map(|pool| (pool, setting, 1, 1.0)), report);
        }
        Listed::Table(table) => add(choice(&path, table, 1, names, report), report),
        Listed::Many(items) => {
            for (index, Item(table)) in items.iter().enumerate() {
                let place = index as u16 + 1;
                add(choice(&format!("{path}[{index}]"), table, place, names, report), report);
            }
            if items.is_empty() {
                report.missing(&path, "expected at least one pool: pool = \"servers\"");
                is_right = false;
            }
        }
    }
    is_right.then_some(found)
}

fn choice<'r>(
    path: &str,
    raw: &'r RawChoice,
    place: u16,
    names: &[String],
    report: &mut Report<'_>,
) -> Option<(u16, &'r Setting<Text>, u16, f64)> {
    let priority =
        raw.priority.as_ref().map_or(Some(place), |setting| setting.value().map(|priority| priority as u16));
    let weight = raw.weight.value();
    let Some(setting) = &raw.name else {
        report
            .missing(&join(path, "name"), "expected the name of a pool: { name = \"servers\", weight = 2 }");
        return None;
    };
    Some((pool_named(setting, names, report)?, setting, priority?, weight?))
}

/// Index of the pool with this name.
fn pool_named(setting: &Setting<Text>, names: &[String], report: &mut Report<'_>) -> Option<u16> {
    let name = setting.value()?;
    if let Some(index) = names.iter().position(|known| *known == name) {
        return Some(index as u16);
    }
    let meant = nearest(&name, names.iter().map(String::as_str));
    let remedy = match meant {
        Some(meant) => format!("there is no such pool; did you mean {}?", quoted(meant)),
        None if names.is_empty() => {
            "there is no such pool: the file has none; add a table [pool.<name>]".to_owned()
        }
        None => format!("there is no such pool; the file has {}", names.join(", ")),
    };
    report.conflict(setting, remedy);
    None
}

fn failover(route: &RawRoute) -> Option<Failover> {
    let raw = &route.failover;
    let on: Vec<_> = raw.on.iter().map(Setting::value).collect();
    let on = on.into_iter().collect::<Option<Vec<_>>>()?;
    let budget = BudgetSettings { ratio: raw.budget.value()?, ..BudgetSettings::default() };
    let mut failover = Failover::on(&on);
    failover.attempts = raw.attempts.value()? as u8;
    failover.budget = budget;
    failover.invite_timeout = given(route.invite_timeout.as_ref())?;
    Some(failover)
}

/// Reports pools of one route that forward in different ways.
fn check_alike(path: &str, choices: &[TargetPool], pools: &[PoolConfig], report: &mut Report<'_>) {
    let mut all = choices.iter().filter_map(|choice| pools.get(usize::from(choice.pool)));
    let Some(first) = all.next() else { return };
    if let Some(other) = all.find(|pool| pool.settings.service != first.settings.service) {
        let remedy = format!(
            "`{}` and `{}` differ in `forward`, `dialogs`, `record_route`, `fork` or `ring_time`: set the same \
             values for all pools of a route",
            first.settings.name, other.settings.name
        );
        report.key_problem(&join(path, "pool"), remedy);
    }
}

/// Reports failover settings that the pools do not support.
fn check_failover(
    path: &str,
    raw: &RawRoute,
    choices: &[TargetPool],
    pools: &[PoolConfig],
    report: &mut Report<'_>,
) {
    let key = join(path, "failover");
    if choices.len() < 2 {
        if report.has(&key) {
            report.key_problem(&key, "there is no next pool to try; add one to `pool`, or remove this key");
        }
        return;
    }
    // A wrong pool is missing in the list.
    let is_stateless = |choice: &TargetPool| {
        pools
            .get(usize::from(choice.pool))
            .is_some_and(|pool| pool.settings.service.forward() == Forward::Stateless)
    };
    if !choices.iter().all(is_stateless) {
        return;
    }
    for setting in raw.failover.on.iter().filter(|setting| setting.is_set()) {
        if setting.value().is_some_and(FailoverCause::was_sent) {
            let remedy = "only a pool with forward = \"transaction\" keeps a request and can send it to another \
                          member; set it, or remove this key";
            report.conflict(setting, remedy);
        }
    }
}

fn answer(path: &str, raw: &Entry<AnswerKind, RawAnswer>, report: &mut Report<'_>) -> Option<Target> {
    let table = match raw {
        Entry::Plain(setting) => {
            let Some(status) = setting.value()? else { return Some(Target::Silence) };
            let answer = Answer::new(status, None, &[]);
            if answer.is_err() {
                let remedy = format!(
                    "expected a contact, too: {{ status = {status}, contact = \"sip:bob@example.com\" }}"
                );
                report.conflict(setting, remedy);
            }
            return answer.ok().map(Target::Answer);
        }
        Entry::Table(table) => table,
    };
    let contacts: Vec<_> = several(table.contact.as_ref()).into_iter().map(|(value, _)| value).collect();
    let Some(setting) = &table.status else {
        report
            .missing(&format!("{path}.answer.status"), "expected a status: { status = 302, contact = ... }");
        return None;
    };
    let status = setting.value()?;
    let reason = given(table.reason.as_ref())?;
    let contacts: Vec<&str> = contacts.iter().map(String::as_str).collect();
    match Answer::new(status as u16, reason.as_deref(), &contacts) {
        Ok(answer) => Some(Target::Answer(answer)),
        Err(expected) => {
            report.conflict(setting, expected);
            None
        }
    }
}
