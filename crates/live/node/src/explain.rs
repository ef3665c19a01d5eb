//! Where a request would go, worked out without sending it.

use crate::assign::{choose, first_pool, goes_on_as, passed_over};
use crate::begun::Begins;
use crate::examine::Facts;
use crate::queue::QueueTurn;
use crate::reply::Halt;
use crate::routes::{Refuser, refuse};
use crate::{Drop, Orphans, Shard, ShardEvent};
use ::route::{Access, Exceeded, Outcome, Step, Target};
use balance::{CandidateVerdict, Decision, NodeId, PoolId, Request, Why};
use base::{Flow, Instant, Outbox};
use location::Aor;
use wire::{Message, Via};

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
    /// Pools of its rule that were asked before, and took nothing.
    pub passed_over: Vec<PassedOver>,
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
    /// What it does to the request first, with what that changes.
    pub steps: Vec<Step>,
    /// The Request-URI that comes of it, where that is another one.
    pub uri: Option<String>,
}

/// A pool that takes nothing, so that the request goes on to the next one of its rule.
#[derive(Clone, Debug)]
pub struct PassedOver {
    /// Its number.
    pub pool: PoolId,
    /// As what the request goes on.
    pub outcome: Outcome,
    /// Every member of the pool, and why it takes no new call.
    pub verdicts: Vec<CandidateVerdict>,
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
        self.edge.refuser.set(None);
        let facts = self.examine(flow, &message, out);
        (self.edge.ledger, self.edge.counters.tokens_refused) = before;
        let facts = facts.and_then(|facts| facts.halted().map_or(Ok(facts), Err));
        let facts = facts.map_err(|halt| self.halted(halt, flow) + self.come_back(&message))?;
        if self.edge.settings.stopping.is_some() && self.is_new(&facts.request) {
            return Err("refused: 503 Service Unavailable: stopping, no new calls are taken".to_owned());
        }
        let begins = self.begins(&message, &facts).0;
        if begins == Begins::New {
            self.check_rate(flow)?;
        }
        if facts.is_for_registrar {
            return Err("answered here: it is a REGISTER for the registrar".to_owned());
        }
        let located = self.located((flow, &message), &facts)?;
        let request = &facts.request;
        let (mut verdicts, mut pool, mut decision) = (Vec::new(), request.pool, Decision::Orphan);
        let mut passed = Vec::new();
        if !facts.is_orphan && located.is_none() {
            let first = first_pool(&self.edge.routes, &facts, &self.balancer, now);
            for pool in passed_over(&self.edge.routes, &facts, first) {
                let asked = Request { pool, ..*request };
                let (_, verdicts) = self.balancer.explain(now, &asked);
                let is_full = self.balancer.is_full(now, &asked);
                let outcome = if is_full { Outcome::Full } else { Outcome::NoneAlive };
                passed.push(PassedOver { pool, outcome, verdicts });
            }
            (decision, pool) = choose(&self.edge.routes, &facts, first, |request| {
                let decision;
                (decision, verdicts) = self.balancer.explain(now, request);
                let outcome = goes_on_as(decision, self.balancer.is_full(now, request));
                let over = |outcome| PassedOver { pool: request.pool, outcome, verdicts: verdicts.clone() };
                passed.extend(outcome.map(over));
                (decision, outcome)
            });
            // The last one is told of by the decision.
            passed.retain(|over| over.pool != pool);
            decision = facts.without_search(decision);
        }
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
            route: facts.rule.map(|index| self.route_taken(index, (flow, &message), &facts)),
            located,
            outside: facts.outside.and_then(Result::ok),
            passed_over: passed,
            pool,
            policy: self.balancer.policy_name(pool),
            queue,
            verdicts,
        })
    }

    /// How a request is refused or dropped, and by which list, entry or rule.
    fn halted(&self, halt: Halt, flow: Flow) -> String {
        let by = self.edge.refuser.get().map(|refuser| format!(": {}", self.refuser(refuser, flow)));
        let by = by.unwrap_or_default();
        match halt {
            Halt::Answered(own) => format!("refused: {} {}{by}", own.status(), own.label()),
            Halt::ByRule(index) => {
                let rule = self.edge.routes.rule(index);
                match &rule.target {
                    Target::Answer(answer) => {
                        format!("refused by the route {}: {} {}", rule.name, answer.status(), answer.reason())
                    }
                    _ => format!("refused by the route {}", rule.name),
                }
            }
            Halt::Dropped(Drop::Silenced) => format!("dropped without an answer{by}"),
            Halt::Dropped(Drop::Unresolved) => {
                "dropped: the next hop is a host name that is being looked up; ask again".to_owned()
            }
            Halt::Dropped(drop) => format!("dropped: {}", drop.reason()),
        }
    }

    /// What to do about a call that was sent to where its user has registered from, and that has come back without a route.
    fn come_back(&self, message: &Message<'_>) -> &'static str {
        let has_no_route = self.edge.refuser.get() == Some(Refuser::NoRule);
        let by_source = self.home.as_ref().is_some_and(|home| home.reaches_sources());
        let is_ours = |via: &Via<'_>| self.edge.topology.is_our_via(via);
        if !(has_no_route && by_source && message.vias().skip(1).flatten().any(|via| is_ours(&via))) {
            return "";
        }
        "; it went out from here before: if to the proxy that its user has registered through, that has to add a Path, or be passed by \
         with [registrar] reach = \"contact\""
    }

    fn refuser(&self, refuser: Refuser, flow: Flow) -> String {
        let routes = &self.edge.routes;
        let name = |index| &routes.rule(index).name;
        // Whoever is refused is in a network that is kept out, or in none where some are let in.
        let entry = |access: &Access| match access.entry(flow.peer.ip()) {
            Some(network) => format!("{} is in {network} of `deny`", flow.peer.ip()),
            None => format!("{} is in no network of `allow`", flow.peer.ip()),
        };
        match refuser {
            Refuser::Listener(index) => {
                let entry = routes.access.get(usize::from(index)).map(entry).unwrap_or_default();
                format!("{entry} for the listener {}", self.edge.here(index))
            }
            Refuser::Rule(index) => {
                format!("{} of the route {}", entry(&routes.rule(index).access), name(index))
            }
            Refuser::MembersOnly(index) => format!(
                "the route {} sends requests where their Request-URI leads, which is for members of pools only",
                name(index)
            ),
            Refuser::Silence(index) => format!("the route {} has it so", name(index)),
            Refuser::NoRule => "no [[route]] is for it".to_owned(),
        }
    }

    /// Whether its source may begin something more now.
    fn check_rate(&self, flow: Flow) -> Result<(), String> {
        let Some(exceeded) = self.edge.rates.exceeded(self.edge.now, flow.peer.ip()) else { return Ok(()) };
        let ip = flow.peer.ip();
        let by = match exceeded {
            Exceeded::Address => {
                format!("`per_address` of [access.rate]: {ip} has begun all that it may for now")
            }
            Exceeded::Network => {
                format!(
                    "`per_network` of [access.rate]: the network of {ip} has begun all that it may for now"
                )
            }
        };
        Err(match refuse(self.edge.rates.refusal()) {
            Halt::Answered(own) => format!("refused: {} {}: {by}", own.status(), own.label()),
            _ => format!("dropped without an answer: {by}"),
        })
    }

    /// The user to whose contacts a request goes, where its rule sends it there.
    fn located(
        &self,
        (flow, message): (Flow, &Message<'_>),
        facts: &Facts<'_>,
    ) -> Result<Option<Aor>, String> {
        let Some(rule) = facts.rule.filter(|&rule| self.edge.routes.is_located(rule)) else {
            return Ok(None);
        };
        let aor = self.edge.sought(Some(rule), (flow, message), &facts.route);
        aor.map(Some).map_err(|refused| format!("refused: {} {}", refused.status, refused.reason))
    }

    fn route_taken(
        &self,
        index: usize,
        (flow, message): (Flow, &Message<'_>),
        facts: &Facts<'_>,
    ) -> RouteTaken {
        let (rule, uri) = (self.edge.routes.rule(index), facts.route.uri(message));
        let rewritten = self.edge.rewrite(rule, uri, flow.listener);
        RouteTaken {
            index,
            name: rule.name.clone(),
            steps: rule.actions.steps(message, uri, self.edge.here(flow.listener)),
            uri: rewritten.map(|uri| String::from_utf8_lossy(&uri).into_owned()),
        }
    }
}
