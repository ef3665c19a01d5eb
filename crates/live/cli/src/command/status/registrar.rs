//! The part of `status` about the registrar.

use crate::command::text::{plural, span};
use server::figures::{RegistrarView, StoreView};
use std::collections::BTreeMap;

/// Returns some lines, each after a line end.
pub(in crate::command) fn text(registrar: &RegistrarView) -> String {
    let RegistrarView { registrations, log_ins, look_ups, waiting, stores } = registrar;
    let refused = match sum(&registrations.refused_total) {
        0 => "0 refused".to_owned(),
        all => {
            let each = registrations.refused_total.iter().map(|(status, count)| format!("{status}: {count}"));
            format!("{all} refused ({})", each.collect::<Vec<_>>().join(", "))
        }
    };
    let waiting = match waiting {
        0 => String::new(),
        some => format!("\nwaiting for a store: {}", plural(*some as u64, "request")),
    };
    let text = format!(
        "\nregistrations: {} granted, {} removed, {refused}\n\
         log-ins: {} accepted, {} refused, {} stale, {} banned; {} failed\n\
         users looked up: {} found, {} not found; {} failed{waiting}",
        registrations.granted_total,
        registrations.removed_total,
        log_ins.accepted_total,
        log_ins.refused_total,
        log_ins.stale_total,
        log_ins.banned_total,
        log_ins.failed_total + log_ins.busy_total,
        look_ups.found_total,
        look_ups.not_found_total,
        look_ups.failed_total,
    );
    stores.iter().fold(text, |text, each| text + "\n" + &store(each))
}

fn store(StoreView { name, kind, up, reason, since_seconds, .. }: &StoreView) -> String {
    let since = since_seconds.map(|seconds| format!(" for {}", span(seconds))).unwrap_or_default();
    let reason = reason.as_ref().map(|why| format!(":\n  {why}")).unwrap_or_default();
    format!("store of {name}: {kind}, {}{since}{reason}", if *up { "up" } else { "down" })
}

fn sum(counts: &BTreeMap<String, u64>) -> u64 {
    counts.values().sum()
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use serde_json::json;

    pub(in crate::command::status) fn registrar() -> RegistrarView {
        let view = json!({
            "registrations": {
                "granted_total": 120_000, "removed_total": 3_000, "fetched_total": 7,
                "refused_total": { "403": 2, "503": 41 },
            },
            "log_ins": {
                "challenged_total": 123_000, "accepted_total": 220_000, "refused_total": 12, "stale_total": 900,
                "banned_total": 8, "busy_total": 1, "failed_total": 2,
            },
            "look_ups": { "found_total": 99_000, "not_found_total": 500, "failed_total": 4 },
            "waiting": 2,
            "stores": [
                { "name": "registrations", "kind": "redis", "up": false, "reason": "Redis at 192.0.2.1:6379: Connection refused (os error 111)",
                  "since_seconds": 75.2, "waiting": 0, "failed_total": 45 },
                { "name": "users", "kind": "file", "up": true, "reason": null, "since_seconds": null, "waiting": 0,
                  "failed_total": 0 },
            ],
        });
        serde_json::from_value(view).unwrap()
    }

    #[test]
    fn lines_fit_in_80_columns() {
        let text = text(&registrar());
        assert_eq!(
            text,
            "\nregistrations: 120000 granted, 3000 removed, 43 refused (403: 2, 503: 41)\n\
             log-ins: 220000 accepted, 12 refused, 900 stale, 8 banned; 3 failed\n\
             users looked up: 99000 found, 500 not found; 4 failed\n\
             waiting for a store: 2 requests\n\
             store of registrations: redis, down for 1m 15s:\n  Redis at 192.0.2.1:6379: Connection refused (os error 111)\n\
             store of users: file, up"
        );
        assert!(text.lines().all(|line| line.len() <= 80), "{text}");
    }
}
