//! `[timers]`

use std::time::Duration;

use crate::kind::{Kind, show};
use crate::raw::{RawProxy, RawTimers};
use crate::report::Report;
use crate::setting::Setting;

/// The table, and Timer C, as pools and proxies use them.
#[derive(Clone, Copy)]
pub(super) struct Timers {
    /// Round-trip time estimate of RFC 3261 §17.1.1.1.
    pub(super) t1: Duration,
    /// Timer C, RFC 3261 §16.6, and the lease of an INVITE that has a provisional answer; more than 64 * `t1`.
    pub(super) c: Duration,
    /// Lease of a call without messages.
    pub(super) call: Duration,
}

pub(super) fn check(raw: &RawTimers, proxy: Option<&RawProxy>, report: &mut Report<'_>) -> Option<Timers> {
    let usual = RawProxy::default();
    let timer_c = &proxy.unwrap_or(&usual).timer_c;
    let (t1, c) = (raw.t1.value()?, timer_c.value()?);
    // RFC 3261 §17.1.1.2: after 64 * T1 a client gives up, and sends nothing more.
    let longest = 64 * t1;
    if c <= longest {
        let remedy = format!("expected more than 64 * t1 = {}", show(longest));
        blame(timer_c, c, "proxy.timer_c", &raw.t1, &remedy, report);
    }
    Some(Timers { t1, c, call: raw.call.value()? })
}

/// Reports `setting` if it is in the file, otherwise the setting that contradicts its default.
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
        report.conflict(other, format!("does not fit the default of `{path}`, {}: {remedy}", show(value)));
    }
}
