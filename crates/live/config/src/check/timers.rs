//! `[timers]`

use std::time::Duration;

use crate::kind::{Kind, show};
use crate::raw::RawTimers;
use crate::report::Report;
use crate::setting::Setting;

/// The table: pools and proxies take from it what they need.
#[derive(Clone, Copy)]
pub(super) struct Timers {
    /// Round-trip time estimate of RFC 3261 §17.1.1.1.
    pub(super) t1: Duration,
    /// Lease of an INVITE that has a provisional answer; more than 64 * `t1`.
    pub(super) invite: Duration,
    /// Lease of a call in which no message passes.
    pub(super) call: Duration,
    /// How long an ended session is remembered; at least 64 * `t1`.
    pub(super) linger: Duration,
}

pub(super) fn check(raw: &RawTimers, report: &mut Report<'_>) -> Option<Timers> {
    let t1 = raw.t1.value();
    let invite = raw.invite.value();
    let linger = raw.linger.as_ref().map(Setting::value);
    let t1 = t1?;
    // RFC 3261 §17.1.1.2: after 64 * T1 a client gives up, and sends no more.
    let longest = 64 * t1;
    if let Some(invite) = invite.filter(|invite| *invite <= longest) {
        let remedy = format!("expected more than 64 * t1 = {}", show(longest));
        blame(&raw.invite, invite, "timers.invite", &raw.t1, &remedy, report);
    }
    if let (Some(setting), Some(Some(linger))) = (&raw.linger, linger)
        && linger < longest
    {
        let remedy = format!("expected at least 64 * t1 = {}, while retransmissions may come", show(longest));
        blame(setting, linger, "timers.linger", &raw.t1, &remedy, report);
    }
    let linger = linger.unwrap_or(Some(longest));
    Some(Timers { t1, invite: invite?, call: raw.call.value()?, linger: linger? })
}

/// Reports `setting` where the file has it, otherwise the one that makes its default wrong.
pub(crate) fn blame<K: Kind, L: Kind>(
    setting: &Setting<K>,
    value: Duration,
    path: &str,
    other: &Setting<L>,
    remedy: &str,
    report: &mut Report<'_>,
) {
    if setting.is_set() {
        report.conflict(setting, remedy);
    } else {
        report
            .conflict(other, format!("does not go with the default of `{path}`, {}: {remedy}", show(value)));
    }
}
