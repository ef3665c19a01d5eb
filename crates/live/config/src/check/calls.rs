//! `[calls]`

use super::site::Site;
use crate::kind::PlaceText;
use crate::raw::{RawCalls, RawConfig};
use crate::report::Report;
use crate::setting::given;
use crate::typed::{CallsConfig, PoolConfig, RecordsPlace, RegistrarConfig};
use dialog::CallSettings;
use dialog::session_timer::SessionTimer;
use node::{DialogSettings, Distribution};
use route::Forward;

/// Returns the settings of calls; `None` if no pool keeps dialogs, or something is wrong.
pub(super) fn check(
    raw: &RawConfig,
    (pools, registrar, distribution): (&[PoolConfig], Option<&RegistrarConfig>, Option<&Distribution>),
    site: &Site<'_>,
    report: &mut Report<'_>,
) -> Option<CallsConfig> {
    let are_shared = distribution.is_some_and(|distribution| distribution.dialogs);
    let keeps = |forward| forward == Forward::Dialog || (are_shared && forward == Forward::Distributed);
    let is_kept = pools.iter().any(|pool| keeps(pool.settings.service.forward()))
        || registrar.is_some_and(|registrar| keeps(registrar.settings.forward));
    if raw.calls.is_some() && !is_kept && report.is_clean() {
        let remedy = "no pool keeps the state of calls; set forward = \"dialog\" for a pool, `proxy` or `registrar`, \
             or \"distributed\" with \"dialog\" among `distribution.shares`";
        report.key_problem("calls", remedy);
    }
    let defaults = RawCalls::default();
    let calls = read(raw.calls.as_ref().unwrap_or(&defaults), pools, site, report);
    calls.filter(|_| is_kept)
}

fn read(
    raw: &RawCalls,
    pools: &[PoolConfig],
    site: &Site<'_>,
    report: &mut Report<'_>,
) -> Option<CallsConfig> {
    let records = raw.records.as_ref().map(|setting| match setting.value()? {
        PlaceText::Path(path) => Some(RecordsPlace::File(site.directory.join(path))),
        PlaceText::Url { scheme, url } if ["postgres", "postgresql"].contains(&&*scheme) => {
            Some(RecordsPlace::Database(site.server(url)))
        }
        PlaceText::Url { .. } => {
            report.secret_conflict(
                setting,
                "expected a file, or a database: \"postgres://user@host/database\"",
            );
            None
        }
    });
    let expires = given(raw.session_expires.as_ref());
    let calls = CallSettings {
        most: raw.max_calls.value()? as usize,
        longest: given(raw.longest.as_ref())?,
        record_answers: raw.answers.value()?,
        ..CallSettings::default()
    };
    let seconds = |time: std::time::Duration| u32::try_from(time.as_secs()).unwrap_or(u32::MAX);
    let session = SessionTimer { expires: expires?.map(seconds), ..SessionTimer::default() };
    Some(CallsConfig {
        dialogs: DialogSettings {
            calls,
            session,
            pools: pools.iter().map(|pool| pool.settings.name.clone()).collect(),
        },
        records: records.map_or(Some(None), |records| records.map(Some))?,
        rotate: raw.rotate.value()? as u64,
        keep: raw.keep.value()?,
    })
}
