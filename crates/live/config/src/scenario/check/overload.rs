//! `[host.<name>.overload]`

use crate::kind::Kind;
use crate::report::Report;
use crate::scenario::names::RoleName;
use crate::scenario::raw::RawOverload;
use crate::scenario::{Overload, ScenarioFeedback, ScenarioLocal};
use crate::setting::{Setting, given};
use crate::structure::join;
use ::overload::RejectAt;
use ::overload::local::occupancy;

/// Returns `None` if something is wrong.
pub(super) fn check(
    path: &str,
    role: Option<RoleName>,
    raw: &RawOverload,
    report: &mut Report<'_>,
) -> Option<Overload> {
    let key = join(path, "overload");
    if role.is_some_and(|role| role != RoleName::Proxy) && report.has(&key) {
        report.key_problem(
            &key,
            "only a proxy has overload control; remove this table, or move it to the proxies",
        );
    }
    let local = raw.local.value();
    let feedback = raw.feedback.value();
    let reject = raw.reject.value();
    let stateful = raw.stateful.value();
    let look_up = raw.look_up.value();
    let watermarks = watermarks(raw, report);
    let occupancy = occupancy(raw, report);
    let wait = raw.wait.value();
    let (local, feedback) = (local?, feedback?);
    constants(raw, local, report);
    let is_probability = matches!(feedback, ScenarioFeedback::HopByHop | ScenarioFeedback::EndToEnd);
    if local == ScenarioLocal::None && is_probability {
        let remedy = "without a law there is no acceptance probability to send; add `local = \"occupancy\"`";
        report.conflict(&raw.feedback, remedy);
    }
    if local == ScenarioLocal::None && feedback == ScenarioFeedback::None {
        needs_law(&raw.reject, report);
        needs_law(&raw.buffer_rejections, report);
        needs_law(&raw.stateful, report);
        needs_law(&raw.look_up, report);
        raw.retry_after.iter().for_each(|setting| needs_law(setting, report));
    } else if let Some(setting) = raw.retry_after.as_ref().filter(|_| local != ScenarioLocal::BangBang) {
        let remedy =
            "expected `local = \"bang-bang\"`, the only law with this key; use this law, or remove the key";
        report.conflict(setting, remedy);
    }
    if reject == Some(RejectAt::Service) && raw.buffer_rejections.is_set() {
        let remedy = "expected `reject = \"early\"`: with \"late\" all requests wait in the buffer; remove one of \
                     the two keys";
        report.conflict(&raw.buffer_rejections, remedy);
    }
    if look_up == Some(false) && (stateful == Some(true) || feedback != ScenarioFeedback::None) {
        let remedy = "expected `true`: `stateful` rejections and `feedback` look up transactions; remove this key, \
                     or `stateful` and `feedback`";
        report.conflict(&raw.look_up, remedy);
    }
    if is_probability && !matches!(local, ScenarioLocal::None | ScenarioLocal::Occupancy) {
        let remedy = "expected `occupancy`, the law with the acceptance probability that is sent; or another `feedback`";
        report.conflict(&raw.local, remedy);
    }
    Some(Overload {
        local,
        feedback,
        reject: reject?,
        buffer_rejections: raw.buffer_rejections.value()?,
        stateful: stateful?,
        look_up: look_up?,
        retry: raw.retry.value()?,
        retry_after: given(raw.retry_after.as_ref())?,
        during_pause: raw.during_pause.value()?,
        watermarks: watermarks?,
        occupancy: occupancy?,
        wait: wait?,
        triage: raw.triage.value()?,
    })
}

/// High and low watermark.
fn watermarks(raw: &RawOverload, report: &mut Report<'_>) -> Option<(f64, f64)> {
    let (high, low) = (raw.high.value()?, raw.low.value()?);
    if low > high {
        if raw.low.is_set() {
            report.conflict(&raw.low, format!("expected at most `high`, {high}"));
        } else {
            report.conflict(&raw.high, format!("expected at least `low`, {low}; set `low` as well"));
        }
    }
    Some((high, low))
}

fn occupancy(raw: &RawOverload, report: &mut Report<'_>) -> Option<occupancy::OccupancySettings> {
    let increase_max = raw.increase_max.value();
    if increase_max.is_some_and(|increase| increase <= 1.0) {
        report
            .conflict(&raw.increase_max, "expected more than 1: otherwise the probability never rises again");
    }
    Some(occupancy::OccupancySettings {
        target: raw.target.value()?,
        acceptance_min: raw.acceptance_min.value()?,
        increase_max: increase_max?,
        period: raw.period.value()?,
        weight: raw.smoothing.value()?,
    })
}

/// Reports constants of another law.
fn constants(raw: &RawOverload, local: ScenarioLocal, report: &mut Report<'_>) {
    let RawOverload { high, low, target, acceptance_min, increase_max, period, smoothing, wait, .. } = raw;
    of_law(&[high, low], local == ScenarioLocal::BangBang, "bang-bang", report);
    of_law(&[target], local == ScenarioLocal::Occupancy, "occupancy", report);
    of_law(&[acceptance_min, smoothing], local == ScenarioLocal::Occupancy, "occupancy", report);
    of_law(&[increase_max], local == ScenarioLocal::Occupancy, "occupancy", report);
    of_law(&[period], local == ScenarioLocal::Occupancy, "occupancy", report);
    of_law(&[wait], local == ScenarioLocal::Delay, "delay", report);
}

fn of_law<K: Kind>(settings: &[&Setting<K>], is_at_work: bool, law: &str, report: &mut Report<'_>) {
    for &setting in settings.iter().filter(|setting| setting.is_set() && !is_at_work) {
        report.conflict(
            setting,
            format!("this key belongs to another law; add `local = {law:?}`, or remove this key"),
        );
    }
}

fn needs_law<K: Kind>(setting: &Setting<K>, report: &mut Report<'_>) {
    if setting.is_set() {
        report.conflict(
            setting,
            "nothing is rejected without a law; add `local = \"occupancy\"`, or remove this key",
        );
    }
}
