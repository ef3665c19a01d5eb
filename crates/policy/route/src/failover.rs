//! When the next pool of a target is tried, and how many attempts of that kind there may be.

use crate::BudgetSettings;
use core::time::Duration;

/// What may make a target try its next pool.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// No member of the pool takes calls, and nothing is sent to it; or the network says that a member cannot be
    /// reached, which has had nothing of it.
    NoneAlive,
    /// Each member has as many calls as it may have, or the pool as many sessions: nothing is sent to it.
    Full,
    /// A member has answered 503 (RFC 3261 §21.5.4).
    Unavailable,
    /// A member has answered nothing at all until the time was up.
    Timeout,
}

impl Outcome {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::NoneAlive, Self::Full, Self::Unavailable, Self::Timeout];

    /// Whether a member had work with the attempt that failed: what is tried after it is a retry, which needs a
    /// budget.
    pub fn was_sent(self) -> bool {
        matches!(self, Self::Unavailable | Self::Timeout)
    }
}

/// When the next pool of a target is tried.
#[derive(Clone, PartialEq, Debug)]
pub struct Failover {
    on: [bool; 4],
    /// Most pools that a request is sent to, the first included; at least 1.
    pub attempts: u8,
    /// What keeps retries from adding to an overload.
    pub budget: BudgetSettings,
    /// How long a member may leave an INVITE without a response before another one gets it, zero for any time; `None`:
    /// as its pool has it.
    pub invite_timeout: Option<Duration>,
}

impl Failover {
    /// On these outcomes.
    pub fn on(outcomes: &[Outcome]) -> Self {
        let mut on = [false; 4];
        for outcome in outcomes {
            on[*outcome as usize] = true;
        }
        Self { on, ..Self::default() }
    }

    /// Whether the next pool is tried after this, when a request has been sent to so many.
    pub fn goes_on(&self, outcome: Outcome, sent: u8) -> bool {
        self.on[outcome as usize] && sent < self.attempts
    }
}

impl Default for Failover {
    /// On each outcome, three pools at most.
    fn default() -> Self {
        Self { on: [true; 4], attempts: 3, budget: BudgetSettings::default(), invite_timeout: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_named_outcomes_go_on_and_not_for_ever() {
        let failover = Failover { attempts: 2, ..Failover::on(&[Outcome::NoneAlive, Outcome::Timeout]) };
        assert!(failover.goes_on(Outcome::NoneAlive, 0) && failover.goes_on(Outcome::Timeout, 1));
        assert!(!failover.goes_on(Outcome::Full, 0) && !failover.goes_on(Outcome::Unavailable, 1));
        assert!(!failover.goes_on(Outcome::Timeout, 2));
        assert!(Outcome::ALL.into_iter().all(|outcome| Failover::default().goes_on(outcome, 1)));
    }
}
