//! Stores of a site: bindings of a registrar, and passwords of users.

use crate::plan::{SiteRole, StorePlan, StoreState, password};
use crate::process::EPOCH_UNIX;
use base::{Instant, Rng, UnixTime};
use core::time::Duration;
use digest_auth::Secret;
use location::{MemoryLimits, MemoryStore, StoreError};
use node::{StoreAnswer, StoreQuery, UsersUnavailable};
use rand::Rng as _;

/// Probability that a failing store has made the change.
const CHANGED: f64 = 0.5;
/// Fraction of answers that arrive after the question has timed out, at stores with a response time.
const TOO_LATE: f64 = 0.01;
const LATE: Duration = Duration::from_secs(6);

pub(super) struct Stores {
    plan: StorePlan,
    /// Whether bindings survive the process.
    is_durable: bool,
    bindings: MemoryStore,
    pub(super) state: StoreState,
    rng: Rng,
}

pub(super) fn date(now: Instant) -> UnixTime {
    UnixTime::from_secs(EPOCH_UNIX) + now.saturating_since(Instant::ZERO)
}

impl Stores {
    /// Creates the stores of a site; `None` if it has none.
    pub(super) fn new(role: &SiteRole, rng: Rng) -> Option<Self> {
        let plan = role.store()?;
        let is_durable = matches!(role, SiteRole::Home(home) if home.is_durable);
        let bindings = MemoryStore::new(MemoryLimits::default());
        Some(Self { plan, is_durable, bindings, state: StoreState::Up, rng })
    }

    /// Drops bindings that do not survive the process.
    pub(super) fn process_ended(&mut self) {
        if !self.is_durable {
            self.bindings = MemoryStore::new(MemoryLimits::default());
        }
    }

    /// Makes a change at once. Returns the answer and its delay.
    pub(super) fn ask(&mut self, now: Instant, about: StoreQuery) -> Option<(Duration, StoreAnswer)> {
        let time = match self.plan.answers_within {
            None => Duration::ZERO,
            Some(_) if now < self.plan.late_until && self.rng.random_bool(TOO_LATE) => LATE,
            Some(within) => within.mul_f64(self.rng.random()),
        };
        let answer = match (about, self.state) {
            (StoreQuery::Location(ask), StoreState::Up) => {
                StoreAnswer::Location(ask.send_to(&mut self.bindings, date(now)), date(now))
            }
            (StoreQuery::Location(ask), state) => {
                if self.rng.random_bool(CHANGED) {
                    ask.send_to(&mut self.bindings, date(now));
                }
                if state == StoreState::Silent {
                    return None;
                }
                StoreAnswer::Location(
                    ask.failed(StoreError::Unavailable("simulated failure".to_owned())),
                    date(now),
                )
            }
            (StoreQuery::User { .. }, StoreState::Silent) => return None,
            (StoreQuery::User { .. }, StoreState::Failing) => StoreAnswer::User(Err(UsersUnavailable)),
            (StoreQuery::User { name, .. }, StoreState::Up) => {
                let is_known = name.starts_with(b"user-") || name.starts_with(b"caller-");
                StoreAnswer::User(Ok(is_known.then(|| Secret::Clear(password(&name).into()))))
            }
        };
        Some((time, answer))
    }
}
