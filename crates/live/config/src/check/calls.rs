//! `[calls]`

use std::path::Path;

use crate::kind::PlaceText;
use crate::raw::{RawCalls, RawConfig};
use crate::report::Report;
use crate::typed::{CallsConfig, PoolConfig, RecordsPlace, RegistrarConfig};
use dialog::CallSettings;
use dialog::session_timer::SessionTimer;
use node::DialogSettings;
use route::Forward;

/// How calls are kept, if those of anything are. `None` as well where something is wrong.
pub(super) fn check(
    raw: &RawConfig,
    (pools, registrar): (&[PoolConfig], Option<&RegistrarConfig>),
    directory: &Path,
    report: &mut Report<'_>,
) -> Option<CallsConfig> {
    let is_kept = pools.iter().any(|pool| pool.forward == Forward::Dialog)
        || registrar.is_some_and(|registrar| registrar.home.forward == Forward::Dialog);
    if raw.calls.is_some() && !is_kept && report.is_clean() {
        let remedy =
            "nothing keeps the state of calls; set forward = \"dialog\" for a pool, `proxy` or `registrar`";
        report.key_problem("calls", remedy);
    }
    let defaults = RawCalls::default();
    let calls = read(raw.calls.as_ref().unwrap_or(&defaults), pools, directory, report);
    calls.filter(|_| is_kept)
}

fn read(
    raw: &RawCalls,
    pools: &[PoolConfig],
    directory: &Path,
    report: &mut Report<'_>,
) -> Option<CallsConfig> {
    let records = raw.records.as_ref().map(|setting| match report.read(setting)? {
        PlaceText::Path(path) => Some(RecordsPlace::File(directory.join(path))),
        PlaceText::Url { scheme, url } if ["postgres", "postgresql"].contains(&&*scheme) => {
            Some(RecordsPlace::Database(url))
        }
        PlaceText::Url { .. } => {
            report.secret_conflict(
                setting,
                "expected a file, or a database: \"postgres://user@host/database\"",
            );
            None
        }
    });
    let (rotate, keep) = (report.read(&raw.rotate), report.read(&raw.keep));
    let answers = report.read(&raw.answers);
    let longest = raw.longest.as_ref().map(|setting| report.read(setting));
    let silence = report.read(&raw.silence);
    let expires = raw.session_expires.as_ref().map(|setting| report.read(setting));
    let least = report.read(&raw.session_min);
    let most = report.read(&raw.max_calls);
    if let (Some(setting), Some(Some(expires)), Some(least)) = (&raw.session_expires, expires, least)
        && expires < least
    {
        report.conflict(setting, "expected at least `session_min`; change one of the two");
    }
    if raw.session_expires.is_none() && raw.session_min.is_set() {
        report.conflict(
            &raw.session_min,
            "only who asks for session timers has a minimum; set `session_expires`",
        );
    }
    let calls = CallSettings {
        most: most? as usize,
        longest: longest.map_or(Some(None), |longest| longest.map(Some))?,
        silence: silence?,
        tell_answers: answers?,
    };
    let seconds = |time: std::time::Duration| u32::try_from(time.as_secs()).unwrap_or(u32::MAX);
    let expires = expires.map_or(Some(None), |expires| expires.map(Some))?;
    let session = SessionTimer { expires: expires.map(seconds), least: seconds(least?) };
    Some(CallsConfig {
        dialogs: DialogSettings {
            calls,
            session,
            pools: pools.iter().map(|pool| pool.name.clone()).collect(),
        },
        records: records.map_or(Some(None), |records| records.map(Some))?,
        rotate: rotate? as u64,
        keep: keep?,
    })
}
