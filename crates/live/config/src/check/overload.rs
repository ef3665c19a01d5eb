//! `[overload]`

use super::access::networks;
use crate::raw::RawOverload;
use crate::report::Report;
use crate::scenario::ScenarioLocal;
use crate::setting::given;
use ::overload::local::{bang_bang, delay, occupancy};
use ::overload::retry_after::RetryAfterSettings;
use ::overload::{LocalLaw, OverloadSettings, Triage};
use node::OverloadControl;

/// `None` when something is wrong.
pub(super) fn check(raw: &RawOverload, report: &mut Report<'_>) -> Option<OverloadControl> {
    let local = raw.local.value()?;
    if raw.wait.is_set() && local != ScenarioLocal::Delay {
        report.conflict(&raw.wait, "it belongs to another law; add `local = \"delay\"`, or remove this key");
    }
    if let Some(setting) = raw.retry_after.as_ref().filter(|_| local != ScenarioLocal::BangBang) {
        let remedy =
            "expected `local = \"bang-bang\"`, the law that asks for pauses; use that, or remove this key";
        report.conflict(setting, remedy);
    }
    let triage = raw.triage.value()?;
    if local == ScenarioLocal::BangBang && !triage {
        let remedy = "expected `triage = true`: how many messages wait in the sockets cannot be seen; remove this key, or use \
                      `local = \"delay\"`";
        report.conflict(&raw.triage, remedy);
    }
    let (bound, pause) = (raw.wait.value()?, given(raw.retry_after.as_ref())?);
    let watermarks = bang_bang::BangBangSettings::default();
    let local = match (local, pause) {
        (ScenarioLocal::None, _) => LocalLaw::None,
        (ScenarioLocal::BangBang, Some(pause)) => {
            LocalLaw::RetryAfter(RetryAfterSettings { watermarks, pause })
        }
        (ScenarioLocal::BangBang, None) => LocalLaw::BangBang(watermarks),
        (ScenarioLocal::Occupancy, _) => LocalLaw::Occupancy(occupancy::OccupancySettings::default()),
        (ScenarioLocal::Delay, _) => LocalLaw::Delay(delay::DelaySettings { onset: bound / 2, bound }),
    };
    let laws =
        OverloadSettings { local, triage: triage.then(Triage::default), ..OverloadSettings::default() };
    Some(OverloadControl { laws, neighbours: networks(&raw.neighbours).into() })
}
