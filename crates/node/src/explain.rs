use crate::reply::Halt;
use crate::{Event, Orphans, Shard};
use balance::{Decision, NodeId, Request, Verdict};
use base::{Flow, Instant, Outbox};
use std::net::SocketAddr;

/// Where a given request would go, and why.
#[derive(Clone, Debug)]
pub struct Explanation {
    /// What would be decided.
    pub decision: Decision,
    /// What happens to [`Decision::Orphan`].
    pub orphans: Orphans,
    /// The node that a verified token in the request names.
    pub token: Option<NodeId>,
    /// Whether its call is in the session table.
    pub known: bool,
    /// The policy in force.
    pub policy: &'static str,
    /// Every member with its load, and why it would take no new call.
    pub verdicts: Vec<Verdict>,
}

impl Shard {
    /// What would happen to this request if `from` sent it now. Changes nothing; a host name that it goes to may be asked
    /// for.
    ///
    /// # Errors
    /// Says how the request would be refused, or why it is none.
    pub fn explain(
        &mut self,
        now: Instant,
        from: SocketAddr,
        bytes: &[u8],
        out: &mut Outbox<Event>,
    ) -> Result<Explanation, String> {
        let message = wire::scan(bytes).map_err(|discard| format!("dropped: {}", discard.reason()))?;
        if message.status().is_some() {
            return Err("this is a response; responses follow their Via".to_owned());
        }
        let before = (self.ledger, self.counters.tokens_refused);
        // Through which listener it came decides nothing but by which it would leave.
        let facts = self.examine(now, Flow::udp(0, from), &message, out);
        (self.ledger, self.counters.tokens_refused) = before;
        let facts = facts.and_then(|facts| facts.halted().map_or(Ok(facts), Err));
        let facts = facts.map_err(|halt| match halt {
            Halt::Answered(own) => format!("refused: {} {}", own.status(), own.reason()),
            Halt::Unresolved => {
                "dropped: the next hop is a host name that is being looked up; ask again".to_owned()
            }
        })?;
        let request = &facts.request;
        if self.settings.stopping.is_some() && self.is_new(request) {
            return Err("refused: 503 Service Unavailable: stopping, no new calls are taken".to_owned());
        }
        let (decision, mut verdicts) = self.balancer.explain(now, request);
        let mut decision = facts.decide(|| decision);
        let orphans = self.settings.orphans;
        if (decision, orphans) == (Decision::Orphan, Orphans::Balance) {
            (decision, verdicts) = self.balancer.explain(now, &Request { in_dialog: false, ..*request });
        }
        Ok(Explanation {
            decision,
            orphans,
            token: facts.token.map(|token| token.node),
            known: self.balancer.session_of(&facts.request).is_some(),
            policy: self.balancer.policy_name(),
            verdicts,
        })
    }
}
