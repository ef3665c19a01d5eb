//! State of the registrar's stores, for metrics, the log and operators.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use storage::StoreStatus;

/// State of a store.
#[derive(Clone, PartialEq, Debug)]
pub struct StoreReport {
    /// Contents of the store: `registrations` or `users`.
    pub name: &'static str,
    /// Kind of store: `memory`, `file`, `redis` or `postgresql`.
    pub kind: &'static str,
    /// Why the store cannot be used; `None` if it can.
    pub trouble: Option<String>,
    /// Whether the store answers queries. A file that cannot be written still answers from memory.
    pub answers: bool,
    /// Time in this state; `None` for a store that cannot fail.
    pub unchanged: Option<Duration>,
    /// Queries that wait for the store.
    pub waiting: usize,
    /// Queries that the store answered with an error.
    pub failed_total: u64,
}

impl StoreReport {
    /// Name of the store of bindings.
    pub const BINDINGS: &str = "registrations";
    /// Name of the store of users.
    pub const USERS: &str = "users";

    /// Returns the state of a store in the memory of the process.
    pub(super) fn sound(name: &'static str, kind: &'static str) -> Self {
        Self { name, kind, trouble: None, answers: true, unchanged: None, waiting: 0, failed_total: 0 }
    }

    /// Returns the state of a store on a server.
    pub(super) fn remote(name: &'static str, kind: &'static str, status: StoreStatus) -> Self {
        let is_up = status.is_up();
        let why = || status.last_error.unwrap_or_else(|| "no connection yet".to_owned());
        Self {
            name,
            kind,
            trouble: (!is_up).then(why),
            answers: is_up,
            unchanged: Some(status.unchanged),
            waiting: status.waiting,
            failed_total: status.failed_total,
        }
    }
}

/// Last result of a store's queries, and when the state changed.
#[derive(Clone)]
pub(super) struct Condition(Arc<Mutex<State>>);

struct State {
    trouble: Option<String>,
    since: Instant,
    failed_total: u64,
}

impl Condition {
    pub(super) fn new(trouble: Option<&str>) -> Self {
        let trouble = trouble.map(str::to_owned);
        Self(Arc::new(Mutex::new(State { trouble, since: Instant::now(), failed_total: 0 })))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn trouble(&self) -> Option<String> {
        self.state().trouble.clone()
    }

    /// Notes the result of a query: an error, or `None` for success.
    pub(super) fn answered(&self, failure: Option<String>) {
        let mut state = self.state();
        if state.trouble.is_some() != failure.is_some() {
            state.since = Instant::now();
        }
        state.failed_total += u64::from(failure.is_some());
        state.trouble = failure;
    }

    /// Returns the state of the file of bindings. `is_open`: it answers queries.
    pub(super) fn report(&self, is_open: bool, waiting: usize) -> StoreReport {
        let state = self.state();
        StoreReport {
            name: StoreReport::BINDINGS,
            kind: "file",
            trouble: state.trouble.clone(),
            answers: is_open,
            unchanged: Some(state.since.elapsed()),
            waiting,
            failed_total: state.failed_total,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_is_that_of_the_first_failure() {
        let condition = Condition::new(None);
        condition.answered(Some("the disk is full".to_owned()));
        let first = condition.state().since;
        condition.answered(Some("the disk is full again".to_owned()));
        let report = condition.report(true, 0);
        assert_eq!((report.trouble.as_deref(), report.failed_total), (Some("the disk is full again"), 2));
        assert_eq!(condition.state().since, first);
        condition.answered(None);
        assert_eq!(condition.report(true, 0).trouble, None);
        assert!(condition.state().since > first);
    }
}
