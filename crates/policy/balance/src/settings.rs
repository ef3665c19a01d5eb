//! Settings of the session store.

use crate::Weights;
use core::time::Duration;

/// Times, weights and limits of the session store.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SessionSettings {
    /// Work of a transaction by method.
    pub weights: Weights,
    /// Time-out of an unanswered transaction: 64*T1 (RFC 3261 §17.1.1.2, §17.1.2.2).
    pub transaction_timeout: Duration,
    /// Time-out of an INVITE with a provisional response: Timer C, over 3 minutes (RFC 3261 §16.6 step 11).
    pub invite_timeout: Duration,
    /// Lifetime of a call without any message. After it, the BYE of the call counts as lost. A call known only from a
    /// token (after a restart) lives for at most half an hour, until a response within the call confirms it. A call
    /// whose 2xx gets no ACK lives for twice `transaction_timeout`.
    pub call_lifetime: Duration,
    /// Time for which an ended session is kept after its last request.
    pub linger: Duration,
    /// The longest pause after a 503, whatever Retry-After says.
    pub max_rest: Duration,
    /// Whether an INVITE that fails at its node keeps its lease for the mean time of a successful INVITE.
    pub hold_failures: bool,
    /// Most sessions. It is also the limit of open transactions, without the first transaction of each session.
    pub max_sessions: usize,
}

impl Default for SessionSettings {
    fn default() -> Self {
        Self {
            weights: Weights::default(),
            transaction_timeout: Duration::from_secs(32),
            invite_timeout: Duration::from_secs(181),
            call_lifetime: Duration::from_hours(4),
            linger: Duration::from_secs(32),
            max_rest: Duration::from_mins(1),
            hold_failures: true,
            max_sessions: usize::MAX,
        }
    }
}

impl SessionSettings {
    /// Default of `max_sessions` for a pool.
    pub const MAX_SESSIONS: usize = 1_000_000;

    /// Settings of one of `shards` shards.
    #[must_use]
    pub fn share(self, shards: usize) -> Self {
        Self { max_sessions: self.max_sessions.div_ceil(shards.max(1)), ..self }
    }
}
