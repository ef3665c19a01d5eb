//! `[hep]`

use crate::raw::RawHep;
use crate::report::Report;
use crate::setting::Setting;
use crate::typed::HepConfig;

pub(super) fn check(raw: &RawHep, report: &mut Report<'_>) -> Option<HepConfig> {
    let Some(to) = &raw.to else {
        report.missing("hep.to", "expected the collector: to = \"udp:homer.example.com:9060\"");
        return None;
    };
    Some(HepConfig {
        to: to.value()?,
        calls: raw.calls.value()?,
        share: raw.share.value()?,
        id: raw.id.value()?,
        node: raw.node.as_ref().map_or(Some(String::new()), Setting::value)?,
        password: raw.password.as_ref().map_or(Some(String::new()), Setting::value)?,
    })
}
