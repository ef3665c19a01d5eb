//! From raw to typed: compares values that depend on each other, and makes the types of the other crates.
//!
//! Each value has already been read by its kind, so one mistake does not hide another.

mod calls;
mod events;
mod hosts;
mod overload;

use std::time::Duration;

use super::names::{RoleName, ServiceName};
use super::raw::{RawCosts, RawOperations, RawRun, RawScenario, RawTimers};
use super::typed::{Costs, RunSettings, Scenario, ServiceTimes};
use crate::check::timers::blame;
use crate::kind::{Kind, Ratio, show};
use crate::report::Report;
use crate::setting::{Setting, Several};
use crate::structure::join;
use proxy::ProxyTimers;
use transaction::Timers;

/// Returns the typed scenario; `None` if something was reported. `title` is the default title.
pub(super) fn check(raw: &RawScenario, title: &str, report: &mut Report<'_>) -> Option<Scenario> {
    let duration = raw.run.duration.value();
    let run = run(&raw.run, duration, title, report);
    let known = hosts::check(&raw.host, report);
    let calls = calls::check(&raw.calls, &known, duration, report);
    let paths = calls::paths(&calls, &known, report);
    hosts::after_balancers(&known, paths.as_deref(), report);
    let links = events::links(&raw.link, &known, paths.as_deref(), duration, report);
    let faults = events::faults(&raw.fault, &known, duration, report);
    let costs = costs(&raw.costs, report);
    let timers = timers(&raw.timers, report);
    let pays = |known: &hosts::Known| known.role == Some(RoleName::Server) && !known.unlimited;
    if costs.as_ref().is_some_and(|costs| costs.message.is_zero() && !costs.operations.is_empty())
        && known.iter().any(pays)
    {
        report.conflict(
            &raw.costs.message,
            "expected a time above 0: the costs of operations apply to proxies and balancers, not to servers with a \
             capacity; set a time, or `capacity = \"unlimited\"` for the servers",
        );
    }
    if !report.is_clean() {
        return None;
    }
    Some(Scenario {
        title: run.0,
        run: run.1?,
        costs: costs?,
        timers: timers?,
        groups: known.into_iter().map(|known| known.group).collect::<Option<_>>()?,
        streams: calls.into_iter().map(|calls| calls.stream).collect::<Option<_>>()?,
        links: links.into_iter().collect::<Option<_>>()?,
        faults: faults.into_iter().collect::<Option<_>>()?,
    })
}

/// Reads a required key; `example` is shown if it is missing.
fn required<K: Kind>(
    path: &str,
    key: &str,
    setting: Option<&Setting<K>>,
    example: &str,
    report: &mut Report<'_>,
) -> Option<K::Value> {
    if setting.is_none() {
        report.missing(&join(path, key), example);
    }
    setting?.value()
}

/// Reports a time that is not within the run.
fn in_run<K: Kind>(
    setting: &Setting<K>,
    at: Option<Duration>,
    duration: Option<Duration>,
    report: &mut Report<'_>,
) {
    if let (Some(at), Some(duration)) = (at, duration)
        && at >= duration
    {
        let end = show(duration);
        report.conflict(
            setting,
            format!("expected a time before the end of the run, {end}; see `run.duration`"),
        );
    }
}

/// Number of bins of a run by default, including the warm-up.
const BINS_MIN: u32 = 20;

/// End of the first whole bin after the warm-up.
fn first_bin_ends(bin: Duration, warm_up: Duration) -> Duration {
    let bins = warm_up.as_nanos().div_ceil(bin.as_nanos()) + 1;
    bin.saturating_mul(u32::try_from(bins).unwrap_or(u32::MAX))
}

/// Reads title and table.
fn run(
    raw: &RawRun,
    duration: Option<Duration>,
    title: &str,
    report: &mut Report<'_>,
) -> (String, Option<RunSettings>) {
    let title = raw.title.as_ref().map_or(Some(title.to_owned()), Setting::value);
    let warm_up = raw.warm_up.as_ref().map(Setting::value);
    let bin = raw.bin.as_ref().map(Setting::value);
    if let (Some(setting), Some(Some(warm_up)), Some(duration)) = (&raw.warm_up, warm_up, duration)
        && warm_up >= duration
    {
        report.conflict(setting, format!("expected less than `run.duration`, {}", show(duration)));
    }
    let warm_up_or = |duration: Duration| warm_up.unwrap_or(Some(duration / 5));
    // The default warm-up is a fifth of the run, and so ends with a bin.
    let bin_or =
        |duration: Duration| bin.unwrap_or(Some(RunSettings::default().bin.min(duration / BINS_MIN)));
    if let Some(duration) = duration
        && let Some(bin) = bin_or(duration)
    {
        // A wrong warm-up has been reported already.
        let warm_up = warm_up_or(duration).filter(|warm_up| *warm_up < duration).unwrap_or_default();
        if first_bin_ends(bin, warm_up) > duration {
            let [bin, warm_up, end] = [bin, warm_up, duration].map(show);
            let remedy =
                format!("expected a whole bin, {bin}, between the warm-up, {warm_up}, and the end, {end}");
            match (&raw.bin, &raw.warm_up) {
                (Some(setting), _) => report.conflict(setting, remedy),
                (None, Some(setting)) => report.conflict(setting, remedy),
                (None, None) => unreachable!("the defaults are consistent"),
            }
        }
    }
    let whole = || {
        let duration = duration?;
        Some(RunSettings {
            duration,
            warm_up: warm_up_or(duration)?,
            seed: raw.seed.value()?,
            replications: raw.replications.value()?,
            bin: bin_or(duration)?,
            precision: raw.precision.value()?,
        })
    };
    (title.unwrap_or_default(), whole())
}

fn costs(raw: &RawCosts, report: &mut Report<'_>) -> Option<Costs> {
    let message = raw.message.value();
    let service = match &raw.service {
        Several::One(name) => name.value().map(|name| match name {
            ServiceName::Deterministic => ServiceTimes::Deterministic,
            ServiceName::Exponential => ServiceTimes::Exponential,
        }),
        Several::Many(quantiles) => Some(table(quantiles, report)),
    };
    let operations = operations(&raw.operations);
    let priced = operations.as_ref().is_none_or(|operations| !operations.is_empty());
    if message.is_some_and(|message| message.is_zero()) && !priced {
        report.conflict(
            &raw.message,
            "expected a time above 0, unless `costs.operations` has one; for hosts without cost set \
             `capacity = \"unlimited\"`",
        );
    }
    Some(Costs {
        base_capacity: raw.base_capacity.value()?,
        message: message?,
        timer: raw.timer.value()?,
        cleanup: raw.cleanup.value()?,
        reject: raw.reject.value()?,
        reject_stateful: raw.reject_stateful.value()?,
        reject_ack: raw.reject_ack.value()?,
        invite_work: raw.invite_work.value()?,
        repeat_work: raw.repeat_work.value()?,
        service: service?,
        operations: operations?,
    })
}

/// Operations that cost time.
fn operations(raw: &RawOperations) -> Option<Vec<(&'static str, Duration)>> {
    let all = [
        ("scan", &raw.scan),
        ("lookup", &raw.lookup),
        ("create_session", &raw.create_session),
        ("choose", &raw.choose),
        ("make_token", &raw.make_token),
        ("verify_token", &raw.verify_token),
        ("forward", &raw.forward),
        ("reject", &raw.reject),
        ("discard", &raw.discard),
        ("expire", &raw.expire),
        ("create_transaction", &raw.create_transaction),
        ("match", &raw.r#match),
        ("retransmit", &raw.retransmit),
        ("absorb", &raw.absorb),
        ("timer_fire", &raw.timer_fire),
        ("expire_transaction", &raw.expire_transaction),
    ];
    let read = all.map(|(name, setting)| Some((name, setting.value()?)));
    let all: Option<Vec<_>> = read.into_iter().collect();
    Some(all?.into_iter().filter(|(_, time)| !time.is_zero()).collect())
}

/// Measured times in any unit become factors with the mean 1.
fn table(quantiles: &[Setting<Ratio>], report: &mut Report<'_>) -> ServiceTimes {
    let mut times = Vec::new();
    for setting in quantiles {
        let time = setting.value();
        if let (Some(time), Some(last)) = (time, times.last())
            && time < *last
        {
            report.conflict(setting, format!("expected ascending times; the time before is {last}"));
        }
        times.extend(time);
    }
    if quantiles.len() < 2 {
        let remedy =
            "expected at least two times, the shortest and the longest: service = [0.8, 0.9, 1.0, 1.6]";
        report.key_problem("costs.service", remedy);
    }
    let mean = times.iter().sum::<f64>() / times.len() as f64;
    ServiceTimes::Table(times.iter().map(|time| time / mean).collect())
}

fn timers(raw: &RawTimers, report: &mut Report<'_>) -> Option<ProxyTimers> {
    let t1 = raw.t1.value();
    let t2 = raw.t2.value();
    let (t1, t2) = (t1?, t2?);
    if t2 < t1 {
        let remedy = format!("expected at least t1 = {}", show(t1));
        blame(&raw.t2, t2, "timers.t2", &raw.t1, &remedy, report);
    }
    let transaction = Timers { t1, t2, t4: raw.t4.value()?, ..Timers::default() };
    Some(ProxyTimers { transaction, c: raw.c.value()? })
}
