//! Admission of a new call at the end of its wait, for a proxy that models a running server.

use super::keeping::Keeper;
use super::message::{HostId, ModelMessage};
use base::{Instant, Recent, Rng};
use core::time::Duration;
use overload::{Guard, MessageClass, NewRequestSender, Rejection, RequestPath, TurnControl};
use transaction::TransactionKey;

/// Number of remembered verdicts in each of two generations: 32 s (64*T1, RFC 3261 §17.1.1.2) at 2,000 calls a second.
const GENERATION: usize = 65_536;

/// Admits or refuses new calls, with the same verdict for all copies of a call.
#[derive(Debug)]
pub(crate) struct Gate {
    turn: TurnControl,
    /// Verdict of each call. The server recognizes copies of admitted calls by their transaction or their next hop, and
    /// copies of refused calls by a list. This map serves all three purposes.
    verdicts: Recent<TransactionKey, Result<(), Rejection>>,
}

impl Gate {
    pub(crate) fn new(rng: &Rng) -> Self {
        Self { turn: TurnControl::new(rng.fork("gate")), verdicts: Recent::new(GENERATION) }
    }

    /// Whether an INVITE that starts a call is admitted after waiting for `waited`.
    pub(crate) fn admit(
        &mut self,
        now: Instant,
        guard: &mut Guard<HostId>,
        keeper: Option<&mut Keeper>,
        invite: &ModelMessage,
        waited: Duration,
    ) -> Result<(), Rejection> {
        let class = MessageClass::NewInvite;
        self.turn.on_waited(guard, now, waited, class);
        let (key, from) = (invite.server_key().key, invite.top().host);
        if let Some(verdict) = self.verdicts.get(&key) {
            return *verdict;
        }
        let origin = keeper.as_ref().map_or(NewRequestSender::Client(1.0), |keeper| keeper.origin(from));
        let path = RequestPath { from: None, takes_feedback: false, to: None, path: None, is_onward: false };
        let taken = self.turn.admit(guard, now, class, &path, origin);
        if let (Err(refusal), Some(keeper)) = (taken, keeper)
            && refusal.is_by_law
        {
            keeper.on_refused(from);
        }
        let verdict = taken.map_err(|refusal| refusal.rejection);
        self.verdicts.insert(key, verdict);
        verdict
    }
}
