//! Failures of a driver, and the time of its next list.

use base::Instant;
use core::time::Duration;

/// Interval of lists, and the wait after a first failure. The wait doubles with each further failure up to the maximum.
const LIST_EVERY: Duration = Duration::from_secs(5);
const BACK_OFF: Duration = Duration::from_secs(2);
const BACK_OFF_MAX: Duration = Duration::from_mins(1);

/// Failures of a driver.
#[derive(Clone, Debug, Default)]
pub struct Trouble {
    failures: u64,
    /// Number of failed lists in a row.
    lists_failed: u32,
    list: Option<String>,
    last: Option<Failed>,
    /// Time of the next list; `None` while the driver is listing.
    next_list: Option<Instant>,
}

/// A failed start or stop.
#[derive(Clone, Debug)]
pub(super) struct Failed {
    /// Description with the cause.
    pub(super) cause: String,
    /// When the stop is requested again; `None` for a start.
    pub(super) stop_again: Option<Instant>,
}

impl Trouble {
    pub(super) fn new(now: Instant) -> Self {
        Self { next_list: Some(now), ..Self::default() }
    }

    /// Returns whether the driver should list its servers now. It is not asked again until it has answered.
    pub(super) fn asks_list(&mut self, now: Instant) -> bool {
        self.next_list.take_if(|next| *next <= now).is_some()
    }

    /// Returns whether the last list failed.
    pub(super) fn is_list_failing(&self) -> bool {
        self.list.is_some()
    }

    pub(super) fn listed(&mut self, now: Instant, result: Result<(), &String>) {
        match result {
            Ok(()) => {
                (self.lists_failed, self.list) = (0, None);
                self.next_list = Some(now + LIST_EVERY);
            }
            Err(error) => {
                self.failures += 1;
                let wait = BACK_OFF.saturating_mul(1 << self.lists_failed.min(10)).min(BACK_OFF_MAX);
                self.lists_failed += 1;
                self.list = Some(error.clone());
                self.next_list = Some(now + wait);
            }
        }
    }

    pub(super) fn done(&mut self, result: Result<(), Failed>) {
        self.last = result.err();
        self.failures += u64::from(self.last.is_some());
    }

    /// Returns the number of failures so far.
    pub fn failures(&self) -> u64 {
        self.failures
    }

    /// Describes the present failure, with the seconds until the next attempt.
    pub fn shown(&self, now: Instant, next_start: Instant) -> (Option<String>, f64) {
        let next_list = self.next_list.filter(|_| self.list.is_some());
        let stop = self.last.as_ref().and_then(|failed| failed.stop_again);
        let next = next_list.or(stop).unwrap_or(next_start);
        let list = self.list.as_ref().map(|error| format!("list: {error}"));
        let cause = list.or_else(|| self.last.as_ref().map(|failed| failed.cause.clone()));
        (cause, next.saturating_since(now).as_secs_f64())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_requested_less_often_while_they_fail() {
        let mut trouble = Trouble::new(Instant::ZERO);
        let mut waits = Vec::new();
        for _ in 0..7 {
            trouble.listed(Instant::ZERO, Err(&"away".to_owned()));
            waits.push(trouble.shown(Instant::ZERO, Instant::ZERO).1);
        }
        assert_eq!(waits, [2.0, 4.0, 8.0, 16.0, 32.0, 60.0, 60.0]);
        assert_eq!(trouble.shown(Instant::ZERO, Instant::ZERO).0.as_deref(), Some("list: away"));
        trouble.listed(Instant::ZERO, Ok(()));
        let next_start = Instant::from_millis(9_000);
        assert_eq!(trouble.shown(Instant::ZERO, next_start), (None, 9.0), "a start is pending");
        trouble.listed(Instant::ZERO, Err(&"away".to_owned()));
        assert_eq!((trouble.shown(Instant::ZERO, next_start).1, trouble.failures), (2.0, 8));
    }

    #[test]
    fn a_failed_start_shows_until_something_succeeds() {
        let mut trouble = Trouble::new(Instant::ZERO);
        let failed = |stop_again| Failed { cause: "no quota".to_owned(), stop_again };
        trouble.done(Err(failed(None)));
        let next_start = Instant::from_millis(20_000);
        assert_eq!(trouble.shown(Instant::ZERO, next_start), (Some("no quota".to_owned()), 20.0));
        trouble.done(Err(failed(Some(Instant::from_millis(60_000)))));
        let shown = |seconds: u64| trouble.shown(Instant::from_millis(1_000 * seconds), next_start);
        assert_eq!((shown(0).1, shown(90).1), (60.0, 0.0), "a stop has its own retry time");
        trouble.done(Ok(()));
        assert_eq!((trouble.shown(Instant::ZERO, Instant::ZERO).0, trouble.failures), (None, 2));
    }
}
