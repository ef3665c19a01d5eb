//! `[overload]`

use super::access::networks;
use crate::kind::FeedbackName;
use crate::raw::RawOverload;
use crate::report::Report;
use crate::scenario::ScenarioLocal;
use crate::setting::given;
use ::overload::hop::ReceiverLaw;
use ::overload::local::{bang_bang, delay, occupancy};
use ::overload::retry_after::RetryAfterSettings;
use ::overload::{FeedbackLaw, LocalLaw, OverloadSettings, Scope, Triage};
use node::OverloadControl;

/// Returns `None` if something is wrong.
pub(super) fn check(raw: &RawOverload, report: &mut Report<'_>) -> Option<OverloadControl> {
    let local = raw.local.value()?;
    if let Some(setting) = raw.retry_after.as_ref().filter(|_| local != ScenarioLocal::BangBang) {
        let remedy =
            "expected `local = \"bang-bang\"`, the only law with this key; use this law, or remove the key";
        report.conflict(setting, remedy);
    }
    let feedback = raw.feedback.value()?;
    if feedback != FeedbackName::None && raw.neighbours.is_empty() {
        let remedy = "feedback is exchanged with `neighbours` only; add the networks of the servers before and \
             behind this process, or remove this key";
        report.conflict(&raw.feedback, remedy);
    }
    let pause = given(raw.retry_after.as_ref())?;
    // Without refusals, messages wait in the sockets, first come first served.
    let triage = (local != ScenarioLocal::None).then(Triage::default);
    let watermarks = bang_bang::BangBangSettings::default();
    let local = match (local, pause) {
        (ScenarioLocal::None, _) => LocalLaw::None,
        (ScenarioLocal::BangBang, Some(pause)) => {
            LocalLaw::RetryAfter(RetryAfterSettings { watermarks, pause })
        }
        (ScenarioLocal::BangBang, None) => LocalLaw::BangBang(watermarks),
        (ScenarioLocal::Occupancy, _) => LocalLaw::Occupancy(occupancy::OccupancySettings::default()),
        (ScenarioLocal::Delay, _) => LocalLaw::Delay(delay::DelaySettings::ORDERED),
    };
    // A limit on the wire counts all requests (RFC 7339 §5.3, RFC 7415 §3.4).
    let (feedback, scope) = match feedback {
        FeedbackName::None => (FeedbackLaw::None, Scope::NewRequests),
        FeedbackName::Loss => (FeedbackLaw::Hop(ReceiverLaw::RateAsLoss), Scope::AllRequests),
        FeedbackName::Rate => (FeedbackLaw::Hop(ReceiverLaw::Rate), Scope::AllRequests),
    };
    let laws = OverloadSettings { local, triage, feedback, scope, ..OverloadSettings::default() };
    Some(OverloadControl { laws, neighbours: networks(&raw.neighbours).into() })
}
