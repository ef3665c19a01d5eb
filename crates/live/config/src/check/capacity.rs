//! `[capacity]`

use std::path::Path;

use super::access::Lists;
use super::token::{KEY, secret_file};
use crate::raw::RawCapacity;
use crate::report::Report;
use crate::setting::Setting;
use crate::typed::{Admin, CapacityConfig};

/// `None` as well where something is wrong.
pub(super) fn check(
    raw: &RawCapacity,
    admin: Option<&Admin>,
    directory: &Path,
    report: &mut Report<'_>,
) -> Option<CapacityConfig> {
    let listen = raw.listen.as_ref().and_then(Setting::value);
    if raw.listen.is_none() {
        let remedy = "expected the local address that monitors send updates to: listen = \"10.0.0.9:8061\"";
        report.missing("capacity.listen", remedy);
    }
    if let (Some(setting), Some(listen)) = (&raw.listen, listen)
        && admin.is_some_and(|admin| admin.listen == Some(listen))
    {
        report.conflict(setting, "the admin interface listens there (`admin.listen`); choose another port");
    }
    let key = match (&raw.key, &raw.key_file) {
        (Some(key), None) => key.value(),
        (None, Some(path)) => secret_file(path, directory, &KEY, report),
        (None, None) => {
            let remedy = "expected the key that monitors have, too: key_file = \"capacity.key\", with 16 bytes as 32 hex digits \
                          or in base64; make one with `openssl rand -hex 16`";
            report.missing("capacity.key", remedy);
            None
        }
        (Some(key), Some(_)) => {
            report.secret_conflict(key, "expected either `key` or `key_file`, not both; remove one");
            None
        }
    };
    let from = Lists { allow: &raw.from, deny: &[] }.read(::route::Refusal::Silence, report);
    Some(CapacityConfig { listen: listen?, key: key?, from: from? })
}
