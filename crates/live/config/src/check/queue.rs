//! `queue` of `[pool.<name>]`

use crate::kind::{QueueRules, show};
use crate::raw::{InviteTimeout, RawQueue};
use crate::report::Report;
use crate::setting::Setting;
use elastic::estimate::{CapacityLaw, EstimatorSettings};
use elastic::queue::{Accrual, LengthSettings, MemberChoice, Overflow, QueueSettings};
use node::{CapacitySource, QueueSetup};
use route::{Fork, Forward};
use std::time::Duration;

/// Half of T1: the time that a caller may wait without a response.
const HALF_T1: Duration = Duration::from_millis(250);

/// The queue of the pool at `path`.
pub(super) fn check(
    raw: &RawQueue,
    path: &str,
    (forward, fork): (Option<Forward>, Option<Fork>),
    invite_timeout: &InviteTimeout,
    report: &mut Report<'_>,
) -> Option<QueueSetup> {
    let usual = QueueSettings::default();
    let capacity = raw.capacity.value();
    let source = raw.source.value();
    let threshold = raw.threshold.value();
    let wait = raw.wait.value();
    let rules = raw.rules.as_ref();
    let path = format!("{path}.queue");
    if fork.is_some_and(|fork| fork != Fork::None) {
        let remedy = "a call that rings at several members is nobody's; remove this, or `fork`";
        report.key_problem(&path, remedy);
    }
    if source == Some(CapacitySource::Fixed) && !raw.capacity.is_set() {
        let remedy = "expected how many new calls a second a member can take: capacity = 100";
        report.missing(&format!("{path}.capacity"), remedy);
    }
    // A queue with capacities of monitors needs `[capacity]`.
    if source == Some(CapacitySource::Announced) && !report.has("capacity") {
        let remedy = "monitors are heard by way of the table [capacity], which is missing: expected it with `listen` and `keys`; \
                      or set source = \"responses\", and response times say what a member can take";
        report.conflict(&raw.source, remedy);
    }
    let is_measured = source != Some(CapacitySource::Fixed);
    if is_measured {
        check_invite_timeout(invite_timeout, threshold, report);
    }
    if wait.is_some_and(|wait| wait > HALF_T1) {
        // RFC 3261 §16.11: a proxy without transactions sends no 100.
        if !forward.is_none_or(Forward::has_transactions) {
            let remedy = "without transactions no caller can be told to wait; expected 250ms at most, or forward = \"transaction\"";
            report.conflict(&raw.wait, remedy);
        }
        // The paper drops calls without a response.
        if let Some(rules) = rules {
            let remedy =
                "who was told to wait sends nothing again; remove this, or set a `wait` of 250ms at most";
            report.conflict(rules, remedy);
        }
    }
    if threshold.is_some_and(|threshold| threshold.is_zero()) {
        report.conflict(
            &raw.threshold,
            "expected more than nothing, such as \"10ms\": every answer takes some time",
        );
    }
    let wait = wait?;
    let (law, accrual, choice, overflow) = match rules.map(Setting::value) {
        None => {
            (CapacityLaw::Proven, Accrual::Answers { most: capacity? }, MemberChoice::Tlwl, usual.overflow)
        }
        Some(rules) => match rules? {
            QueueRules::Smace => {
                (CapacityLaw::Smace, Accrual::PerSecond, MemberChoice::MostRoom, Overflow::Drop)
            }
        },
    };
    let settings = QueueSettings {
        bound: wait,
        length: LengthSettings { delay: wait, ..usual.length },
        overflow,
        accrual,
        choice,
        ..usual
    };
    let capacity =
        EstimatorSettings { threshold: threshold?, maximum: capacity?, law, ..EstimatorSettings::default() };
    Some(QueueSetup { settings, source: source?, capacity })
}

/// Reports an `invite_timeout` that does not exceed the threshold.
fn check_invite_timeout(timeout: &InviteTimeout, threshold: Option<Duration>, report: &mut Report<'_>) {
    if let (true, Some(after), Some(threshold)) = (timeout.is_set(), timeout.value(), threshold)
        && !after.is_zero()
        && after <= threshold
    {
        let remedy = format!(
            "expected more than `threshold` of the queue, {}: a member that answers in that time is not slow",
            show(threshold)
        );
        report.conflict(timeout, &remedy);
    }
}
