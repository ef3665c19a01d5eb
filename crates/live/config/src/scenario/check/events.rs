//! `[[link]]` and `[[fault]]`

use std::time::Duration;

use super::hosts::{AGENTS, Known, find};
use super::in_run;
use crate::kind::show;
use crate::report::Report;
use crate::scenario::names::RoleName;
use crate::scenario::raw::{RawFault, RawLink};
use crate::scenario::typed::{FaultKind, HostFault, LinkFaults};
use crate::setting::Setting;

/// Returns all links; `None` for each wrong one. `paths` is set if all paths are known.
pub(super) fn links(
    raw: &[RawLink],
    known: &[Known],
    paths: Option<&[Vec<usize>]>,
    duration: Option<Duration>,
    report: &mut Report<'_>,
) -> Vec<Option<LinkFaults>> {
    let links = raw.iter().enumerate();
    links.map(|(index, raw)| link(&format!("link[{index}]"), raw, known, paths, duration, report)).collect()
}

fn link(
    path: &str,
    raw: &RawLink,
    known: &[Known],
    paths: Option<&[Vec<usize>]>,
    duration: Option<Duration>,
    report: &mut Report<'_>,
) -> Option<LinkFaults> {
    let ends = ends(path, raw, known, paths, report);
    let since = raw.since.value();
    let until = raw.until.as_ref().map_or(Some(duration), |setting| setting.value().map(Some));
    let delay = raw.delay.value();
    let loss = raw.loss.value();
    let partition = raw.partition.value();
    in_run(&raw.since, since, duration, report);
    if let (Some(setting), Some(Some(until)), Some(since)) = (&raw.until, until, since)
        && until <= since
    {
        report.conflict(setting, format!("expected more than `since`, {}", show(since)));
    }
    let (partition, loss) = (partition?, loss?);
    if partition && raw.loss.is_set() {
        report.conflict(&raw.loss, "a partition already loses all messages; remove this key or `partition`");
    }
    let link = LinkFaults {
        from: ends?.0,
        to: ends?.1,
        since: since?,
        until: until??,
        delay: delay?,
        jitter: raw.jitter.value()?,
        loss: if partition { 1.0 } else { loss },
        duplication: raw.duplication.value()?,
        reordering: raw.reordering.value()?,
    };
    if link.reordering > 0.0 && link.delay.is_zero() {
        report.conflict(
            &raw.reordering,
            "expected a `delay`: reordered messages are delayed by another `delay`",
        );
    }
    // A zero in the file is intended, for example as the start of a sweep.
    let shares = [&raw.loss, &raw.duplication, &raw.reordering].iter().any(|share| share.is_set());
    let times = raw.delay.is_set() || raw.jitter.is_set();
    if !(shares || times || raw.partition.is_set()) {
        report.key_problem(
            path,
            "this link has no effect; add delay = \"20ms\" or loss = \"5%\", or remove this table",
        );
    }
    Some(link)
}

/// The two groups; `None` stands for the agents.
fn ends(
    path: &str,
    raw: &RawLink,
    known: &[Known],
    paths: Option<&[Vec<usize>]>,
    report: &mut Report<'_>,
) -> Option<(Option<usize>, Option<usize>)> {
    let key = format!("{path}.between");
    let example = "expected two names: between = [\"edge\", \"core\"]";
    if raw.between.is_empty() {
        report.missing(&key, example);
    }
    let mut ends = Vec::new();
    for setting in &raw.between {
        let name = setting.value();
        ends.push(match name.as_deref() {
            Some(AGENTS) => Some(None),
            name => name.and_then(|name| find(name, setting, known, report)).map(Some),
        });
    }
    match ends[..] {
        [] => None,
        [from, to] => {
            let (from, to) = (from?, to?);
            if !paths.is_none_or(|paths| paths.iter().any(|path| neighbours(path, known, from, to))) {
                let remedy = "no path of [calls] goes directly from one of these hosts to the other";
                report.key_problem(&key, remedy);
            }
            Some((from, to))
        }
        _ => {
            report.key_problem(&key, example);
            None
        }
    }
}

/// Whether calls on `path` go directly between the two, in either direction.
fn neighbours(path: &[usize], known: &[Known], one: Option<usize>, other: Option<usize>) -> bool {
    let (first, last) = (path.first().copied(), path.last().copied());
    match (one, other) {
        (None, None) => false,
        (Some(group), None) | (None, Some(group)) => {
            // Servers answer calls themselves, so there is no callee behind them.
            let answers = known[group].role == Some(RoleName::Server) && path.len() > 1;
            first == Some(group) || (last == Some(group) && !answers)
        }
        (Some(one), Some(other)) => path.windows(2).any(|pair| pair == [one, other] || pair == [other, one]),
    }
}

/// Returns all faults; `None` for each wrong one.
pub(super) fn faults(
    raw: &[RawFault],
    known: &[Known],
    duration: Option<Duration>,
    report: &mut Report<'_>,
) -> Vec<Option<HostFault>> {
    let checked = raw.iter().enumerate();
    let checked: Vec<_> =
        checked.map(|(index, raw)| fault(&format!("fault[{index}]"), raw, known, duration, report)).collect();
    let mut restarts: Vec<_> = checked
        .iter()
        .zip(raw)
        .filter_map(|(fault, raw)| match fault {
            Some(HostFault { group, host, at, kind: FaultKind::Restart(length) }) => {
                Some(((*group, *host), *at, *at + *length, raw))
            }
            _ => None,
        })
        .collect();
    restarts.sort_by_key(|&(host, at, ..)| (host, at));
    let mut last = None;
    for (host, at, up, raw) in restarts {
        let down = last.filter(|&(before, until)| before == host && at <= until);
        if let (Some((_, until)), Some(setting)) = (down, &raw.at) {
            report.conflict(
                setting,
                format!("expected more than {}, the end of the restart before", show(until)),
            );
        }
        last = Some((host, down.map_or(up, |(_, until)| up.max(until))));
    }
    checked
}

fn fault(
    path: &str,
    raw: &RawFault,
    known: &[Known],
    duration: Option<Duration>,
    report: &mut Report<'_>,
) -> Option<HostFault> {
    let host = host(path, raw, known, report);
    let at = raw.at.as_ref().map(Setting::value);
    match (&raw.at, at) {
        (Some(setting), Some(at)) => in_run(setting, at, duration, report),
        _ => report.missing(&format!("{path}.at"), "expected the time of the event: at = \"5m\""),
    }
    let kind = fault_kind(path, raw, report);
    let (group, host) = host?;
    if let Some(setting) = raw.slowdown.as_ref().filter(|_| known[group].unlimited) {
        report.conflict(
            setting,
            format!(
                "expected a host with a limited capacity; the capacity of {:?} is unlimited",
                known[group].name
            ),
        );
    }
    if let Some(setting) = raw.failing.as_ref().filter(|_| known[group].role != Some(RoleName::Server)) {
        report.conflict(
            setting,
            format!("expected a host that answers calls; {:?} has another role", known[group].name),
        );
    }
    if let Some(setting) = raw.card.as_ref().filter(|_| !known[group].has_card) {
        report.conflict(
            setting,
            format!("expected a host with a network card; set `card` of {:?}", known[group].name),
        );
    }
    Some(HostFault { group, host, at: at??, kind: kind? })
}

/// Group, and index in it.
fn host(path: &str, raw: &RawFault, known: &[Known], report: &mut Report<'_>) -> Option<(usize, u16)> {
    let Some(setting) = &raw.host else {
        report.missing(
            &format!("{path}.host"),
            "expected the host of the event: host = \"core\" or \"core.2\"",
        );
        return None;
    };
    let name = setting.value()?;
    let (name, number) = name.split_once('.').unwrap_or((&name, "1"));
    let group = find(name, setting, known, report)?;
    let count = known[group].count?;
    let index = number.parse().ok().filter(|number| (1..=count).contains(number));
    if index.is_none() {
        let remedy = match count {
            1 => format!("expected {name:?}, which is one host"),
            _ => format!("expected one of its {count} hosts, \"{name}.1\" to \"{name}.{count}\""),
        };
        report.conflict(setting, remedy);
    }
    Some((group, index? - 1))
}

/// The event of the fault.
fn fault_kind(path: &str, raw: &RawFault, report: &mut Report<'_>) -> Option<FaultKind> {
    let restart = raw.restart.as_ref().map(|setting| setting.value().map(FaultKind::Restart));
    let slowdown = raw.slowdown.as_ref().map(|setting| setting.value().map(FaultKind::Slowdown));
    let stall = raw.stall.as_ref().map(|setting| setting.value().map(FaultKind::Stall));
    let failing = raw.failing.as_ref().map(|setting| setting.value().map(FaultKind::Failing));
    let card = raw.card.as_ref().map(|setting| setting.value().map(FaultKind::Card));
    let mut things = [restart, slowdown, stall, failing, card].into_iter().flatten();
    match (things.next(), things.next()) {
        (Some(only), None) => only,
        (None, _) => {
            let remedy = "expected an event: restart = \"30s\", slowdown = 0.5, stall = \"2s\", failing = 1 or card \
                         = 0.1";
            report.missing(&format!("{path}.restart"), remedy);
            None
        }
        _ => {
            let remedy =
                "expected one of restart, slowdown, stall, failing and card; give each its own [[fault]]";
            report.key_problem(path, remedy);
            None
        }
    }
}
