//! Changes of a request by a `[[route]]`.

use super::conditions::several;
use crate::kind::Text;
use crate::raw::RawRoute;
use crate::report::Report;
use crate::setting::{Setting, Several};
use crate::structure::join;
use route::Actions;
use std::collections::BTreeMap;

pub(super) fn check(path: &str, raw: &RawRoute, report: &mut Report<'_>) -> Actions {
    let mut actions = Actions::default();
    for (prefix, setting) in several(raw.strip_prefix.as_ref()) {
        blame(actions.strip_prefix(&prefix), setting, report);
    }
    one(raw.add_prefix.as_ref(), report, |text| actions.add_prefix(text));
    one(raw.set_user.as_ref(), report, |text| actions.set_user(text));
    one(raw.set_host.as_ref(), report, |text| actions.set_host(text));
    for setting in &raw.remove_header {
        one(Some(setting), report, |text| actions.remove_header(text));
    }
    each(&raw.set_header, report, |name, value| actions.set_header(name, value));
    each(&raw.add_header, report, |name, value| actions.add_header(name, value));
    if raw.set_user.is_some() && (raw.strip_prefix.is_some() || raw.add_prefix.is_some()) {
        let remedy = "expected either `set_user` or `strip_prefix` and `add_prefix`; remove one of them";
        report.key_problem(&join(path, "set_user"), remedy);
    }
    actions
}

fn one(
    setting: Option<&Setting<Text>>,
    report: &mut Report<'_>,
    act: impl FnOnce(&str) -> Result<(), String>,
) {
    let Some(setting) = setting else { return };
    if let Some(text) = setting.value() {
        blame(act(&text), setting, report);
    }
}

fn each(
    fields: &BTreeMap<String, Several<Text>>,
    report: &mut Report<'_>,
    mut act: impl FnMut(&str, &str) -> Result<(), String>,
) {
    for (name, values) in fields {
        for (value, setting) in several(Some(values)) {
            blame(act(name, &value), setting, report);
        }
    }
}

fn blame(done: Result<(), String>, setting: &Setting<Text>, report: &mut Report<'_>) {
    if let Err(expected) = done {
        report.conflict(setting, expected);
    }
}
