//! How far the process is on its way to its end: since when no new calls come, and when its work is counted next.

use base::Instant;
use core::time::Duration;

/// Whether the process is to end.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Stopping {
    /// Since when it is to stop.
    pub(super) since: Option<Instant>,
    /// Since when another process takes the new calls.
    pub(super) succeeded: Option<Instant>,
    /// That process hands nothing to this one any more.
    pub(super) is_over: bool,
    /// When the shards are asked next what is left to do; `None`: they have been asked.
    pub(super) next: Option<Instant>,
    /// The process has been told to end.
    pub(super) has_ended: bool,
}

impl Stopping {
    /// Since when there are no new calls.
    pub(super) fn begun(&self) -> Option<Instant> {
        self.since.or(self.succeeded)
    }

    pub(super) fn deadline(&self) -> Option<Instant> {
        self.next.filter(|_| self.begun().is_some() && !self.has_ended)
    }

    /// Whether the shards are to be asked now what is left to do.
    pub(super) fn ask(&mut self, now: Instant) -> bool {
        let is_due = self.deadline().is_some_and(|due| due <= now);
        if is_due {
            self.next = None;
        }
        is_due
    }

    /// Until when new calls are refused, if they are. Where another process takes them, this one gets none.
    pub(super) fn refuses_until(&self, wait: Duration) -> Option<Instant> {
        self.since.filter(|_| self.succeeded.is_none()).map(|since| since + wait)
    }
}
