//! Failover: outcomes after which the next pool of a target is tried, and the number of attempts.

use crate::BudgetSettings;
use core::time::Duration;

/// Outcome that may make a target try its next pool.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FailoverCause {
    /// No member of the pool takes calls, so nothing was sent; or an ICMP error shows that a member did not get the
    /// request.
    NoneAlive,
    /// Each member is at its limit of calls, or the pool is at its limit of sessions. Nothing was sent.
    Full,
    /// A member answered 503 (RFC 3261 §21.5.4).
    Unavailable,
    /// A member gave no response before the time-out.
    Timeout,
}

impl FailoverCause {
    /// All outcomes.
    pub const ALL: [Self; 4] = [Self::NoneAlive, Self::Full, Self::Unavailable, Self::Timeout];

    /// Whether the failed attempt reached a member. The next attempt is then a retry, which needs a budget.
    pub fn was_sent(self) -> bool {
        matches!(self, Self::Unavailable | Self::Timeout)
    }
}

/// Rules for trying the next pool of a target.
#[derive(Clone, PartialEq, Debug)]
pub struct Failover {
    on: [bool; 4],
    /// Most pools that a request is sent to, including the first; at least 1.
    pub attempts: u8,
    /// Limits retries, so that they do not add to an overload.
    pub budget: BudgetSettings,
    /// Time without any response after which an INVITE goes to another member. Zero: the INVITE never goes to another
    /// member for this reason. `None`: the setting of the pool applies.
    pub invite_timeout: Option<Duration>,
}

impl Failover {
    /// Tries the next pool after these outcomes only.
    pub fn on(outcomes: &[FailoverCause]) -> Self {
        let mut on = [false; 4];
        for outcome in outcomes {
            on[*outcome as usize] = true;
        }
        Self { on, ..Self::default() }
    }

    /// Whether the next pool is tried after this outcome, when a request was already sent to `sent` pools.
    pub fn tries_next(&self, outcome: FailoverCause, sent: u8) -> bool {
        self.on[outcome as usize] && sent < self.attempts
    }
}

impl Default for Failover {
    /// Tries the next pool after each outcome; three pools at most.
    fn default() -> Self {
        Self { on: [true; 4], attempts: 3, budget: BudgetSettings::default(), invite_timeout: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_named_outcomes_try_the_next_pool_within_a_limit() {
        let failover =
            Failover { attempts: 2, ..Failover::on(&[FailoverCause::NoneAlive, FailoverCause::Timeout]) };
        assert!(
            failover.tries_next(FailoverCause::NoneAlive, 0)
                && failover.tries_next(FailoverCause::Timeout, 1)
        );
        assert!(
            !failover.tries_next(FailoverCause::Full, 0)
                && !failover.tries_next(FailoverCause::Unavailable, 1)
        );
        assert!(!failover.tries_next(FailoverCause::Timeout, 2));
        assert!(FailoverCause::ALL.into_iter().all(|outcome| Failover::default().tries_next(outcome, 1)));
    }
}
