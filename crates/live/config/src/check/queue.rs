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
        let remedy = "a call that rings at several members has no member that the queue could count it for; remove \
                     `queue`, or `fork`";
        report.key_problem(&path, remedy);
    }
    if source == Some(CapacitySource::Fixed) && !raw.capacity.is_set() {
        let remedy = "expected the new calls a second that a member can take: capacity = 100";
        report.missing(&format!("{path}.capacity"), remedy);
    }
    // A queue with capacities of monitors needs `[capacity]`.
    if source == Some(CapacitySource::Announced) && !report.has("capacity") {
        let remedy = "updates of monitors need the table [capacity], with `listen` and `keys`; add it, or set source \
                      = \"responses\" to estimate the capacity from response times";
        report.conflict(&raw.source, remedy);
    }
    let is_measured = source != Some(CapacitySource::Fixed);
    if is_measured {
        check_invite_timeout(invite_timeout, threshold, report);
    }
    if wait.is_some_and(|wait| wait > HALF_T1) {
        // RFC 3261 §16.11: a proxy without transactions sends no 100.
        if !forward.is_none_or(Forward::has_transactions) {
            let remedy = "without transactions a waiting caller gets no 100; expected at most 250ms, or forward = \
                         \"transaction\"";
            report.conflict(&raw.wait, remedy);
        }
        // The paper drops calls without a response.
        if let Some(rules) = rules {
            let remedy = "a caller that got 100 does not retransmit, so its call must not be dropped; remove this key, or set \
                `wait` to at most 250ms";
            report.conflict(rules, remedy);
        }
    }
    if threshold.is_some_and(|threshold| threshold.is_zero()) {
        report.conflict(&raw.threshold, "expected a time above 0, such as \"10ms\"");
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
            "expected more than `threshold` of the queue, {}: a member that answers within the threshold is not slow",
            show(threshold)
        );
        report.conflict(timeout, &remedy);
    }
}
