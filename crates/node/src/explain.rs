//! Where a request would go, worked out without sending it.

use crate::assign::{choose, first_pool, goes_on_as};
use crate::examine::Facts;
use crate::queue::QueueTurn;
use crate::reply::Halt;
use crate::{Drop, Orphans, Shard, ShardEvent};
use balance::{CandidateVerdict, Decision, NodeId, PoolId, Why};
use base::{Flow, Instant, Outbox};
use location::Aor;
use wire::Message;

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
    /// The route that it goes by.
    pub route: Option<RouteTaken>,
    /// The user to whose contacts it goes; the decision then says nothing.
    pub located: Option<Aor>,
    /// The way out, of what a member sends to others than a pool; the decision is then who sends it.
    pub outside: Option<Flow>,
    /// The pool that was asked last.
    pub pool: PoolId,
    /// Its policy.
    pub policy: &'static str,
    /// Of a new call to a pool with a queue: what that would do with it.
    pub queue: Option<QueueTurn>,
    /// Every member of the pool with its load, and why it would take no new call.
    pub verdicts: Vec<CandidateVerdict>,
}

/// The route of a request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RouteTaken {
    /// Its index.
    pub index: usize,
    /// Its name.
    pub name: String,
    /// What it does to the request first, a line each.
    pub actions: Vec<String>,
    /// The Request-URI that comes of it, where that is another one.
    pub uri: Option<String>,
}

impl Shard {
    /// What would happen to this request if it came by this flow now. Changes nothing; a host name that it goes to may be asked
    /// for.
    ///
    /// # Errors
    /// Says how the request would be refused, or why it is none.
    pub fn explain(
        &mut self,
        now: Instant,
        flow: Flow,
        bytes: &[u8],
        out: &mut Outbox<ShardEvent>,
    ) -> Result<Explanation, String> {
        let message = wire::scan(bytes).map_err(|discard| format!("dropped: {}", discard.reason()))?;
        if message.status().is_some() {
            return Err("this is a response; responses follow their Via".to_owned());
        }
        self.edge.now = now;
        let before = (self.edge.ledger, self.edge.counters.tokens_refused);
        let facts = self.examine(flow, &message, out);
        (self.edge.ledger, self.edge.counters.tokens_refused) = before;
        let facts = facts.and_then(|facts| facts.halted().map_or(Ok(facts), Err));
        let facts = facts.map_err(|halt| match halt {
            Halt::Answered(own) => format!("refused: {} {}", own.status(), own.label()),
            Halt::ByRule(rule) => self.edge.routes.refusal(rule),
            Halt::Dropped(Drop::Silenced) => {
                "dropped: a route or an access list lets it go unanswered".to_owned()
            }
            Halt::Dropped(Drop::Unresolved) => {
                "dropped: the next hop is a host name that is being looked up; ask again".to_owned()
            }
            Halt::Dropped(drop) => format!("dropped: {}", drop.reason()),
        })?;
        if facts.is_for_registrar {
            return Err("answered here: it is a REGISTER for the registrar".to_owned());
        }
        let located = self.located(&message, &facts)?;
        let request = &facts.request;
        if self.edge.settings.stopping.is_some() && self.is_new(request) {
            return Err("refused: 503 Service Unavailable: stopping, no new calls are taken".to_owned());
        }
        let (mut verdicts, mut pool, mut decision) = (Vec::new(), request.pool, Decision::Orphan);
        if !facts.is_orphan && located.is_none() {
            let first = first_pool(&self.edge.routes, &facts, &self.balancer, now);
            (decision, pool) = choose(&self.edge.routes, &facts, first, |request| {
                let decision;
                (decision, verdicts) = self.balancer.explain(now, request);
                (decision, goes_on_as(decision, self.balancer.is_full(now, request)))
            });
            decision = facts.without_search(decision);
        }
        let (begins, _) = self.begins(&message, &facts);
        let begins_call = self.takes_turn(request, begins);
        let is_taken = matches!(decision, Decision::Forward { why: Why::Policy, .. });
        let queues = self.queues.as_deref_mut().filter(|_| begins_call && is_taken);
        let queue = queues.and_then(|queues| queues.would_pull(now, pool, &self.balancer));
        let orphans = self.edge.settings.orphans;
        Ok(Explanation {
            decision,
            orphans,
            token: facts.token.map(|token| token.node),
            known: self.balancer.session_of(&facts.request).is_some(),
            route: facts.rule.map(|index| self.route_taken(index, facts.route.uri(&message))),
            located,
            outside: facts.outside.and_then(Result::ok),
            pool,
            policy: self.balancer.policy_name(pool),
            queue,
            verdicts,
        })
    }

    /// The user to whose contacts a request goes, where its rule sends it there.
    fn located(&self, message: &Message<'_>, facts: &Facts<'_>) -> Result<Option<Aor>, String> {
        let Some(rule) = facts.rule.filter(|&rule| self.edge.routes.is_located(rule)) else {
            return Ok(None);
        };
        let aor = self.edge.sought(Some(rule), message, &facts.route);
        aor.map(Some).map_err(|refused| format!("refused: {} {}", refused.status, refused.reason))
    }

    fn route_taken(&self, index: usize, uri: &[u8]) -> RouteTaken {
        let rule = self.edge.routes.rule(index);
        let mut rewritten = Vec::new();
        let is_other = rule.actions.uri(uri, &mut rewritten);
        RouteTaken {
            index,
            name: rule.name.clone(),
            actions: rule.actions.describe(),
            uri: is_other.then(|| String::from_utf8_lossy(&rewritten).into_owned()),
        }
    }
}
