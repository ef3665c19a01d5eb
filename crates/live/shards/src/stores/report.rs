//! How the stores of the home domain do, for metrics, the log and operators.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use storage::Status;

/// How a store does.
#[derive(Clone, PartialEq, Debug)]
pub struct StoreReport {
    /// Its content: `registrations` or `users`.
    pub name: &'static str,
    /// Where: `memory`, `file`, `redis` or `postgresql`.
    pub kind: &'static str,
    /// Why it cannot be used; `None` when it can.
    pub trouble: Option<String>,
    /// Whether it can be asked all the same: a file that cannot be written is read from memory.
    pub answers: bool,
    /// For how long it has been so; `None` for a store that cannot fail.
    pub unchanged: Option<Duration>,
    /// Questions that wait for it.
    pub waiting: usize,
    /// Questions that got an error for an answer.
    pub failed_total: u64,
}

impl StoreReport {
    /// Name of the store of bindings.
    pub const BINDINGS: &str = "registrations";
    /// Name of the store of users.
    pub const USERS: &str = "users";

    /// The status of a store in the memory of the process.
    pub(super) fn sound(name: &'static str, kind: &'static str) -> Self {
        Self { name, kind, trouble: None, answers: true, unchanged: None, waiting: 0, failed_total: 0 }
    }

    /// Of a server.
    pub(super) fn remote(name: &'static str, kind: &'static str, status: Status) -> Self {
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

/// Whether a store can be used, and since when that is so.
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

    /// A question has been answered, with an error if there is a `failure`.
    pub(super) fn answered(&self, failure: Option<String>) {
        let mut state = self.state();
        if state.trouble.is_some() != failure.is_some() {
            state.since = Instant::now();
        }
        state.failed_total += u64::from(failure.is_some());
        state.trouble = failure;
    }

    /// Of the file of bindings; `is_open`: it can be asked.
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
