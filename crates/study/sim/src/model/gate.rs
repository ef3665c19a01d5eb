//! What a proxy that works as a running server does with a new call when its turn comes: it takes or refuses the
//! call.

use super::keeping::Keeper;
use super::message::{HostId, ModelMessage};
use base::{Instant, Recent, Rng};
use core::time::Duration;
use overload::{Guard, MessageClass, Origin, Rejection, RequestPath, TurnControl};
use transaction::TransactionKey;

/// Calls whose verdict is remembered, in each of two generations: of 32 s (64*T1, RFC 3261 §17.1.1.2) at 2,000 a
/// second.
const GENERATION: usize = 65_536;

/// Takes or refuses new calls, and gives the same verdict to the copies of each.
#[derive(Debug)]
pub(crate) struct Gate {
    turn: TurnControl,
    /// The server knows copies of what it has taken by their transaction, or by the hop that they went to; and of
    /// what it has refused by a list. This is all three.
    verdicts: Recent<TransactionKey, Result<(), Rejection>>,
}

impl Gate {
    pub(crate) fn new(rng: &Rng) -> Self {
        Self { turn: TurnControl::new(rng.fork("gate")), verdicts: Recent::new(GENERATION) }
    }

    /// Whether an INVITE that begins a call is taken; it has waited so long.
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
        let origin = keeper.as_ref().map_or(Origin::Client(1.0), |keeper| keeper.origin(from));
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
