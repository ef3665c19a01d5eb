//! Times, weights and room of the session store.

use crate::Weights;
use core::time::Duration;

/// Times and weights of the session store.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SessionSettings {
    /// Work of a transaction by method.
    pub weights: Weights,
    /// An unanswered transaction ends after this: 64*T1 (RFC 3261 §17.1.1.2, §17.1.2.2).
    pub transaction_timeout: Duration,
    /// An INVITE with a provisional answer ends after this: Timer C, over 3 minutes (RFC 3261 §16.6 step 11).
    pub invite_timeout: Duration,
    /// A call in which no message is seen for this long has lost its BYE. One that is known from a token alone (after
    /// a restart) has at most half an hour, until an answer within it shows that it lives; one whose 2xx gets
    /// no ACK, twice `transaction_timeout`.
    pub call_lifetime: Duration,
    /// How long an ended session is kept after its last request, for later ones.
    pub linger: Duration,
    /// The longest pause after a 503, whatever Retry-After says.
    pub max_rest: Duration,
    /// Whether an INVITE that its node fails keeps its lease for as long as one takes that succeeds.
    pub hold_failures: bool,
    /// Most sessions; and so many transactions are open at most beside the first one of each session.
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
    /// Most sessions of a pool whose configuration says nothing of them.
    pub const MAX_SESSIONS: usize = 1_000_000;

    /// The settings of one of so many shards.
    #[must_use]
    pub fn share(self, shards: usize) -> Self {
        Self { max_sessions: self.max_sessions.div_ceil(shards.max(1)), ..self }
    }
}
