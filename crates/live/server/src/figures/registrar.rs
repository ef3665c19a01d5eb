//! The home domain: registrations, log-ins and look-ups of users, and how their stores do.

use super::metric::figures;
use super::text::Page;
use node::{LogIns, LookUps, RegistrarCounters, RegistrarReport};
use shards::StoreReport;
use std::collections::BTreeMap;

figures! {
    /// `GET /api/registrar`: counts are since the start.
    RegistrarView as "Registrar" from (report: &RegistrarReport, reports: &[StoreReport]) {
        /// REGISTER requests by what became of them; repetitions and challenges are not counted.
        registrations: RegistrationsView = RegistrationsView::new(&report.counters),
        /// Requests whose sender has to prove who it is.
        log_ins: LogInsView = LogInsView::new(report.counters.log_ins),
        /// Requests for users.
        look_ups: LookUpsView = LookUpsView::new(report.counters.look_ups),
        /// Requests that wait for the answer of a store or of the DNS.
        waiting: usize = report.waiting
            => [gauge "sarabande_store_questions" "Requests that wait for the answer of a store or of the DNS."],
        /// Where registrations and users are kept.
        stores: Vec<StoreView> = reports.iter().map(StoreView::new).collect(),
    }
}

figures! {
    /// What became of REGISTER requests.
    RegistrationsView as "Registrations" from (counters: &RegistrarCounters) {
        /// Contacts were added or refreshed.
        granted_total: u64 = counters.granted => [
            counter "sarabande_registrations_total" (outcome = "granted", status = "200")
            "REGISTER requests by what became of them, challenges aside."
        ],
        /// Contacts were removed, and none was added.
        removed_total: u64 = counters.removed
            => [counter "sarabande_registrations_total" (outcome = "removed", status = "200")],
        /// Asked which contacts there are.
        fetched_total: u64 = counters.fetched
            => [counter "sarabande_registrations_total" (outcome = "fetched", status = "200")],
        /// Refused, by status code.
        refused_total: BTreeMap<String, u64> =
            counters.refused.iter().map(|(status, count)| (status.to_string(), *count)).collect()
            => [counter "sarabande_registrations_total" (outcome = "refused", status)],
    }
}

figures! {
    /// What became of requests whose sender has to prove who it is.
    #[derive(Copy)]
    LogInsView as "LogIns" from (log_ins: LogIns) {
        /// Had no credentials yet, and were challenged.
        challenged_total: u64 = log_ins.challenged => [
            counter "sarabande_log_ins_total" (outcome = "challenged") "Requests whose sender has to prove who it is."
        ],
        /// Had the right password.
        accepted_total: u64 = log_ins.accepted => [counter "sarabande_log_ins_total" (outcome = "accepted")],
        /// Had a wrong password, or the name of no user.
        refused_total: u64 = log_ins.refused => [counter "sarabande_log_ins_total" (outcome = "refused")],
        /// Had an old nonce, or one that was used before, and were challenged again.
        stale_total: u64 = log_ins.stale => [counter "sarabande_log_ins_total" (outcome = "stale")],
        /// Were not looked at: too many wrong passwords came from there, or for this user.
        banned_total: u64 = log_ins.banned => [counter "sarabande_log_ins_total" (outcome = "banned")],
        /// Were not looked at: too many others from there, or for this user, were being looked at.
        busy_total: u64 = log_ins.busy => [counter "sarabande_log_ins_total" (outcome = "busy")],
        /// Nobody could say: the store of users gave no answer.
        failed_total: u64 = log_ins.failed => [counter "sarabande_log_ins_total" (outcome = "failed")],
    }
}

figures! {
    /// What became of requests for users.
    #[derive(Copy)]
    LookUpsView as "LookUps" from (look_ups: LookUps) {
        /// The user has contacts.
        found_total: u64 = look_ups.found => [
            counter "sarabande_look_ups_total" (outcome = "found") "Requests for users, by what was found."
        ],
        /// Nobody has registered there.
        not_found_total: u64 = look_ups.not_found => [counter "sarabande_look_ups_total" (outcome = "not_found")],
        /// Nobody could say: the store of registrations gave no answer.
        failed_total: u64 = look_ups.failed => [counter "sarabande_look_ups_total" (outcome = "failed")],
    }
}

figures! {
    /// One store.
    StoreView as "Store" from (report: &StoreReport) {
        /// What it keeps: `registrations` or `users`.
        name: String = report.name.to_owned(),
        /// Where: `memory`, `file`, `redis` or `postgresql`.
        kind: String = report.kind.to_owned(),
        /// Whether it can be used.
        up: bool = report.trouble.is_none() => [gauge "sarabande_store_up" "1 if the store can be used."],
        /// Why not; `null` when it can be used.
        reason: Option<String> = report.trouble.clone(),
        /// For how long it has been up, or down; `null` for what is in the memory of the process.
        since_seconds: Option<f64> = report.unchanged.map(|unchanged| unchanged.as_secs_f64()),
        /// Questions that wait for it.
        waiting: usize = report.waiting,
        /// Questions that got an error for an answer.
        failed_total: u64 = report.failed_total
            => [counter "sarabande_store_failures_total" "Questions that a store could not answer."],
    }
}

impl RegistrarView {
    pub(super) fn put(&self, page: &mut Page) {
        page.part(&self.registrations);
        page.part(&self.log_ins);
        page.part(&self.look_ups);
        page.part(self);
        let stores = self.stores.iter().map(|each| ([("store", &*each.name), ("kind", &*each.kind)], each));
        page.parts(&stores.collect::<Vec<_>>());
    }
}
