//! What the home domain has done, and how its stores do.

use super::text::Page;
use crate::HomeStanding;

pub(super) fn put(page: &mut Page, home: &HomeStanding) {
    let counters = &home.report.counters;
    let name = "sarabande_registrations_total";
    let mut registrations = page.counter(name, "REGISTER requests by what became of them, challenges aside.");
    let outcomes =
        [("granted", counters.granted), ("removed", counters.removed), ("fetched", counters.fetched)];
    for (outcome, count) in outcomes {
        registrations.sample(&[("outcome", outcome), ("status", "200")], count);
    }
    for (status, count) in &counters.refused {
        registrations.sample(&[("outcome", "refused"), ("status", &status.to_string())], count);
    }
    let log_ins = counters.log_ins;
    let mut family = page.counter("sarabande_log_ins_total", "Requests whose sender has to prove who it is.");
    for (outcome, count) in [
        ("challenged", log_ins.challenged),
        ("accepted", log_ins.accepted),
        ("refused", log_ins.refused),
        ("stale", log_ins.stale),
        ("banned", log_ins.banned),
        ("busy", log_ins.busy),
        ("failed", log_ins.failed),
    ] {
        family.sample(&[("outcome", outcome)], count);
    }
    let look_ups = counters.look_ups;
    let mut family = page.counter("sarabande_look_ups_total", "Requests for users, by what was found.");
    let outcomes =
        [("found", look_ups.found), ("not_found", look_ups.not_found), ("failed", look_ups.failed)];
    for (outcome, count) in outcomes {
        family.sample(&[("outcome", outcome)], count);
    }
    page.gauge("sarabande_store_questions", "Requests that wait for the answer of a store.")
        .sample(&[], home.report.waiting);
    stores(page, home);
}

fn stores(page: &mut Page, home: &HomeStanding) {
    let labels = |index: usize| [("store", home.stores[index].name), ("kind", home.stores[index].kind)];
    let mut up = page.gauge("sarabande_store_up", "1 if the store can be used.");
    for (index, store) in home.stores.iter().enumerate() {
        up.sample(&labels(index), u8::from(store.trouble.is_none()));
    }
    let mut failed =
        page.counter("sarabande_store_failures_total", "Questions that a store could not answer.");
    for (index, store) in home.stores.iter().enumerate() {
        failed.sample(&labels(index), store.failed_total);
    }
}
