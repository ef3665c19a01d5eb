//! Credit of a member: the calls that it may still get by its capacity.

use super::Accrual;
use base::Instant;
use core::time::Duration;

/// Time whose accrued credit is the most that is kept.
const BURST: Duration = Duration::from_millis(100);

/// Credit that is this little below a call counts as a whole call: sums of fractions are not exact.
const ROUNDING: f64 = 1e-6;

const SECOND: Duration = Duration::from_secs(1);

/// Accrual of credit: at a rate with a limit of the kept credit, or as a counter that is set each second.
enum Inflow {
    Even { rate: f64, most: f64 },
    EachSecond,
}

impl Accrual {
    fn inflow(self, capacity: f64) -> Inflow {
        let even = |rate: f64| Inflow::Even { rate, most: (rate * BURST.as_secs_f64()).max(1.0) };
        match self {
            Self::Answers { most } => even(most),
            Self::Smooth => even(capacity),
            Self::PerSecond => Inflow::EachSecond,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Credit {
    /// Calls.
    left: f64,
    /// Time up to which it has accrued; with the paper's counter, the start of its second.
    at: Instant,
}

impl Credit {
    /// Credit of a new member: one call, or a second's worth. No more, since its present load is unknown.
    pub(super) fn new(now: Instant, capacity: f64, accrual: Accrual) -> Self {
        let left = match accrual.inflow(capacity) {
            Inflow::Even { .. } => 1.0_f64.min(capacity),
            Inflow::EachSecond => capacity,
        };
        Self { left, at: now }
    }

    /// Accrues up to `now`; `capacity` has held since the last time.
    pub(super) fn accrue(&mut self, now: Instant, capacity: f64, accrual: Accrual) {
        let since = now - self.at;
        if capacity <= 0.0 {
            // A capacity of zero also voids the credit that the member had.
            *self = Self { left: 0.0, at: self.at.max(now) };
            return;
        }
        match accrual.inflow(capacity) {
            Inflow::Even { rate, most } => {
                self.left = (self.left + rate * since.as_secs_f64()).min(most);
                self.at = self.at.max(now);
            }
            Inflow::EachSecond if since >= SECOND => {
                // A fraction of a call is kept. Otherwise a server with half a call a second would never get one.
                let rest = if self.left < 1.0 { self.left.max(0.0) } else { 0.0 };
                self.left = (capacity + rest).min(capacity.max(1.0) + 1.0);
                self.at += Duration::from_secs(since.as_secs());
            }
            Inflow::EachSecond => {}
        }
    }

    /// Credit as part of the most that it can hold, as of the last [`Self::accrue`].
    pub(super) fn part(&self, capacity: f64, accrual: Accrual) -> f64 {
        let most = match accrual.inflow(capacity) {
            Inflow::Even { most, .. } => most,
            Inflow::EachSecond => capacity.max(1.0),
        };
        self.left / most
    }

    /// Credit in calls, as of the last [`Self::accrue`].
    pub(super) fn left(&self) -> f64 {
        self.left
    }

    pub(super) fn has_call(&self) -> bool {
        self.left >= 1.0 - ROUNDING
    }

    pub(super) fn take_call(&mut self) {
        self.left -= 1.0;
    }

    /// Time at which there is credit for a call, if nothing changes; after `now`.
    pub(super) fn next_call(&self, now: Instant, capacity: f64, accrual: Accrual) -> Option<Instant> {
        if capacity <= 0.0 {
            return None;
        }
        let at = match accrual.inflow(capacity) {
            Inflow::Even { rate, .. } => {
                // A year stands for never, and fits the type.
                let wait = ((1.0 - self.left) / rate).clamp(0.0, 3e7);
                self.at + Duration::from_secs_f64(wait)
            }
            // The credit is there already, and another limit holds the member up.
            Inflow::EachSecond if self.has_call() => now,
            Inflow::EachSecond => self.at + SECOND,
        };
        // Rounding must not make it `now` again.
        Some(at.max(now + Duration::from_micros(1)))
    }
}
