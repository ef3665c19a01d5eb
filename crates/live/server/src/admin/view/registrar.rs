//! What the admin interface shows of the home domain.

use crate::{HomeStanding, StoreReport};
use node::{LogIns, LookUps};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// `GET /api/registrar`: counts are since the start.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[cfg_attr(test, schemars(rename = "Registrar"))]
pub struct RegistrarView {
    /// REGISTER requests by what became of them; repetitions and challenges are not counted.
    pub registrations: RegistrationsView,
    /// Requests whose sender has to prove who it is.
    pub log_ins: LogInsView,
    /// Requests for users.
    pub look_ups: LookUpsView,
    /// Requests that wait for the answer of a store.
    pub waiting: usize,
    /// Where registrations and users are kept.
    pub stores: Vec<StoreView>,
}

/// What became of REGISTER requests.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[cfg_attr(test, schemars(rename = "Registrations"))]
pub struct RegistrationsView {
    /// Contacts were added or refreshed.
    pub granted_total: u64,
    /// Contacts were removed, and none was added.
    pub removed_total: u64,
    /// Asked which contacts there are.
    pub fetched_total: u64,
    /// Refused, by status code.
    pub refused_total: BTreeMap<String, u64>,
}

/// What became of requests whose sender has to prove who it is.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[cfg_attr(test, schemars(rename = "LogIns"))]
pub struct LogInsView {
    /// Had no credentials yet, and were challenged.
    pub challenged_total: u64,
    /// Had the right password.
    pub accepted_total: u64,
    /// Had a wrong password, or the name of no user.
    pub refused_total: u64,
    /// Had an old nonce, or one that was used before, and were challenged again.
    pub stale_total: u64,
    /// Were not looked at: too many wrong passwords came from there, or for this user.
    pub banned_total: u64,
    /// Were not looked at: too many others from there, or for this user, were being looked at.
    pub busy_total: u64,
    /// Nobody could say: the store of users gave no answer.
    pub failed_total: u64,
}

/// What became of requests for users.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[cfg_attr(test, schemars(rename = "LookUps"))]
pub struct LookUpsView {
    /// The user has contacts.
    pub found_total: u64,
    /// Nobody has registered there.
    pub not_found_total: u64,
    /// Nobody could say: the store of registrations gave no answer.
    pub failed_total: u64,
}

/// One store.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[cfg_attr(test, schemars(rename = "Store"))]
pub struct StoreView {
    /// What it keeps: `registrations` or `users`.
    pub name: String,
    /// Where: `memory`, `file`, `redis` or `postgresql`.
    pub kind: String,
    /// Whether it can be used.
    pub up: bool,
    /// Why not; `null` when it can be used.
    pub reason: Option<String>,
    /// For how long it has been up, or down; `null` for what is in the memory of the process.
    pub since_seconds: Option<f64>,
    /// Questions that wait for it.
    pub waiting: usize,
    /// Questions that got an error for an answer.
    pub failed_total: u64,
}

impl RegistrarView {
    pub(in super::super) fn new(home: &HomeStanding) -> Self {
        let counters = &home.report.counters;
        let refused = counters.refused.iter().map(|(status, count)| (status.to_string(), *count));
        Self {
            registrations: RegistrationsView {
                granted_total: counters.granted,
                removed_total: counters.removed,
                fetched_total: counters.fetched,
                refused_total: refused.collect(),
            },
            log_ins: LogInsView::from(counters.log_ins),
            look_ups: LookUpsView::from(counters.look_ups),
            waiting: home.report.waiting,
            stores: home.stores.iter().map(StoreView::from).collect(),
        }
    }
}

impl From<LogIns> for LogInsView {
    fn from(log_ins: LogIns) -> Self {
        Self {
            challenged_total: log_ins.challenged,
            accepted_total: log_ins.accepted,
            refused_total: log_ins.refused,
            stale_total: log_ins.stale,
            banned_total: log_ins.banned,
            busy_total: log_ins.busy,
            failed_total: log_ins.failed,
        }
    }
}

impl From<LookUps> for LookUpsView {
    fn from(look_ups: LookUps) -> Self {
        Self {
            found_total: look_ups.found,
            not_found_total: look_ups.not_found,
            failed_total: look_ups.failed,
        }
    }
}

impl From<&StoreReport> for StoreView {
    fn from(report: &StoreReport) -> Self {
        Self {
            name: report.name.to_owned(),
            kind: report.kind.to_owned(),
            up: report.trouble.is_none(),
            reason: report.trouble.clone(),
            since_seconds: report.unchanged.map(|unchanged| unchanged.as_secs_f64()),
            waiting: report.waiting,
            failed_total: report.failed_total,
        }
    }
}
