//! State of a stop: since when no new calls come, and when the remaining work is counted next.

use base::Instant;
use core::time::Duration;

/// State of a stop.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Stopping {
    /// When the stop was requested; `None` without a request.
    pub(super) since: Option<Instant>,
    /// When another process took over the new calls; `None` if no process has.
    pub(super) succeeded: Option<Instant>,
    /// Whether the successor hands no more messages to this process.
    pub(super) is_over: bool,
    /// When the shards are asked next for their remaining work; `None` while they are asked.
    pub(super) next: Option<Instant>,
    pub(super) has_ended: bool,
}

impl Stopping {
    /// Returns when new calls ended; `None` if they go on.
    pub(super) fn since(&self) -> Option<Instant> {
        self.since.or(self.succeeded)
    }

    pub(super) fn deadline(&self) -> Option<Instant> {
        self.next.filter(|_| self.since().is_some() && !self.has_ended)
    }

    /// Returns whether the shards should be asked for their remaining work now.
    pub(super) fn ask(&mut self, now: Instant) -> bool {
        let is_due = self.deadline().is_some_and(|due| due <= now);
        if is_due {
            self.next = None;
        }
        is_due
    }

    /// Returns until when new calls are refused. `None` if they are not, or if a successor takes them.
    pub(super) fn refuses_until(&self, wait: Duration) -> Option<Instant> {
        self.since.filter(|_| self.succeeded.is_none()).map(|since| since + wait)
    }
}
