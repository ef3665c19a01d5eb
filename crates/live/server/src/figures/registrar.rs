//! The registrar: registrations, log-ins and look-ups of users, and the state of its stores.

use super::metric::figures;
use super::text::Page;
use node::{LogIns, LookUps, RegistrarCounters, RegistrarReport};
use shards::StoreReport;
use std::collections::BTreeMap;

figures! {
    /// `GET /api/registrar`: counts are since the start.
    RegistrarView as "Registrar" from (report: &RegistrarReport, reports: &[StoreReport]) {
        /// REGISTER requests, by result. Retransmissions and challenges are not counted.
        registrations: RegistrationsView = RegistrationsView::new(&report.counters),
        /// Requests whose sender has to authenticate.
        log_ins: LogInsView = LogInsView::new(report.counters.log_ins),
        /// Requests for users.
        look_ups: LookUpsView = LookUpsView::new(report.counters.look_ups),
        /// Requests that wait for a store or for the DNS.
        waiting: usize = report.waiting
            => [gauge "sarabande_store_questions" "Requests that wait for a store or for the DNS."],
        /// Stores of registrations and users.
        stores: Vec<StoreView> = reports.iter().map(StoreView::new).collect(),
    }
}

figures! {
    /// REGISTER requests, by result.
    RegistrationsView as "Registrations" from (counters: &RegistrarCounters) {
        /// Requests that added or refreshed contacts.
        granted_total: u64 = counters.granted => [
            counter "sarabande_registrations_total" (outcome = "granted", status = "200")
            "REGISTER requests by result, challenges not counted."
        ],
        /// Requests that removed contacts and added none.
        removed_total: u64 = counters.removed
            => [counter "sarabande_registrations_total" (outcome = "removed", status = "200")],
        /// Requests that asked for the current contacts.
        fetched_total: u64 = counters.fetched
            => [counter "sarabande_registrations_total" (outcome = "fetched", status = "200")],
        /// Refused requests, by status code.
        refused_total: BTreeMap<String, u64> =
            counters.refused.iter().map(|(status, count)| (status.to_string(), *count)).collect()
            => [counter "sarabande_registrations_total" (outcome = "refused", status)],
    }
}

figures! {
    /// Requests whose sender has to authenticate, by result.
    #[derive(Copy)]
    LogInsView as "LogIns" from (log_ins: LogIns) {
        /// Requests without credentials, which were challenged.
        challenged_total: u64 = log_ins.challenged => [
            counter "sarabande_log_ins_total" (outcome = "challenged") "Requests whose sender has to authenticate, \
                by result."
        ],
        /// Requests with the right password.
        accepted_total: u64 = log_ins.accepted => [counter "sarabande_log_ins_total" (outcome = "accepted")],
        /// Requests with a wrong password or an unknown user name.
        refused_total: u64 = log_ins.refused => [counter "sarabande_log_ins_total" (outcome = "refused")],
        /// Requests with a nonce that was too old or used before, which were challenged again.
        stale_total: u64 = log_ins.stale => [counter "sarabande_log_ins_total" (outcome = "stale")],
        /// Requests refused unchecked, because too many wrong passwords came from this source or for this user.
        banned_total: u64 = log_ins.banned => [counter "sarabande_log_ins_total" (outcome = "banned")],
        /// Requests refused unchecked, because too many others from this source or for this user were being checked.
        busy_total: u64 = log_ins.busy => [counter "sarabande_log_ins_total" (outcome = "busy")],
        /// Requests that could not be checked, because the store of users gave no answer.
        failed_total: u64 = log_ins.failed => [counter "sarabande_log_ins_total" (outcome = "failed")],
    }
}

figures! {
    /// Requests for users, by result.
    #[derive(Copy)]
    LookUpsView as "LookUps" from (look_ups: LookUps) {
        /// Requests for users with contacts.
        found_total: u64 = look_ups.found => [
            counter "sarabande_look_ups_total" (outcome = "found") "Requests for users, by result."
        ],
        /// Requests for users without contacts.
        not_found_total: u64 = look_ups.not_found => [counter "sarabande_look_ups_total" (outcome = "not_found")],
        /// Requests that could not be routed, because the store of registrations gave no answer.
        failed_total: u64 = look_ups.failed => [counter "sarabande_look_ups_total" (outcome = "failed")],
    }
}

figures! {
    /// One store.
    StoreView as "Store" from (report: &StoreReport) {
        /// Contents of the store: `registrations` or `users`.
        name: String = report.name.to_owned(),
        /// Kind of store: `memory`, `file`, `redis` or `postgresql`.
        kind: String = report.kind.to_owned(),
        /// Whether the store can be used.
        up: bool = report.trouble.is_none() => [gauge "sarabande_store_up" "1 if the store can be used."],
        /// Why the store cannot be used; `null` if it can.
        reason: Option<String> = report.trouble.clone(),
        /// Time since the store came up or went down; `null` for a store in the memory of the process.
        since_seconds: Option<f64> = report.unchanged.map(|unchanged| unchanged.as_secs_f64()),
        /// Queries that wait for the store.
        waiting: usize = report.waiting,
        /// Queries that the store answered with an error.
        failed_total: u64 = report.failed_total
            => [counter "sarabande_store_failures_total" "Queries that a store answered with an error."],
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
