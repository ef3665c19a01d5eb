//! `[calls.<name>]`

use std::collections::BTreeMap;
use std::time::Duration;

use super::hosts::{Known, find};
use super::{in_run, required};
use crate::kind::show;
use crate::report::Report;
use crate::scenario::names::RoleName;
use crate::scenario::raw::{RawCalls, RawStep};
use crate::scenario::typed::Stream;
use crate::structure::{in_order, join};
use load::RateStep;

/// Most hosts on a path: a simulated message has room for this many.
const PATH_MAX: usize = 6;

/// A stream, as far as it is right.
pub(super) struct Checked {
    /// `None` if a host on it is unknown.
    path: Option<Vec<usize>>,
    /// `None` if something is wrong.
    pub(super) stream: Option<Stream>,
}

/// All streams, in the order of the file.
pub(super) fn check(
    raw: &BTreeMap<String, RawCalls>,
    known: &[Known],
    duration: Option<Duration>,
    report: &mut Report<'_>,
) -> Vec<Checked> {
    if raw.is_empty() {
        let remedy =
            "expected at least one stream of calls: [calls.main] with path = [\"proxy\"] and rate = 100";
        report.missing("calls", remedy);
    }
    let streams = in_order("calls", raw, report);
    streams.into_iter().map(|(name, path, raw)| stream(name, &path, raw, known, duration, report)).collect()
}

fn stream(
    name: &str,
    path: &str,
    raw: &RawCalls,
    known: &[Known],
    duration: Option<Duration>,
    report: &mut Report<'_>,
) -> Checked {
    let hosts = hosts(path, raw, known, report);
    let load = load(path, raw, duration, report);
    let whole = || {
        Some(Stream {
            name: name.to_owned(),
            path: hosts.clone()?,
            load: load?,
            arrivals: raw.arrivals.value()?,
            holding: raw.holding.value()?,
            ring: raw.ring.value()?,
            answer: raw.answer.value()?,
            patience: raw.patience.value()?,
            transport: raw.transport.value()?,
        })
    };
    let stream = whole();
    Checked { path: hosts, stream }
}

/// Returns the path, and reports hosts at a place where their role is not possible.
fn hosts(path: &str, raw: &RawCalls, known: &[Known], report: &mut Report<'_>) -> Option<Vec<usize>> {
    let key = join(path, "path");
    if raw.path.is_empty() {
        report.missing(
            &key,
            "expected the hosts on the path of the calls, from the caller's side: path = [\"edge\", \"core\"]",
        );
    }
    if raw.path.len() > PATH_MAX {
        report.key_problem(&key, format!("expected at most {PATH_MAX} hosts"));
    }
    let mut found = Vec::new();
    for setting in &raw.path {
        let name = setting.value();
        found.push(name.and_then(|name| find(&name, setting, known, report)));
    }
    let role = |at: usize| found.get(at).copied().flatten().and_then(|index: usize| known[index].role);
    for (at, setting) in raw.path.iter().enumerate() {
        let is_last = at + 1 == raw.path.len();
        match role(at) {
            Some(RoleName::Server) if !is_last => {
                report.conflict(
                    setting,
                    "expected a server at the end of the path only: it answers calls and \
                                         forwards none",
                );
            }
            Some(RoleName::Database) => {
                let remedy =
                    "a database cannot be on a path; name it in `database` of the hosts that query it";
                report.conflict(setting, remedy);
            }
            Some(RoleName::Balancer) if is_last => {
                let remedy =
                    "expected hosts of role \"server\" after the balancer: add their name to the path";
                report.conflict(setting, remedy);
            }
            Some(RoleName::Balancer) if role(at + 1).is_some_and(|next| next != RoleName::Server) => {
                let remedy =
                    "expected hosts of role \"server\" right after it: a balancer assigns calls to servers";
                report.conflict(setting, remedy);
            }
            _ => {}
        }
    }
    found.into_iter().collect::<Option<Vec<_>>>().filter(|path| !path.is_empty())
}

fn load(
    path: &str,
    raw: &RawCalls,
    duration: Option<Duration>,
    report: &mut Report<'_>,
) -> Option<Vec<RateStep>> {
    let constant = raw.rate.as_ref().map(|setting| (setting, setting.value()));
    let mut steps = Vec::new();
    let mut last = None;
    for (index, step) in raw.load.iter().enumerate() {
        let path = format!("{path}.load[{index}]");
        let checked = check_step(&path, step, last, duration, report);
        last = checked.map(|step| step.at).or(last);
        if index + 1 == raw.load.len() && checked.is_some_and(|step| step.ramp) {
            report.conflict(
                &step.ramp,
                "expected a next step, where the ramp ends; add one, or remove this key",
            );
        }
        steps.push(checked);
    }
    let steps: Option<Vec<RateStep>> = steps.into_iter().collect();
    match constant {
        Some((setting, _)) if !raw.load.is_empty() => {
            report.conflict(setting, "expected either `rate` or `load`; remove one of the two");
            None
        }
        Some((_, rate)) => Some(vec![RateStep { at: Duration::ZERO, rate: rate?, ramp: false }]),
        None if raw.load.is_empty() => {
            report.missing(&join(path, "rate"), "expected calls a second: rate = 100; or steps, see `load`");
            None
        }
        None => {
            let steps = steps?;
            if steps.iter().all(|step| step.rate == 0.0) {
                report.key_problem(&join(path, "load"), "expected a rate above 0 in at least one step");
            }
            Some(steps)
        }
    }
}

fn check_step(
    path: &str,
    raw: &RawStep,
    last: Option<Duration>,
    duration: Option<Duration>,
    report: &mut Report<'_>,
) -> Option<RateStep> {
    let example = "expected both: load = [{ at = \"0s\", rate = 100 }, { at = \"5m\", rate = 200 }]";
    let at = required(path, "at", raw.at.as_ref(), example, report);
    let rate = required(path, "rate", raw.rate.as_ref(), example, report);
    if let (Some(setting), Some(at)) = (&raw.at, at) {
        match last {
            Some(last) if at <= last => {
                report.conflict(
                    setting,
                    format!(
                        "expected more than {}, the time of the step before; list the steps in order of time",
                        show(last)
                    ),
                );
            }
            _ => in_run(setting, Some(at), duration, report),
        }
    }
    Some(RateStep { at: at?, rate: rate?, ramp: raw.ramp.value()? })
}

/// Returns the path of each stream, if all are known. A group on no path is reported.
pub(super) fn paths(calls: &[Checked], known: &[Known], report: &mut Report<'_>) -> Option<Vec<Vec<usize>>> {
    let paths: Vec<_> = calls.iter().map(|calls| calls.path.clone()).collect::<Option<_>>()?;
    if paths.is_empty() {
        return None;
    }
    for (index, group) in known.iter().enumerate() {
        // Databases are checked where hosts name them.
        if group.role != Some(RoleName::Database) && !paths.iter().any(|path| path.contains(&index)) {
            let remedy = "these hosts are on no path; add them to a path of [calls], or remove them";
            report.key_problem(&join("host", &group.name), remedy);
        }
    }
    Some(paths)
}
